"""The nearest rows of one span of the training rows, by threads that share its blocks."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ann_benchmarks.common.errors import UserError

from ..vectors.rows import Rows
from .bounds import DistanceBounds, bounds_for
from .devices import HOST, OUT_OF_MEMORY, SEARCH_DEVICE, Array, Memory
from .exact import exact_distances, nearest

SHORT = 256  # dimensions
FEWEST_PAIRS = 2**14  # candidates of a group that are kept without a look at their bounds
FINAL_AT_ONCE = 2**20  # pairs; bounds the memory of the last step
MOST_REMEMBERED = 32  # vectors
MANY_COPIES = 8  # copies among rows looked at together that make a vector worth remembering


Advance = Callable[[int], object]


class Problem(NamedTuple):
    """The search of the k nearest training rows of each query, (n, dimension)."""

    metric: str
    queries: np.ndarray
    k: int


class SpanNeighbors(NamedTuple):
    """The k nearest rows of each query, or fewer; sorted by query, by distance and by row.

    `counts`: how many each query has, (queries,).
    """

    counts: np.ndarray
    ids: np.ndarray
    distances: np.ndarray


def search_span(
    problem: Problem,
    train: Rows,
    span: range,
    farthest: np.ndarray,
    threads: int,
    advance: Advance = lambda rows: None,
) -> SpanNeighbors:
    """Find the k nearest rows of a span, of those no farther than `farthest`, (queries,), from their query.

    `advance` is called with the rows done. Memory: 16 bytes for each of 2 k candidates a query and each pair
    found, and a few MiB a thread. Callers keep BLAS to one thread. UserError names a row without distances.
    """
    try:
        return _Search(problem, train, span, farthest, advance).run(threads)
    except RuntimeError as error:
        if SEARCH_DEVICE.get() is HOST or not any(text in str(error) for text in OUT_OF_MEMORY):
            raise
    raise UserError("the GPU is out of memory; end other programs on it, or use the CPU")


class _Search:
    def __init__(
        self, problem: Problem, train: Rows, span: range, farthest: np.ndarray, advance: Advance
    ) -> None:
        self.problem, self.train, self.span, self.advance = problem, train, span, advance
        chosen = SEARCH_DEVICE.get()
        self.device = device = chosen if problem.metric in chosen.metrics else HOST
        block = min(device.block_rows, device.block_values // problem.queries.shape[1])
        self.block = max(block // device.chunk, 1) * device.chunk
        self.repeats = Repeats(problem.k)
        self.reading = threading.Lock()
        self.next = span.start
        # Few rows first, so that there are limits before most of the work.
        self.first = first = self.read(max(256, 2 * problem.k))
        assert first is not None
        self.queries, sample = device.put(problem.queries), device.put(first[1])
        self.kept = device.keep(len(span), sample)
        with np.errstate(all="ignore"):
            self.bounds: DistanceBounds = bounds_for(problem.metric, self.queries, sample, device)
            limits = self.bounds.limits(farthest)
        # Many queries make products of long vectors fastest; scores of short ones are to stay in a cache.
        size = device.group_queries // (1 if self.bounds.dimension > SHORT else 2)
        self.groups = [_Group(self, at, limits[at : at + size]) for at in range(0, len(limits), size)]

    def run(self, threads: int) -> SpanNeighbors:
        with ThreadPoolExecutor(threads) as pool:
            try:
                self.begin()
                workers = range(min(threads, self.device.most_threads))
                for worker in [pool.submit(self.work, number) for number in workers]:
                    worker.result()
                return self.final(pool)
            except BaseException:
                with self.reading:
                    self.next = self.span.stop
                raise

    def begin(self) -> None:
        """Score blocks of twice as many rows each, so that few rows pass the limits of whole blocks."""
        memory: Memory = {}
        found = self.first
        while found is not None:
            self.score(0, *found, memory)
            seen = self.next - self.span.start
            found = self.read(seen) if seen < self.block else None

    def read(self, most: int) -> tuple[int, np.ndarray] | None:
        """Give the next rows, in the order of the file, and the number of the first."""
        with self.reading:
            start = self.next
            if start >= self.span.stop:
                return None
            stop = self.next = min(start + min(most, self.block), self.span.stop)
            rows = self.train.read(start, stop)
        if len(rows) != stop - start:
            raise UserError(f"{self.train.row_name(start)}: {stop - start} rows expected, {len(rows)} read")
        return start, rows

    def work(self, number: int) -> None:
        """Score blocks until none is left."""
        memory: Memory = {}
        while found := self.read(self.block):
            self.score(number, *found, memory)

    @np.errstate(all="ignore")
    def score(self, number: int, start: int, rows: np.ndarray, memory: Memory) -> None:
        left = self.repeats.needed(rows, start)
        if len(left):
            make = partial(self.prepare, start - self.span.start, rows, left, memory)
            with self.device.prepared(make) as block:
                for turn in range(len(self.groups)):  # threads begin apart, to not wait for one another
                    self.groups[(number + turn) % len(self.groups)].compare(block, memory)
        self.advance(len(rows))

    def prepare(self, start: int, rows: np.ndarray, left: np.ndarray, memory: Memory) -> tuple[Array, ...]:
        """Return the factors of the rows `left` in a block, their errors, and their numbers in the span."""
        device, count = self.device, len(left)
        if "factors" not in memory:
            memory["factors"] = device.table(self.block, self.bounds.dimension + 1)
        table = memory["factors"]
        block = device.put(rows, None if self.kept is None else self.kept[start : start + len(rows)])
        block = block if count == len(rows) else block[device.put(left)]

        def name(number: int) -> str:
            return self.train.row_name(self.span.start + start + int(left[number]))

        error = self.bounds.rows(block, table, name)
        end = -(-count // device.chunk) * device.chunk
        table[count:end] = 0
        return table[:end], error, device.put((start + left).astype(np.int32))

    def final(self, pool: ThreadPoolExecutor) -> SpanNeighbors:
        """Compute the distances of what is left in float64."""
        parts: list[tuple[np.ndarray, ...]] = []
        while self.groups:
            waiting: list[tuple[Array, Array]] = []
            while self.groups and sum(len(row) for _, row in waiting) < FINAL_AT_ONCE:
                waiting.append(self.groups.pop(0).rest())  # the group's memory is needed no more
            device = self.device
            query, row = (device.arrays.concatenate(arrays) for arrays in zip(*waiting, strict=True))
            found = device.distances(self.problem.metric, self.queries, self.kept, query, row)
            if found is None:
                metric, queries, _ = self.problem
                pairs = device.get(query), device.get(row)
                found = exact_distances(metric, queries, self.fetch, *pairs, pool.map)
            ends = np.cumsum([len(row) for _, row in waiting])[:-1]
            groups = *zip(*waiting, strict=True), np.split(found, ends), [self.problem.k] * len(waiting)
            parts += pool.map(device.nearest, *groups)
        query, row, distances = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        counts = np.bincount(query, minlength=len(self.problem.queries))
        return SpanNeighbors(counts, self.span.start + row.astype(np.int64), distances)

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
    cannot order them, float64 decides on the spot. Arrays are those of the device.
    """

    def __init__(self, search: _Search, start: int, limits: np.ndarray) -> None:
        device = search.device
        self._search, self._k, self._lock = search, search.problem.k, threading.Lock()
        self._queries = slice(start, start + len(limits))
        self._error = device.put(search.bounds.query_error[self._queries])
        self._limits = device.put(limits)
        self._keys = device.put(np.arange(len(limits)) << 32)
        # Query, row, lower and upper bound of each candidate.
        self._pairs: list[tuple[Any, ...]] = []
        self._count, self._most = 0, max(FEWEST_PAIRS, 3 * self._k * len(limits) // 2)

    def compare(self, block: tuple[Array, ...], memory: Memory) -> None:
        """Score rows, given with errors and numbers, and keep those that may be near."""
        device, (rows, row_error, numbers) = self._search.device, block
        out = device.room(memory, "scores", (len(rows), len(self._keys)))
        scores = self._search.bounds.scores(self._queries, rows, out)
        query, row, lower = device.near(scores, self._limits, len(numbers), memory)
        if len(query):
            upper = lower + (row_error[row] + self._error[query])
            with self._lock:
                self._pairs.append((query, numbers[row], lower, upper))
                self._count += len(query)
                if self._count > self._most:
                    self._tighten()

    def rest(self) -> tuple[Array, Array]:
        """Give (query, row) of all that may be among the k nearest."""
        if not self._pairs:
            return (self._search.device.put(np.empty(0, np.int32)),) * 2
        self._tighten()
        query, row, *_ = self._pairs[0]
        return self._queries.start + query, row

    def _tighten(self) -> None:
        """Bring the limits down to the k-th smallest upper bounds; forget what is above them."""
        device = self._search.device
        xp = device.arrays
        pairs = [xp.concatenate(arrays) for arrays in zip(*self._pairs, strict=True)]
        self._lower_limits(pairs[0], pairs[3])
        kept = xp.where(pairs[2] <= self._limits[pairs[0]])[0]  # NumPy takes numbers sooner than a mask
        pairs = [part[kept] for part in pairs]
        if len(pairs[0]) > self._most * 5 // 6:
            query, row = (device.get(part) for part in pairs[:2])
            of = self._queries.start + query.astype(np.int64)
            metric, queries, _ = self._search.problem
            distances = exact_distances(metric, queries, self._search.fetch_and_learn, of, row)
            order = nearest(query, distances, row, self._k)
            upper = self._search.bounds.limits(distances[order], of[order])
            # Rounding to float32 and the step up moved them by less than two steps.
            lower = np.nextafter(np.nextafter(upper, np.float32(-np.inf)), np.float32(-np.inf))
            pairs = [device.put(part) for part in (query[order], row[order], lower, upper)]
            self._lower_limits(pairs[0], pairs[3])
        self._pairs, self._count = [tuple(pairs)], len(pairs[0])

    def _lower_limits(self, query: Any, upper: Any) -> None:
        """Sort upper bounds by query: float32 as whole numbers, behind the number of the query."""
        device, keys = self._search.device, self._keys
        xp, k = device.arrays, self._k
        ordered = device.sort(keys[query] + _mirrored(upper.view(xp.int32)))
        first = xp.searchsorted(ordered, keys - 2**31)
        is_known = xp.searchsorted(ordered, keys + 2**31) - first >= k
        bits = xp.where(is_known, ordered[xp.where(is_known, first + (k - 1), 0)] - keys, 0)
        kth = _mirrored(xp.asarray(bits, dtype=xp.int32)).view(xp.float32)
        self._limits = xp.where(is_known, xp.minimum(self._limits, kth), self._limits)


def _mirrored(bits: Any) -> Any:
    """Turn the bits of float32 into whole numbers of the same order, or back: negative ones run backwards."""
    return bits ^ ((bits >> 31) & (2**31 - 1))


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

    def needed(self, block: np.ndarray, start: int) -> np.ndarray:
        """Numbers in the block, which begins at row `start`, of rows that may be near."""
        is_needed, at = np.ones(len(block), bool), np.arange(start, start + len(block))
        for vector, seen in list(self._known.values()):
            if len(seen) == self._k:
                maybe = np.flatnonzero((block[:, 0] == vector[0]) & (at > seen[-1]))
                is_needed[maybe[(block[maybe] == vector).all(axis=1)]] = False
        return np.flatnonzero(is_needed)
