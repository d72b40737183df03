"""Ground truth of a whole dataset, span by span, here or on a cluster, and the file it is resumed from."""

import hashlib
import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ann_benchmarks.common.dask_cluster import connected, task_error
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path, disk_errors
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.common.text import DAMAGE, warn

from ..vectors.rows import ArrayRows, Rows
from .devices import HOST, SEARCH_DEVICE
from .exact import Run, nearest, nearest_sets
from .span import Problem, SpanNeighbors, search_span

SPAN = 2**22  # rows; what is saved at once, and a worker's task
LEAST_BYTES = 2**7  # of a row, so that its number in a GPU's span has four bytes
MERGED_AT_ONCE = 512  # queries; bounds the memory of a merge
SHARE_OF_SAVING = 0.1  # of the time, at most
SPANS_PER_WORKER = 2  # one searched, one on its way
RUN_AGAIN = "what is done is kept: run the same command again"


@dataclass(frozen=True)
class SearchOptions:
    """How a search goes on after an interruption, and where it runs.

    `state` is a file that holds what is known after each span of rows. It is used again only for the same
    metric, k, queries, shape, dtype and `mark`, which says which rows these are; the caller deletes it when
    the result is stored. `scheduler` is the address of a Dask cluster whose workers see the same files.
    """

    state: Path | None = None
    mark: str = ""
    scheduler: str | None = None
    progress: bool = True  # shown on a terminal


class PartialTruth:
    """The k nearest of every query in the spans that are done: ids (queries, k) and distances.

    Kept in the file of the options, which is whole or absent. What is there of another problem, or of other
    rows, is not used.
    """

    def __init__(
        self, problem: Problem, train: Rows, spans: int, options: SearchOptions, span_rows: int
    ) -> None:
        """Begin, or go on from what the file has; `span_rows` is what a span holds at most."""
        shape = (len(problem.queries), problem.k)
        self.ids = np.full(shape, len(train), np.int64)  # no row's number: behind every row
        self.distances = np.full(shape, np.inf)
        self.done = np.zeros(spans, bool)
        self._path, self._saved_at, self._took = options.state, -np.inf, 0.0
        if self._path is None:
            return
        queries = np.ascontiguousarray(problem.queries)
        known = {
            "version": 1,
            "metric": problem.metric,
            "k": problem.k,
            "queries": [queries.shape, queries.dtype.str, hashlib.blake2b(queries.data).hexdigest()],
            "train": [list(train.shape), train.dtype.str, options.mark],
            "span": span_rows,
        }
        self._identity = json.dumps(known)
        with suppress(*DAMAGE), np.load(self._path, allow_pickle=False) as file:  # else it is replaced
            found = [file[name] for name in ("ids", "distances", "done")]
            is_alike = [part.shape for part in found] == [shape, shape, self.done.shape]
            if is_alike and str(file["identity"]) == self._identity:
                self.ids, self.distances, self.done = found

    def merge(self, span: int, found: SpanNeighbors, run: Run = map) -> None:
        """Take in what a span has, and save it."""
        ends, k = np.concatenate(([0], np.cumsum(found.counts))), self.ids.shape[1]
        is_first = not self.done.any() and bool((found.counts == k).all())
        if is_first:
            self.ids[:], self.distances[:] = found.ids.reshape(-1, k), found.distances.reshape(-1, k)

        def merge_part(queries: slice) -> None:
            new = slice(ends[queries.start], ends[min(queries.stop, len(self.ids))])
            which = queries.start + np.flatnonzero(found.counts[queries])
            of = np.concatenate((np.repeat(which, k), np.repeat(which, found.counts[which])))
            ids = np.concatenate((self.ids[which].reshape(-1), found.ids[new]))
            distances = np.concatenate((self.distances[which].reshape(-1), found.distances[new]))
            order = nearest(of, distances, ids, k)
            self.ids[which] = ids[order].reshape(-1, k)
            self.distances[which] = distances[order].reshape(-1, k)

        starts = range(0, 0 if is_first else len(self.ids), MERGED_AT_ONCE)
        for _ in run(merge_part, [slice(start, start + MERGED_AT_ONCE) for start in starts]):
            pass
        self.done[span] = True
        if self._path is not None:
            self._save(self._path)

    def _save(self, path: Path) -> None:
        """Write, unless the last time was so recent that writing would take more than its share."""
        started = time.monotonic()
        if not self.done.all() and started - self._saved_at < self._took / SHARE_OF_SAVING:
            return
        with disk_errors(path), atomic_path(path) as temporary, temporary.open("wb") as file:
            identity = np.array(self._identity)
            np.savez(file, identity=identity, ids=self.ids, distances=self.distances, done=self.done)
        self._saved_at = time.monotonic()
        self._took = self._saved_at - started


def exact_neighbors(
    metric: str, train: Any, queries: Any, k: int, progress: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest training rows of every query: ids int64 (n, k) and distances float64 (n, k), ascending.

    `train` is an array, memory map, HDF5 dataset or Rows, (rows, dimension), and is read in blocks; under
    jaccard it may be a list of integer sets. Equal distances are ordered by id. Raises UserError for vectors
    that hold NaN or infinity, and where there are fewer than k rows.
    """
    return ground_truth(metric, train, queries, k, SearchOptions(progress=progress))


def ground_truth(
    metric: str, train: Any, queries: Any, k: int, options: SearchOptions
) -> tuple[np.ndarray, np.ndarray]:
    """As exact_neighbors, but it can be interrupted, and may run on a Dask cluster."""
    if k < 1:
        raise UserError(f"{k} neighbours requested; request at least 1")
    if k > len(train):
        raise UserError(
            f"{k} neighbours requested, but there are only {len(train)} training rows; request fewer"
        )
    device = SEARCH_DEVICE.get()
    if device is not HOST and metric not in device.metrics:
        warn(f"the GPU searches under {', '.join(device.metrics)} only; the CPU searches {metric}")
        device = HOST
    if metric == "jaccard" and getattr(train[0], "dtype", None) != np.bool_:
        with _bar(len(queries), 0, "query", options.progress) as bar:
            return nearest_sets(train, queries, k, bar.update)
    train = train if isinstance(train, Rows) else ArrayRows(train, "training")
    problem = Problem(metric, np.ascontiguousarray(queries), k)
    if problem.queries.ndim != 2 or problem.queries.shape[1] != train.shape[1]:
        raise UserError(
            f"the queries have shape {problem.queries.shape}, the training rows {tuple(train.shape)}; "
            "both need the same number of dimensions"
        )
    row_bytes = max(LEAST_BYTES, train.shape[1] * train.dtype.itemsize)
    size = SPAN * max(1, device.kept_bytes // row_bytes // SPAN)
    spans = [range(at, min(at + size, len(train))) for at in range(0, len(train), size)]
    truth = PartialTruth(problem, train, len(spans), options, size)
    missing = {number: span for number, span in enumerate(spans) if not truth.done[number]}
    done = len(train) - sum(map(len, missing.values()))
    if not len(problem.queries):
        missing = {}

    def farthest() -> np.ndarray:
        return truth.distances[:, -1]

    with (
        _bar(len(train), done, "row", options.progress) as bar,
        ThreadPoolExecutor(usable_cores()) as pool,
        threadpool_limits(1, user_api="blas"),
    ):
        if options.scheduler and missing:
            found = search_on_cluster(options.scheduler, problem, train, missing, farthest, bar.update)
        else:
            found = (
                (number, search_span(problem, train, span, farthest(), usable_cores(), bar.update))
                for number, span in missing.items()
            )
        for number, part in found:
            truth.merge(number, part, pool.map)
    return truth.ids, truth.distances


def _bar(total: int, done: int, unit: str, progress: bool) -> tqdm:
    disable = None if progress else True  # None: only on a terminal
    title = "exact neighbours"
    return tqdm(None, title, total, initial=done, unit=unit, unit_scale=True, delay=1, disable=disable)


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
