"""PyTorch's arrays for passes."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import psutil

from .arrays import Arrays
from .errors import ClusteringError

_OUT_OF_MEMORY = ("out of memory", "allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")


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


class TorchArrays:
    """Arrays of PyTorch on one of its devices; what finds the nearest centroid is in TF32 where it has it."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._torch, self._device = torch, torch.device(device)
        self._is_cuda = self._device.type == "cuda"
        name = f" {torch.cuda.get_device_name(self._device)}" if self._is_cuda else ""
        self.label = f"torch {self._device}{name}"

    def is_out_of_memory(self, error: Exception) -> bool:
        """Whether memory of the device was lacking, for PyTorch or for cuBLAS."""
        return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY)

    def free_bytes(self) -> int:
        """What the device has free, and what PyTorch keeps of it unused."""
        if not self._is_cuda:
            return int(psutil.virtual_memory().available)
        cuda = self._torch.cuda
        unused = cuda.memory_reserved(self._device) - cuda.memory_allocated(self._device)
        return int(cuda.mem_get_info(self._device)[0] + unused)

    def release(self) -> None:
        """Empty PyTorch's own store of memory."""
        if self._is_cuda:
            self._torch.cuda.empty_cache()

    def send(self, array: np.ndarray) -> Any:
        """Copy an array to the device."""
        return self._torch.from_numpy(np.array(array)).to(self._device)

    def sender(self, rows: int, dimension: int) -> Callable[[np.ndarray], Any]:
        """Send from two pinned buffers in turn: one is filled while the other is on its way."""
        torch = self._torch
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
        return self._torch.zeros(shape, dtype=self._torch.float64, device=self._device)

    def scores(self, rows: Any, centroids: Any, half_squares: Any | None) -> Any:
        """Inner product of each row with each centroid, less the centroid's half square."""
        torch = self._torch
        settings = torch.backends.cuda.matmul
        before = settings.allow_tf32
        settings.allow_tf32 = True
        try:
            if half_squares is None:
                return rows @ centroids.T
            return torch.addmm(-half_squares, rows, centroids.T)
        finally:
            settings.allow_tf32 = before

    def best(self, scores: Any) -> Any:
        """Number of the centroid with the largest score of each row."""
        return scores.argmax(dim=1)

    def wait(self) -> None:
        """Wait for all that was begun."""
        if self._is_cuda:
            self._torch.cuda.synchronize(self._device)

    def add(self, sums: Any, labels: Any, rows: Any) -> None:
        """Add each row to the sums of its list, and 1 to the last column."""
        more = self._torch.ones((len(rows), sums.shape[1]), dtype=sums.dtype, device=self._device)
        more[:, :-1] = rows
        sums.index_add_(0, labels, more)

    def squares(self, rows: Any) -> Any:
        """Sum of the squared lengths, as an array of the device that need not be waited for."""
        return (rows * rows).sum(dtype=self._torch.float64)
