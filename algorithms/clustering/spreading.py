"""Rows spread over a number of places, such as servers: each has the rows of one cell, as far as it has room.

Nothing but a block of the rows is in memory, and the place of each.
"""

import math
from typing import Any

import numpy as np
from tqdm import tqdm

from .cells import METRICS, Cells
from .clustering import cluster
from .sample import every_block
from .settings import ClusteringError, Settings

ROOM = 1.25  # times the mean number of rows, which no place has more of
SAMPLE_OF_A_CELL = 256
LEAST_SAMPLE = 1 << 16  # rows: the fewer the cells, the more each of them matters
FORM = 2  # changes when the same rows are spread otherwise


def cells_of(rows: Any, count: int, metric: str, seed: int = 0) -> Cells:
    """Find this number of cells of rows, (n, dimension), by k-means of a sample; raises ClusteringError.

    With ip, as with angular, the direction of a row decides: the length of a query changes no neighbour.
    """
    if metric not in METRICS:
        raise ClusteringError(f"there are cells of {', '.join(METRICS)} distances, and not of {metric}")
    of_each = max(SAMPLE_OF_A_CELL, math.ceil(LEAST_SAMPLE / count))
    spherical = metric != "euclidean"
    settings = Settings([count], spherical, metric == "angular", sampling_factor=of_each, seed=seed)
    return Cells(cluster(rows, settings).centroids, spherical)


def spread(rows: Any, cells: Cells, room: float = ROOM) -> np.ndarray:
    """Return the number of each row's cell, (n,) uint8, or uint16 where there are more than 256 cells.

    Rows are taken in their order: those that come first have the nearest cell. None has more than `room`
    times the mean number of rows; once it is full, the others of its rows go to the next one. Raises
    ClusteringError for a row that is nowhere, and for less room than there are rows.
    """
    n, count = rows.shape[0], len(cells)
    if room < 1:
        raise ClusteringError(f"with room for {room:g} times the mean number of rows, some have no place")
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
