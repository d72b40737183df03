import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.algorithms.clustering import clustering, gpu
from ann_benchmarks.algorithms.clustering.clustering import cluster
from ann_benchmarks.algorithms.clustering.cpu import Cpu
from ann_benchmarks.algorithms.clustering.gpu import Gpu
from ann_benchmarks.algorithms.clustering.libraries import CupyArrays, TorchArrays, open_cupy, open_torch
from ann_benchmarks.algorithms.clustering.settings import ClusteringError, Settings

from .clustering_data import blobs


class NumpyForCupy:
    """NumPy as a stand-in for CuPy and its GPU, with `free` bytes; memory runs out as `fails_at` says."""

    __version__ = "of NumPy"
    float64 = np.float64
    add = np.add

    class OutOfMemory(MemoryError):
        """In place of CuPy's."""

    def __init__(self, free: int = 10**9) -> None:
        self.free, self.largest_batch, self.fails_at = free, 2**62, lambda shape: False
        self.batches: list[int] = []
        pool = SimpleNamespace(free_bytes=lambda: 0, free_all_blocks=lambda: None)
        self.get_default_memory_pool = lambda: pool
        runtime = SimpleNamespace(
            getDevice=lambda: 0,
            getDeviceCount=lambda: 1,
            getDeviceProperties=lambda number: {"name": b"stand-in"},
            memGetInfo=lambda: (self.free, 2 * self.free),
        )
        self.cuda = SimpleNamespace(
            runtime=runtime, memory=SimpleNamespace(OutOfMemoryError=self.OutOfMemory)
        )

    def _checked(self, array: np.ndarray) -> np.ndarray:
        if self.fails_at(array.shape):
            raise self.OutOfMemory(f"Out of memory allocating {array.nbytes} bytes")
        return array

    def array(self, values: np.ndarray) -> np.ndarray:
        return self._checked(np.array(values))

    def zeros(self, shape: Any, dtype: Any = float) -> np.ndarray:
        return self._checked(np.zeros(shape, dtype))

    def ones(self, shape: Any, dtype: Any = float) -> np.ndarray:
        self.batches.append(shape[0])
        return self._checked(np.ones(shape, dtype))

    def asnumpy(self, array: np.ndarray) -> np.ndarray:
        return array.copy()


def cupy_stand_in(**options: Any) -> tuple[NumpyForCupy, CupyArrays]:
    stand_in = NumpyForCupy(**options)
    return stand_in, CupyArrays(stand_in)


@pytest.fixture(params=["torch", "cupy stand-in"])
def arrays(request: pytest.FixtureRequest) -> Any:
    if request.param == "torch":
        return TorchArrays(pytest.importorskip("torch", reason="PyTorch is not installed"), "cpu")
    return cupy_stand_in()[1]


@pytest.mark.parametrize("spherical", [False, True])
@pytest.mark.parametrize("limit", [None, 400_000])
def test_passes_are_those_of_the_cpu(arrays: Any, spherical: bool, limit: int | None) -> None:
    rows = blobs(10_000, 9, 30)
    centroids = rows[:70].copy()
    if spherical:
        centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    cpu = Cpu(1)
    labels, expected_labels = np.empty((2, len(rows)), np.int32)
    done: list[int] = []
    found = Gpu(arrays, limit).hold(rows).run(centroids, spherical, labels, done.append)
    expected = cpu.hold(rows).run(centroids, spherical, expected_labels)
    cpu.close()
    assert (labels != expected_labels).sum() < 5
    assert np.abs(found.counts - expected.counts).sum() < 10
    same = found.counts == expected.counts
    np.testing.assert_allclose(found.sums[same], expected.sums[same], rtol=1e-4, atol=1e-2)
    assert found.squares == pytest.approx(expected.squares, rel=1e-5)
    assert sum(done) == len(rows)
    assert (len(done) > 1) == (limit is not None)


@pytest.mark.parametrize("algorithm", ["lloyd", "hierarchical"])
@pytest.mark.parametrize("device_memory", [None, 600_000])
def test_clusters_as_well_as_the_cpu(
    arrays: Any, algorithm: str, device_memory: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "open_device", lambda settings: Gpu(arrays, settings.device_memory))
    rows = blobs(20_000, 8, 60)
    settings = Settings([8, 100], algorithm=algorithm, device="gpu", device_memory=device_memory)
    found = cluster(rows, settings, progress=False)
    monkeypatch.undo()
    expected = cluster(rows, Settings([8, 100], algorithm=algorithm), progress=False)
    assert found.centroids.shape == expected.centroids.shape
    assert found.sizes.min() > 0
    assert found.inertia == pytest.approx(expected.inertia, rel=0.03)
    assert found.device == arrays.label


def test_rows_stay_on_the_gpu_where_they_fit() -> None:
    rows = blobs(10_000, 8, 30)
    for free, batches in ((10**9, 1), (rows.nbytes, 2)):
        stand_in, arrays = cupy_stand_in(free=free)
        sent: list[int] = []
        stand_in.array = lambda values, sent=sent: sent.append(len(values)) or np.array(values)  # type: ignore[method-assign]
        held = Gpu(arrays, None).hold(rows)
        for _ in range(3):
            held.run(rows[:20], False)
        assert (sent.count(10_000) == 1) == (batches == 1)
        assert (len(stand_in.batches) == 3) == (batches == 1)


def test_memory_runs_out_in_the_middle() -> None:
    rows = blobs(10_000, 8, 30)
    stand_in, arrays = cupy_stand_in()
    held = Gpu(arrays, None).hold(rows)
    expected = held.run(rows[:20], False)
    assert stand_in.batches == [10_000]
    stand_in.fails_at = lambda shape: len(shape) == 2 and shape[0] > 3000
    stand_in.batches.clear()
    done: list[int] = []
    found = held.run(rows[:20], False, advance=done.append)
    assert stand_in.batches == [10_000, 5000, 2500, 2500, 2500, 2500]
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.sums, expected.sums)
    assert sum(done) == len(rows)


def test_memory_runs_out_after_some_batches() -> None:
    rows = blobs(10_000, 8, 30)
    stand_in, arrays = cupy_stand_in()
    held = Gpu(arrays, 10**6).hold(rows)
    expected = held.run(rows[:20], False)
    calls = len(stand_in.batches)
    assert calls > 2
    fails_at = {calls + 2}
    stand_in.fails_at = lambda shape: len(stand_in.batches) in fails_at and not fails_at.clear()
    done: list[int] = []
    found = held.run(rows[:20], False, advance=done.append)
    np.testing.assert_array_equal(found.counts, expected.counts)
    assert min(done) < 0
    assert sum(done) == len(rows)


def test_rows_leave_the_gpu_when_nothing_else_helps() -> None:
    rows = blobs(10_000, 8, 30)
    stand_in, arrays = cupy_stand_in()
    held = Gpu(arrays, None).hold(rows)
    expected = held.run(rows[:20], False)
    stand_in.fails_at = lambda shape: held._there is not None  # type: ignore[attr-defined]
    found = held.run(rows[:20], False)
    np.testing.assert_array_equal(found.counts, expected.counts)


def test_no_memory_at_all_is_one_line(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in, arrays = cupy_stand_in(free=5 << 20)
    monkeypatch.setattr(clustering, "open_device", lambda settings: Gpu(arrays, None))
    stand_in.fails_at = lambda shape: len(stand_in.batches) > 30
    with pytest.raises(ClusteringError) as error:
        cluster(blobs(20_000, 8, 60), Settings([50], memory=1), tmp_path / "folder", progress=False)
    assert str(error.value) == (
        f"cupy cuda:0 stand-in has run out of memory: 5 MB are free, too few for {gpu.LEAST_BATCH} rows at a "
        "time; end other programs on it, give fewer lists or use device cpu"
    )
    assert not list(tmp_path.iterdir())


def test_other_errors_of_the_library_are_not_hidden() -> None:
    stand_in, arrays = cupy_stand_in()
    held = Gpu(arrays, None).hold(blobs(1000, 8, 30))
    stand_in.ones = lambda *_: 1 / 0  # type: ignore[assignment, return-value]
    with pytest.raises(ZeroDivisionError):
        held.run(held.rows[:20], False)


def test_cupy_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = NumpyForCupy()

    def fail() -> int:
        raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device\nis detected")

    stand_in.cuda.runtime.getDeviceCount = fail
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    message = "CuPy of NumPy finds no CUDA GPU \\(cudaErrorNoDevice: no CUDA-capable device is detected\\)"
    with pytest.raises(ClusteringError, match=message):
        open_cupy()


def test_torch_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="9", cuda=cuda))
    with pytest.raises(
        ClusteringError, match="device 'torch': PyTorch 9 finds no CUDA GPU: check nvidia-smi"
    ):
        open_torch()


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("torch", "needs PyTorch, which is missing: pip install torch"),
        ("cupy", "needs CuPy, which is missing: pip install cupy-cuda12x"),
        ("gpu", "needs PyTorch, which is missing.*; device 'cupy' needs CuPy"),
        ("faiss", "needs faiss, which is missing: pip install faiss-cpu"),
    ],
)
def test_missing_libraries(device: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "cupy", "faiss"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ClusteringError, match=message) as error:
        cluster(blobs(1000, 8, 30), Settings([10], device=device), progress=False)
    assert "\n" not in str(error.value)


def test_gpu_is_the_first_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "cupy", NumpyForCupy())
    found = cluster(blobs(5000, 8, 30), Settings([20], device="gpu"), progress=False)
    assert found.device == "cupy cuda:0 stand-in"


@pytest.mark.parametrize("spherical", [False, True])
def test_faiss(spherical: bool) -> None:
    pytest.importorskip("faiss", reason="faiss-cpu is not installed")
    rows = blobs(20_000, 16, 100, spread=0.5)
    settings = Settings([10, 100], device="faiss", spherical=spherical, unit_rows=spherical)
    theirs = cluster(rows, settings, progress=False)
    ours = cluster(rows, Settings([100], spherical=spherical, unit_rows=spherical), progress=False)
    assert theirs.device.startswith("faiss ")
    assert theirs.centroids.shape == (110, 16)
    assert theirs.sizes.min() > 0
    assert len(theirs.history) == 10
    assert theirs.history[-1] == pytest.approx(theirs.inertia, rel=0.02)
    assert ours.inertia < 1.01 * theirs.inertia


def test_faiss_is_not_hierarchical(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", SimpleNamespace(__version__="9"))
    with pytest.raises(ClusteringError, match="device 'faiss' has no hierarchical k-means: use lloyd"):
        cluster(blobs(1000, 8, 30), Settings([10], device="faiss", algorithm="hierarchical"), progress=False)
