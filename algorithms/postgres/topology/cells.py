"""Cells: the parts of space around some centroids, and rows spread over places, such as servers, by them."""

import math
from typing import Any

import numpy as np
from tqdm import tqdm

from ...clustering.clustering import cluster
from ...clustering.kmeans import every_block
from ...clustering.settings import METRICS, ClusteringError, Settings

ROOM = 1.25  # times the mean number of rows, which no place has more of
SAMPLE_OF_A_CELL = 256
LEAST_SAMPLE = 1 << 16  # rows: the fewer the cells, the more each of them matters
FORM = 2  # changes when rows that an earlier version has spread cannot be found again


class Cells:
    """Centroids, (count, dimension) float32.

    `spherical`: they have a length of 1, and the nearest is that with the largest inner product.
    """

    def __init__(self, centroids: np.ndarray, spherical: bool) -> None:
        self.centroids, self.spherical = np.ascontiguousarray(centroids, np.float32), spherical
        exact = self.centroids.astype(np.float64)
        # Around their mean: far from the origin, float32 would round away what distances differ by.
        self._origin = (exact.mean(axis=0) * (not spherical)).astype(np.float32)
        exact -= self._origin
        self._around = exact.astype(np.float32)
        self._halves = (np.einsum("ij,ij->i", exact, exact) / 2 * (not spherical)).astype(np.float32)

    def __len__(self) -> int:
        return len(self.centroids)

    def distances(self, vectors: np.ndarray) -> np.ndarray:
        """Return how far vectors, (n, dimension), are from the centroids, to compare those of a vector.

        It is (n, count): minus the inner product, or half of what the squared distances differ by.
        """
        found: np.ndarray = self._halves - (vectors - self._origin) @ self._around.T
        return found

    def nearest(self, vector: np.ndarray, count: int) -> list[int]:
        """Return the numbers of the `count` cells nearest to a vector, (dimension,) float32, in any order.

        A client does this for each query that it sends. BLAS might start threads for it.
        """
        if count >= len(self):
            return list(range(len(self)))
        distances = self._halves - np.einsum("ij,j->i", self._around, vector - self._origin)
        nearest: list[int] = np.argpartition(distances, count - 1)[:count].tolist()
        return nearest


def find_cells(rows: Any, count: int, metric: str) -> Cells:
    """Find this number of cells of rows, (n, dimension), by k-means of a sample; raises ClusteringError.

    With ip, as with angular, the direction of a row decides: the length of a query changes no neighbour.
    """
    if metric not in METRICS:
        raise ClusteringError(f"the metric of cells must be one of {', '.join(METRICS)}, and not {metric}")
    factor, spherical = max(SAMPLE_OF_A_CELL, math.ceil(LEAST_SAMPLE / count)), metric != "euclidean"
    settings = Settings([count], spherical, metric == "angular", sampling_factor=factor)
    return Cells(cluster(rows, settings).centroids, spherical)


def spread(rows: Any, cells: Cells, room: float = ROOM) -> np.ndarray:
    """Return the number of each row's cell, (n,) uint8, or uint16 where there are more than 256 cells.

    Rows are taken in their order, a block at a time: those that come first have the nearest cell. None has
    more than `room` times the mean number of rows; once it is full, the others of its rows go to the next
    one. Raises ClusteringError for a row that is not finite, and for less room than there are rows.
    """
    n, count = rows.shape[0], len(cells)
    if room < 1:
        raise ClusteringError(f"room must be at least 1, to have a place for each row, and not {room:g}")
    left = np.full(count, math.ceil(room * n / count))
    places = np.empty(n, np.uint8 if count <= 256 else np.uint16)
    done = 0
    with tqdm(
        total=n, desc="cells of rows", unit=" rows", unit_scale=True, disable=None, delay=1, leave=False
    ) as bar:
        for block in every_block(rows):
            far = cells.distances(block)
            while len(far):
                free = np.flatnonzero(left)
                nearest = free[far[:, free].argmin(axis=1)]
                fitting = _fitting(nearest, left)
                places[done : done + fitting] = nearest[:fitting]
                left -= np.bincount(nearest[:fitting], minlength=count)
                done += fitting
                far = far[fitting:]
            bar.update(len(block))
    return places


def _fitting(nearest: np.ndarray, left: np.ndarray) -> int:
    """Return how many of the first rows find room where they are nearest, before a place becomes too full."""
    over = np.flatnonzero(np.bincount(nearest, minlength=len(left)) > left)
    return min((int(np.flatnonzero(nearest == place)[left[place]]) for place in over), default=len(nearest))
