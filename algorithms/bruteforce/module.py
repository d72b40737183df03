"""Exact search: every query is compared with every vector, or with every one that passes its filter."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base.module import BaseANN

FEW = 0.1  # share of the vectors, below which those that pass a filter are copied to be compared alone
MOST_FILTERS = 64  # matching rows are kept for this many filters
_HOLDS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class ExactScan(BaseANN):
    """Exact scan with NumPy: slow and without error, as a reference for other algorithms."""

    precision: Any = np.float32

    def __init__(self, metric: str) -> None:
        """Take one of euclidean, angular and ip."""
        if metric not in ("euclidean", "angular", "ip"):
            raise NotImplementedError(f"ExactScan has no metric '{metric}'")
        self._metric = metric
        self.name = f"ExactScan({metric})"

    def fit(self, X: np.ndarray) -> None:
        """Keep the vectors, (n, dimension), and what each one's norm contributes to a score."""
        self._vectors = np.ascontiguousarray(X, dtype=self.precision)
        squares = np.einsum("ij,ij->i", self._vectors, self._vectors)
        self._half_squares = squares / 2
        self._norms = np.sqrt(squares)
        self._norms[squares == 0] = 1

    def search_range(self, count: int) -> None:
        """Every query is exact: no argument is searched."""

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        """Return the n nearest; corrected for the norms, inner products sort as the distances do."""
        return _highest(self._scores(q, slice(None)), n)

    def set_row_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Take the attributes of all rows, by name, and forget the rows of filters on others."""
        self._attributes = attributes
        self._passing: dict[Any, np.ndarray] = {}

    def filtered_query(self, q: np.ndarray, filter: Any, n: int) -> np.ndarray:
        """Return the n nearest of the rows that pass a filter."""
        rows = self._rows_passing(filter)
        if len(rows) < FEW * len(self._vectors):
            return rows[_highest(self._scores(q, rows), n)]
        return rows[_highest(self._scores(q, slice(None))[rows], n)]

    def _scores(self, q: np.ndarray, rows: Any) -> np.ndarray:
        """Return what is higher for nearer rows, of those chosen by a slice or by their numbers."""
        scores: np.ndarray = self._vectors[rows] @ q
        if self._metric == "euclidean":  # |x - q|² = |q|² - 2 (x·q - |x|²/2)
            scores -= self._half_squares[rows]
        elif self._metric == "angular":
            scores /= self._norms[rows]
        return scores

    def _rows_passing(self, filter: Any) -> np.ndarray:
        """Return the numbers of the rows that pass a filter, ascending."""
        rows = self._passing.get(filter)
        if rows is None:
            passes = np.ones(len(self._vectors), dtype=bool)
            for predicate in filter.predicates:
                passes &= _holds(self._attributes[predicate.column], predicate)
            rows = np.flatnonzero(passes)
            if len(self._passing) < MOST_FILTERS:
                self._passing[filter] = rows
        return rows


def _highest(scores: np.ndarray, n: int) -> np.ndarray:
    """Return the places of the n highest scores, the highest first."""
    n = min(n, len(scores))
    if not n:
        return np.empty(0, dtype=np.int64)
    best = np.argpartition(scores, len(scores) - n)[len(scores) - n :]
    return best[np.argsort(-scores[best])]


def _holds(attribute: Any, predicate: Any) -> np.ndarray:
    """Return for each row whether a predicate holds, (rows,)."""
    value = predicate.value
    if attribute.ends is None:
        if predicate.operator == "in":
            return np.isin(attribute.values, np.array(value, dtype=attribute.values.dtype))
        return np.asarray(_HOLDS[predicate.operator](attribute.values, value), dtype=bool)
    sizes = np.diff(attribute.ends, prepend=0)
    row_of = np.repeat(np.arange(len(sizes)), sizes)
    found = [np.bincount(row_of[attribute.values == label], minlength=len(sizes)) > 0 for label in value]
    of_any = predicate.operator == "in"
    return np.asarray(np.any(found, axis=0) if of_any else np.all(found, axis=0))


class BruteForceBLAS(ExactScan):
    """Exact scan that returns distances: ann-benchmarks' datasets.py makes its files with this name of here.

    Beside vectors it takes rows of bools (hamming) and sets of integers (jaccard), and no filters.
    """

    set_row_attributes: Any = None
    filtered_query: Any = None

    def __init__(self, metric: str, precision: Any = np.float32) -> None:
        """Take one of angular, euclidean, jaccard and, with bool as precision, hamming."""
        if metric not in ("angular", "euclidean", "hamming", "jaccard"):
            raise NotImplementedError(f"BruteForceBLAS has no metric '{metric}'")
        if metric == "hamming" and precision != np.bool_:
            raise NotImplementedError(f"BruteForceBLAS compares bools under hamming, not {precision}")
        super().__init__("angular" if metric == "angular" else "euclidean")  # it ranks bits like hamming
        self._of = metric
        self.precision = np.float32 if metric == "hamming" else precision
        self.name = "BruteForceBLAS()"

    def fit(self, X: Any) -> None:
        """Keep the vectors, (n, dimension), or the sets."""
        if self._of == "jaccard":
            self._sets = [frozenset(np.asarray(row).tolist()) for row in X]
        else:
            super().fit(X)

    def query(self, q: Any, n: int) -> Any:
        """Return the n nearest; sets that share nothing with the query are left out."""
        return [row for row, _ in self.query_with_distances(q, n)]

    def query_with_distances(self, q: Any, n: int) -> list[tuple[int, float]]:
        """Return the n nearest with their distances, nearest first."""
        if self._of == "jaccard":
            own = frozenset(np.asarray(q).tolist())
            distances = np.array([1 - len(own & other) / (len(own | other) or 1) for other in self._sets])
            rows = np.argsort(distances, kind="stable")[:n]
            return [(row, distances[row]) for row in rows if distances[row] < 1 - 1e-5]
        vector = np.asarray(q, dtype=self.precision)
        rows = super().query(vector, n)
        near, vector = self._vectors[rows].astype(np.float64), vector.astype(np.float64)
        if self._of == "angular":
            distances = 1 - near @ vector / self._norms[rows] / (np.linalg.norm(vector) or 1)
        else:
            squares = ((near - vector) ** 2).sum(axis=1)
            distances = squares / len(vector) if self._of == "hamming" else np.sqrt(squares)
        return list(zip(rows, distances, strict=True))
