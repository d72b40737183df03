"""K-means by NumPy, by PyTorch on the CPU, which runs almost all of a GPU's code, and on a GPU."""

import re
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.algorithms.clustering import clustering, kmeans
from ann_benchmarks.algorithms.clustering.clustering import cluster, shares
from ann_benchmarks.algorithms.clustering.devices import Cpu, Gpu, open_device
from ann_benchmarks.algorithms.clustering.kmeans import KMeans, Lists
from ann_benchmarks.algorithms.clustering.settings import Clustering, ClusteringError, Settings


def blobs(rows: int, dimension: int, centres: int, spread: float = 0.3) -> np.ndarray:
    """Clusters of very different size."""
    rng = np.random.default_rng(0)
    shares = rng.exponential(size=centres) ** 2
    of = rng.choice(centres, rows, p=shares / shares.sum())
    means = rng.standard_normal((centres, dimension))
    return (means[of] + spread * rng.standard_normal((rows, dimension))).astype(np.float32)


def nearest(rows: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number of the nearest centroid of each row, and its squared distance, in float64."""
    gaps = ((rows[:, None].astype(float) - centroids[None].astype(float)) ** 2).sum(-1)
    return gaps.argmin(axis=1), gaps.min(axis=1)


class SlicesOnly:
    """Rows that give only small slices of themselves, as those of a file."""

    def __init__(self, array: np.ndarray, most: int = 2**20) -> None:
        self.array, self.most = array, most
        self.shape, self.dtype = array.shape, array.dtype
        self.read = 0

    def __getitem__(self, key: slice) -> np.ndarray:
        assert isinstance(key, slice)
        assert key.step is None
        part = self.array[key]
        assert part.nbytes <= self.most, "too much at once"
        self.read += len(part)
        return part.copy()

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise AssertionError("all rows at once")


ALGORITHMS = ("lloyd", "hierarchical")


@pytest.fixture(params=["NumPy", "torch on the CPU", "torch on a GPU"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a device, in settings."""
    if request.param == "NumPy":
        return "cpu"
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if request.param == "torch on the CPU":
        monkeypatch.setattr(clustering, "open_device", lambda _: Gpu(torch, "cpu", "torch cpu", 2**30))
        monkeypatch.setattr(Gpu, "tile", 2**16)  # several tiles
    elif not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    return "gpu"


def check(found: Clustering, rows: np.ndarray, settings: Settings) -> None:
    """The result describes a clustering of all rows."""
    assert found.centroids.shape == (sum(settings.lists), rows.shape[1])
    assert found.centroids.dtype == np.float32
    assert np.isfinite(found.centroids).all()
    assert found.sizes.dtype == np.int64
    assert found.sizes.min() > 0
    assert found.sizes.sum() == found.sample_rows
    assert found.seconds == pytest.approx(sum(found.parts.values()))


@pytest.mark.parametrize("spherical", [False, True])
def test_passes_are_those_of_plain_lloyd(device: str, spherical: bool) -> None:
    rows = blobs(20_000, 7, 40)
    rng = np.random.default_rng(0)
    centroids = rows[:50].astype(float)
    if spherical:
        centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    opened: Any = clustering.open_device(Settings([50], device=device))
    there = opened.put(rows)
    kmeans = KMeans(opened, there, (there * there).sum(dtype=opened.xp.float64), spherical, rng)
    lists = Lists(opened.put(centroids.astype(np.float32)), np.ones(50), np.inf)
    for _ in range(4):
        labels = (rows @ centroids.T).argmax(axis=1) if spherical else nearest(rows, centroids)[0]
        lists = kmeans.improve(lists)
        counts = opened.get(lists.counts)
        centroids = np.array([rows[labels == own].mean(axis=0, dtype=float) for own in range(50)])
        if spherical:
            centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
        if "cuda" not in opened.label:
            np.testing.assert_array_equal(counts, np.bincount(labels, minlength=50))
            np.testing.assert_allclose(opened.get(lists.centroids), centroids, rtol=1e-5, atol=1e-5)
        expected = ((rows - centroids[labels]) ** 2).sum(axis=1).mean()
        assert lists.inertia == pytest.approx(expected, rel=1e-5 if "cuda" not in opened.label else 5e-3)
    opened.close()


def test_nearest_centroid_over_several_tiles(device: str) -> None:
    rng = np.random.default_rng(1)
    rows, centroids = (rng.standard_normal((count, 5), dtype=np.float32) for count in (3000, 700))
    opened: Any = clustering.open_device(Settings([50], device=device))
    here, there = opened.put(rows), opened.put(centroids)
    for opened.tile in (1, 100_000, 2**28):
        with opened.exactly():
            found, spherical = (
                opened.get(KMeans(opened, here, 0, is_it, rng).labels(there)) for is_it in (False, True)
            )
        np.testing.assert_array_equal(found, nearest(rows, centroids)[0])
        np.testing.assert_array_equal(spherical, (rows @ centroids.T).argmax(axis=1))
    opened.close()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_result_is_as_described(device: str, algorithm: str) -> None:
    rows = blobs(6000, 10, 100)
    settings = Settings([120], algorithm=algorithm, sampling_factor=50, seed=3, device=device)
    found = cluster(rows, settings)
    check(found, rows, settings)
    labels, gaps = nearest(rows, found.centroids)
    assert found.history[-1] == found.inertia
    assert found.history == sorted(found.history, reverse=True)
    if algorithm == "lloyd":
        assert found.inertia == pytest.approx(gaps.mean(), rel=0.01)
        assert np.abs(np.bincount(labels, minlength=120) - found.sizes).sum() < 0.05 * len(rows)
    else:
        assert gaps.mean() <= found.inertia < 1.3 * gaps.mean()
    assert found.device.startswith("cpu, " if device == "cpu" else "torch ")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_same_for_the_same_seed_whatever_the_threads(algorithm: str) -> None:
    rows = blobs(20_000, 8, 60)
    one, three, other = (
        cluster(rows, Settings([60], algorithm=algorithm, threads=threads, seed=seed))
        for threads, seed in ((1, 0), (3, 0), (3, 1))
    )
    np.testing.assert_array_equal(one.centroids, three.centroids)
    assert one.history == three.history
    assert not np.array_equal(one.centroids, other.centroids)


def test_not_worse_than_scikit_learn(device: str) -> None:
    other = pytest.importorskip("sklearn.cluster").KMeans(60, init="random", n_init=5, max_iter=10, tol=0)
    rows = blobs(12_000, 12, 100, spread=0.5)
    ours = [cluster(rows, Settings([60], seed=seed, device=device)).inertia for seed in range(5)]
    assert min(ours) < 1.02 * other.set_params(random_state=0).fit(rows).inertia_ / len(rows)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", ["few vectors", "one cluster", "grid", "one far away"])
def test_no_list_is_empty(device: str, kind: str, algorithm: str) -> None:
    rng = np.random.default_rng(4)
    rows = {
        # 64 vectors; one of them makes 90 % of the rows
        "few vectors": lambda: rng.standard_normal((64, 6))[rng.integers(64, size=9000) * (rng.random(9000) > 0.9)],  # noqa: E501
        "one cluster": lambda: np.concatenate([rng.normal(0, 1e-3, (8900, 6)), rng.normal(0, 10, (100, 6))]),
        "grid": lambda: rng.integers(0, 3, (9000, 4)),
        "one far away": lambda: np.concatenate([rng.standard_normal((8999, 6)), np.full((1, 6), 1e6)]),
    }[kind]()  # fmt: skip
    lists = {"few vectors": 64, "grid": 81}.get(kind, 60)
    settings = Settings([lists], algorithm=algorithm, sampling_factor=1000, device=device)
    found = cluster(rows, settings)
    check(found, rows, settings)
    if kind in ("few vectors", "grid"):  # as many lists as there are different vectors
        assert found.inertia < (1e-5 if algorithm == "lloyd" else 1e-2)
        assert len(np.unique(found.centroids.round(3), axis=0)) == lists


def test_too_few_different_rows(device: str) -> None:
    rows = np.random.default_rng(5).standard_normal((50, 4))[np.arange(3000) % 50]
    for spherical, what in ((False, "vectors"), (True, "directions")):
        message = f"^the sample of 3,000 rows has only 50 different {what}, .* for lists: 51: give fewer$"
        with pytest.raises(ClusteringError, match=message):
            cluster(rows, Settings([51], spherical=spherical, device=device))


@pytest.mark.parametrize("unit_rows", [False, True])
@pytest.mark.parametrize(
    "lists, algorithm", [([400], "lloyd"), ([400], "hierarchical"), ([20, 400], "lloyd")]
)
def test_spherical(device: str, unit_rows: bool, lists: list[int], algorithm: str) -> None:
    rows = blobs(5000, 8, 40) + np.float32(0.5)
    rows[7] = 0
    settings = Settings(lists, spherical=True, unit_rows=unit_rows, algorithm=algorithm, device=device)
    found = cluster(rows, settings)
    check(found, rows, settings)
    np.testing.assert_allclose(np.linalg.norm(found.centroids, axis=1), 1, rtol=1e-5)
    if len(lists) > 1:
        parents = (found.centroids[20:] @ found.centroids[:20].T).argmax(axis=1)
        assert (np.bincount(parents, minlength=20) > 0).all()
    elif algorithm == "lloyd":
        unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9) if unit_rows else rows
        leaves = found.centroids
        gaps = ((unit - leaves[(unit @ leaves.T).argmax(axis=1)]) ** 2).sum(axis=1)
        assert found.inertia == pytest.approx(gaps.mean(), rel=0.02)


def test_unit_rows() -> None:
    rows = blobs(4000, 8, 40) * np.float32(10)
    rows[3] = 0
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-9))
    found = cluster(rows, Settings([30], unit_rows=True))
    expected = cluster(unit, Settings([30]))
    np.testing.assert_allclose(found.centroids, expected.centroids, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "int8", "uint8", "float64"])
def test_number_types(dtype: str) -> None:
    rows = np.round(blobs(3000, 6, 20) * 20 + (100 if dtype == "uint8" else 0)).clip(-127, 255).astype(dtype)
    found = cluster(rows, Settings([20]))
    expected = cluster(rows.astype(np.float32), Settings([20]))
    np.testing.assert_array_equal(found.centroids, expected.centroids)


def test_two_levels(device: str) -> None:
    rows = blobs(8000, 8, 100)
    settings = Settings([100, 300], device=device)
    found = cluster(rows, settings)
    check(found, rows, settings)
    coarse, leaves = found.centroids[:100], found.centroids[100:]
    # A row belongs to the nearest coarse centroid, and to the nearest of the lists below it.
    parents, _ = nearest(leaves, coarse)
    assert len(np.unique(parents)) == len(coarse)
    own = nearest(rows, coarse)[0]
    gaps = ((rows[:, None] - leaves[None]) ** 2).sum(-1)
    gaps[own[:, None] != parents[None]] = np.inf
    assert gaps.min(axis=1).mean() == pytest.approx(found.inertia, rel=0.01)
    assert np.abs(np.bincount(gaps.argmin(axis=1), minlength=300) - found.sizes).sum() < 0.02 * len(rows)


@pytest.mark.parametrize("lists", [[1, 50], [50, 50], [3, 64]])
def test_two_levels_of_few_vectors(device: str, lists: list[int]) -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((64, 6))[rng.integers(64, size=9000) * (rng.random(9000) > 0.9)]
    settings = Settings(lists, sampling_factor=1000, device=device)
    check(cluster(rows, settings), rows, settings)


def test_every_row_is_as_likely_to_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmeans, "BLOCK_BYTES", 4 * 130)  # 8 blocks
    rows, draws = np.zeros((1000, 1), np.float32), 400
    seen = np.zeros(1000)
    for seed in range(draws):
        drawn = np.concatenate([*kmeans.drawn_numbers(rows, 300, np.random.default_rng(seed))])
        assert len(drawn) == 300
        assert (np.diff(drawn) > 0).all()
        seen[drawn] += 1
    chi = ((seen - draws * 0.3) ** 2).sum() / (draws * 0.3 * 0.7)  # 1000 on average, deviation 45
    assert 800 < chi < 1200
    assert all(
        isinstance(block, range) for block in kmeans.drawn_numbers(rows, 1000, np.random.default_rng())
    )


@pytest.mark.parametrize(("factor", "read"), [(256, None), (5, 4000), (2500, 100_000)])
def test_rows_of_files_and_arrays_are_sampled_alike(
    device: str, factor: int, read: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks or single rows are read, and never all at once."""
    monkeypatch.setattr(kmeans, "BLOCK_BYTES", 2**20)
    rows = SlicesOnly(blobs(100_000, 16, 50), most=2**20)
    settings = Settings([40], sampling_factor=factor, iterations=1, device=device)
    from_file, from_array = (cluster(given, settings) for given in (rows, rows.array))
    assert from_file.sample_rows == 40 * factor
    assert read is None or rows.read <= read
    np.testing.assert_allclose(from_file.centroids, from_array.centroids, rtol=1e-3, atol=1e-3)


def test_a_sample_that_does_not_fit(device: str) -> None:
    rows = blobs(4000, 8, 30)
    message = "the sample of 4,000 rows takes 0 MB, and at most 0 MB may be taken on .*: give "
    for memory, way in ((70_000, "a sampling_factor of at most 21"), (2000, "fewer lists")):
        with pytest.raises(ClusteringError, match=f"^{message}{way}$"):
            cluster(rows, Settings([100], memory=memory, device=device))
    settings = Settings([100], sampling_factor=21, memory=70_000, device=device)
    assert cluster(rows, settings).sample_rows == 2100


def test_shares_of_lists() -> None:
    rng = np.random.default_rng(6)
    for _ in range(50):
        counts = rng.integers(0, 50, 20) ** rng.integers(1, 3)
        k = int(rng.integers(np.count_nonzero(counts), counts.sum() + 1))
        lists = shares(k, counts)
        assert lists.sum() == k
        assert (lists <= counts).all()
        assert (lists[counts > 0] > 0).all()
    assert shares(8, np.array([100, 300])).tolist() == [3, 5]


def test_more_lists_than_rows_is_one_line() -> None:
    with pytest.raises(ClusteringError, match="6 lists for 5 rows: give fewer$"):
        cluster(np.ones((5, 3)), Settings([6]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_bad_row_is_named(device: str, bad: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmeans, "BLOCK_BYTES", 4 * 4 * 100)
    rows = blobs(2000, 4, 5)
    rows[1234, 2] = bad
    with pytest.raises(ClusteringError, match=re.escape("row 1234 (from 0) holds NaN, infinity or values")):
        cluster(rows, Settings([20], device=device))


def test_few_passes(device: str) -> None:
    rows = blobs(3000, 4, 30)
    by_passes = [cluster(rows, Settings([50], iterations=passes, device=device)) for passes in (0, 1, 3)]
    assert [len(found.history) for found in by_passes] == [0, 1, 3]
    assert by_passes[0].inertia > by_passes[1].inertia > by_passes[2].inertia
    for found in by_passes:
        check(found, rows, Settings([50]))


def test_one_list(device: str) -> None:
    rows = blobs(3000, 4, 30)
    found = cluster(rows, Settings([1], sampling_factor=10**6, device=device))
    np.testing.assert_allclose(found.centroids[0], rows.mean(axis=0), atol=1e-5)
    assert found.inertia == pytest.approx(rows.var(axis=0).sum(), rel=1e-4)


def test_far_from_the_origin(device: str) -> None:
    rows = blobs(5000, 6, 30).astype(np.float64) + 3000
    found = cluster(rows, Settings([40], device=device))
    assert found.inertia == pytest.approx(nearest(rows, found.centroids)[1].mean(), rel=0.01)


def test_no_memory_is_one_line_and_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (MemoryError(), RuntimeError("CUDA out of memory. Tried to allocate 2 GiB\nand more")):
        monkeypatch.setattr(Cpu, "sums", lambda *_, error=error: (_ for _ in ()).throw(error))
        with pytest.raises(ClusteringError, match="^cpu, 1 thread has no memory left: end other .*factor$"):
            cluster(blobs(2000, 4, 5), Settings([20], threads=1))
    monkeypatch.setattr(Cpu, "sums", lambda *_: [].pop())
    with pytest.raises(IndexError):
        cluster(blobs(2000, 4, 5), Settings([20]))


def test_what_a_gpu_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ClusteringError, match="device 'gpu' needs PyTorch, which is missing: pip install"):
        open_device(Settings([10], device="gpu"))
    torch = SimpleNamespace(__version__="2", cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(ClusteringError, match="device 'gpu': PyTorch 2 finds no CUDA GPU: check nvidia-smi"):
        open_device(Settings([10], device="gpu"))
