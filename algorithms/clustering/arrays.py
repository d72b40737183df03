"""What a GPU library has to offer for passes: the interface of PyTorch and CuPy here."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np


class Arrays(Protocol):
    """Arrays of a device; `Any` stands for the library's own type of them."""

    label: str

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether memory of the device was lacking."""
        ...

    def free_bytes(self) -> int:
        """Memory of the device that may be taken now."""
        ...

    def release(self) -> None:
        """Give the memory of arrays that are gone back to the device."""
        ...

    def send(self, array: np.ndarray) -> Any:
        """Copy an array to the device."""
        ...

    def sender(self, rows: int, dimension: int) -> Callable[[np.ndarray], Any]:
        """Return what sends float32 batches of up to so many rows, from memory made for it once."""
        ...

    def fetch(self, array: Any) -> np.ndarray:
        """Copy an array from the device."""
        ...

    def zeros(self, *shape: int) -> Any:
        """Return an array of float64."""
        ...

    def scores(self, rows: Any, centroids: Any, half_squares: Any | None) -> Any:
        """Inner product of each row with each centroid, (rows, k), less the centroid's half square."""
        ...

    def best(self, scores: Any) -> Any:
        """Number of the centroid with the largest score of each row."""
        ...

    def wait(self) -> None:
        """Wait for all that was begun."""
        ...

    def add(self, sums: Any, labels: Any, rows: Any) -> None:
        """Add each row to the sums of its list, and 1 to the last column."""
        ...

    def squares(self, rows: Any) -> Any:
        """Sum of the squared lengths, as an array of the device that need not be waited for."""
        ...
