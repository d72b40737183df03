"""Where rows are scored, and scores compared: on the processor by NumPy, or on a GPU by PyTorch."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.distance import METRICS, pair_distances

from . import exact

BLOCKS_AT_ONCE = 3  # Their scores are in a GPU's memory together.
SENT_AT_ONCE = 2**23  # bytes
EXACT_FOR_ROW = 2**12  # values of float64 on a GPU, several times, for each row of a block
LARGE_MEMORY = 2**36  # bytes, of a GPU that takes larger blocks
SHARE_OF_MEMORY = 0.4  # of a GPU's, for a span's rows
VECTOR_TYPES = ("float16", "float32", "float64", "int8", "uint8")
MANY_NEAR = 16  # If one chunk in 16 has a near score, or more do, all scores are compared.
PROVED = 256  # distances that the processor computes, too
# How PyTorch and cuBLAS say it, in a RuntimeError.
OUT_OF_MEMORY = ("out of memory", "allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")

Array = Any  # the device's
Memory = dict[str, Array]  # of a thread


class Device:
    """The processor; its sizes let the scores of a block for a group of queries stay in a core's cache."""

    arrays: Any = np
    metrics = METRICS
    most_threads = 64  # each with a block
    kept_bytes = 0  # of a span's rows at most
    sort: Any = staticmethod(np.sort)

    def __init__(self, rows: int = 1024, values: int = 2**19, queries: int = 1024, chunk: int = 8) -> None:
        """Take the most rows and numbers of a block, queries of a group, and rows compared at once."""
        self.block_rows, self.block_values, self.group_queries, self.chunk = rows, values, queries, chunk

    def table(self, rows: int, columns: int) -> Array:
        """Return room for factors of a product."""
        return np.empty((rows, columns), np.float32)

    def room(self, memory: Memory, name: str, shape: tuple[int, ...], dtype: type = np.float32) -> Any:
        """Return an array that a thread writes again and again: a new one would cost page faults."""
        size = prod(shape)
        if name not in memory or len(memory[name]) < size:
            memory[name] = np.empty(size, dtype)
        return memory[name][:size].reshape(shape)

    def put(self, array: np.ndarray, into: Array = None) -> Array:
        """Return the device's form of an array, or copy it into one."""
        return array

    def get(self, array: Array) -> np.ndarray:
        """Return NumPy's form of an array."""
        return np.asarray(array)

    def keep(self, rows: int, sample: Array) -> Array | None:
        """Return room for all rows of a span, which are like these, if the device has it."""
        return None

    def distances(self, metric: str, queries: Array, rows: Array, *pairs: Array) -> np.ndarray | None:
        """Return `pair_distances` of queries and rows of these numbers; None where the device cannot."""
        return None

    def nearest(self, query: Array, row: Array, distances: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
        """Return those of each query's k nearest, in the order of `exact.nearest`."""
        order = exact.nearest(query, distances, row, k)
        return query[order], row[order], distances[order]

    @contextmanager
    def prepared(self, make: Callable[[], tuple[Array, ...]]) -> Iterator[tuple[Array, ...]]:
        """Give arrays that are made while other threads score."""
        yield make()

    def near(self, scores: Array, limits: Array, count: int, memory: Memory) -> tuple[Array, Array, Array]:
        """Find scores within their queries' limits in `count` rows: query, row and score of each.

        Soon almost none is: the smallest of each chunk of rows says so soonest.
        """
        xp, width, flat = self.arrays, scores.shape[1], scores.reshape(-1)
        chunks = scores.reshape(self.chunk, -1, width)  # NumPy's minimum is fastest along the first dimension
        shape = tuple(chunks.shape[1:])
        least = xp.amin(chunks, axis=0, out=self.room(memory, "least", shape))
        is_near = xp.less_equal(least, limits, out=self.room(memory, "near", shape, np.bool_))
        at = xp.where(is_near.reshape(-1))[0]
        if len(at) < len(flat) // (MANY_NEAR * self.chunk):
            place = at + self.put(np.arange(0, len(flat), len(flat) // self.chunk))[:, None]
            hit = xp.where((flat.take(place) <= limits[at % width]).reshape(-1))[0]
            place = place.reshape(-1)[hit]
        else:
            place = xp.where((scores <= limits).reshape(-1))[0]
        place = place[place < count * width]
        return xp.asarray(place % width, dtype=xp.int32), place // width, flat.take(place)


class TorchDevice(Device):
    """A GPU: the same steps in float32, within the same bounds, and float64 where it keeps a span's rows.

    It does not use TF32: its float32 products are fast enough, and fewer digits would leave more rows to
    float64. Without a GPU, PyTorch's CPU takes its place in tests.
    """

    metrics = "euclidean", "angular", "ip", "hamming"  # their scores are a matrix product
    most_threads = 6

    def __init__(self, torch: Any, rows: int, values: int, queries: int, chunk: int) -> None:
        super().__init__(rows, values, queries, chunk)
        self.arrays, self._cuda = torch, torch.cuda if torch.cuda.is_available() else None
        self._place, self.sort = "cuda" if self._cuda else "cpu", torch.msort
        memory = self._cuda.mem_get_info()[1] if self._cuda else 2**30
        self.kept_bytes = int(memory * SHARE_OF_MEMORY)
        self._turns = threading.BoundedSemaphore(BLOCKS_AT_ONCE)
        self._own = threading.local()
        torch.set_float32_matmul_precision("highest")

    def table(self, rows: int, columns: int) -> Array:
        """Return zeros; products are fastest where a row is some times 16 bytes."""
        return self.arrays.zeros((rows, -(-columns // 4) * 4), device=self._place)

    def room(self, memory: Memory, name: str, shape: tuple[int, ...], dtype: type = np.float32) -> None:
        """Leave room to PyTorch."""

    def put(self, array: np.ndarray, into: Array = None) -> Array:
        """Copy by way of memory that the GPU can read; vectors of types not listed become float64."""
        torch, array = self.arrays, array.view(np.uint8) if array.dtype == bool else array
        if into is None:
            is_listed = array.ndim == 1 or array.dtype in VECTOR_TYPES
            like = torch.from_numpy(np.empty(0, array.dtype if is_listed else np.float64))
            into = torch.empty(array.shape, dtype=like.dtype, device=self._place)
        step = max(1, SENT_AT_ONCE * len(array) // max(1, array.nbytes))
        for at in range(0, len(array), step):
            part = array[at : at + step]
            pinned = torch.empty(part.shape, dtype=into.dtype, pin_memory=bool(self._cuda))
            pinned.numpy()[...] = part
            into[at : at + step].copy_(pinned)
        return into

    def get(self, array: Array) -> np.ndarray:
        """Copy, when the array is computed."""
        return np.asarray(array.cpu())

    def keep(self, rows: int, sample: Array) -> Array | None:
        """Return room unless it would take too much of the GPU's memory."""
        if rows * sample[0].nbytes > self.kept_bytes:
            return None
        with self._aside():
            return sample.new_empty(rows, sample.shape[1])

    @contextmanager
    def prepared(self, make: Callable[[], tuple[Array, ...]]) -> Iterator[tuple[Array, ...]]:
        """Make arrays in a stream of the thread, and wait for one's turn."""
        with self._aside():
            block = make()
        if self._cuda:
            self._own.stream.synchronize()
            for array in block:
                array.record_stream(self._cuda.current_stream())
        with self._turns:
            yield block

    def _aside(self) -> Any:
        if not self._cuda:
            return nullcontext()
        if getattr(self._own, "stream", None) is None:
            self._own.stream = self._cuda.Stream()
        return self._cuda.stream(self._own.stream)

    def distances(self, metric: str, queries: Array, rows: Array, *pairs: Array) -> np.ndarray | None:
        """Add up on the GPU, if it has the rows, in NumPy's order: some of the pairs are to prove it."""
        if rows is None or not len(pairs[0]):
            return None
        size = max(1, EXACT_FOR_ROW * self.block_rows // queries.shape[1])
        parts = zip(*(numbers.split(size) for numbers in pairs), strict=True)
        found = np.concatenate([self._distances(metric, queries[some], rows[own]) for some, own in parts])
        a, b = (self.get(of[own[:PROVED]]) for of, own in zip((queries, rows), pairs, strict=True))
        return found if np.array_equal(pair_distances(metric, a, b), found[:PROVED]) else None

    def _distances(self, metric: str, a: Array, b: Array) -> np.ndarray:
        if metric == "hamming":
            return self.get(((a != 0) != (b != 0)).sum(1)) / a.shape[1]
        a, b = a.double(), b.double()
        if metric == "euclidean":
            a -= b
            return np.sqrt(self._dots(a, a))
        dots = self._dots(a, b)
        if metric == "ip":
            return -dots
        lengths = np.sqrt(self._dots(a, a)) * np.sqrt(self._dots(b, b))
        return 1.0 - np.divide(dots, lengths, out=np.zeros(len(a)), where=lengths > 0)

    def _dots(self, a: Array, b: Array) -> np.ndarray:
        """Add up products as NumPy's einsum does with two lanes: four pairs at a time, the last one first."""
        products = (a * b).T.contiguous()
        count, whole = len(products), len(products) // 8 * 8
        pairs = [start + at for start in range(0, whole, 8) for at in (6, 4, 2, 0)]
        sums = products.new_zeros(2, len(a))
        for at in pairs + list(range(whole, count - 1, 2)):
            sums += products[at : at + 2]
        if count % 2:
            sums[0] += products[-1]
        return self.get(sums[0] + sums[1])

    def nearest(self, query: Array, row: Array, distances: np.ndarray, k: int) -> tuple[np.ndarray, ...]:
        """Sort stably by row, by distance, and by query; -0 is 0."""
        order = row.argsort()
        for keys in self.put(distances) + 0.0, query:
            order = order[keys[order].argsort(stable=True)]
        ordered = query[order]
        first = self.arrays.searchsorted(ordered, ordered)
        order = order[self.arrays.arange(len(order), device=self._place) - first < k]
        return self.get(query[order]), self.get(row[order]), distances[self.get(order)]


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
    rows = 2**16 if torch.cuda.mem_get_info()[1] > LARGE_MEMORY else 2**14
    return TorchDevice(torch, rows, 2**24, 2**15, 64)
