"""Sparse vectors of numbers in memory, and their distances in float64."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError

SPARSE_METRICS = ("euclidean", "angular", "ip", "manhattan")


@dataclass(frozen=True, eq=False)
class SparseVectors:
    """Rows of which only some values are not 0, in compressed form (CSR).

    The attributes are named as those of scipy.sparse.csr_matrix: row i has the values `data` (float32) at the
    places `indices` (int32, ascending) from `indptr[i]` to `indptr[i + 1]` (int64). One row is such an
    object of one row.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    dimension: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        return len(self.indptr) - 1, self.dimension

    @property
    def counts(self) -> np.ndarray:
        """How many values of each row are stored, (rows,)."""
        return np.diff(self.indptr)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __iter__(self) -> Iterator["SparseVectors"]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, key: Any) -> "SparseVectors":
        """Return rows by a number, a slice or an array of numbers; the first two share the memory."""
        if isinstance(key, int | np.integer):
            row = range(len(self))[int(key)]
            key = slice(row, row + 1)
        if isinstance(key, slice) and key.step in (None, 1):
            start, stop, _ = key.indices(len(self))
            first, last = int(self.indptr[start]), int(self.indptr[max(start, stop)])
            indptr = self.indptr[start : max(start, stop) + 1] - first
            return SparseVectors(indptr, self.indices[first:last], self.data[first:last], self.dimension)
        return joined([self[int(row)] for row in np.arange(len(self))[key]], self.dimension)

    def copy(self) -> "SparseVectors":
        """Return the same in memory of its own."""
        return SparseVectors(self.indptr.copy(), self.indices.copy(), self.data.copy(), self.dimension)

    @property
    def row_numbers(self) -> np.ndarray:
        """The row of each stored value."""
        return np.repeat(np.arange(len(self)), self.counts)


def joined(parts: Sequence[SparseVectors], dimension: int) -> SparseVectors:
    """Return all rows of the parts, one after the other."""
    counts = [part.counts for part in parts]
    return SparseVectors(
        np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate([np.empty(0, np.int64), *counts]))]),
        np.concatenate([np.empty(0, np.int32), *(part.indices for part in parts)]),
        np.concatenate([np.empty(0, np.float32), *(part.data for part in parts)]),
        dimension,
    )


class SparseQuery:
    """One query, to be compared with many rows."""

    def __init__(self, query: SparseVectors) -> None:
        self.indices, self.values = query.indices, query.data.astype(np.float64)

    def distances(self, metric: str, rows: SparseVectors) -> np.ndarray:
        """Return the distance to each row, (rows,) float64; sums go through the places in ascending order.

        A row's result depends on that row only. Vectors without direction have the angular distance 1.
        """
        if metric not in SPARSE_METRICS:
            raise UserError(f"sparse vectors have no metric '{metric}'; use {', '.join(SPARSE_METRICS)}")
        row, count, own = rows.row_numbers, len(rows), rows.data.astype(np.float64)
        place = np.searchsorted(self.indices, rows.indices)
        is_shared = np.append(self.indices, -1)[place] == rows.indices
        there = np.where(is_shared, np.append(self.values, 0.0)[place], 0.0)
        if metric in ("euclidean", "manhattan"):
            # What the row stores, then what only the query has: nothing is taken from a larger sum.
            shared = np.zeros((count, len(self.indices)), bool)
            shared[row[is_shared], place[is_shared]] = True
            alone, places = np.nonzero(~shared)
            power = 2 if metric == "euclidean" else 1
            sums = _sums(row, np.abs(there - own) ** power, count)
            sums += _sums(alone, np.abs(self.values[places]) ** power, count)
            return np.sqrt(sums) if metric == "euclidean" else sums
        dots = _sums(row, there * own, count)
        if metric == "ip":
            return -dots
        square = _sums(np.zeros(len(self.values), int), self.values**2, 1)
        lengths = np.sqrt(square) * np.sqrt(_sums(row, own**2, count))
        return 1.0 - np.divide(dots, lengths, out=np.zeros(count), where=lengths > 0)


def _sums(row: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """Add up the values of each row, (count,) float64, also of a row without any."""
    return np.bincount(row, values, count).astype(np.float64, copy=False)


def sparse_candidate_distances(
    metric: str, queries: SparseVectors, train: Any, neighbors: np.ndarray
) -> np.ndarray:
    """Distances of each query to the rows of `train` named for it: (n_queries, k) float64, inf for -1."""
    distances = np.full(neighbors.shape, np.inf)
    for number, found in enumerate(neighbors):
        if (there := found >= 0).any():
            distances[number, there] = SparseQuery(queries[number]).distances(metric, train[found[there]])
    return distances
