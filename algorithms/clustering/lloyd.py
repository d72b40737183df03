"""Lloyd's k-means: passes that each put every centroid to the mean of its list."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .distinct import normalized
from .passes import Held, nothing
from .seeding import seeds

# Passes end when one lessens the inertia by less than this share.
ENOUGH = 1e-3
_ROUNDS_OF_FILLING = 12


class Lists(NamedTuple):
    """Centroids, (k, dimension) float32, the rows of each list, (k,) int64, and the mean squared distance."""

    centroids: np.ndarray
    counts: np.ndarray
    inertia: float


@dataclass(frozen=True)
class KMeans:
    """How lists are improved; `seed` is of what is random in it, and a pass's number is added."""

    spherical: bool
    seed: tuple[int, ...]

    def improve(
        self,
        held: Held,
        centroids: np.ndarray,
        number: int,
        labels: np.ndarray | None = None,
        advance: Callable[[int], object] = nothing,
    ) -> Lists:
        """Make one pass; what a list without rows gets is a row far from its centroid, and its count is 0.

        `labels`, (n,) int32, is filled with the number of each row's list.
        """
        found = held.run(centroids, self.spherical, labels, advance)
        means = found.means(centroids, self.spherical)
        inertia = found.inertia(means)
        return Lists(self._seeded(held, means, found.counts, number), found.counts, inertia)

    def measure(self, held: Held, centroids: np.ndarray) -> Lists:
        """Make a pass that leaves the centroids where they are."""
        found = held.run(centroids, self.spherical)
        return Lists(centroids, found.counts, found.inertia(centroids))

    def fill(self, held: Held, lists: Lists, number: int = 0) -> Lists:
        """Give rows to the lists that have none, until all have or no more rows can be told apart."""
        for turn in range(_ROUNDS_OF_FILLING):
            if lists.counts.all():
                break
            lists = self.measure(held, self._seeded(held, *lists[:2], number + turn))
        return lists

    def _seeded(self, held: Held, centroids: np.ndarray, counts: np.ndarray, number: int) -> np.ndarray:
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            rng = np.random.default_rng([*self.seed, number])
            new = seeds(held.rows, centroids[counts > 0], len(empty), self.spherical, rng)
            centroids = centroids.copy()
            centroids[empty[: len(new)]] = new
        return centroids

    def train(self, held: Held, k: int, passes: int) -> Lists:
        """Begin at random rows, and make so many passes at most; fewer lists where rows are too alike."""
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


def is_finished(history: list[float], enough: float = ENOUGH) -> bool:
    """Whether the last pass has changed so little that another is not worth its time."""
    return len(history) > 1 and history[-2] - history[-1] <= enough * history[-2]
