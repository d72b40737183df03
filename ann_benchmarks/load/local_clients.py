"""Clients of a plug-in that is no database: threads of its process, or processes (process_clients.py)."""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ann_benchmarks.common.errors import UserError, describe
from ann_benchmarks.plugin import Clients, Plugin

from .one_client import (
    Client,
    ClientAnswers,
    Task,
    all_arrivals,
    closed_after_an_error,
    common_start,
    no_collector,
    own_orders,
)
from .process_clients import ProcessClients, Query


class ThreadClients:
    """So many threads that call a plug-in's `query` at the same time.

    Meanwhile BLAS and OpenMP start no threads of their own: the clients are to share the cores, not to fight
    for them.
    """

    def __init__(self, query: Query, queries: Any, count: int, clients: int) -> None:
        """Prepare them; `queries` has one query a row."""
        self._size = clients
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

    def prepare(
        self, orders: Sequence[np.ndarray], seconds: float | None = None, keeps_ids: bool = True
    ) -> None:
        """Client i is to ask the queries numbered in orders[i], one after the other."""
        self._tasks = own_orders(orders, seconds, keeps_ids, self._size)

    def prepare_arrivals(
        self, due: np.ndarray, numbers: np.ndarray, patience: float, keeps_ids: bool = True
    ) -> None:
        """Query numbers[i] is to be sent due[i] s after the start, by whichever client is free."""
        self._arrivals = zip(due.tolist(), numbers.tolist(), strict=True)
        self._tasks = all_arrivals(due, patience, keeps_ids, self._size)

    def run(self) -> None:
        """Start all at the same moment, and wait until the last has its last answer."""
        with closed_after_an_error(self), no_collector():
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

    def _serve(self, task: Task) -> ClientAnswers:
        self._ready.wait()
        return self._client.ask(task, self._start)

    def _set_start(self) -> None:
        self._start = common_start(self._size)

    def _take(self) -> tuple[float, int] | None:
        with self._turn:
            return next(self._arrivals, None)


_KINDS: dict[str, type[ThreadClients] | type[ProcessClients]] = {
    "threads": ThreadClients,
    "processes": ProcessClients,
}


def open_local_clients(plugin: Plugin, queries: Any, count: int, clients: int) -> Clients:
    """Start clients that query a plug-in for the `count` nearest rows.

    UserError: its class attribute `clients_by` names no kind of clients.
    """
    kind = plugin.clients_by
    if kind not in _KINDS:
        raise UserError(f"{plugin.class_name}.clients_by is '{kind}': make it one of {', '.join(_KINDS)}")
    return _KINDS[kind](plugin.query, queries, count, clients)
