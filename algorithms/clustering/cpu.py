"""Passes on the CPU: threads that share the rows, each with matrix products of its own."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from .device import Device
from .near import NearRows
from .nearest import Table
from .passes import Held, Pass, nothing
from .sums import CHUNK, Part, added, summed

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

    def hold(self, rows: np.ndarray) -> Held:
        """Leave the rows where they are."""
        return _CpuRows(rows, self.each)

    def hold_near(self, rows: np.ndarray, labels: np.ndarray) -> Held:
        """Leave the rows where they are."""
        return NearRows(rows, labels, self.each)

    def each(
        self, work: Callable[[_Item], _Result], items: Iterable[_Item], ahead: int = 4
    ) -> Iterator[_Result]:
        """Give the results of items in their order, while others are worked on; few of them wait."""
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
        return _OneThread()

    def close(self) -> None:
        """End the threads, and give BLAS its own back."""
        if self._pool is not None:
            self._pool.shutdown()
        self._limit.restore_original_limits()


class _OneThread(Device):
    label = "cpu, 1 thread"

    def hold(self, rows: np.ndarray) -> Held:
        return _CpuRows(rows, map)


class _CpuRows:
    def __init__(self, rows: np.ndarray, each: Callable[..., Iterable]) -> None:
        self.rows, self._each = rows, each

    def run(
        self,
        centroids: np.ndarray,
        spherical: bool,
        labels: np.ndarray | None = None,
        advance: Callable[[int], object] = nothing,
    ) -> Pass:
        """Go through all rows; what comes of it does not depend on the number of threads."""
        table = Table(centroids, spherical)

        def part(start: int) -> Part:
            rows = self.rows[start : start + CHUNK]
            found = table.nearest(rows)
            if labels is not None:
                labels[start : start + len(rows)] = found
            return summed(rows, found, len(centroids))

        return added(self._each(part, range(0, len(self.rows), CHUNK)), centroids.shape, advance)
