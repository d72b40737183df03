"""A pass over rows with given centroids: by NumPy's matrix products, or by PyTorch on a GPU."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from .settings import ClusteringError, Settings, cores

TILE_LISTS = 512
TILE_VALUES = 2**18  # of a product in float32: 1 MiB, which stays in the cache
CHUNK = 8192  # rows whose sums are made at a time
LEAST_BATCH = 64  # rows
_MOST_BATCH = 2**18
_MOST_PRODUCTS = 2**30  # of a batch; more make a GPU no faster
_SHARE_FOR_ROWS = 0.6  # of a GPU's memory, up to which all rows are kept there
_SHARE_FOR_BATCH = 0.8  # of what is left
# How PyTorch and cuBLAS say it, in a RuntimeError.
_OUT_OF_MEMORY = ("out of memory", "allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")

Advance = Callable[[int], object]  # called with a number of rows that are done
Item = TypeVar("Item")
Result = TypeVar("Result")


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
        scale = (np.linalg.norm(self.sums, axis=1) if spherical else self.counts)[:, np.newaxis]
        means = np.where(scale > 0, self.sums / np.where(scale > 0, scale, 1), centroids)
        return means.astype(np.float32)

    def inertia(self, centroids: np.ndarray) -> float:
        """Mean squared distance of a row to the centroid, of these, that has the number of its list.

        The sum of |x - c|² over a list is the sum of |x|², less 2 c·s for the sum s of its rows, plus |c|²
        for each row.
        """
        exact = centroids.astype(np.float64)
        products = np.einsum("ij,ij->", self.sums, exact)
        own = self.counts @ np.einsum("ij,ij->i", exact, exact)
        return max(0.0, float(self.squares - 2 * products + own) / int(self.counts.sum()))


def half_squares(centroids: np.ndarray) -> np.ndarray:
    """Return |c|²/2 of each centroid, (k,) float32: |x - c|² is least where x·c - |c|²/2 is largest."""
    exact = centroids.astype(np.float64)
    return (np.einsum("ij,ij->i", exact, exact) / 2).astype(np.float32)


class NearestTable:
    """Centroids, (k, dimension) float32, prepared for the comparison with rows by matrix products.

    The half squares are an additional column, which meets a column of ones of the rows.
    """

    def __init__(self, centroids: np.ndarray, spherical: bool) -> None:
        table = centroids if spherical else np.column_stack([centroids, -half_squares(centroids)])
        self._tiles = [table[start : start + TILE_LISTS].T for start in range(0, len(table), TILE_LISTS)]
        self._spherical = spherical

    def nearest(self, rows: np.ndarray) -> np.ndarray:
        """Number of the nearest centroid of each row, (n,) int32; the first of those equally near."""
        if not self._spherical:
            rows = np.column_stack([rows, np.ones(len(rows), np.float32)])
        width = self._tiles[0].shape[1]
        size = max(64, min(4096, TILE_VALUES // width))
        room = np.empty((size, width), np.float32)
        labels = np.zeros(len(rows), np.int32)
        for start in range(0, len(rows), size):
            part, found = rows[start : start + size], labels[start : start + size]
            best = np.full(len(part), -np.inf, np.float32)
            for number, tile in enumerate(self._tiles):
                products = np.matmul(part, tile, out=room[: len(part), : tile.shape[1]])
                largest = products.argmax(axis=1)
                scores = products[np.arange(len(part)), largest]
                nearer = scores > best
                np.copyto(best, scores, where=nearer)
                np.copyto(found, largest + number * TILE_LISTS, where=nearer, casting="unsafe")
        return labels


class Cpu:
    """Threads that share the rows; the BLAS of each has one thread."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.label = f"cpu, {threads} thread{'s' * (threads > 1)}"
        self._pool = ThreadPoolExecutor(threads)
        self._limit = threadpool_limits(1, user_api="blas")

    def hold(self, rows: np.ndarray, alone: bool = False) -> "CpuRows":
        """Leave the rows, in memory or mapped, where they are; `alone`: for one thread."""
        return CpuRows(rows, map if alone or self.threads == 1 else self.each)

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results in order while threads work on later items, up to four for each thread."""
        waiting: deque = deque()
        for item in items:
            waiting.append(self._pool.submit(work, item))
            if len(waiting) > 4 * self.threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def close(self) -> None:
        """End the threads, and restore BLAS's own."""
        self._pool.shutdown(cancel_futures=True)
        self._limit.restore_original_limits()


class CpuRows:
    """Rows in memory or mapped, in chunks for `each`."""

    def __init__(self, rows: np.ndarray, each: Callable[..., Iterable]) -> None:
        self.rows, self._each = rows, each

    def run(
        self,
        centroids: np.ndarray,
        spherical: bool,
        labels: np.ndarray | None = None,
        advance: Advance = lambda rows: None,
    ) -> Pass:
        """Go through all rows; `labels`, (n,) int32, receives the number of each row's list.

        The result does not depend on the number of threads.
        """
        k, table = len(centroids), NearestTable(centroids, spherical)

        def part(start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
            rows = self.rows[start : start + CHUNK]
            found = table.nearest(rows)
            if labels is not None:
                labels[start : start + len(rows)] = found
            # NumPy sorts two bytes several times as fast as four.
            order = np.argsort(found.astype(np.uint16) if k <= 2**16 else found, kind="stable")
            lists = found[order]
            firsts = np.flatnonzero(np.diff(lists, prepend=-1))
            sums = np.add.reduceat(rows.take(order, axis=0), firsts, axis=0)
            return lists[firsts], sums, np.diff(firsts, append=len(rows)), float(np.vdot(rows, rows))

        sums, counts, squares = np.zeros(centroids.shape), np.zeros(k, np.int64), 0.0
        for lists, part_sums, part_counts, part_squares in self._each(part, range(0, len(self.rows), CHUNK)):
            sums[lists] += part_sums
            counts[lists] += part_counts
            squares += part_squares
            advance(int(part_counts.sum()))
        return Pass(sums, counts, squares)


class Gpu:
    """A GPU that PyTorch drives; it takes `limit` bytes of memory, or what is free.

    The search for the nearest centroid uses TF32 where available; sums are made in float64.
    """

    threads = 1

    def __init__(self, torch: Any, device: Any, limit: int | None = None) -> None:
        self.torch, self.device, self.limit = torch, torch.device(device), limit
        self.label = f"torch {self.device} {torch.cuda.get_device_name(self.device)}"
        self._products = torch.backends.cuda.matmul
        self._had_tf32, self._products.allow_tf32 = self._products.allow_tf32, True

    def hold(self, rows: np.ndarray, alone: bool = False) -> "GpuRows":
        """Copy all rows to the GPU if they fit well; otherwise each pass sends them anew."""
        return GpuRows(self, rows)

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Do one after the other."""
        return map(work, items)

    def close(self) -> None:
        """Give back the memory that PyTorch keeps, and its setting."""
        self.torch.cuda.empty_cache()
        self._products.allow_tf32 = self._had_tf32

    def room(self) -> int:
        """Bytes that may be taken now: what the GPU has free, and what PyTorch keeps unused."""
        cuda = self.torch.cuda
        unused = cuda.memory_reserved(self.device) - cuda.memory_allocated(self.device)
        free = int(cuda.mem_get_info(self.device)[0] + unused)
        return free if self.limit is None else min(free, self.limit)

    def send(self, array: np.ndarray) -> Any:
        """Copy an array to the GPU."""
        return self.torch.from_numpy(np.array(array)).to(self.device)

    def batches(self, rows: np.ndarray, size: int) -> Iterator[Any]:
        """Send rows, `size` at a time, from two pinned buffers: one is filled while the other is sent."""
        buffers = deque(
            (self.torch.empty((size, rows.shape[1]), pin_memory=True), self.torch.cuda.Event())
            for _ in range(2)
        )
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            buffers.rotate()
            buffer, sent = buffers[0]
            sent.synchronize()  # at once where nothing was sent from it yet
            buffer[: len(batch)].numpy()[:] = batch
            there = buffer[: len(batch)].to(self.device, non_blocking=True)
            sent.record()
            yield there


class GpuRows:
    """Rows on the GPU, or sent to it in batches as large as its memory allows."""

    def __init__(self, gpu: Gpu, rows: np.ndarray) -> None:
        self.gpu, self.rows = gpu, rows
        self._there = gpu.send(rows) if rows.nbytes <= gpu.room() * _SHARE_FOR_ROWS else None

    def run(
        self,
        centroids: np.ndarray,
        spherical: bool,
        labels: np.ndarray | None = None,
        advance: Advance = lambda rows: None,
    ) -> Pass:
        """Go through all rows as on the CPU; ClusteringError where the GPU's memory runs out."""
        try:
            return self._run(centroids, spherical, labels, advance)
        except RuntimeError as error:
            if not any(text in str(error) for text in _OUT_OF_MEMORY):
                raise
        self.gpu.torch.cuda.empty_cache()
        raise ClusteringError(
            f"{self.gpu.label} has run out of memory: {self.gpu.room() / 2**20:,.0f} MB are free; end other"
            " programs on it, give less device memory or fewer lists, or use device cpu"
        )

    def _run(
        self, centroids: np.ndarray, spherical: bool, labels: np.ndarray | None, advance: Advance
    ) -> Pass:
        gpu, (k, dimension) = self.gpu, centroids.shape
        float64 = gpu.torch.float64
        table = gpu.send(centroids)
        halves = gpu.send(half_squares(centroids))
        sums = gpu.torch.zeros((k, dimension + 1), dtype=float64, device=gpu.device)
        squares: Any = 0.0
        # Each row needs room for its products, and for itself in float32 and float64.
        room = gpu.room() * _SHARE_FOR_BATCH - 20 * k * (dimension + 1)
        fitting = int(room) // (4 * k + 16 * dimension + 32)
        size = max(LEAST_BATCH, min(fitting, _MOST_BATCH, len(self.rows), _MOST_PRODUCTS // k))
        starts = range(0, len(self.rows), size)
        here = (self._there[start : start + size] for start in starts) if self._there is not None else None
        for start, batch in zip(starts, here or gpu.batches(self.rows, size), strict=True):
            scores = batch @ table.T if spherical else gpu.torch.addmm(-halves, batch, table.T)
            found = scores.argmax(1)
            # In one call, with the counts in the last column.
            more = gpu.torch.ones((len(batch), dimension + 1), dtype=float64, device=gpu.device)
            more[:, :-1] = batch
            sums.index_add_(0, found, more)
            squares += (batch * batch).sum(dtype=float64)  # not waited for
            if labels is not None:
                labels[start : start + size] = found.cpu().numpy()
            advance(len(batch))
        result: np.ndarray = sums.cpu().numpy()
        return Pass(result[:, :dimension], np.rint(result[:, dimension]).astype(np.int64), float(squares))


Device = Cpu | Gpu
HeldRows = CpuRows | GpuRows


def open_device(settings: Settings) -> Device:
    """Return the device that the settings name; ClusteringError says what it lacks."""
    if settings.device == "cpu":
        return Cpu(settings.threads or cores())
    try:
        torch: Any = import_module("torch")
    except ImportError:
        raise ClusteringError("device 'gpu' needs PyTorch, which is missing: pip install torch") from None
    if not torch.cuda.is_available():
        raise ClusteringError(
            f"device 'gpu': PyTorch {torch.__version__} finds no CUDA GPU: check nvidia-smi, and that this "
            "PyTorch is one with CUDA; or use device cpu"
        )
    return Gpu(torch, torch.device("cuda", torch.cuda.current_device()), settings.device_memory)
