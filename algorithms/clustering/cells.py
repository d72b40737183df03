"""Cells: the parts of space around some centroids, and which of them a vector is near to."""

import numpy as np

METRICS = ("euclidean", "angular", "ip")  # whose near vectors lie in near cells


class Cells:
    """Centroids, (count, dimension) float32.

    `spherical`: they have a length of 1, and the nearest is that with the largest inner product.
    """

    def __init__(self, centroids: np.ndarray, spherical: bool) -> None:
        """Take the centroids."""
        self.centroids, self.spherical = np.ascontiguousarray(centroids, np.float32), spherical
        exact = self.centroids.astype(np.float64)
        halves, self._around = np.zeros(len(exact)), self.centroids
        if not spherical:
            # Around their mean: far from the origin, float32 would round away what distances differ by.
            self._origin = exact.mean(axis=0).astype(np.float32)
            exact -= self._origin
            halves, self._around = np.einsum("ij,ij->i", exact, exact) / 2, exact.astype(np.float32)
        self._halves = halves.astype(np.float32)

    def __len__(self) -> int:
        return len(self.centroids)

    def distances(self, vectors: np.ndarray) -> np.ndarray:
        """Return how far vectors, (n, dimension), are from the centroids, to compare those of a vector.

        It is (n, count): minus the inner product, or half of what the squared distances differ by.
        """
        found: np.ndarray = self._halves - self._shifted(vectors) @ self._around.T
        return found

    def nearest(self, vector: np.ndarray, count: int) -> list[int]:
        """Return the numbers of the `count` cells nearest to a vector, (dimension,) float32, in any order.

        A client does this for each query that it sends. BLAS might start threads for it.
        """
        if count >= len(self):
            return list(range(len(self)))
        distances = self._halves - np.einsum("ij,j->i", self._around, self._shifted(vector))
        nearest: list[int] = np.argpartition(distances, count - 1)[:count].tolist()
        return nearest

    def _shifted(self, vectors: np.ndarray) -> np.ndarray:
        return vectors if self.spherical else vectors - self._origin
