"""The clients of a load: threads or forks for a plug-in that is not a database, or the plug-in's own."""

import gc
import os
import select
import signal
import struct
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from multiprocessing import Pipe
from multiprocessing import connection as pipes
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ann_benchmarks.common.command import begin_fork, signals_wait
from ann_benchmarks.common.errors import UserError, describe
from ann_benchmarks.plugin import Plugin

from .one_client import Client, ClientAnswers, Task, common_start, no_collector
from .request import Load

Query = Callable[[Any, int], Any]
_ARRIVAL = np.dtype([("due", "f8"), ("number", "i8")])
_unpack_arrival = struct.Struct("=dq").unpack


class LocalClients:
    """So many clients of this machine that call a plug-in's `query` at the same time.

    BLAS and OpenMP start no threads for them: the clients are to share the cores, not to fight for them.
    """

    def __init__(self, clients: int) -> None:
        self._size = clients

    def prepare(
        self, orders: Sequence[np.ndarray], seconds: float | None = None, keeps_ids: bool = True
    ) -> None:
        """Client i is to ask the queries numbered in orders[i], one after the other."""
        own = [order for _, order in zip(range(self._size), orders, strict=True)]
        self._begin([Task(np.asarray(order), seconds, keeps_ids) for order in own])

    def prepare_arrivals(
        self, due: np.ndarray, numbers: np.ndarray, patience: float, keeps_ids: bool = True
    ) -> None:
        """Query numbers[i] is to be sent due[i] s after the start, by whichever client is free."""
        self._line_up(due, numbers)
        self._begin([Task(None, float(np.max(due, initial=0)) + patience, keeps_ids)] * self._size)

    def close(self) -> None:
        """End all of them."""
        raise NotImplementedError

    def _begin(self, tasks: Sequence[Task]) -> None:
        """Tell each client its task."""
        raise NotImplementedError

    def _line_up(self, due: np.ndarray, numbers: np.ndarray) -> None:
        """Let queries arrive, for whichever client takes the next."""
        raise NotImplementedError

    @contextmanager
    def _closed_after_an_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


class ThreadClients(LocalClients):
    """Threads of this process."""

    def __init__(self, query: Query, queries: Any, count: int, clients: int) -> None:
        """Prepare them; `queries` has one query a row."""
        super().__init__(clients)
        self._turn = threading.Lock()
        self._arrivals: Iterator[tuple[float, int]] = iter(())
        self._stop = threading.Event()
        self._client = Client(
            query, list(queries), count, self._take, time.thread_time, self._stop.wait, self._stop.is_set
        )
        # In a run they all wait for each other, so that each of its tasks has a thread of its own.
        self._ready = threading.Barrier(clients, self._set_start)
        self._native_threads = threadpool_limits(1)
        self._threads = ThreadPoolExecutor(
            clients,
            thread_name_prefix="client",
            initializer=threadpool_limits,  # once more: of OpenMP's, each thread has a number of its own
            initargs=(1,),
        )
        self._tasks: Sequence[Task] = ()
        self._answers: list[ClientAnswers] = []

    def run(self) -> None:
        """Start all at the same moment, and wait until the last has its last answer."""
        with self._closed_after_an_error(), no_collector():
            asking = [self._threads.submit(self._serve, task) for task in self._tasks]
            wait(asking, return_when=FIRST_EXCEPTION)
            for number, one in enumerate(asking):
                if one.done() and (error := one.exception()):
                    raise UserError(f"client {number + 1} of {self._size}: {describe(error)}") from error
            self._answers = [one.result() for one in asking]

    def answers(self) -> list[Any]:
        """Return what each client measured in the last run."""
        answers, self._answers = self._answers, []
        return answers

    def close(self) -> None:
        """End all of them, each when its query has an answer."""
        self._stop.set()
        self._ready.abort()
        self._threads.shutdown()
        self._native_threads.restore_original_limits()

    def _begin(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks

    def _line_up(self, due: np.ndarray, numbers: np.ndarray) -> None:
        self._arrivals = zip(due.tolist(), numbers.tolist(), strict=True)

    def _serve(self, task: Task) -> ClientAnswers:
        self._ready.wait()
        return self._client.ask(task, self._start)

    def _set_start(self) -> None:
        self._start = common_start(self._size)

    def _take(self) -> tuple[float, int] | None:
        with self._turn:
            return next(self._arrivals, None)


class ProcessClients(LocalClients):
    """Processes, forked when the index is there, which they share while none writes to it.

    For a plug-in that keeps the interpreter; not for one with threads of its own in the background: of those,
    a fork has none.
    """

    def __init__(self, query: Query, queries: Any, count: int, clients: int) -> None:
        """Start them; `queries` has one query a row."""
        super().__init__(clients)
        # All forks share one open file and so its position, which the kernel moves with each read: each
        # record is read once.
        self._arrivals = tempfile.TemporaryFile(prefix="ann-arrivals-")  # noqa: SIM115
        self._pipes: list[pipes.Connection[Any, Any]] = []
        self._processes: list[int] = []
        client = Client(query, list(queries), count, self._take, time.process_time)
        # Set before the fork: set in it, BLAS would start its threads once more, only to have them wait.
        with self._closed_after_an_error(), no_collector(), threadpool_limits(1):
            gc.freeze()  # the collector of a fork would write to what they share
            try:
                for _ in range(clients):
                    self._fork(client)
            finally:
                gc.unfreeze()

    def run(self) -> None:
        """Start all at the same moment, and wait until the last has its last answer."""
        self._begin([common_start(self._size)] * self._size)

    def answers(self) -> list[Any]:
        """Return what each client measured in the last run."""
        with self._closed_after_an_error():
            return self._receive()

    def close(self) -> None:
        """End all of them, also in the middle of a query."""
        self._arrivals.close()
        while self._pipes:
            self._pipes.pop().close()
        for process in self._processes:
            os.kill(process, signal.SIGKILL)
        while self._processes:
            os.waitpid(self._processes.pop(), 0)

    def _fork(self, client: Client) -> None:
        ours, theirs = Pipe()
        with warnings.catch_warnings(), signals_wait():
            # Python warns of threads, which may hold locks that nobody releases in the fork; those of the
            # framework do nothing but wait for the end of another process.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
            if process == 0:
                try:
                    for pipe in [*self._pipes, ours]:
                        pipe.close()  # else the others would not see that their parent has ended
                    _serve(theirs, client)
                finally:
                    os._exit(0)
            self._processes.append(process)
            self._pipes.append(ours)
            theirs.close()

    def _take(self) -> tuple[float, int] | None:
        record = os.read(self._arrivals.fileno(), _ARRIVAL.itemsize)
        return _unpack_arrival(record) if record else None

    def _line_up(self, due: np.ndarray, numbers: np.ndarray) -> None:
        records = np.empty(len(due), dtype=_ARRIVAL)
        records["due"], records["number"] = due, numbers
        self._arrivals.seek(0)
        self._arrivals.truncate()
        self._arrivals.write(records.tobytes())
        self._arrivals.seek(0)

    def _begin(self, words: Sequence[Any]) -> None:
        """Tell each client its word, a task or a start, and wait until all have done what it says."""
        with self._closed_after_an_error():
            for pipe, word in zip(self._pipes, words, strict=True):
                with suppress(BrokenPipeError):  # its end is noticed when its answers are read
                    pipe.send(word)
            self._receive()

    def _receive(self) -> list[Any]:
        """Return what each client says, in their order."""
        said: dict[int, Any] = {}
        while len(said) < len(self._pipes):
            waiting = {number: pipe for number, pipe in enumerate(self._pipes) if number not in said}
            ready = pipes.wait(list(waiting.values()))
            for number, pipe in waiting.items():
                if pipe in ready:
                    said[number] = self._hear(number, pipe)
        return [said[number] for number in range(len(self._pipes))]

    def _hear(self, number: int, pipe: "pipes.Connection[Any, Any]") -> Any:
        name = f"client {number + 1} of {len(self._pipes)}"
        try:
            said = pipe.recv()
        except (EOFError, ConnectionError):
            raise UserError(f"{name} ended before it answered") from None
        if isinstance(said, Exception):
            raise UserError(f"{name}: {said}")
        return said


def _serve(pipe: "pipes.Connection[Any, Any]", client: Client) -> None:
    """Be a client until the pipe closes. An error is sent, and ends it."""
    begin_fork()
    threading.Thread(target=_end_with, args=(pipe.fileno(),), daemon=True).start()
    try:
        while True:
            task = pipe.recv()
            with no_collector():
                pipe.send(True)
                answers = client.ask(task, pipe.recv())
            pipe.send(True)  # what follows is nobody's time
            pipe.send(answers)
    except (EOFError, ConnectionError):
        return  # nobody wants to know any more
    except Exception as error:
        with suppress(OSError):
            pipe.send(UserError(describe(error)))


def _end_with(pipe: int) -> None:
    """End when the other side of the pipe does, even within a query; to wait for that costs nothing."""
    ended = select.poll()
    ended.register(pipe, 0)  # epoll always reports that it is closed
    ended.poll()
    os._exit(1)


_KINDS = {"threads": ThreadClients, "processes": ProcessClients}


def open_clients(plugin: Plugin, queries: Any, count: int, load: Load) -> Any:
    """Start the clients of a load, which query for the `count` nearest rows: the plug-in's own if it has any.

    UserError: its class attribute `clients_by` names no kind of clients.
    """
    if plugin.open_clients is not None:
        return plugin.open_clients(queries, count, load.clients)
    kind = plugin.clients_by
    if kind not in _KINDS:
        raise UserError(f"{plugin.class_name}.clients_by is '{kind}': make it one of {', '.join(_KINDS)}")
    return _KINDS[kind](plugin.query, queries, count, load.clients)
