"""New places for lists that have no rows."""

import numpy as np

from .distinct import hashes, normalized
from .nearest import Table

_BLOCK = 8192
_ROWS_A_SEED = 16
_LEAST_ROWS = 4096
# What float32 products can tell apart: a squared distance, relative to the vector's squared length.
_LEAST_GAP = 1e-6


def seeds(
    rows: np.ndarray, centroids: np.ndarray, count: int, spherical: bool, rng: np.random.Generator
) -> np.ndarray:
    """Return up to `count` different rows that are at no centroid, (some, dimension) float32.

    A row is drawn with a probability in proportion to its squared distance from the nearest centroid, as by
    k-means++ (Arthur and Vassilvitskii, 2007), out of some of the rows first, and of all if those do not do.
    """
    for among in (max(_LEAST_ROWS, _ROWS_A_SEED * count), len(rows)):
        if among < len(rows):
            numbers = np.sort(rng.choice(len(rows), among, replace=False))
        else:
            numbers = np.arange(len(rows))
        found = _seeds(rows, numbers, centroids, count, spherical, rng)
        if len(found) == count or len(numbers) == len(rows):
            break
    return found


def _seeds(
    rows: np.ndarray,
    numbers: np.ndarray,
    centroids: np.ndarray,
    count: int,
    spherical: bool,
    rng: np.random.Generator,
) -> np.ndarray:
    table = Table(centroids, spherical)
    gaps = np.empty(len(numbers), np.float32)
    hashed = np.empty(len(numbers), np.uint64)
    for start in range(0, len(numbers), _BLOCK):
        part = rows[numbers[start : start + _BLOCK]]
        hashed[start : start + len(part)] = hashes(part, spherical)
        nearest = centroids[table.nearest(part)]
        if spherical:
            part = normalized(part)
        gap = ((part - nearest) ** 2).sum(axis=1)
        told_apart = gap > _LEAST_GAP * np.maximum((part**2).sum(axis=1), (nearest**2).sum(axis=1))
        gaps[start : start + len(part)] = np.where(told_apart, gap, 0)
    _, first = np.unique(hashed, return_index=True)
    first = first[gaps[first] > 0]
    # The least of exponentially distributed numbers with these rates: a draw without replacement.
    keys = rng.standard_exponential(len(first)) / gaps[first]
    chosen = rows[numbers[np.sort(first[np.argsort(keys, kind="stable")[:count]])]]
    return normalized(chosen) if spherical else chosen
