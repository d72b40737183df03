"""Clients that send queries at the same time: a plug-in's own, or threads that call its `query`."""

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ann_benchmarks.common.errors import UserError, describe
from ann_benchmarks.plugin import Plugin

from .request import Load
from .samples import AnswerSample, ClientAnswers

clock = time.perf_counter
_FINE_SECONDS = 0.001  # before its time, a client wakes up this long and sleeps for the rest
_COARSE_MARGIN = 0.0005
_LEAD_SECONDS = 0.002  # from the word to the start: enough for it to reach every client
_LEAD_A_CLIENT = 0.0005


@dataclass(frozen=True)
class Task:
    """What a client does in a run.

    Closed loop: the queries of these numbers, one after the other; with `seconds`, again and again.
    Open loop, where `numbers` is None: what the others have not taken, until `seconds` after the start.
    """

    numbers: np.ndarray | None
    seconds: float | None
    keeps_ids: bool


class ThreadClients:
    """So many threads that call a plug-in's `query` at the same time.

    BLAS and OpenMP start no threads for them: the clients are to share the cores, not to fight for them.
    """

    def __init__(self, query: Callable[[Any, int], Any], queries: Any, count: int, clients: int) -> None:
        """Prepare them; `queries` has one query a row."""
        self._query, self._queries, self._count, self._size = query, list(queries), count, clients
        self._turn = threading.Lock()
        self._arrivals: Iterator[tuple[float, int]] = iter(())
        self._stop = threading.Event()
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

    def prepare(
        self, orders: Sequence[np.ndarray], seconds: float | None = None, keeps_ids: bool = True
    ) -> None:
        """Client i is to ask the queries numbered in orders[i], one after the other."""
        own = [order for _, order in zip(range(self._size), orders, strict=True)]
        self._tasks = [Task(np.asarray(order), seconds, keeps_ids) for order in own]

    def prepare_arrivals(self, due: np.ndarray, numbers: np.ndarray, patience: float) -> None:
        """Query numbers[i] is to be sent due[i] s after the start, by whichever client is free."""
        self._arrivals = zip(due.tolist(), numbers.tolist(), strict=True)
        self._tasks = [Task(None, float(np.max(due, initial=0)) + patience, True)] * self._size

    def run(self) -> None:
        """Start all at the same moment, and wait until the last has its last answer."""
        try:
            with _no_collector():
                asking = [self._threads.submit(self._serve, task) for task in self._tasks]
                wait(asking, return_when=FIRST_EXCEPTION)
                for number, one in enumerate(asking):
                    if one.done() and (error := one.exception()):
                        raise UserError(f"client {number + 1} of {self._size}: {describe(error)}") from error
                self._answers = [one.result() for one in asking]
        except BaseException:
            self.close()
            raise

    def answers(self) -> list[ClientAnswers]:
        """Return what each client measured in the last run."""
        answers, self._answers = self._answers, []
        return answers

    def close(self) -> None:
        """End all of them, each when its query has an answer."""
        self._stop.set()
        self._ready.abort()
        self._threads.shutdown()
        self._native_threads.restore_original_limits()

    def _set_start(self) -> None:
        self._start = common_start(self._size)

    def _serve(self, task: Task) -> ClientAnswers:
        """Do a client's task from the common start on.

        An answer must have a length, so that no work is left for who reads it.
        """
        self._ready.wait()
        query, queries, count, is_stopped = self._query, self._queries, self._count, self._stop.is_set
        keeps_ids = task.keeps_ids
        numbers: list[int] = []
        dues: list[float] = []
        stamps: list[float] = []
        rows: list[int] = []
        sample = AnswerSample()
        self._sleep_until(self._start)
        before = time.thread_time()
        for due, number in self._upcoming(task, self._start):
            if is_stopped():
                break
            vector = queries[number]
            sent = clock()
            answer = query(vector, count)
            answered = clock()
            numbers.append(number)
            dues.append(due)
            stamps.append(sent)
            stamps.append(answered)
            rows.append(len(answer))
            if keeps_ids:
                sample.note(number, answer)
        cpu_seconds = time.thread_time() - before
        times = np.array(stamps).reshape(-1, 2)
        due_times = np.array(dues) if task.numbers is None else None
        return ClientAnswers(
            np.array(numbers, dtype=np.int64),
            due_times,
            times[:, 0],
            times[:, 1],
            np.array(rows, dtype=np.int64),
            *sample.arrays(),
            cpu_seconds,
        )

    def _upcoming(self, task: Task, start: float) -> Iterator[tuple[float, int]]:
        """Each query's time and number, when it is to be sent; in a closed loop, the time means nothing."""
        if task.numbers is None:
            assert task.seconds is not None
            while (arrival := self._take()) is not None and clock() <= start + task.seconds:
                due = start + arrival[0]
                self._sleep_until(due)
                yield due, arrival[1]
        elif task.seconds is None:
            for number in task.numbers.tolist():
                yield start, number
        else:
            end = start + task.seconds
            for number in cycle(task.numbers.tolist()):
                yield start, number
                if clock() >= end:
                    return

    def _take(self) -> tuple[float, int] | None:
        with self._turn:
            return next(self._arrivals, None)

    def _sleep_until(self, moment: float) -> None:
        while (early := moment - clock()) > 0:
            if self._stop.wait(early if early < _FINE_SECONDS else early - _COARSE_MARGIN):
                return


def common_start(clients: int) -> float:
    """Return the moment at which all of this many clients can start, by perf_counter."""
    return clock() + _LEAD_SECONDS + _LEAD_A_CLIENT * clients


@contextmanager
def _no_collector() -> Iterator[None]:
    """Collect garbage now, and not before the end: a full collection would show in the latencies."""
    gc.collect()
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def open_clients(plugin: Plugin, queries: Any, count: int, load: Load) -> Any:
    """Start the clients of a load, the plug-in's own if it has any; they ask for the `count` nearest rows."""
    if plugin.open_clients is not None:
        return plugin.open_clients(queries, count, load.clients)
    return ThreadClients(plugin.query, queries, count, load.clients)
