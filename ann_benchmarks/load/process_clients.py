"""Clients that are processes, forked when the index is there: for a plug-in that keeps the interpreter."""

import gc
import os
import select
import signal
import struct
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing import connection as pipes
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ann_benchmarks.common.command import begin_fork, signals_wait
from ann_benchmarks.common.errors import UserError, describe

from .one_client import Client, all_arrivals, closed_after_an_error, common_start, no_collector, own_orders

_ARRIVAL = np.dtype([("due", "f8"), ("number", "i8")])
_unpack_arrival = struct.Struct("=dq").unpack


Query = Callable[[Any, int], Any]


class ProcessClients:
    """So many processes that call a plug-in's `query`; they share the index while none writes to it.

    BLAS and OpenMP start no threads in them: the clients are to share the cores, not to fight for them. Not
    for a plug-in with threads of its own in the background: of those, a fork has none.
    """

    def __init__(self, query: Query, queries: Any, count: int, clients: int) -> None:
        """Start them; `queries` has one query a row."""
        # All forks share one open file and so its position, which the kernel moves with each read: a record
        # that one has read is read by no other.
        self._arrivals = tempfile.TemporaryFile(prefix="ann-arrivals-")  # noqa: SIM115
        self._pipes: list[pipes.Connection[Any, Any]] = []
        self._processes: list[int] = []
        client = Client(query, list(queries), count, self._take, time.process_time)
        # Set before the fork: set in it, BLAS would start its threads once more, only to have them wait.
        with closed_after_an_error(self), no_collector(), threadpool_limits(1):
            gc.freeze()  # the collector of a fork would write to what they share
            try:
                for _ in range(clients):
                    self._fork(client)
            finally:
                gc.unfreeze()

    def prepare(
        self, orders: Sequence[np.ndarray], seconds: float | None = None, keeps_ids: bool = True
    ) -> None:
        """Client i is to ask the queries numbered in orders[i], one after the other."""
        self._tell(own_orders(orders, seconds, keeps_ids, len(self._pipes)))

    def prepare_arrivals(
        self, due: np.ndarray, numbers: np.ndarray, patience: float, keeps_ids: bool = True
    ) -> None:
        """Query numbers[i] is to be sent due[i] s after the start, by whichever client is free."""
        records = np.empty(len(due), dtype=_ARRIVAL)
        records["due"], records["number"] = due, numbers
        self._arrivals.seek(0)
        self._arrivals.truncate()
        self._arrivals.write(records.tobytes())
        self._arrivals.seek(0)
        self._tell(all_arrivals(due, patience, keeps_ids, len(self._pipes)))

    def run(self) -> None:
        """Start all at the same moment, and wait until the last has its last answer."""
        self._tell([common_start(len(self._pipes))] * len(self._pipes))

    def answers(self) -> list[Any]:
        """Return what each client measured in the last run."""
        with closed_after_an_error(self):
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

    def _tell(self, words: Sequence[Any]) -> None:
        """Tell each client its word, and wait until all have done what it says."""
        with closed_after_an_error(self):
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
