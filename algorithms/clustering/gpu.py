"""How a GPU makes a pass: PyTorch, in batches as large as its memory allows."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from .cpu import Advance, Cpu, CpuRows, Item, Pass, Result, half_squares
from .settings import ClusteringError, Settings, cores

LEAST_BATCH = 64  # rows
_MOST_BATCH = 2**18
_MOST_PRODUCTS = 2**30  # of a batch; more make a GPU no faster
_SHARE_FOR_ROWS = 0.6  # of the memory, up to which all rows are kept there
_SHARE_FOR_BATCH = 0.8  # of what is left
# How PyTorch and cuBLAS say it, in a RuntimeError.
_OUT_OF_MEMORY = ("out of memory", "allocate memory", "CUBLAS_STATUS_ALLOC_FAILED")


class Gpu:
    """A GPU that PyTorch drives; it takes `limit` bytes of memory, or what is free.

    The search for the nearest centroid uses TF32 where available; sums are made in float64.
    """

    threads = 1

    def __init__(self, torch: Any, device: Any, limit: int | None = None) -> None:
        self.torch, self.device, self.limit = torch, torch.device(device), limit
        self.label = f"torch {self.device} {torch.cuda.get_device_name(self.device)}"

    def hold(self, rows: np.ndarray, alone: bool = False) -> "GpuRows":
        """Copy all rows to the GPU if they fit well; otherwise each pass sends them anew."""
        return GpuRows(self, rows)

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Do one after the other."""
        return map(work, items)

    def close(self) -> None:
        """Give back the memory that PyTorch keeps."""
        self.torch.cuda.empty_cache()

    def room(self) -> int:
        """Bytes that may be taken now: what the GPU has free, and what PyTorch keeps unused."""
        cuda = self.torch.cuda
        unused = cuda.memory_reserved(self.device) - cuda.memory_allocated(self.device)
        free = int(cuda.mem_get_info(self.device)[0] + unused)
        return free if self.limit is None else min(free, self.limit)

    def send(self, array: np.ndarray) -> Any:
        """Copy an array to the GPU."""
        return self.torch.from_numpy(np.array(array)).to(self.device)

    def sender(self, rows: int, dimension: int) -> Callable[[np.ndarray], Any]:
        """Return a function that sends up to `rows` rows from two pinned buffers in turn.

        One is filled while the other is on its way.
        """
        buffers = deque(
            (self.torch.empty((rows, dimension), pin_memory=True), self.torch.cuda.Event()) for _ in range(2)
        )

        def send(batch: np.ndarray) -> Any:
            buffers.rotate()
            buffer, sent = buffers[0]
            sent.synchronize()  # at once where nothing was sent from it yet
            buffer[: len(batch)].numpy()[:] = batch
            there = buffer[: len(batch)].to(self.device, non_blocking=True)
            sent.record()
            return there

        return send

    def scores(self, rows: Any, centroids: Any, halves: Any | None) -> Any:
        """Inner product of each row with each centroid, (rows, k), less the centroid's half square."""
        settings = self.torch.backends.cuda.matmul
        before, settings.allow_tf32 = settings.allow_tf32, True
        try:
            if halves is None:
                return rows @ centroids.T
            return self.torch.addmm(-halves, rows, centroids.T)
        finally:
            settings.allow_tf32 = before


class GpuRows:
    """Rows on the GPU, or sent to it in batches as large as its memory allows."""

    def __init__(self, gpu: Gpu, rows: np.ndarray) -> None:
        self.gpu, self.rows = gpu, rows
        self._there: Any = None
        self.batch_rows = self._most = _MOST_BATCH  # rows of the last batch, and of any
        if rows.nbytes <= gpu.room() * _SHARE_FOR_ROWS and not self._lacks_memory(self._send_all):
            return
        self._there = None

    def run(
        self,
        centroids: np.ndarray,
        spherical: bool,
        labels: np.ndarray | None = None,
        advance: Advance | None = None,
    ) -> Pass:
        """Go through all rows as on the CPU; repeat the pass in smaller batches if memory runs out."""
        found: list[Pass] = []
        done: list[int] = []

        def report(rows: int) -> None:
            done.append(rows)
            if advance is not None:
                advance(rows)

        while self._lacks_memory(lambda: found.append(self._run(centroids, spherical, labels, report))):
            report(-sum(done))
            done.clear()
            self._take_less()
        return found[0]

    def _send_all(self) -> None:
        self._there = self.gpu.send(self.rows)

    def _lacks_memory(self, work: Callable[[], object]) -> bool:
        """Do the work; return whether the GPU had too little memory for it."""
        try:
            work()
            return False
        except RuntimeError as error:
            if not any(text in str(error) for text in _OUT_OF_MEMORY):
                raise
        self.gpu.close()
        return True

    def _take_less(self) -> None:
        if self.batch_rows > LEAST_BATCH:
            self.batch_rows = self._most = max(LEAST_BATCH, min(self.batch_rows, len(self.rows)) // 2)
        elif self._there is not None:
            self._there, self.batch_rows, self._most = None, _MOST_BATCH, _MOST_BATCH
            self.gpu.close()
        else:
            raise ClusteringError(
                f"{self.gpu.label} has run out of memory: {self.gpu.room() / 2**20:,.0f} MB are free, too "
                f"few for {LEAST_BATCH} rows at a time; end other programs on it, give fewer lists or use "
                "device cpu"
            )

    def _run(
        self, centroids: np.ndarray, spherical: bool, labels: np.ndarray | None, advance: Advance
    ) -> Pass:
        gpu, (k, dimension) = self.gpu, centroids.shape
        float64 = gpu.torch.float64
        table = gpu.send(centroids)
        halves = None if spherical else gpu.send(half_squares(centroids))
        sums = gpu.torch.zeros((k, dimension + 1), dtype=float64, device=gpu.device)
        squares: Any = 0.0
        # Each row needs room for its products, and for itself in float32 and float64.
        room = gpu.room() * _SHARE_FOR_BATCH - 20 * k * (dimension + 1)
        fitting = int(room) // (4 * k + 16 * dimension + 32)
        size = max(LEAST_BATCH, min(fitting, self._most, len(self.rows), _MOST_PRODUCTS // k))
        self.batch_rows = size
        send = gpu.sender(size, dimension) if self._there is None else None
        for start in range(0, len(self.rows), size):
            part = slice(start, start + size)
            batch = self._there[part] if send is None else send(self.rows[part])
            found = gpu.scores(batch, table, halves).argmax(1)
            # In one call, with the counts in the last column.
            more = gpu.torch.ones((len(batch), dimension + 1), dtype=float64, device=gpu.device)
            more[:, :-1] = batch
            sums.index_add_(0, found, more)
            squares += (batch * batch).sum(dtype=float64)  # not waited for
            if labels is not None:
                labels[part] = found.cpu().numpy()
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
