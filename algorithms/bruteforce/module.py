"""Exact search: every query is compared with every vector."""

import numpy as np

from ..base.module import BaseANN


class ExactScan(BaseANN):
    """Exact scan with NumPy: slow and without error, as a reference for other algorithms."""

    clients_by = "processes"

    def __init__(self, metric: str) -> None:
        """Take one of euclidean, angular and ip."""
        if metric not in ("euclidean", "angular", "ip"):
            raise NotImplementedError(f"ExactScan has no metric '{metric}'")
        self._metric = metric
        self.name = f"ExactScan({metric})"

    def fit(self, X: np.ndarray) -> None:
        """Keep the vectors, (n, dimension), and what each one's norm contributes to a score."""
        self._vectors = np.ascontiguousarray(X, dtype=np.float32)
        squares = np.einsum("ij,ij->i", self._vectors, self._vectors)
        self._half_squares = squares / 2
        self._norms = np.sqrt(squares)
        self._norms[squares == 0] = 1

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        """Return the n nearest; corrected for the norms, inner products sort as the distances do."""
        scores = self._vectors @ q
        if self._metric == "euclidean":  # |x - q|² = |q|² - 2 (x·q - |x|²/2)
            scores -= self._half_squares
        elif self._metric == "angular":
            scores /= self._norms
        n = min(n, len(scores))
        best = np.argpartition(scores, len(scores) - n)[len(scores) - n :]
        return best[np.argsort(-scores[best])]
