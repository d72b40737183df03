"""Where rows are scored, and scores compared: on the processor by NumPy, or on a GPU by PyTorch."""

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

GPU_METRICS = "euclidean", "angular", "ip", "hamming"  # their scores are a matrix product
BLOCKS_AT_ONCE = 3  # whose scores are in a GPU's memory
# How PyTorch and cuBLAS say it, in a RuntimeError.
OUT_OF_MEMORY = ("out of memory", "allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")


class Device:
    """The processor, or with `torch` a GPU: both take the same steps in float32, within the same bounds.

    The processor's sizes let the scores of a block for a group of queries stay in a core's cache. Rows for
    a GPU are prepared by the processor's cores and sent once. It does not use TF32: its float32 products are
    fast enough, and fewer digits would leave more rows to float64.
    """

    def __init__(
        self, rows: int = 1024, values: int = 2**19, queries: int = 1024, chunk: int = 16, torch: Any = None
    ) -> None:
        """Take the most rows and numbers of a block, queries of a group, and rows compared at once."""
        self.block_rows, self.block_values, self.group_queries, self.chunk = rows, values, queries, chunk
        self.arrays, self._torch = torch or np, torch
        self.metrics = GPU_METRICS if torch else METRICS
        self._turns = threading.BoundedSemaphore(BLOCKS_AT_ONCE)
        if torch:
            self._place = "cuda" if torch.cuda.is_available() else "cpu"
            torch.set_float32_matmul_precision("highest")

    def memory(self, rows: int, columns: int, queries: int) -> tuple[np.ndarray, Any]:
        """Return what a thread writes again and again: a table of rows to be sent, and room for scores."""
        if self._torch:
            return self._torch.empty((rows, columns), pin_memory=self._place == "cuda").numpy(), None
        return np.empty((rows, columns), np.float32), np.empty(rows * queries, np.float32)

    def put(self, array: np.ndarray) -> Any:
        """Return the device's form of an array; products are fastest where a row is some times 16 bytes."""
        if not self._torch:
            return array
        there = self._torch.from_numpy(array).to(self._place, non_blocking=True)
        padding = 0, -array.shape[-1] % 4
        return self._torch.nn.functional.pad(there, padding) if array.ndim == 2 else there

    def get(self, array: Any) -> np.ndarray:
        """Return NumPy's form of an array."""
        found: np.ndarray = array.cpu().numpy() if self._torch else array
        return found

    def sort(self, array: Any) -> Any:
        """Return the numbers of an array in ascending order."""
        return self._torch.sort(array)[0] if self._torch else np.sort(array)

    @contextmanager
    def sent(self, *arrays: np.ndarray) -> Iterator[tuple[Any, ...]]:
        """Put arrays that may be overwritten afterwards; a GPU gets them while it scores other blocks."""
        if not self._torch:
            yield arrays
            return
        cuda = self._torch.cuda
        stream = cuda.Stream() if self._place == "cuda" else None
        with cuda.stream(stream):
            there = tuple(map(self.put, arrays))
        if stream:
            stream.synchronize()
            for array in there:
                array.record_stream(cuda.current_stream())
        with self._turns:
            yield there

    def scores(self, bounds: DistanceBounds, queries: slice, weights: Any, rows: Any, room: Any) -> Any:
        """Return scores, (rows, queries), in `room` if there is any."""
        if self._torch:
            return rows @ weights.T
        shape = len(rows), len(weights)
        return bounds.scores(queries, rows, room[: shape[0] * shape[1]].reshape(shape))

    def near(self, scores: Any, limits: Any, count: int) -> tuple[Any, Any, Any]:
        """Find scores within their queries' limits in `count` rows: query, row and score of each.

        Almost none is: the smallest of each chunk of rows says so soonest.
        """
        xp, width = self.arrays, scores.shape[1]
        chunks = scores.reshape(self.chunk, -1, width)  # NumPy's minimum is fastest along the first dimension
        at = xp.where((xp.amin(chunks, axis=0) <= limits).reshape(-1))[0]  # and this in one
        chunk, query = at // width, at % width
        values = chunks[:, chunk, query]
        at, hits = xp.where((values <= limits[query]).reshape(-1))[0], max(len(chunk), 1)
        score, hit = values.reshape(-1)[at], at % hits
        row = at // hits * chunks.shape[1] + chunk[hit]
        query = xp.asarray(query[hit], dtype=xp.int32)
        if count < len(scores):
            kept = row < count
            query, row, score = query[kept], row[kept], score[kept]
        return query, row, score


HOST = Device()
# What searches in this thread use. Threads that it starts have the default.
SEARCH_DEVICE: ContextVar[Device] = ContextVar("SEARCH_DEVICE", default=HOST)


def open_device(name: str) -> Device:
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
    return Device(2**14, 2**21, 2**15, 64, torch)
