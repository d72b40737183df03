"""CuPy's arrays for passes."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from .arrays import Arrays
from .errors import ClusteringError


def open_cupy() -> Arrays:
    """Return CuPy's current device."""
    try:
        cupy: Any = import_module("cupy")
    except ImportError:
        raise ClusteringError(
            "device 'cupy' needs CuPy, which is missing: pip install cupy-cuda12x, or that of your CUDA"
        ) from None
    try:
        cupy.cuda.runtime.getDeviceCount()
        cupy.zeros(1)
    except Exception as error:  # CuPy has several of its own
        said = " ".join(str(error).split())
        raise ClusteringError(
            f"device 'cupy': CuPy {cupy.__version__} finds no CUDA GPU ({said}): check nvidia-smi, or use "
            "device cpu"
        ) from None
    return CupyArrays(cupy)


class CupyArrays:
    """Arrays of CuPy on its current device."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        number = cupy.cuda.runtime.getDevice()
        name = cupy.cuda.runtime.getDeviceProperties(number)["name"]
        self.label = f"cupy cuda:{number} {name.decode()}"

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether memory of the device was lacking, for CuPy or for cuBLAS."""
        lacking = isinstance(error, self._cupy.cuda.memory.OutOfMemoryError)
        return lacking or "CUBLAS_STATUS_ALLOC_FAILED" in str(error)

    def free_bytes(self) -> int:
        """What the device has free, and what CuPy keeps of it unused."""
        free, _ = self._cupy.cuda.runtime.memGetInfo()
        return int(free + self._cupy.get_default_memory_pool().free_bytes())

    def release(self) -> None:
        """Empty CuPy's own store of memory."""
        self._cupy.get_default_memory_pool().free_all_blocks()

    def send(self, array: np.ndarray) -> Any:
        """Copy an array to the device."""
        return self._cupy.array(array)

    def sender(self, rows: int, dimension: int) -> Callable[[np.ndarray], Any]:
        """Send by way of CuPy's own pinned memory."""
        return self.send

    def fetch(self, array: Any) -> np.ndarray:
        """Copy an array from the device."""
        found: np.ndarray = self._cupy.asnumpy(array)
        return found

    def zeros(self, *shape: int) -> Any:
        """Return an array of float64."""
        return self._cupy.zeros(shape, np.float64)

    def scores(self, rows: Any, centroids: Any, half_squares: Any | None) -> Any:
        """Inner product of each row with each centroid, less the centroid's half square."""
        scores = rows @ centroids.T
        if half_squares is not None:
            scores -= half_squares
        return scores

    def best(self, scores: Any) -> Any:
        """Number of the centroid with the largest score of each row."""
        return scores.argmax(axis=1)

    def wait(self) -> None:
        """Wait for all that was begun."""
        self._cupy.cuda.get_current_stream().synchronize()

    def add(self, sums: Any, labels: Any, rows: Any) -> None:
        """Add each row to the sums of its list, and 1 to the last column."""
        more = self._cupy.ones((len(rows), sums.shape[1]), sums.dtype)
        more[:, :-1] = rows
        self._cupy.add.at(sums, labels, more)

    def squares(self, rows: Any) -> Any:
        """Sum of the squared lengths, as an array of the device that need not be waited for."""
        return (rows * rows).sum(dtype=np.float64)
