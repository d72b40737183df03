"""A pass over rows with given centroids, and how the CPU makes it: by NumPy's matrix products."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

TILE_LISTS = 512
TILE_VALUES = 2**18  # of a product in float32: 1 MiB, which stays in the cache
CHUNK = 8192  # rows whose sums are made at a time

Advance = Callable[[int], object]  # called with a number of rows that are done
Item = TypeVar("Item")
Result = TypeVar("Result")


class Pass(NamedTuple):
    """The result of a pass in which each row was assigned to its nearest centroid.

    `sums`: (k, dimension) float64, and `counts`: (k,) int64, of the rows of each list; `squares`: the sum of
    all rows' squared lengths.
    """

    sums: np.ndarray
    counts: np.ndarray
    squares: float

    def means(self, centroids: np.ndarray, spherical: bool) -> np.ndarray:
        """Return the means of the lists, (k, dimension) float32, normalised if `spherical`.

        A list without rows, or whose rows cancel out, keeps its centroid.
        """
        scale = (np.linalg.norm(self.sums, axis=1) if spherical else self.counts)[:, np.newaxis]
        means = np.where(scale > 0, self.sums / np.where(scale > 0, scale, 1), centroids)
        return means.astype(np.float32)

    def inertia(self, centroids: np.ndarray) -> float:
        """Mean squared distance of a row to the centroid, of these, that has the number of its list.

        The sum of |x - c|² over a list is the sum of |x|², less 2 c·s for the sum s of its rows, plus |c|²
        for each row.
        """
        exact = centroids.astype(np.float64)
        products = np.einsum("ij,ij->", self.sums, exact)
        own = self.counts @ np.einsum("ij,ij->i", exact, exact)
        return max(0.0, float(self.squares - 2 * products + own) / int(self.counts.sum()))


def half_squares(centroids: np.ndarray) -> np.ndarray:
    """Return |c|²/2 of each centroid, (k,) float32: |x - c|² is least where x·c - |c|²/2 is largest."""
    exact = centroids.astype(np.float64)
    return (np.einsum("ij,ij->i", exact, exact) / 2).astype(np.float32)


class NearestTable:
    """Centroids, (k, dimension) float32, prepared for the comparison with rows by matrix products.

    The half squares are an additional column, which meets a column of ones of the rows.
    """

    def __init__(self, centroids: np.ndarray, spherical: bool) -> None:
        table = centroids if spherical else np.column_stack([centroids, -half_squares(centroids)])
        self._tiles = [table[start : start + TILE_LISTS].T for start in range(0, len(table), TILE_LISTS)]
        self._rows_at_once = max(64, min(4096, TILE_VALUES // self._tiles[0].shape[1]))
        self._spherical = spherical

    def nearest(self, rows: np.ndarray) -> np.ndarray:
        """Number of the nearest centroid of each row, (n,) int32; the first of those equally near."""
        labels = np.empty(len(rows), np.int32)
        if not self._spherical:
            rows = np.column_stack([rows, np.ones(len(rows), np.float32)])
        products = np.empty((min(self._rows_at_once, len(rows)), self._tiles[0].shape[1]), np.float32)
        for start in range(0, len(rows), self._rows_at_once):
            part = rows[start : start + self._rows_at_once]
            labels[start : start + len(part)] = self._nearest(part, products.reshape(-1))
        return labels

    def _nearest(self, rows: np.ndarray, room: np.ndarray) -> np.ndarray:
        best = np.full(len(rows), -np.inf, np.float32)
        labels = np.zeros(len(rows), np.int32)
        for number, tile in enumerate(self._tiles):
            shape = len(rows), tile.shape[1]
            products = np.matmul(rows, tile, out=room[: shape[0] * shape[1]].reshape(shape))
            found = products.argmax(axis=1)
            scores = products[np.arange(len(rows)), found]
            nearer = scores > best
            np.copyto(best, scores, where=nearer)
            np.copyto(labels, found + number * TILE_LISTS, where=nearer, casting="unsafe")
        return labels


class Cpu:
    """Threads that share the rows; the BLAS of each has one thread."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.label = f"cpu, {threads} thread{'s' * (threads > 1)}"
        self._pool = ThreadPoolExecutor(threads)
        self._limit = threadpool_limits(1, user_api="blas")

    def hold(self, rows: np.ndarray, alone: bool = False) -> "CpuRows":
        """Leave the rows, in memory or mapped, where they are; `alone`: for one thread."""
        return CpuRows(rows, map if alone or self.threads == 1 else self.each)

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results in order while threads work on later items, up to four for each thread."""
        waiting: deque = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(work, item))
                if len(waiting) > 4 * self.threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """End the threads, and restore BLAS's own."""
        self._pool.shutdown()
        self._limit.restore_original_limits()


class CpuRows:
    """Rows in memory or mapped, in chunks for `each`."""

    def __init__(self, rows: np.ndarray, each: Callable[..., Iterable]) -> None:
        self.rows, self._each = rows, each

    def run(
        self,
        centroids: np.ndarray,
        spherical: bool,
        labels: np.ndarray | None = None,
        advance: Advance | None = None,
    ) -> Pass:
        """Go through all rows; `labels`, (n,) int32, receives the number of each row's list.

        The result does not depend on the number of threads.
        """
        k, table = len(centroids), NearestTable(centroids, spherical)

        def part(start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
            rows = self.rows[start : start + CHUNK]
            found = table.nearest(rows)
            if labels is not None:
                labels[start : start + len(rows)] = found
            # NumPy sorts two bytes several times as fast as four.
            order = np.argsort(found.astype(np.uint16) if k <= 2**16 else found, kind="stable")
            lists = found[order]
            firsts = np.flatnonzero(np.diff(lists, prepend=-1))
            sums = np.add.reduceat(rows.take(order, axis=0), firsts, axis=0)
            return lists[firsts], sums, np.diff(firsts, append=len(rows)), float(np.vdot(rows, rows))

        sums, counts, squares = np.zeros(centroids.shape), np.zeros(k, np.int64), 0.0
        for lists, part_sums, part_counts, part_squares in self._each(part, range(0, len(self.rows), CHUNK)):
            sums[lists] += part_sums
            counts[lists] += part_counts
            squares += part_squares
            if advance is not None:
                advance(int(part_counts.sum()))
        return Pass(sums, counts, squares)
