"""Passes on a GPU, with NumPy as a stand-in for PyTorch: no GPU is to be had where these tests run."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.algorithms.clustering import clustering
from ann_benchmarks.algorithms.clustering.clustering import cluster
from ann_benchmarks.algorithms.clustering.devices import Cpu, Gpu, open_device
from ann_benchmarks.algorithms.clustering.settings import ClusteringError, Settings

from .clustering_data import blobs


class Tensor(np.ndarray):
    """An array with the methods of a tensor."""

    def to(self, device: str, non_blocking: bool = False) -> "Tensor":
        return self.copy()

    def cpu(self) -> "Tensor":
        return self

    def numpy(self) -> np.ndarray:
        return self.view(np.ndarray)

    def index_add_(self, axis: int, numbers: np.ndarray, rows: np.ndarray) -> None:
        np.add.at(self.numpy(), numbers, rows)


class TorchStandIn:
    """NumPy in place of PyTorch and a GPU with `free` bytes; memory runs out where `fails_at` says so."""

    __version__ = "of NumPy"
    float64 = np.float64

    def __init__(self, free: int = 10**9) -> None:
        self.free, self.fails_at = free, lambda shape: False
        self.batches: list[int] = []
        self.sent: list[int] = []
        self.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=False)))
        self.cuda = SimpleNamespace(
            Event=lambda: SimpleNamespace(synchronize=lambda: None, record=lambda: None),
            is_available=lambda: True,
            current_device=lambda: 0,
            empty_cache=lambda: None,
            get_device_name=lambda device: "stand-in",
            memory_allocated=lambda device: 0,
            memory_reserved=lambda device: 0,
            mem_get_info=lambda device: (self.free, 2 * self.free),
        )

    def device(self, name: str, number: int = 0) -> str:
        return f"{name.partition(':')[0]}:{number}"

    def from_numpy(self, array: np.ndarray) -> Tensor:
        self.sent.append(len(array))
        return array.view(Tensor)

    def empty(self, shape: Any, pin_memory: bool) -> Tensor:
        return np.empty(shape, np.float32).view(Tensor)

    def zeros(self, shape: Any, dtype: Any, device: str) -> Tensor:
        return np.zeros(shape, dtype).view(Tensor)

    def ones(self, shape: Any, dtype: Any, device: str) -> Tensor:
        self.batches.append(shape[0])
        if self.fails_at(shape):
            raise RuntimeError(f"CUDA out of memory. Tried to allocate {shape}")
        return np.ones(shape, dtype).view(Tensor)

    def addmm(self, added: Any, left: Any, right: Any) -> Any:
        return added + left @ right


def gpu_stand_in(limit: int | None = None, free: int = 10**9) -> tuple[Any, Gpu]:
    torch = TorchStandIn(free)
    return torch, Gpu(torch, "cuda", limit)


@pytest.fixture(params=["torch", "stand-in"])
def torch(request: pytest.FixtureRequest) -> Any:
    if request.param == "stand-in":
        return TorchStandIn()
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    return torch


@pytest.mark.parametrize("spherical", [False, True])
@pytest.mark.parametrize("limit", [None, 400_000])
def test_passes_are_those_of_the_cpu(torch: Any, spherical: bool, limit: int | None) -> None:
    rows = blobs(10_000, 9, 30)
    centroids = rows[:70].copy()
    if spherical:
        centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    cpu = Cpu(1)
    labels, expected_labels = np.empty((2, len(rows)), np.int32)
    done: list[int] = []
    found = Gpu(torch, "cuda", limit).hold(rows).run(centroids, spherical, labels, done.append)
    expected = cpu.hold(rows).run(centroids, spherical, expected_labels)
    cpu.close()
    assert (labels != expected_labels).sum() < 5
    assert np.abs(found.counts - expected.counts).sum() < 10
    same = found.counts == expected.counts
    np.testing.assert_allclose(found.sums[same], expected.sums[same], rtol=1e-4, atol=1e-2)
    assert found.squares == pytest.approx(expected.squares, rel=1e-5)
    assert sum(done) == len(rows)
    assert (len(done) > 1) == (limit is not None)


@pytest.mark.parametrize("lists", [[100], [8, 100]])
@pytest.mark.parametrize("device_memory", [None, 600_000])
def test_clusters_as_well_as_the_cpu(
    torch: Any, lists: list[int], device_memory: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    rows = blobs(20_000, 8, 60)
    found = cluster(rows, Settings(lists, device="gpu", device_memory=device_memory), progress=False)
    expected = cluster(rows, Settings(lists), progress=False)
    assert found.centroids.shape == expected.centroids.shape
    assert found.sizes.min() > 0
    assert found.inertia == pytest.approx(expected.inertia, rel=0.03)
    assert found.device.startswith("torch cuda:0 ")


def test_rows_stay_on_the_gpu_where_they_fit() -> None:
    rows = blobs(10_000, 8, 30)
    for free, is_kept in ((10**9, True), (rows.nbytes, False)):
        torch, device = gpu_stand_in(free=free)
        held = device.hold(rows)
        for _ in range(3):
            held.run(rows[:20], False)
        assert (torch.sent.count(10_000) == 1) == is_kept
        assert (len(torch.batches) == 3) == is_kept


def test_no_memory_at_all_is_one_line(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch, device = gpu_stand_in(free=5 << 20)
    monkeypatch.setattr(clustering, "open_device", lambda settings: device)
    torch.fails_at = lambda shape: len(torch.batches) > 30
    with pytest.raises(ClusteringError) as error:
        cluster(blobs(20_000, 8, 60), Settings([50], memory=1), tmp_path / "folder", progress=False)
    assert str(error.value) == (
        "torch cuda:0 stand-in has run out of memory: 5 MB are free; end other programs on it, give less"
        " device memory or fewer lists, or use device cpu"
    )
    assert not list(tmp_path.iterdir())


def test_other_errors_of_the_library_are_not_hidden() -> None:
    torch, device = gpu_stand_in()
    held = device.hold(blobs(1000, 8, 30))
    torch.ones = lambda *_, **__: 1 / 0
    with pytest.raises(ZeroDivisionError):
        held.run(held.rows[:20], False)


@pytest.mark.parametrize(
    ("is_installed", "message"),
    [
        (False, "device 'gpu' needs PyTorch, which is missing: pip install torch"),
        (True, "device 'gpu': PyTorch of NumPy finds no CUDA GPU: check nvidia-smi"),
    ],
)
def test_a_missing_gpu(is_installed: bool, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = TorchStandIn()
    torch.cuda.is_available = lambda: False
    monkeypatch.setitem(sys.modules, "torch", torch if is_installed else None)
    with pytest.raises(ClusteringError, match=message):
        open_device(Settings([10], device="gpu"))
