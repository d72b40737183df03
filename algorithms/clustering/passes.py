"""One pass over rows with given centroids: the step that every device has its own way to do."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np


class Pass(NamedTuple):
    """What a pass found, of rows that each belong to the nearest centroid.

    `sums`: (k, dimension) float64 and `counts`: (k,) int64, of the rows of each list; `squares`: the sum of
    all rows' squared lengths.
    """

    sums: np.ndarray
    counts: np.ndarray
    squares: float

    def means(self, centroids: np.ndarray, spherical: bool) -> np.ndarray:
        """Return the means of the lists, (k, dimension) float32, normalised if `spherical`.

        A list without rows, or whose rows cancel out, keeps its centroid.
        """
        scale = np.linalg.norm(self.sums, axis=1) if spherical else self.counts
        return np.where(
            scale[:, np.newaxis] > 0, self.sums / np.where(scale > 0, scale, 1)[:, np.newaxis], centroids
        ).astype(np.float32)

    def inertia(self, centroids: np.ndarray) -> float:
        """Mean squared distance of a row to the centroid, of these, that has the number of its list.

        The sum of |x - c|^2 over a list is that of |x|^2, less 2 c.s for the sum s of its rows, plus |c|^2
        for each row.
        """
        exact = centroids.astype(np.float64)
        products = np.einsum("ij,ij->", self.sums, exact)
        own = self.counts @ np.einsum("ij,ij->i", exact, exact)
        return max(0.0, float(self.squares - 2 * products + own) / int(self.counts.sum()))


def nothing(rows: int) -> None:
    """Report no progress."""


class Held(Protocol):
    """Rows where a device can go through them."""

    rows: np.ndarray

    def run(
        self,
        centroids: np.ndarray,
        spherical: bool,
        labels: np.ndarray | None = None,
        advance: Callable[[int], object] = nothing,
    ) -> Pass:
        """Go through all rows; `labels`, (n,) int32, is filled, and `advance` told of rows done."""
        ...
