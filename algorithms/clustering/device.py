"""What computes: the interface of CPU, GPU and faiss."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .passes import Held


class Device(ABC):
    """Makes passes over rows."""

    label: str  # what is used, for the user
    threads = 1  # that work on `each`
    has_near = False  # whether passes among near lists are worth their while

    @abstractmethod
    def hold(self, rows: np.ndarray) -> Held:
        """Bring rows, (n, dimension) float32 in memory or mapped, to where passes go through them."""

    def hold_near(self, rows: np.ndarray, labels: np.ndarray) -> Held:
        """Do the same for passes that compare a row with the lists near its own, `labels` (n,) at first."""
        raise NotImplementedError

    def each(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Give the results of items in their order; where it can, work on several at the same time."""
        yield from map(work, items)

    def one_of_many(self) -> "Device":
        """Return the device that a `work` of `each` uses."""
        return self

    def close(self) -> None:
        """Give back what was taken."""
        return
