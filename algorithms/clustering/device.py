"""What every device offers: rows held where it computes, and passes over them with given centroids."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

Advance = Callable[[int], object]  # called with a number of rows that are done


class Pass(NamedTuple):
    """The result of a pass in which each row was assigned to its nearest centroid.

    `sums`: (k, dimension) float64, and `counts`: (k,) int64, of the rows of each list; `squares`: the sum of
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

        The sum of |x - c|² over a list is the sum of |x|², less 2 c·s for the sum s of its rows, plus |c|²
        for each row.
        """
        exact = centroids.astype(np.float64)
        products = np.einsum("ij,ij->", self.sums, exact)
        own = self.counts @ np.einsum("ij,ij->i", exact, exact)
        return max(0.0, float(self.squares - 2 * products + own) / int(self.counts.sum()))


def ignore_progress(rows: int) -> None:
    """Report no progress."""


class HeldRows(Protocol):
    """Rows where a device can go through them."""

    rows: np.ndarray

    def run(
        self,
        centroids: np.ndarray,
        spherical: bool,
        labels: np.ndarray | None = None,
        advance: Advance = ignore_progress,
    ) -> Pass:
        """Go through all rows; `labels`, (n,) int32, receives the number of each row's list."""
        ...


class Device(ABC):
    """Makes passes over rows."""

    label: str  # what computes, in words for the user
    threads = 1  # that `each` uses
    has_near = False  # whether passes among near lists save time

    @abstractmethod
    def hold(self, rows: np.ndarray) -> HeldRows:
        """Bring rows, (n, dimension) float32 in memory or mapped, to where passes go through them."""

    def hold_near(self, rows: np.ndarray, labels: np.ndarray) -> HeldRows:
        """Do the same for passes among the lists near a row's own, which `labels`, (n,), has at first."""
        raise NotImplementedError

    def each(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of the items in their order; work on several at a time where possible."""
        yield from map(work, items)

    def one_of_many(self) -> "Device":
        """Return the device that `work` uses inside `each`."""
        return self

    def close(self) -> None:
        """Release threads and memory."""
        return
