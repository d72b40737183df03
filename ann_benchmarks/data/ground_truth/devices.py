"""Where rows are scored, and scores compared: on the processor by NumPy, or on a GPU by PyTorch.

Both take the same steps, in float32 and within the same bounds, so that they find the same neighbours. TF32
is off: a GPU's product in float32 is fast enough, and fewer digits would leave more rows to float64.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.distance import METRICS

from .bounds import DistanceBounds


class Host:
    """The processor. A group's scores of a block, (rows, queries), stay in a core's cache until compared.

    Their smallest in `chunk` rows says soonest whether one of them is near.
    """

    arrays: Any = np
    metrics: tuple[str, ...] = METRICS
    number_type: type = np.int16  # of a query in its group: NumPy sorts these in linear time
    most_threads = 2**10

    def __init__(self, rows: int = 1024, values: int = 2**20, queries: int = 512, chunk: int = 16) -> None:
        self.block_rows, self.block_values, self.group_queries, self.chunk = rows, values, queries, chunk

    def memory(self, rows: int, columns: int, queries: int) -> tuple[np.ndarray, Any]:
        """Return what a thread writes again and again: a table, and room for scores.

        The table, whose rows can be sent, may have a few more columns, which hold zeros.
        """
        return np.empty((rows, columns), np.float32), np.empty(rows * queries, np.float32)

    def put(self, array: np.ndarray) -> Any:
        """Return the array as one of this device."""
        return array

    def get(self, array: Any) -> np.ndarray:
        """Return an array of this device as one of NumPy."""
        found: np.ndarray = array
        return found

    def hold(self, weights: np.ndarray) -> Any:
        """Return queries' weights in the form that `scores` takes."""
        return weights

    @contextmanager
    def sent(self, *arrays: np.ndarray) -> Iterator[tuple[Any, ...]]:
        """Give a block's arrays on this device; they may be overwritten afterwards."""
        yield arrays

    def scores(self, bounds: DistanceBounds, queries: slice, weights: Any, rows: Any, room: Any) -> Any:
        """Return scores, (rows, queries), in `room` or in a new array."""
        shape = len(rows), len(weights)
        return bounds.scores(queries, rows, room[: shape[0] * shape[1]].reshape(shape))

    def near(self, scores: Any, limits: Any, count: int) -> tuple[Any, Any, Any]:
        """Find scores within their queries' limits in `count` rows: query, row and score of each."""
        xp, width = self.arrays, scores.shape[1]
        chunks = scores.reshape(-1, self.chunk, width)
        at = xp.where((xp.amin(chunks, axis=1) <= limits).reshape(-1))[0]  # NumPy is slow in two dimensions
        chunk, query = at // width, at % width
        values = chunks[chunk, :, query]
        hit, place = xp.where(values <= limits[query][:, None])
        found = query[hit], chunk[hit] * self.chunk + place, values[hit, place]
        if count < len(scores):
            kept = found[1] < count
            found = found[0][kept], found[1][kept], found[2][kept]
        return found


class Gpu(Host):
    """A GPU. The processor's cores prepare rows, which are sent once; candidates stay until the last step."""

    number_type = np.int64
    metrics = "euclidean", "angular", "ip", "hamming"  # their scores are a matrix product
    most_threads = 16  # each with a block that is prepared or sent while others are scored

    def __init__(self, torch: Any, device: str, rows: int = 2**14, queries: int = 2**14) -> None:
        super().__init__(rows, 2**21, queries, 64)
        self.arrays, self._device = torch, torch.device(device)
        self._is_cuda = self._device.type == "cuda"
        self._turns = threading.BoundedSemaphore(3)  # bounds the memory of scores
        torch.set_float32_matmul_precision("highest")

    def memory(self, rows: int, columns: int, queries: int) -> tuple[np.ndarray, Any]:
        """Return a table in pinned memory. Products are fastest where a row is some times 16 bytes."""
        return self.arrays.zeros((rows, -(-columns // 4) * 4), pin_memory=self._is_cuda).numpy(), None

    def put(self, array: np.ndarray) -> Any:
        """Send an array."""
        return self.arrays.from_numpy(array).to(self._device)

    def get(self, array: Any) -> np.ndarray:
        """Fetch an array."""
        found: np.ndarray = array.cpu().numpy()
        return found

    def hold(self, weights: np.ndarray) -> Any:
        """Send the weights with as many columns as a table."""
        queries, columns = weights.shape
        table, _ = self.memory(queries, columns, 0)
        table[:, :columns] = weights
        return self.put(table)

    @contextmanager
    def sent(self, *arrays: np.ndarray) -> Iterator[tuple[Any, ...]]:
        """Send arrays while others compute, then wait for a turn to compute."""
        torch, cuda = self.arrays, self.arrays.cuda
        sending = cuda.Stream() if self._is_cuda else None
        with cuda.stream(sending):
            there = tuple(torch.from_numpy(array).to(self._device, non_blocking=True) for array in arrays)
        if sending is not None:
            sending.synchronize()
            for array in there:
                array.record_stream(cuda.current_stream())
        with self._turns:
            try:
                yield there
            except cuda.OutOfMemoryError:
                raise UserError(
                    "the GPU has run out of memory; end other programs on it, or leave --device out"
                ) from None

    def scores(self, bounds: DistanceBounds, queries: slice, weights: Any, rows: Any, room: Any) -> Any:
        """Return the product."""
        return rows @ weights.T


HOST = Host()
# What searches in this thread use. Threads that it starts have the default.
SEARCH_DEVICE: ContextVar[Host] = ContextVar("SEARCH_DEVICE", default=HOST)


def device_for(metric: str) -> Host:
    """Return the chosen device, or the processor if that does not score this metric."""
    device = SEARCH_DEVICE.get()
    return device if metric in device.metrics else HOST


def open_device(name: str) -> Host:
    """Return the device 'cpu' or 'gpu'; UserError says what the latter lacks."""
    if name == "cpu":
        return HOST
    try:
        torch: Any = import_module("torch")
    except (ImportError, OSError):
        raise UserError("--device gpu needs PyTorch, which is missing; run: pip install torch") from None
    if not torch.cuda.is_available():
        raise UserError(
            f"--device gpu needs a CUDA GPU, and PyTorch {torch.__version__} finds none: check nvidia-smi,"
            " and that this PyTorch is one with CUDA (pip install torch); or leave --device out"
        )
    return Gpu(torch, "cuda")
