"""A pass's arithmetic on the CPU: the nearest centroid of each row, and the sums of each list's rows."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .device import Advance, Pass

TILE_LISTS = 512
TILE_VALUES = 2**18  # of a product in float32: 1 MiB, which stays in the cache
MOST_ROWS = 4096
CHUNK = 8192  # rows whose sums are made at a time


class NearestTable:
    """Centroids, (k, dimension) float32, prepared for the comparison with rows by matrix products.

    |x - c|² is least where x·c - |c|²/2 is largest. The second term is an additional column, which meets a
    column of ones of the rows. `rows`: (k, dimension or one more).
    """

    def __init__(self, centroids: np.ndarray, spherical: bool) -> None:
        k, self._dimension = centroids.shape
        self.rows = np.empty((k, self._dimension + (not spherical)), np.float32)
        self.rows[:, : self._dimension] = centroids
        if not spherical:
            exact = centroids.astype(np.float64)
            self.rows[:, -1] = np.einsum("ij,ij->i", exact, exact) / -2
        self._tiles = [self.rows[start : start + TILE_LISTS].T for start in range(0, k, TILE_LISTS)]
        self._width = self._tiles[0].shape[1]
        self._rows_at_once = max(64, min(MOST_ROWS, TILE_VALUES // self._width))

    def extended(self, rows: np.ndarray) -> np.ndarray:
        """Return rows, (n, dimension), with the column of ones that the centroids need."""
        if self.rows.shape[1] == self._dimension:
            return rows
        extended = np.ones((len(rows), self.rows.shape[1]), np.float32)
        extended[:, :-1] = rows
        return extended

    def nearest(self, rows: np.ndarray) -> np.ndarray:
        """Number of the nearest centroid of each row, (n,) int32; the first of those equally near."""
        labels = np.empty(len(rows), np.int32)
        scores = np.empty(min(self._rows_at_once, len(rows)) * self._width, np.float32)
        for start in range(0, len(rows), self._rows_at_once):
            part = slice(start, start + self._rows_at_once)
            labels[part] = self._nearest(self.extended(rows[part]), scores)
        return labels

    def ranked(self, start: int, stop: int, count: int) -> np.ndarray:
        """Numbers of the `count` centroids nearest to each centroid from `start` to `stop`, in no order."""
        scores = self.extended(self.rows[start:stop, : self._dimension]) @ self.rows.T
        if count >= len(self.rows):
            return np.broadcast_to(np.arange(len(self.rows)), scores.shape)
        return np.argpartition(scores, -count, axis=1)[:, -count:]

    def _nearest(self, rows: np.ndarray, scores: np.ndarray) -> np.ndarray:
        best: np.ndarray = np.empty(0)
        labels: np.ndarray = best
        for number, tile in enumerate(self._tiles):
            width = tile.shape[1]
            product = np.matmul(rows, tile, out=scores[: len(rows) * width].reshape(len(rows), width))
            found = product.argmax(axis=1)
            if len(self._tiles) == 1:
                return found
            score = np.take_along_axis(product, found[:, np.newaxis], axis=1)[:, 0]
            if number == 0:
                best, labels = score, found
            else:
                nearer = score > best
                best = np.where(nearer, score, best)
                labels = np.where(nearer, found + number * TILE_LISTS, labels)
        return labels


class PartialSums(NamedTuple):
    """What some rows contribute to the lists they belong to: `lists` are the numbers of those lists."""

    rows: int
    lists: np.ndarray
    sums: np.ndarray
    counts: np.ndarray
    squares: float


def partial_sums(rows: np.ndarray, labels: np.ndarray, k: int) -> PartialSums:
    """Add up the rows, (n, dimension) float32, of each label; labels are below k."""
    order = order_of(labels, k)
    lists = labels[order]
    firsts = np.flatnonzero(np.diff(lists, prepend=-1))
    sums = np.add.reduceat(rows.take(order, axis=0), firsts, axis=0)
    flat = rows.reshape(-1)
    counts = np.diff(firsts, append=len(rows))
    return PartialSums(len(rows), lists[firsts], sums, counts, float(np.dot(flat, flat)))


def order_of(labels: np.ndarray, k: int) -> np.ndarray:
    """Return the numbers of rows in the order of their labels, which are below k."""
    # NumPy sorts two bytes several times as fast as four.
    return np.argsort(labels.astype(np.uint16) if k <= 2**16 else labels, kind="stable")


def total(parts: Iterable[PartialSums], shape: tuple[int, ...], advance: Advance) -> Pass:
    """Add up the parts in their order, for centroids of this shape."""
    sums = np.zeros(shape)
    counts = np.zeros(len(sums), np.int64)
    squares = 0.0
    for part in parts:
        sums[part.lists] += part.sums
        counts[part.lists] += part.counts
        squares += part.squares
        advance(part.rows)
    return Pass(sums, counts, squares)
