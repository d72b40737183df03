"""Spans searched by the workers of a Dask cluster."""

import hashlib
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from queue import SimpleQueue
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ann_benchmarks.common.dask_cluster import connected, task_error
from ann_benchmarks.common.errors import UserError

from ..vectors.rows import Rows
from .span import Problem, SpanNeighbors, search_span

SPANS_PER_WORKER = 2  # one searched, one on its way
RUN_AGAIN = "what is done is kept: run the same command again"


def search_on_cluster(
    scheduler: str,
    problem: Problem,
    train: Rows,
    spans: dict[int, range],
    farthest: Callable[[], np.ndarray],
    advance: Callable[[int], object],
) -> Iterator[tuple[int, SpanNeighbors]]:
    """Give each span's result as it comes from workers, which see the files of the rows under the same paths.

    `farthest` gives the limits when a span is sent. A worker that dies costs the spans that it had, which
    others then do. Raises UserError when the cluster cannot be used.
    """
    if not train.paths:
        raise UserError("a cluster's workers need files to read; these vectors are in memory")
    waiting, pickled = list(reversed(spans.items())), pickle.dumps(train)
    with connected(scheduler) as client:
        running: dict[Any, int] = {}
        completed: SimpleQueue[Any] = SimpleQueue()

        def send() -> None:
            workers = len(client.nthreads()) or 1
            while waiting and len(running) < SPANS_PER_WORKER * workers:
                number, span = waiting.pop()
                task = _SpanTask(problem, pickled, span, farthest(), _look(train, span.start))
                future = client.submit(task, pure=False)
                running[future] = number
                future.add_done_callback(completed.put)

        send()
        while running:
            future = completed.get()
            number = running.pop(future)
            span = spans[number]
            try:
                found = future.result()
            except UserError:
                raise
            except Exception as error:  # whatever happened there: here it is one line
                failed = f"rows {span.start} to {span.stop} failed"
                raise task_error(scheduler, failed, error, RUN_AGAIN) from None
            future.release()
            yield number, found
            advance(len(span))
            send()


def _look(rows: Rows, number: int) -> str:
    """Return what the files of a worker must have in common with ours: their sizes, and a row."""
    sizes = [path.stat().st_size for path in rows.paths]
    row = np.ascontiguousarray(rows[number : number + 1])
    return hashlib.blake2b(repr(sizes).encode() + row.tobytes(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class _SpanTask:
    """A span's search, as it travels to a worker; carries all it needs, so that any worker can do it."""

    problem: Problem
    rows: bytes  # Rows, pickled
    span: range
    farthest: np.ndarray
    look: str

    def __call__(self) -> SpanNeighbors:
        from distributed import get_worker

        worker = get_worker()
        with _ONE_AT_A_TIME, threadpool_limits(1, user_api="blas"):  # a search uses all of the worker's cores
            try:
                rows = _unpickled(self.rows)
                found = _look(rows, self.span.start)
            except (UserError, OSError) as error:
                raise UserError(f"the worker {worker.address} cannot open the dataset: {error}") from None
            if found != self.look:
                raise UserError(
                    f"on the worker {worker.address}, {rows.label} has another size, or another row"
                    f" {self.span.start} (from 0), than here; all machines need the same files"
                )
            return search_span(self.problem, rows, self.span, self.farthest, worker.state.nthreads)


_ONE_AT_A_TIME = threading.Lock()


@lru_cache(maxsize=1)
def _unpickled(rows: bytes) -> Rows:
    found: Rows = pickle.loads(rows)
    return found
