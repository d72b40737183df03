"""Passes on the CPU by threads that share the rows, and the k-means of faiss."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from .device import Advance, Device, HeldRows, Pass, ignore_progress
from .nearest import CHUNK, NearestTable, PartialSums, order_of, partial_sums, total
from .settings import ClusteringError

NEAR = 32  # the fewest lists that a row is compared with in a pass among near lists
_WINDOW_VALUES = 2**26  # of the rows that are put into the order of their lists; 256 MiB
_ROWS_AT_ONCE = 512
_BLOCK = 512  # lists whose near lists are found at once

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Cpu(Device):
    """Threads whose BLAS has one thread each."""

    has_near = True

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.label = f"cpu, {threads} thread{'s' * (threads > 1)}"
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._limit = threadpool_limits(1, user_api="blas")

    def hold(self, rows: np.ndarray) -> HeldRows:
        """Leave the rows where they are."""
        return CpuRows(rows, self.each)

    def hold_near(self, rows: np.ndarray, labels: np.ndarray) -> HeldRows:
        """Leave the rows where they are."""
        return NearRows(rows, labels, self.each)

    def each(
        self, work: Callable[[_Item], _Result], items: Iterable[_Item], ahead: int = 4
    ) -> Iterator[_Result]:
        """Yield the results in order while threads work on later items, up to `ahead` for each thread."""
        if self._pool is None:
            yield from map(work, items)
            return
        waiting: deque = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(work, item))
                if len(waiting) > ahead * self.threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def one_of_many(self) -> Device:
        """Return a device for one of several threads."""
        return OneThread()

    def close(self) -> None:
        """End the threads, and restore BLAS's own."""
        if self._pool is not None:
            self._pool.shutdown()
        self._limit.restore_original_limits()


class OneThread(Device):
    """The CPU as one of the threads of `Cpu.each` uses it."""

    label = "cpu, 1 thread"

    def hold(self, rows: np.ndarray) -> HeldRows:
        """Leave the rows where they are."""
        return CpuRows(rows, map)


class CpuRows:
    """Rows in memory or mapped, in chunks for `each`."""

    def __init__(self, rows: np.ndarray, each: Callable[..., Iterable]) -> None:
        self.rows, self._each = rows, each

    def run(
        self,
        centroids: np.ndarray,
        spherical: bool,
        labels: np.ndarray | None = None,
        advance: Advance = ignore_progress,
    ) -> Pass:
        """Go through all rows; the result does not depend on the number of threads."""
        table = NearestTable(centroids, spherical)

        def part(start: int) -> PartialSums:
            rows = self.rows[start : start + CHUNK]
            found = table.nearest(rows)
            if labels is not None:
                labels[start : start + len(rows)] = found
            return partial_sums(rows, found, len(centroids))

        return total(self._each(part, range(0, len(self.rows), CHUNK)), centroids.shape, advance)


class NearRows:
    """Rows that are compared only with the lists near their own, a small share of the work of a whole pass.

    Each row has a list, which may change to a near one with each pass. The list's centroid decides which
    lists are near, so that a few rows in a hundred miss the nearest list at first; they follow in the next
    passes.
    """

    def __init__(self, rows: np.ndarray, labels: np.ndarray, each: Callable[..., Iterable]) -> None:
        self.rows, self.labels, self._each = rows, labels, each
        self._window = max(CHUNK, _WINDOW_VALUES // rows.shape[1] // CHUNK * CHUNK)

    def run(
        self,
        centroids: np.ndarray,
        spherical: bool,
        labels: np.ndarray | None = None,
        advance: Advance = ignore_progress,
    ) -> Pass:
        """Go through all rows; the result does not depend on the number of threads."""
        k = len(centroids)
        table = NearestTable(centroids, spherical)
        blocks = self._each(lambda start: table.ranked(start, start + _BLOCK, NEAR), range(0, k, _BLOCK))
        near = np.concatenate(list(blocks))

        def part(numbers: np.ndarray) -> PartialSums:
            rows = self.rows.take(numbers, axis=0)
            found = self._nearest(rows, self.labels[numbers], table, near)
            self.labels[numbers] = found
            return partial_sums(rows, found, k)

        found = total(self._each(part, self._parts(k)), centroids.shape, advance)
        if labels is not None:
            labels[:] = self.labels
        return found

    def _parts(self, k: int) -> Iterable[np.ndarray]:
        """Numbers of rows, window by window, each window in the order of the lists."""
        for start in range(0, len(self.rows), self._window):
            order = start + order_of(self.labels[start : start + self._window], k)
            yield from np.split(order, range(CHUNK, len(order), CHUNK))

    @staticmethod
    def _nearest(rows: np.ndarray, lists: np.ndarray, table: NearestTable, near: np.ndarray) -> np.ndarray:
        """Return the nearest of the lists near theirs; rows in the order of their lists share those."""
        found = np.empty(len(rows), np.int32)
        extended = table.extended(rows)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            here = lists[part]
            some = np.unique(near[here[np.flatnonzero(np.diff(here, prepend=-1))]])
            products = extended[part] @ table.rows.take(some, axis=0).T
            found[part] = some[products.argmax(axis=1)]
        return found


class Faiss(Cpu):
    """faiss.Kmeans makes the passes; the CPU does the rest, such as the sizes of the lists."""

    def __init__(self, threads: int) -> None:
        try:
            self._faiss: Any = import_module("faiss")
        except ImportError:
            raise ClusteringError(
                "device 'faiss' needs faiss, which is missing: pip install faiss-cpu"
            ) from None
        super().__init__(threads)
        self.label = f"faiss {self._faiss.__version__}, {threads} thread{'s' * (threads > 1)}"

    def train(
        self, rows: np.ndarray, k: int, passes: int, spherical: bool, seed: int
    ) -> tuple[np.ndarray, list[float]]:
        """Return the centroids, and the inertia at the beginning of each pass, as faiss computes it."""
        kmeans = self._faiss.Kmeans(
            rows.shape[1], k, niter=passes, spherical=spherical, seed=seed + 1,
            min_points_per_centroid=1, max_points_per_centroid=len(rows) // k + 1,
        )  # fmt: skip
        with threadpool_limits(self.threads):
            kmeans.train(rows)
        history = kmeans.obj / len(rows)
        if spherical:  # faiss adds up inner products
            squares = sum(float(np.vdot(part, part)) for part in np.array_split(rows, len(rows) // 8192 + 1))
            history = squares / len(rows) - 2 * history + 1
        return np.ascontiguousarray(kmeans.centroids, np.float32), history.tolist()
