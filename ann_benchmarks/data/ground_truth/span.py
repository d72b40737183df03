"""The nearest rows of one span of the training rows, by threads that share its blocks."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ann_benchmarks.common.errors import UserError

from ..vectors.rows import Rows
from .bounds import BadRow, DistanceBounds, bounds_for
from .exact import exact_distances, nearest

BLOCK_ROWS, GROUP_QUERIES = 1024, 512  # of one matrix product, at most
BLOCK_BYTES = 8 * 2**20  # bound on a block in float64
FEWEST_PAIRS = 2**14  # candidates of a group that are kept without a look at their bounds
FINAL_AT_ONCE = 2**20  # pairs; bounds the memory of the last step
MOST_REMEMBERED = 32  # vectors
MANY_COPIES = 8  # copies among rows looked at together that make a vector worth remembering


class Problem(NamedTuple):
    """The search of the k nearest training rows of each query, (n, dimension)."""

    metric: str
    queries: np.ndarray
    k: int


class SpanNeighbors(NamedTuple):
    """Up to k rows a query: `counts` (queries,), and ids and distances, sorted by query, distance and id."""

    counts: np.ndarray
    ids: np.ndarray
    distances: np.ndarray


def search_span(
    problem: Problem,
    train: Rows,
    span: range,
    farthest: np.ndarray,
    threads: int,
    advance: Callable[[int], object] = lambda rows: None,
) -> SpanNeighbors:
    """Find the k nearest rows of a span, of those no farther than `farthest`, (queries,), from their query.

    `advance` is called with the rows done. Memory: 14 bytes for each of 2 k candidates a query, 16 for each
    pair found, and a few MiB a thread. Raises UserError for a vector without distances.
    """
    with threadpool_limits(1, user_api="blas"):
        return search_rows(problem, train, span, farthest, threads, advance)


def search_rows(
    problem: Problem,
    train: Rows,
    span: range,
    farthest: np.ndarray,
    threads: int,
    advance: Callable[[int], object] = lambda rows: None,
) -> SpanNeighbors:
    """As search_span, for callers that keep BLAS to one thread themselves: to do so takes milliseconds."""
    return _Search(problem, train, span, farthest, advance).run(threads)


class _Search:
    def __init__(
        self,
        problem: Problem,
        train: Rows,
        span: range,
        farthest: np.ndarray,
        advance: Callable[[int], object],
    ) -> None:
        self.problem, self.train, self.span, self.advance = problem, train, span, advance
        self.block = max(16, min(BLOCK_ROWS, BLOCK_BYTES // (8 * problem.queries.shape[1])))
        self.repeats = Repeats(problem.k)
        self.reading = threading.Lock()
        self.next = span.start
        # Few rows first, so that there are limits before most of the work.
        first = self.read(max(256, 2 * problem.k))
        assert first is not None
        self.first = first
        with np.errstate(all="ignore"):
            self.bounds: DistanceBounds = bounds_for(problem.metric, problem.queries, first[1])
            limits = self.bounds.limits(farthest)
        starts = range(0, len(limits), GROUP_QUERIES)
        self.groups = [_Group(self, at, limits[at : at + GROUP_QUERIES]) for at in starts]

    def run(self, threads: int) -> SpanNeighbors:
        with ThreadPoolExecutor(threads) as pool:
            try:
                self.score(0, *self.first, self.memory())
                for worker in [pool.submit(self.work, number) for number in range(threads)]:
                    worker.result()
                return self.final(pool)
            except BaseException:
                with self.reading:
                    self.next = self.span.stop
                raise

    def memory(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what a thread writes again and again: a table of rows, scores, and which are near."""
        cells = self.block * len(self.groups[0].limits)
        table = np.empty((self.block, self.bounds.dimension + 1), np.float32)
        return table, np.empty(cells, np.float32), np.empty(cells, bool)

    def read(self, most: int) -> tuple[int, np.ndarray] | None:
        """Give the next rows, in the order of the file, and the number of the first."""
        with self.reading:
            start = self.next
            if start >= self.span.stop:
                return None
            stop = self.next = min(start + min(most, self.block), self.span.stop)
            rows = self.train.read(start, stop)
        if len(rows) != stop - start:
            raise UserError(f"{self.train.where(start)}: {stop - start} rows expected, {len(rows)} read")
        return start, rows

    def work(self, number: int) -> None:
        """Score blocks until none is left."""
        memory = self.memory()
        while found := self.read(self.block):
            self.score(number, *found, memory)

    @np.errstate(all="ignore")
    def score(self, number: int, start: int, rows: np.ndarray, memory: tuple[np.ndarray, ...]) -> None:
        count = len(rows)
        numbers = np.arange(start - self.span.start, start - self.span.start + count, dtype=np.int32)
        superfluous = self.repeats.superfluous(rows, start)
        if len(superfluous):
            rows, numbers = np.delete(rows, superfluous, axis=0), np.delete(numbers, superfluous)
        if len(rows):
            try:
                factor, row_error = self.bounds.rows(rows, memory[0])
            except BadRow as bad:
                row = self.train.where(self.span.start + int(numbers[bad.args[0]]))
                raise UserError(
                    f"{row} holds NaN, infinity or values too large to square; finite numbers were expected:"
                    " remove or mend it"
                ) from None
            for turn in range(len(self.groups)):  # threads begin apart, to not wait for one another
                group = self.groups[(number + turn) % len(self.groups)]
                group.compare(factor, row_error, numbers, memory)
        self.advance(count)

    def final(self, pool: ThreadPoolExecutor) -> SpanNeighbors:
        """Compute the distances of what is left in float64."""
        parts = []
        while self.groups:
            waiting: list[tuple[np.ndarray, np.ndarray]] = []
            while self.groups and sum(len(row) for _, row in waiting) < FINAL_AT_ONCE:
                group = self.groups.pop(0)  # its memory is needed no more
                query, row = group.rest()
                waiting.append((group.start + query.astype(np.int64), row))
            query, row = (np.concatenate(arrays) for arrays in zip(*waiting, strict=True))
            found = self.distances(query, row, self.fetch, pool.map)
            order = nearest(query, found, row, self.problem.k)
            parts.append((query[order], row[order], found[order]))
        query, row, distances = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        counts = np.bincount(query, minlength=len(self.problem.queries))
        return SpanNeighbors(counts, self.span.start + row.astype(np.int64), distances)

    def distances(self, query: np.ndarray, row: np.ndarray, fetch: Any, run: Any = map) -> np.ndarray:
        return exact_distances(self.problem.metric, self.problem.queries, fetch, query, row, run)

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        return self.train.take(self.span.start + rows.astype(np.int64))

    def fetch_and_learn(self, rows: np.ndarray) -> np.ndarray:
        vectors = self.fetch(rows)
        with self.reading:
            self.repeats.learn(self.span.start + rows.astype(np.int64), vectors)
        return vectors


class _Group:
    """Some queries, the rows that may be near each, and `limits`: no score above its query's limit matters.

    A limit is the k-th smallest upper bound that its query has seen. Where so many rows are close that bounds
    cannot order them, float64 decides on the spot.
    """

    def __init__(self, search: _Search, start: int, limits: np.ndarray) -> None:
        self.start, self.limits = start, limits
        self._search, self._k, self._lock = search, search.problem.k, threading.Lock()
        self._numbers = np.arange(len(limits), dtype=np.int16)  # NumPy sorts these in linear time
        # Query, row, lower and upper bound of each candidate.
        self._pairs = [(self._numbers[:0], np.empty(0, np.int32), *np.empty((2, 0), np.float32))]
        self._count, self._most = 0, max(FEWEST_PAIRS, 2 * self._k * len(limits))

    def compare(
        self, factor: np.ndarray, row_error: np.ndarray, numbers: np.ndarray, memory: tuple[np.ndarray, ...]
    ) -> None:
        """Score rows of these numbers, and keep those that may be near."""
        bounds, of = self._search.bounds, slice(self.start, self.start + len(self.limits))
        limits, queries = self.limits, self._numbers
        shape = len(limits), len(numbers)
        tile = bounds.scores(of, factor, memory[1][: shape[0] * shape[1]].reshape(shape))
        # Later on, most queries have nothing near in a block: their smallest score says so soonest.
        some = np.flatnonzero(tile.min(axis=1) <= limits)
        if len(some) < len(limits) / 2:
            tile, limits, queries = tile[some], limits[some], queries[some]
        near = memory[2][: tile.size].reshape(tile.shape)
        hits = np.flatnonzero(np.less_equal(tile, limits[:, np.newaxis], out=near))
        if len(hits):
            at, row = np.divmod(hits, len(numbers))
            query, lower = queries[at], tile.reshape(-1)[hits]
            error = row_error[row] + bounds.query_error[of][query]
            upper = np.nextafter(lower + error, np.float32(np.inf))
            with self._lock:
                self._pairs.append((query, numbers[row], lower, upper))
                self._count += len(query)
                if self._count > self._most:
                    self._tighten()

    def rest(self) -> tuple[np.ndarray, np.ndarray]:
        """Give (query, row) of all that may be among the k nearest, sorted by query."""
        self._tighten()
        return self._pairs[0][:2]

    def _tighten(self) -> None:
        """Bring the limits down to the k-th smallest upper bounds; forget what is above them."""
        query, row, lower, upper = (np.concatenate(arrays) for arrays in zip(*self._pairs, strict=True))
        order = np.argsort(query, kind="stable")
        query, row, lower, upper = query[order], row[order], lower[order], upper[order]
        self._lower_limits(query, upper)
        kept = lower <= self.limits[query]
        query, row, lower, upper = query[kept], row[kept], lower[kept], upper[kept]
        if len(query) > self._most * 3 // 4:
            of = self.start + query.astype(np.int64)
            distances = self._search.distances(of, row, self._search.fetch_and_learn)
            order = nearest(query, distances, row, self._k)
            query, row = query[order], row[order]
            upper = self._search.bounds.limits(distances[order], of[order])
            self._lower_limits(query, upper)
            # Rounding to float32 and the step up moved them by less than two steps.
            lower = np.nextafter(np.nextafter(upper, np.float32(-np.inf)), np.float32(-np.inf))
        self._pairs, self._count = [(query, row, lower, upper)], len(query)

    def _lower_limits(self, query: np.ndarray, upper: np.ndarray) -> None:
        counts = np.bincount(query, minlength=len(self.limits))
        ends = np.cumsum(counts)
        for number in np.flatnonzero(counts >= self._k):
            bounds = upper[ends[number] - counts[number] : ends[number]]
            self.limits[number] = min(self.limits[number], np.partition(bounds, self._k - 1)[self._k - 1])


class Repeats:
    """Vectors that occur so often that more of them cannot change any answer.

    Of equal vectors the k with the smallest row numbers are nearer, to any query, than the others.
    """

    def __init__(self, k: int) -> None:
        self._k = k
        self._known: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}  # vector, its first k rows of those seen

    def learn(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """Look for vectors that many of these rows have."""
        copies: dict[bytes, list[int]] = {}
        for number, vector in enumerate(vectors):
            copies.setdefault(vector.tobytes(), []).append(number)
        for key, numbers in copies.items():
            vector, seen = self._known.get(key, (vectors[numbers[0]].copy(), np.empty(0, np.int64)))
            if key in self._known or (
                len(numbers) >= min(MANY_COPIES, self._k) and len(self._known) < MOST_REMEMBERED
            ):
                self._known[key] = vector, np.union1d(seen, rows[numbers])[: self._k]

    def superfluous(self, block: np.ndarray, start: int) -> np.ndarray:
        """Numbers in the block, which begins at row `start`, of rows that nobody needs."""
        found = [np.empty(0, np.int64)]
        for vector, seen in list(self._known.values()):
            if len(seen) == self._k:
                maybe = np.flatnonzero(block[:, 0] == vector[0])
                maybe = maybe[start + maybe > seen[-1]]
                found.append(maybe[(block[maybe] == vector).all(axis=1)])
        return np.concatenate(found)
