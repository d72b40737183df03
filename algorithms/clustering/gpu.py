"""Passes on a GPU, in batches as large as its memory allows; the same for all libraries."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .device import Advance, Device, HeldRows, Pass, ignore_progress
from .libraries import Arrays
from .settings import ClusteringError

LEAST_BATCH = 64  # rows
_MOST_BATCH = 2**18
_MOST_PRODUCTS = 2**30  # of a batch; more make a GPU no faster
_SHARE_FOR_ROWS = 0.6  # of the memory, up to which all rows are kept there
_SHARE_FOR_BATCH = 0.8  # of what is left


class Gpu(Device):
    """A GPU that one of the libraries drives; it takes `limit` bytes of memory, or what is free."""

    def __init__(self, arrays: Arrays, limit: int | None) -> None:
        self.arrays, self.limit, self.label = arrays, limit, arrays.label

    def room(self) -> int:
        """Bytes that may be taken now."""
        free = self.arrays.free_bytes()
        return free if self.limit is None else min(free, self.limit)

    def hold(self, rows: np.ndarray) -> HeldRows:
        """Copy all rows to the GPU if they fit well; otherwise each pass sends them anew."""
        return GpuRows(self, rows)


class GpuRows:
    """Rows on the GPU, or sent to it in batches."""

    def __init__(self, gpu: Gpu, rows: np.ndarray) -> None:
        self.gpu, self.rows = gpu, rows
        self._there: Any = None
        self.batch_rows = self._most = _MOST_BATCH  # rows of the last batch, and of any
        if rows.nbytes <= gpu.room() * _SHARE_FOR_ROWS:
            try:
                self._there = gpu.arrays.send(rows)
            except Exception as error:
                if not gpu.arrays.is_out_of_memory(error):
                    raise
                gpu.arrays.release()

    def run(
        self,
        centroids: np.ndarray,
        spherical: bool,
        labels: np.ndarray | None = None,
        advance: Advance = ignore_progress,
    ) -> Pass:
        """Go through all rows; repeat the pass in smaller batches if memory runs out."""
        done = 0

        def report(rows: int) -> None:
            nonlocal done
            advance(rows)
            done += rows

        while True:
            try:
                return self._run(centroids, spherical, labels, report)
            except Exception as error:
                if not self.gpu.arrays.is_out_of_memory(error):
                    raise
            advance(-done)
            done = 0
            self._take_less()

    def _take_less(self) -> None:
        self.gpu.arrays.release()
        if self.batch_rows > LEAST_BATCH:
            self.batch_rows = self._most = max(LEAST_BATCH, min(self.batch_rows, len(self.rows)) // 2)
        elif self._there is not None:
            self._there, self.batch_rows, self._most = None, _MOST_BATCH, _MOST_BATCH
            self.gpu.arrays.release()
        else:
            raise ClusteringError(
                f"{self.gpu.label} has run out of memory: {self.gpu.room() / 2**20:,.0f} MB are free, too "
                f"few for {LEAST_BATCH} rows at a time; end other programs on it, give fewer lists or use "
                "device cpu"
            )

    def _run(
        self, centroids: np.ndarray, spherical: bool, labels: np.ndarray | None, advance: Advance
    ) -> Pass:
        arrays = self.gpu.arrays
        k, dimension = centroids.shape
        exact = centroids.astype(np.float64)
        halves = np.einsum("ij,ij->i", exact, exact) / 2
        table = arrays.send(centroids)
        half_squares = None if spherical else arrays.send(halves.astype(np.float32))
        sums = arrays.zeros(k, dimension + 1)
        squares = 0.0
        self.batch_rows = self._batch(k, dimension)
        for start, batch in self._batches(self.batch_rows):
            found = arrays.best(arrays.scores(batch, table, half_squares))
            arrays.add(sums, found, batch)
            squares += arrays.squares(batch)
            if labels is not None:
                labels[start : start + len(batch)] = arrays.fetch(found)
            advance(len(batch))
        result = arrays.fetch(sums)
        return Pass(result[:, :dimension], np.rint(result[:, dimension]).astype(np.int64), float(squares))

    def _batch(self, k: int, dimension: int) -> int:
        """How many rows have room for their products, and for themselves in float32 and float64."""
        room = self.gpu.room() * _SHARE_FOR_BATCH - 20 * k * (dimension + 1)
        fitting = int(room) // (4 * k + 16 * dimension + 32)
        return max(LEAST_BATCH, min(fitting, self._most, len(self.rows), _MOST_PRODUCTS // k))

    def _batches(self, size: int) -> Iterator[tuple[int, Any]]:
        starts = range(0, len(self.rows), size)
        if self._there is not None:
            for start in starts:
                yield start, self._there[start : start + size]
            return
        send = self.gpu.arrays.sender(size, self.rows.shape[1])
        for start in starts:
            yield start, send(self.rows[start : start + size])
