"""What a GPU library has to offer for passes, and how PyTorch and CuPy offer it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import psutil

from .settings import ClusteringError

_OUT_OF_MEMORY = ("out of memory", "allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")


class Arrays(ABC):
    """Arrays of a library on its device; `Any` stands for the library's own type of them."""

    label: str

    def __init__(self, library: Any) -> None:
        self._library = library

    @abstractmethod
    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether the device lacked memory, for the library or for cuBLAS."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Memory that may be taken now: what the device has free, and what the library keeps unused."""

    @abstractmethod
    def release(self) -> None:
        """Give the memory that the library keeps unused back to the device."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until all that was begun is done."""

    @abstractmethod
    def send(self, array: np.ndarray) -> Any:
        """Copy an array to the device."""

    def sender(self, rows: int, dimension: int) -> Callable[[np.ndarray], Any]:
        """Return a function that sends float32 batches of up to `rows` rows from memory reserved once."""
        return self.send

    @abstractmethod
    def fetch(self, array: Any) -> np.ndarray:
        """Copy an array from the device."""

    @abstractmethod
    def zeros(self, *shape: int) -> Any:
        """Return an array of float64."""

    @abstractmethod
    def scores(self, rows: Any, centroids: Any, half_squares: Any | None) -> Any:
        """Inner product of each row with each centroid, (rows, k), less the centroid's half square."""

    @abstractmethod
    def add(self, sums: Any, labels: Any, rows: Any) -> None:
        """Add each row to the sums of its list, and 1 to the last column."""

    def best(self, scores: Any) -> Any:
        """Number of the centroid with the largest score of each row."""
        return scores.argmax(1)

    def squares(self, rows: Any) -> Any:
        """Sum of the squared lengths, as an array of the device that need not be waited for."""
        return (rows * rows).sum(dtype=self._library.float64)


def open_torch() -> Arrays:
    """Return PyTorch's current CUDA device."""
    try:
        torch: Any = import_module("torch")
    except ImportError:
        raise ClusteringError("device 'torch' needs PyTorch, which is missing: pip install torch") from None
    if not torch.cuda.is_available():
        raise ClusteringError(
            f"device 'torch': PyTorch {torch.__version__} finds no CUDA GPU: check nvidia-smi, and that this "
            "PyTorch is one with CUDA; or use device cpu"
        )
    return TorchArrays(torch, torch.device("cuda", torch.cuda.current_device()))


class TorchArrays(Arrays):
    """PyTorch on one of its devices; the search for the nearest centroid uses TF32 where available."""

    def __init__(self, torch: Any, device: Any) -> None:
        super().__init__(torch)
        self._device = torch.device(device)
        self._is_cuda = self._device.type == "cuda"
        name = f" {torch.cuda.get_device_name(self._device)}" if self._is_cuda else ""
        self.label = f"torch {self._device}{name}"

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether PyTorch or cuBLAS lacked memory: both raise RuntimeError and say so in its text."""
        return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)

    def free_bytes(self) -> int:
        """What the device has free, and what PyTorch keeps unused."""
        if not self._is_cuda:
            return int(psutil.virtual_memory().available)
        cuda = self._library.cuda
        unused = cuda.memory_reserved(self._device) - cuda.memory_allocated(self._device)
        return int(cuda.mem_get_info(self._device)[0] + unused)

    def release(self) -> None:
        """Empty PyTorch's store of memory."""
        if self._is_cuda:
            self._library.cuda.empty_cache()

    def wait(self) -> None:
        """Wait for the device."""
        if self._is_cuda:
            self._library.cuda.synchronize(self._device)

    def send(self, array: np.ndarray) -> Any:
        """Copy an array to the device."""
        return self._library.from_numpy(np.array(array)).to(self._device)

    def sender(self, rows: int, dimension: int) -> Callable[[np.ndarray], Any]:
        """Send from two pinned buffers in turn: one is filled while the other is on its way."""
        torch = self._library
        buffers = [torch.empty((rows, dimension), pin_memory=self._is_cuda) for _ in range(2)]
        sent: list[Any] = [None, None]
        turn = 0

        def send(batch: np.ndarray) -> Any:
            nonlocal turn
            turn = 1 - turn
            if sent[turn] is not None:
                sent[turn].synchronize()
            buffer = buffers[turn][: len(batch)]
            buffer.numpy()[:] = batch
            if not self._is_cuda:
                return buffer.clone()
            there = buffer.to(self._device, non_blocking=True)
            sent[turn] = torch.cuda.Event()
            sent[turn].record()
            return there

        return send

    def fetch(self, array: Any) -> np.ndarray:
        """Copy an array from the device."""
        found: np.ndarray = array.cpu().numpy()
        return found

    def zeros(self, *shape: int) -> Any:
        """Return an array of float64."""
        return self._library.zeros(shape, dtype=self._library.float64, device=self._device)

    def scores(self, rows: Any, centroids: Any, half_squares: Any | None) -> Any:
        """Allow TF32 for this product alone."""
        settings = self._library.backends.cuda.matmul
        before = settings.allow_tf32
        settings.allow_tf32 = True
        try:
            if half_squares is None:
                return rows @ centroids.T
            return self._library.addmm(-half_squares, rows, centroids.T)
        finally:
            settings.allow_tf32 = before

    def add(self, sums: Any, labels: Any, rows: Any) -> None:
        """Add all rows in one call, in float64."""
        more = self._library.ones((len(rows), sums.shape[1]), dtype=sums.dtype, device=self._device)
        more[:, :-1] = rows
        sums.index_add_(0, labels, more)


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
        reason = " ".join(str(error).split())
        raise ClusteringError(
            f"device 'cupy': CuPy {cupy.__version__} finds no CUDA GPU ({reason}): check nvidia-smi, or use "
            "device cpu"
        ) from None
    return CupyArrays(cupy)


class CupyArrays(Arrays):
    """CuPy on its current device; it sends by way of pinned memory of its own."""

    def __init__(self, cupy: Any) -> None:
        super().__init__(cupy)
        number = cupy.cuda.runtime.getDevice()
        name = cupy.cuda.runtime.getDeviceProperties(number)["name"]
        self.label = f"cupy cuda:{number} {name.decode()}"

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether CuPy or cuBLAS lacked memory."""
        lacking = isinstance(error, self._library.cuda.memory.OutOfMemoryError)
        return lacking or "CUBLAS_STATUS_ALLOC_FAILED" in str(error)

    def free_bytes(self) -> int:
        """What the device has free, and what CuPy keeps unused."""
        free, _ = self._library.cuda.runtime.memGetInfo()
        return int(free + self._library.get_default_memory_pool().free_bytes())

    def release(self) -> None:
        """Empty CuPy's store of memory."""
        self._library.get_default_memory_pool().free_all_blocks()

    def wait(self) -> None:
        """Wait for the current stream."""
        self._library.cuda.get_current_stream().synchronize()

    def send(self, array: np.ndarray) -> Any:
        """Copy an array to the device."""
        return self._library.array(array)

    def fetch(self, array: Any) -> np.ndarray:
        """Copy an array from the device."""
        found: np.ndarray = self._library.asnumpy(array)
        return found

    def zeros(self, *shape: int) -> Any:
        """Return an array of float64."""
        return self._library.zeros(shape, self._library.float64)

    def scores(self, rows: Any, centroids: Any, half_squares: Any | None) -> Any:
        """Subtract in place, which saves memory."""
        scores = rows @ centroids.T
        if half_squares is not None:
            scores -= half_squares
        return scores

    def add(self, sums: Any, labels: Any, rows: Any) -> None:
        """Add all rows in one call, in float64."""
        more = self._library.ones((len(rows), sums.shape[1]), sums.dtype)
        more[:, :-1] = rows
        self._library.add.at(sums, labels, more)
