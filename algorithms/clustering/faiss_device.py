"""The k-means of faiss."""

from importlib import import_module
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .cpu import Cpu
from .errors import ClusteringError


class Faiss(Cpu):
    """faiss.Kmeans for the passes; what is left, as the sizes of the lists, is the CPU's work."""

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
        """Return the centroids, and the inertia at the beginning of each pass, as faiss counts it."""
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
