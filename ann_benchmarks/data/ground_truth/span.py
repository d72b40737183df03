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
from .candidates import Candidates, Repeats
from .exact import exact_distances, fetch_rows, nearest

BLOCK_BYTES = 8 * 2**20  # bound on a block in float64
FINAL_AT_ONCE = 2**20  # pairs; bounds the memory of the last step


class Problem(NamedTuple):
    """The search of the k nearest training rows of each query, (n, dimension)."""

    metric: str
    queries: np.ndarray
    k: int


class Product(NamedTuple):
    """Rows and queries of one matrix product, at most."""

    rows: int = 1024
    queries: int = 512


class SpanNeighbors(NamedTuple):
    """Up to k rows a query: `counts` (queries,), and ids and distances, sorted by query, distance and id."""

    counts: np.ndarray
    ids: np.ndarray
    distances: np.ndarray


def search_span(
    problem: Problem,
    train: Any,
    span: range,
    farthest: np.ndarray,
    threads: int,
    advance: Callable[[int], object] = lambda rows: None,
    product: Product = Product(),  # noqa: B008
) -> SpanNeighbors:
    """Find the k nearest rows of a span, of those no farther than `farthest`, (queries,), from their query.

    `advance` is called with the rows done. Memory: 12 bytes for each query and 2 k + `product.rows`
    candidates, 16 for each pair found, and a few MiB a thread. Raises UserError for a vector without
    distances.
    """
    with threadpool_limits(1, user_api="blas"):
        return _Search(problem, train, span, farthest, advance, product).run(threads)


def search_rows(
    problem: Problem, train: Any, span: range, farthest: np.ndarray, threads: int
) -> SpanNeighbors:
    """As search_span, for callers that keep BLAS to one thread themselves: to do so takes milliseconds."""
    return _Search(problem, train, span, farthest, lambda rows: None, Product()).run(threads)


class _Memory:
    """What a thread writes again and again."""

    def __init__(self, rows: int, queries: int, bounds: DistanceBounds) -> None:
        self.table = np.empty((rows, bounds.dimension + 1), np.float32)
        self.scores = np.empty(rows * queries, np.float32)
        self.near = np.empty(rows * queries, bool)

    @staticmethod
    def tile(memory: np.ndarray, queries: int, rows: int) -> np.ndarray:
        """Return the beginning of one of them as a table."""
        return memory[: queries * rows].reshape(queries, rows)


class _Search:
    def __init__(
        self,
        problem: Problem,
        train: Any,
        span: range,
        farthest: np.ndarray,
        advance: Callable[[int], object],
        product: Product,
    ) -> None:
        self.problem, self.train, self.span, self.advance = problem, train, span, advance
        self.block = max(16, min(product.rows, BLOCK_BYTES // (8 * problem.queries.shape[1])))
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
        starts = range(0, len(problem.queries), product.queries)
        self.slices = [slice(at, min(at + product.queries, len(limits))) for at in starts]
        self.groups = [self.candidates(of.start, limits[of]) for of in self.slices]

    def candidates(self, at: int, limits: np.ndarray) -> Candidates:
        return Candidates(
            limits,
            self.problem.k,
            self.block,
            lambda query, row: self.distances(at + query, row, self.fetch_and_learn),
            lambda distances, queries: self.bounds.limits(distances, at + queries),
        )

    def run(self, threads: int) -> SpanNeighbors:
        with ThreadPoolExecutor(threads) as pool:
            try:
                self.score(0, *self.first, _Memory(self.block, self.slices[0].stop, self.bounds))
                for worker in [pool.submit(self.work, number) for number in range(threads)]:
                    worker.result()
                return self.final(pool)
            except BaseException:
                with self.reading:
                    self.next = self.span.stop
                raise

    def read(self, most: int) -> tuple[int, np.ndarray] | None:
        """Give the next rows, in the order of the file, and the number of the first."""
        with self.reading:
            start = self.next
            if start >= self.span.stop:
                return None
            stop = self.next = min(start + min(most, self.block), self.span.stop)
            rows = np.asarray(self.train[start:stop])
        if len(rows) != stop - start:
            raise UserError(f"{self.where(start)}: {stop - start} rows expected, {len(rows)} read")
        return start, rows

    def work(self, number: int) -> None:
        """Score blocks until none is left."""
        memory = _Memory(self.block, self.slices[0].stop, self.bounds)
        while found := self.read(self.block):
            self.score(number, *found, memory)

    @np.errstate(all="ignore")
    def score(self, number: int, start: int, rows: np.ndarray, memory: "_Memory") -> None:
        count = len(rows)
        numbers = np.arange(start - self.span.start, start - self.span.start + count, dtype=np.int32)
        superfluous = self.repeats.superfluous(rows, start)
        if len(superfluous):
            rows, numbers = np.delete(rows, superfluous, axis=0), np.delete(numbers, superfluous)
        if len(rows):
            try:
                factor, row_error = self.bounds.rows(rows, memory.table)
            except BadRow as bad:
                raise self.bad_row(int(numbers[bad.args[0]])) from None
            for turn in range(len(self.groups)):  # threads begin apart, to not wait for one another
                self.compare((number + turn) % len(self.groups), factor, row_error, numbers, memory)
        self.advance(count)

    def compare(
        self,
        which: int,
        factor: np.ndarray,
        row_error: np.ndarray,
        numbers: np.ndarray,
        memory: "_Memory",
    ) -> None:
        candidates, of = self.groups[which], self.slices[which]
        limits, queries = candidates.limits, np.arange(len(candidates.limits))
        tile = self.bounds.scores(of, factor, memory.tile(memory.scores, len(limits), len(numbers)))
        # Later on, most queries have nothing near in a block: their smallest score says so soonest.
        some = np.flatnonzero(tile.min(axis=1) <= limits)
        if len(some) < len(limits) / 2:
            tile, limits, queries = tile[some], limits[some], some
        near = np.less_equal(tile, limits[:, np.newaxis], out=memory.tile(memory.near, *tile.shape))
        hits = np.flatnonzero(near)
        if len(hits):
            at, row = np.divmod(hits, len(numbers))
            query = queries[at]
            lower = tile.reshape(-1)[hits]
            error = row_error[row] + self.bounds.query_error[of][query]
            upper = np.nextafter(lower + error, np.float32(np.inf))
            with candidates.lock:
                candidates.add(query, numbers[row], lower, upper)

    def final(self, pool: ThreadPoolExecutor) -> SpanNeighbors:
        """Compute the distances of what is left in float64."""
        counts = np.zeros(len(self.problem.queries), np.int64)
        ids: list[np.ndarray] = []
        distances: list[np.ndarray] = []
        waiting: list[tuple[np.ndarray, np.ndarray]] = []
        pairs = 0
        self.groups.reverse()
        for of in self.slices:
            query, row = self.groups.pop().rest()  # their memory is needed no more
            waiting.append((of.start + query, row))
            pairs += len(query)
            if pairs < FINAL_AT_ONCE and of is not self.slices[-1]:
                continue
            query, row = (np.concatenate(parts) for parts in zip(*waiting, strict=True))
            found = self.distances(query, row, self.fetch, pool.map)
            order = nearest(query, found, row, self.problem.k)
            counts += np.bincount(query[order], minlength=len(counts))
            ids.append(self.span.start + row[order].astype(np.int64))
            distances.append(found[order])
            waiting, pairs = [], 0
        return SpanNeighbors(counts, np.concatenate(ids), np.concatenate(distances))

    def distances(self, query: np.ndarray, row: np.ndarray, fetch: Any, run: Any = map) -> np.ndarray:
        return exact_distances(self.problem.metric, self.problem.queries, fetch, query, row, run)

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        return fetch_rows(self.train, self.span.start + rows.astype(np.int64))

    def fetch_and_learn(self, rows: np.ndarray) -> np.ndarray:
        vectors = self.fetch(rows)
        with self.reading:
            self.repeats.learn(self.span.start + rows.astype(np.int64), vectors)
        return vectors

    def where(self, row: int) -> str:
        if isinstance(self.train, Rows):
            return self.train.where(row)
        return f"training row {row} (from 0)"

    def bad_row(self, number: int) -> UserError:
        return UserError(
            f"{self.where(self.span.start + number)} holds NaN, infinity or values too large to square; "
            "finite numbers were expected: remove or mend it"
        )
