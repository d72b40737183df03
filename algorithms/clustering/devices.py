"""What k-means asks of a device: the CPU by NumPy, or a GPU by PyTorch.

All else is written once, with the functions and operators that arrays of both have: `xp` is NumPy or torch.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from .settings import ClusteringError, Settings, cores, memory_bytes

CHUNK = 1024  # rows that a thread adds up at a time
SHARE_OF_GPU = 0.6  # of its free memory, for the sample
# How PyTorch and cuBLAS say it, in a RuntimeError.
OUT_OF_MEMORY = ("out of memory", "allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")

Array = Any  # NumPy's, or torch's tensor on the GPU
Read = Callable[[np.ndarray], object]  # writes rows into an array


class Cpu:
    """Threads that share the rows; each has one thread of BLAS, and no result depends on their number.

    `room`: the bytes that a sample may take. `tile`: the values of a product that is made at a time.
    """

    xp: Any = np
    exactly = staticmethod(nullcontext)  # its products are always made in float32
    tile = 2**20  # 4 MiB, which stay in the cache

    def __init__(self, threads: int) -> None:
        self.label = f"cpu, {threads} thread{'s' * (threads > 1)}"
        self.room = min(psutil.virtual_memory().available, memory_bytes()) // 2
        self._pool = ThreadPoolExecutor(threads)
        self._limit = threadpool_limits(1, user_api="blas")

    def close(self) -> None:
        """End the threads, and restore BLAS's own."""
        self._pool.shutdown(cancel_futures=True)
        self._limit.restore_original_limits()

    def empty(self, rows: int, dimension: int) -> Array:
        """Make room for rows."""
        return np.empty((rows, dimension), np.float32)

    def fill(self, part: Array, read: Read) -> None:
        """Have `read` write rows into a part of the device's."""
        read(part)

    def put(self, array: np.ndarray) -> Array:
        """Return NumPy's array as one of the device."""
        return array

    def get(self, array: Array) -> np.ndarray:
        """Return an array of the device as NumPy's."""
        return np.asarray(array)

    def each(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
        """Return the results, in order."""
        return self._pool.map(work, items)

    def squares(self, rows: Array) -> Array:
        """Return the squared length of each row."""
        return np.einsum("ij,ij->i", rows, rows)

    def scores(self, rows: Array, centroids: Array, halves: Array) -> Array:
        """Return the products of rows and centroids, less these halves of the centroids' squares."""
        products = rows @ centroids.T
        products -= halves
        return products

    def sums(self, rows: Array, labels: Array, k: int) -> tuple[Array, Array]:
        """Return the sum of the rows of each list, (k, dimension) float64, and their number, (k,)."""
        # NumPy sorts two bytes several times as fast as eight.
        order = np.argsort(labels.astype(np.uint16) if k <= 2**16 else labels, kind="stable")

        def add(start: int) -> tuple[np.ndarray, np.ndarray]:
            own = order[start : start + CHUNK]
            lists = labels[own]
            firsts = np.flatnonzero(np.diff(lists, prepend=-1))
            return lists[firsts], np.add.reduceat(rows.take(own, axis=0), firsts, axis=0)

        sums = np.zeros((k, rows.shape[1]))
        for lists, part in self.each(add, range(0, len(rows), CHUNK)):
            sums[lists] += part
        return sums, np.bincount(labels, minlength=k)


class Gpu:
    """A GPU that PyTorch drives, with the methods of the CPU; products are made in TF32 where it has that."""

    tile = 2**28  # 1 GiB

    def __init__(self, torch: Any, device: str, label: str, room: int) -> None:
        self.xp, self.label, self.room = torch, label, room
        self._device = torch.device(device)
        self._had = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")

    def close(self) -> None:
        """Give back the memory that PyTorch keeps, and its setting."""
        self.xp.set_float32_matmul_precision(self._had)
        self.xp.cuda.empty_cache()

    @contextmanager
    def exactly(self) -> Iterator[None]:
        """Make products in float32 within this context, at a quarter to a seventh of the speed."""
        self.xp.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            self.xp.set_float32_matmul_precision("high")

    def empty(self, rows: int, dimension: int) -> Array:
        """Make room for rows."""
        return self.xp.empty((rows, dimension), device=self._device)

    def fill(self, part: Array, read: Read) -> None:
        """Have `read` write rows into pinned memory, which PyTorch keeps for the next ones, and send them."""
        pinned = self.xp.empty(part.shape, pin_memory=self._device.type == "cuda")
        read(pinned.numpy())
        part.copy_(pinned)

    def put(self, array: np.ndarray) -> Array:
        """Copy NumPy's array to the GPU."""
        return self.xp.from_numpy(array).to(self._device)

    def get(self, array: Array) -> np.ndarray:
        """Copy an array of the GPU to NumPy's, once it is computed."""
        return np.asarray(array.cpu())

    def each(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
        """Start one after the other; nothing waits for the GPU."""
        return map(work, items)

    def squares(self, rows: Array) -> Array:
        """Return the squared lengths; einsum would make them in TF32."""
        return (rows * rows).sum(1)

    def scores(self, rows: Array, centroids: Array, halves: Array) -> Array:
        """Return the products less the halves, in one call."""
        return self.xp.addmm(-halves, rows, centroids.T)

    def sums(self, rows: Array, labels: Array, k: int) -> tuple[Array, Array]:
        """Return the sums and numbers; a tile of rows is added up in float32, and the tiles in float64."""
        torch, size = self.xp, max(1, self.tile // rows.shape[1])
        sums = torch.zeros((k, rows.shape[1]), dtype=torch.float64, device=self._device)
        for own, part in zip(labels.split(size), rows.split(size), strict=True):
            sums += torch.zeros((k, rows.shape[1]), device=self._device).index_add_(0, own, part)
        return sums, torch.bincount(labels, minlength=k)


Device = Cpu | Gpu


def open_device(settings: Settings) -> Device:
    """Return the device that the settings name; ClusteringError says what it lacks."""
    if settings.device == "cpu":
        return Cpu(settings.threads or cores())
    try:
        torch: Any = import_module("torch")
    except (ImportError, OSError):
        raise ClusteringError("device 'gpu' needs PyTorch, which is missing: pip install torch") from None
    if not torch.cuda.is_available():
        raise ClusteringError(
            f"device 'gpu': PyTorch {torch.__version__} finds no CUDA GPU: check nvidia-smi, and that this "
            "PyTorch is one with CUDA; or use device cpu"
        )
    try:
        name = f"cuda:{torch.cuda.current_device()}"
        room = int(torch.cuda.mem_get_info(name)[0] * SHARE_OF_GPU)
        label = f"torch {name} {torch.cuda.get_device_name(name)}"
    except RuntimeError as error:
        raise ClusteringError(
            f"device 'gpu' cannot be used ({str(error).splitlines()[0]}): end other programs on it, or use"
            " device cpu"
        ) from None
    return Gpu(torch, name, label, room)
