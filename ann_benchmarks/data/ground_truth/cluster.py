"""Spans searched by the workers of a Dask cluster."""

import hashlib
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ann_benchmarks.common.dask_cluster import connected, task_error
from ann_benchmarks.common.errors import UserError

from ..vectors.rows import Rows
from .span import Problem, SpanNeighbors, search_span

SPANS_PER_WORKER = 2  # one searched, one on its way
RUN_AGAIN = "what is done is kept: run the same command again"


class Cluster:
    """A running scheduler, and how its workers open the dataset."""

    def __init__(self, scheduler: str, opener: Callable[[], Rows]) -> None:
        self._scheduler, self._opener = scheduler, opener

    def search(
        self,
        problem: Problem,
        train: Rows,
        spans: dict[int, range],
        farthest: Callable[[], np.ndarray],
        advance: Callable[[int], object],
    ) -> Iterator[tuple[int, SpanNeighbors]]:
        """Give each span's result as it comes. `farthest` gives the limits when a span is sent.

        A worker that dies costs the spans that it had, which others then do. Raises UserError when the
        cluster cannot be used.
        """
        waiting = list(reversed(spans.items()))
        with connected(self._scheduler) as client:
            running: dict[Any, int] = {}
            completed: SimpleQueue[Any] = SimpleQueue()

            def send() -> None:
                workers = len(client.nthreads()) or 1
                while waiting and len(running) < SPANS_PER_WORKER * workers:
                    number, span = waiting.pop()
                    task = _SpanTask(problem, self._opener, span, farthest(), _look(train, span.start))
                    future = client.submit(task, pure=False)
                    running[future] = number
                    future.add_done_callback(completed.put)

            send()
            while running:
                future = completed.get()
                number = running.pop(future)
                found = self._result(future, spans[number])
                future.release()
                yield number, found
                advance(len(spans[number]))
                send()

    def _result(self, future: Any, span: range) -> SpanNeighbors:
        try:
            result: SpanNeighbors = future.result()
        except UserError:
            raise
        except Exception as error:  # whatever happened there: here it is one line
            rows = f"rows {span.start} to {span.stop} failed"
            raise task_error(self._scheduler, rows, error, RUN_AGAIN) from None
        return result


class _Look(NamedTuple):
    """What the worker's file must have in common with ours: its kind, and a row."""

    shape: tuple[int, int]
    dtype: str
    row: str


def _look(rows: Rows, number: int) -> _Look:
    row = np.ascontiguousarray(rows[number : number + 1])
    digest = hashlib.blake2b(row.data, digest_size=16).hexdigest()
    return _Look((rows.shape[0], rows.shape[1]), rows.dtype.str, digest)


@dataclass(frozen=True)
class _SpanTask:
    """A span's search, as it travels to a worker; carries all it needs, so that any worker can do it."""

    problem: Problem
    opener: Callable[[], Rows]
    span: range
    farthest: np.ndarray
    look: _Look

    def __call__(self) -> SpanNeighbors:
        from distributed import get_worker

        worker = get_worker()
        with _ONE_AT_A_TIME, threadpool_limits(1, user_api="blas"):  # a search uses all of the worker's cores
            try:
                rows = _opened(pickle.dumps(self.opener))
                found = _look(rows, min(self.span.start, len(rows)))
            except (UserError, OSError) as error:
                raise UserError(f"the worker {worker.address} cannot open the dataset: {error}") from None
            if found != self.look:
                wanted, own = (
                    f"{look.shape[0]} rows x {look.shape[1]} of {np.dtype(look.dtype)}"
                    for look in (self.look, found)
                )
                differs = f"has {own} where {wanted} were expected"
                if own == wanted:
                    differs = f"has another row {self.span.start} (from 0) than the file here"
                place = f"on the worker {worker.address}, {rows.label}"
                raise UserError(f"{place} {differs}; all machines need the same files")
            return search_span(self.problem, rows, self.span, self.farthest, worker.state.nthreads)


_ONE_AT_A_TIME = threading.Lock()


@lru_cache(maxsize=1)
def _opened(opener: bytes) -> Rows:
    rows: Rows = pickle.loads(opener)()
    return rows
