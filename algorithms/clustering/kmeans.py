"""K-means by Lloyd's passes, in which a list without rows gets a new place.

Each pass moves every centroid to the mean of its list.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .devices import Advance, HeldRows, NearestTable

# Passes end when one reduces the inertia by less than this share.
ENOUGH = 1e-3
_ROUNDS_OF_FILLING = 12
_ROWS_A_SEED = 16  # among which a seed is looked for, at first
_LEAST_ROWS = 4096
_BLOCK = 8192
# What float32 products can distinguish: a squared distance, relative to the vector's squared length.
_LEAST_GAP = 1e-6


class Lists(NamedTuple):
    """Centroids, (k, dimension) float32, the rows of each list, (k,) int64, and the mean squared distance."""

    centroids: np.ndarray
    counts: np.ndarray
    inertia: float


@dataclass(frozen=True)
class KMeans:
    """How lists are improved; the random numbers of a pass follow from `seed` and the pass's number."""

    spherical: bool
    seed: tuple[int, ...]

    def improve(
        self, held: HeldRows, centroids: np.ndarray, number: int, advance: Advance = lambda rows: None
    ) -> Lists:
        """Make one pass; a list without rows moves to a row far from its centroid, and has a count of 0."""
        found = held.run(centroids, self.spherical, advance=advance)
        means = found.means(centroids, self.spherical)
        inertia = found.inertia(means)
        return Lists(self._seeded(held, means, found.counts, number), found.counts, inertia)

    def measure(self, held: HeldRows, centroids: np.ndarray) -> Lists:
        """Make a pass that leaves the centroids where they are."""
        found = held.run(centroids, self.spherical)
        return Lists(centroids, found.counts, found.inertia(centroids))

    def fill(self, held: HeldRows, lists: Lists, number: int = 0) -> Lists:
        """Give rows to the lists that have none, until all have or no more rows can be distinguished."""
        for turn in range(_ROUNDS_OF_FILLING):
            if lists.counts.all():
                break
            lists = self.measure(held, self._seeded(held, *lists[:2], number + turn))
        return lists

    def train(self, held: HeldRows, k: int, passes: int) -> Lists:
        """Start from random rows, and make at most `passes` passes; rows too alike give fewer lists."""
        rng = np.random.default_rng([*self.seed, 0])
        centroids = held.rows[np.sort(rng.choice(len(held.rows), k, replace=False))]
        if self.spherical:
            centroids = normalized(centroids)
        lists = Lists(centroids, np.zeros(k, np.int64), np.inf)
        history: list[float] = []
        while len(history) < passes and not (is_finished(history) and lists.counts.all()):
            lists = self.improve(held, lists.centroids, len(history) + 1)
            history.append(lists.inertia)
        if not history:
            lists = self.measure(held, centroids)
        centroids, counts, inertia = self.fill(held, lists, passes + 1)
        return Lists(centroids[counts > 0], counts[counts > 0], inertia)

    def _seeded(self, held: HeldRows, centroids: np.ndarray, counts: np.ndarray, number: int) -> np.ndarray:
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            rng = np.random.default_rng([*self.seed, number])
            new = seeds(held.rows, centroids[counts > 0], len(empty), self.spherical, rng)
            centroids = centroids.copy()
            centroids[empty[: len(new)]] = new
        return centroids


def shares(k: int, counts: np.ndarray) -> np.ndarray:
    """Share k lists among groups of these sizes.

    Each group gets one, and the rest go in proportion to the sizes; no group gets more lists than rows.
    """
    exact = (k - np.count_nonzero(counts)) * counts / counts.sum()
    lists = np.minimum((counts > 0) + np.floor(exact).astype(np.int64), counts)
    while missing := k - int(lists.sum()):
        next_ones = np.argsort(np.where(lists < counts, lists - exact, np.inf), kind="stable")
        lists[next_ones[: min(missing, np.count_nonzero(lists < counts))]] += 1
    return lists


def is_finished(history: list[float]) -> bool:
    """Whether the last pass has changed so little that another is not worth its time."""
    return len(history) > 1 and history[-2] - history[-1] <= ENOUGH * history[-2]


def seeds(
    rows: np.ndarray, centroids: np.ndarray, count: int, spherical: bool, rng: np.random.Generator
) -> np.ndarray:
    """Return up to `count` different rows that are at no centroid, (n, dimension) float32.

    A row is drawn with a probability in proportion to its squared distance from the nearest centroid, as by
    k-means++ (Arthur and Vassilvitskii, 2007): first from some of the rows, then from all if too few are
    found. Equal rows that are drawn together count once; none only where no row is left.
    """
    table = NearestTable(centroids, spherical)
    for among in (max(_LEAST_ROWS, _ROWS_A_SEED * count), len(rows)):
        numbers = np.sort(rng.choice(len(rows), min(among, len(rows)), replace=False))
        gaps = np.empty(len(numbers), np.float32)
        for start in range(0, len(numbers), _BLOCK):
            block = rows[numbers[start : start + _BLOCK]]
            gaps[start : start + _BLOCK] = _gaps(block, centroids[table.nearest(block)], spherical)
        far = np.flatnonzero(gaps)
        # The least of exponentially distributed numbers with these rates: a draw without replacement.
        keys = rng.standard_exponential(len(far)) / gaps[far]
        chosen = rows[numbers[np.sort(far[np.argsort(keys, kind="stable")[:count]])]]
        if spherical:
            chosen = normalized(chosen)
        _, first = np.unique(chosen.round(5) if spherical else chosen, axis=0, return_index=True)
        if len(first) == count:
            break
    return chosen[np.sort(first)]


def _gaps(rows: np.ndarray, nearest: np.ndarray, spherical: bool) -> np.ndarray:
    """Squared distance of each row from its nearest centroid, 0 where they cannot be distinguished."""
    rows = normalized(rows) if spherical else rows
    gaps = ((rows - nearest) ** 2).sum(axis=1)
    least = _LEAST_GAP * np.maximum((rows**2).sum(axis=1), (nearest**2).sum(axis=1))
    return np.where(gaps > least, gaps, 0)


def normalized(vectors: np.ndarray) -> np.ndarray:
    """Return vectors of length 1; those of length 0 stay as they are."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1), vectors.dtype)
