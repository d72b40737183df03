import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.algorithms.clustering import sample
from ann_benchmarks.algorithms.clustering.clustering import cluster
from ann_benchmarks.algorithms.clustering.devices import Cpu, NearestTable
from ann_benchmarks.algorithms.clustering.kmeans import KMeans, shares
from ann_benchmarks.algorithms.clustering.settings import Clustering, ClusteringError, Settings

from .clustering_data import SlicesOnly, blobs, nearest

ALGORITHMS = ("lloyd", "hierarchical")


def check(found: Clustering, rows: np.ndarray, settings: Settings) -> None:
    """The result describes a clustering of all rows."""
    assert found.centroids.shape == (sum(settings.lists), rows.shape[1])
    assert found.centroids.dtype == np.float32
    assert np.isfinite(found.centroids).all()
    assert found.lists == settings.lists
    assert found.sizes.dtype == np.int64
    assert found.sizes.min() > 0
    assert found.sizes.sum() == found.sample_rows
    assert found.seconds > 0


@pytest.mark.parametrize("threads", [1, 3])
def test_passes_are_those_of_plain_lloyd(threads: int) -> None:
    rows = blobs(20_000, 7, 40)
    centroids = rows[:50].copy()
    device = Cpu(threads)
    held = device.hold(rows)
    for number in range(4):
        labels, _ = nearest(rows, centroids)
        centroids, counts, inertia = KMeans(False, (0,)).improve(held, centroids, number)
        expected = np.array([rows[labels == own].mean(axis=0, dtype=float) for own in range(50)])
        np.testing.assert_array_equal(counts, np.bincount(labels, minlength=50))
        np.testing.assert_allclose(centroids, expected, rtol=1e-5, atol=1e-5)
        assert inertia == pytest.approx(((rows - expected[labels]) ** 2).sum(axis=1).mean(), rel=1e-5)
    device.close()


def test_nearest_centroid_over_several_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    rows, centroids = (rng.standard_normal((count, 5), dtype=np.float32) for count in (3000, 700))
    expected = nearest(rows, centroids)[0]
    spherical = (rows @ centroids.T).argmax(axis=1)
    for lists in (2048, 100, 699):
        monkeypatch.setattr("ann_benchmarks.algorithms.clustering.devices.TILE_LISTS", lists)
        np.testing.assert_array_equal(NearestTable(centroids, False).nearest(rows), expected)
        np.testing.assert_array_equal(NearestTable(centroids, True).nearest(rows), spherical)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_result_is_as_described(algorithm: str) -> None:
    rows = blobs(6000, 10, 100)
    settings = Settings([120], algorithm=algorithm, sampling_factor=50, seed=3)
    found = cluster(rows, settings, progress=False)
    check(found, rows, settings)
    labels, gaps = nearest(rows, found.centroids)
    assert found.history[-1] == found.inertia
    assert found.history == sorted(found.history, reverse=True)
    if algorithm == "lloyd":
        assert found.inertia == pytest.approx(gaps.mean(), rel=0.01)
        assert np.abs(np.bincount(labels, minlength=120) - found.sizes).sum() < 0.05 * len(rows)
    else:
        assert gaps.mean() <= found.inertia < 1.3 * gaps.mean()
    assert found.device.startswith("cpu, ")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_same_for_the_same_seed_whatever_the_threads(algorithm: str) -> None:
    rows = blobs(20_000, 8, 60)
    one, three, other = (
        cluster(rows, Settings([60], algorithm=algorithm, threads=threads, seed=seed), progress=False)
        for threads, seed in ((1, 0), (3, 0), (3, 1))
    )
    np.testing.assert_array_equal(one.centroids, three.centroids)
    assert one.history == three.history
    assert not np.array_equal(one.centroids, other.centroids)


def test_not_worse_than_scikit_learn() -> None:
    from sklearn.cluster import KMeans as Other

    rows = blobs(12_000, 12, 100, spread=0.5)
    ours = cluster(rows, Settings([60], iterations=10), progress=False)
    other = Other(60, init="random", n_init=1, max_iter=10, tol=0, random_state=0).fit(rows)
    assert ours.inertia < 1.02 * other.inertia_ / len(rows)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", ["few vectors", "one cluster", "grid", "one far away"])
def test_no_list_is_empty(kind: str, algorithm: str) -> None:
    rng = np.random.default_rng(4)
    rows = {
        # 64 vectors; one of them makes 90 % of the rows
        "few vectors": lambda: rng.standard_normal((64, 6))[rng.integers(64, size=9000) * (rng.random(9000) > 0.9)],  # noqa: E501
        "one cluster": lambda: np.concatenate([rng.normal(0, 1e-3, (8900, 6)), rng.normal(0, 10, (100, 6))]),
        "grid": lambda: rng.integers(0, 3, (9000, 4)),
        "one far away": lambda: np.concatenate([rng.standard_normal((8999, 6)), np.full((1, 6), 1e6)]),
    }[kind]()  # fmt: skip
    lists = {"few vectors": 64, "grid": 81}.get(kind, 60)
    settings = Settings([lists], algorithm=algorithm, sampling_factor=1000)
    found = cluster(rows, settings, progress=False)
    check(found, rows, settings)
    if kind in ("few vectors", "grid"):  # as many lists as there are different vectors
        assert found.inertia < (1e-5 if algorithm == "lloyd" else 1e-2)
        assert len(np.unique(found.centroids.round(3), axis=0)) == lists


def test_too_few_different_rows() -> None:
    rows = np.random.default_rng(5).standard_normal((50, 4))[np.arange(3000) % 50]
    for spherical, what in ((False, "vectors"), (True, "directions")):
        message = f"^the sample of 3,000 rows has only 50 different {what}, .* for lists: 51: give fewer$"
        with pytest.raises(ClusteringError, match=message):
            cluster(rows, Settings([51], spherical=spherical), progress=False)


@pytest.mark.parametrize("unit_rows", [False, True])
@pytest.mark.parametrize(
    "lists, algorithm", [([400], "lloyd"), ([400], "hierarchical"), ([20, 400], "lloyd")]
)
def test_spherical(unit_rows: bool, lists: list[int], algorithm: str) -> None:
    rows = blobs(5000, 8, 40) + np.float32(0.5)
    rows[7] = 0
    settings = Settings(lists, spherical=True, unit_rows=unit_rows, algorithm=algorithm)
    found = cluster(rows, settings, progress=False)
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
    found = cluster(rows, Settings([30], unit_rows=True), progress=False)
    expected = cluster(unit, Settings([30]), progress=False)
    np.testing.assert_allclose(found.centroids, expected.centroids, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "int8", "uint8", "float64"])
def test_number_types(dtype: str) -> None:
    rows = np.round(blobs(3000, 6, 20) * 20 + (100 if dtype == "uint8" else 0)).clip(-127, 255).astype(dtype)
    found = cluster(rows, Settings([20]), progress=False)
    expected = cluster(rows.astype(np.float32), Settings([20]), progress=False)
    np.testing.assert_array_equal(found.centroids, expected.centroids)


def test_two_levels() -> None:
    rows = blobs(8000, 8, 100)
    settings = Settings([100, 300])
    found = cluster(rows, settings, progress=False)
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
def test_two_levels_of_few_vectors(lists: list[int]) -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((64, 6))[rng.integers(64, size=9000) * (rng.random(9000) > 0.9)]
    settings = Settings(lists, sampling_factor=1000)
    check(cluster(rows, settings, progress=False), rows, settings)


def test_every_row_is_as_likely_to_be_drawn() -> None:
    numbers = np.arange(1000, dtype=np.float32)[:, None]
    draws = 400
    seen = np.zeros(1000)
    blocks = SlicesOnly(numbers)
    before = sample.BLOCK_BYTES
    try:
        sample.BLOCK_BYTES = 4 * 130  # 8 blocks
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            drawn = np.concatenate(list(sample.drawn_blocks(blocks, 300, False, rng)))[:, 0].astype(int)
            assert len(drawn) == 300
            assert (np.diff(drawn) > 0).all()
            seen[drawn] += 1
    finally:
        sample.BLOCK_BYTES = before
    chi = ((seen - draws * 0.3) ** 2).sum() / (draws * 0.3 * 0.7)  # 1000 on average, deviation 45
    assert 800 < chi < 1200


def test_reads_blocks_or_single_rows_but_never_all() -> None:
    rows = SlicesOnly(blobs(200_000, 16, 50), most=sample.BLOCK_BYTES)
    found = cluster(rows, Settings([40]), progress=False)
    assert found.sample_rows == 40 * 256
    rows = SlicesOnly(rows.array)
    few = cluster(rows, Settings([10], sampling_factor=20), progress=False)
    assert few.sample_rows == 200
    assert rows.read < 300  # one by one, and some that identify the rows


def test_more_than_a_billion_rows() -> None:
    assert sample.drawn_here(np.random.default_rng(0), 10**6, 3 * 10**9, 3_001_000) in range(800, 1200)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sample_on_disk_gives_the_same(tmp_path: Path, algorithm: str) -> None:
    rows = blobs(30_000, 8, 60)
    folder = tmp_path / "a" / "b"
    kept, spilt = (
        cluster(rows, Settings([100], algorithm=algorithm, memory=memory), folder, progress=False)
        for memory in (None, 10_000)
    )
    np.testing.assert_array_equal(kept.centroids, spilt.centroids)
    np.testing.assert_array_equal(kept.sizes, spilt.sizes)
    assert not folder.exists()


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


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        (np.ones((5, 3)), {"lists": [6]}, "6 lists for 5 rows: give fewer"),
        (np.ones(5), {"lists": [2]}, r"rows have the shape \(5,\)"),
        (np.ones((5, 3), bool), {"lists": [2]}, "are bool"),
        (np.ones((0, 3)), {"lists": [1]}, "1 lists for 0 rows"),
        (np.ones((5, 3)), {"lists": []}, "give one whole number, or two, ascending"),
        (np.ones((5, 3)), {"lists": [5, 2]}, r"lists is \[5, 2\]"),
        (np.ones((5, 3)), {"lists": [2.5]}, "whole number"),
        (np.ones((5, 3)), {"lists": [2], "iterations": -1}, "iterations is -1: give a whole number from 0"),
        (np.ones((5, 3)), {"lists": [2], "threads": 0}, "threads is 0"),
        (np.ones((5, 3)), {"lists": [2], "sampling_factor": None}, "sampling_factor is None"),
        (np.ones((5, 3)), {"lists": [2], "device": "tpu"}, "device is 'tpu': use one of cpu, gpu"),
        (np.ones((5, 3)), {"lists": [2], "algorithm": "elkan"}, "algorithm is 'elkan': use one of lloyd"),
    ],
)
def test_bad_input_is_one_line(rows: np.ndarray, settings: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ClusteringError, match=message) as error:
        cluster(rows, Settings(**settings), tmp_path / "folder", progress=False)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("memory", [None, 1000])
def test_bad_row_is_named(bad: float, memory: int | None, tmp_path: Path) -> None:
    rows = blobs(2000, 4, 5)
    rows[1234, 2] = bad
    with pytest.raises(ClusteringError, match=re.escape("row 1234 (from 0) holds NaN, infinity or values")):
        cluster(rows, Settings([20], memory=memory), tmp_path / "folder", progress=False)
    assert not list(tmp_path.iterdir())


def test_disk_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    with pytest.raises(
        ClusteringError, match=r"sample takes 0 MB on disk, .*: No space left on device: name"
    ):
        cluster(blobs(2000, 4, 5), Settings([20], memory=1), tmp_path / "folder", progress=False)
    assert not list(tmp_path.iterdir())


def test_few_passes() -> None:
    rows = blobs(3000, 4, 30)
    by_passes = [cluster(rows, Settings([50], iterations=passes), progress=False) for passes in (0, 1, 3)]
    assert [len(found.history) for found in by_passes] == [0, 1, 3]
    assert by_passes[0].inertia > by_passes[1].inertia > by_passes[2].inertia
    for found in by_passes:
        check(found, rows, Settings([50]))


def test_one_list() -> None:
    rows = blobs(3000, 4, 30)
    found = cluster(rows, Settings([1], sampling_factor=10**6), progress=False)
    np.testing.assert_allclose(found.centroids[0], rows.mean(axis=0), atol=1e-5)
    assert found.inertia == pytest.approx(rows.var(axis=0).sum(), rel=1e-4)


def test_far_from_the_origin() -> None:
    rows = blobs(5000, 6, 30)
    near = cluster(rows, Settings([40]), progress=False)
    far = cluster(rows.astype(np.float64) + 3000, Settings([40]), progress=False)
    assert far.inertia == pytest.approx(near.inertia, rel=0.02)


def test_a_sample_on_disk_that_nobody_goes_on_from_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    there: list[Path] = []

    def look(_: Clustering) -> None:
        there.extend(path for path in tmp_path.rglob("*") if path.is_file())

    rows = blobs(2000, 4, 5)
    found = cluster(rows, Settings([20], memory=1), finish=look)
    assert there == []
    assert np.array_equal(found.centroids, cluster(rows, Settings([20])).centroids)
    cluster(rows, Settings([20], memory=1), tmp_path / "kept", finish=look)
    assert there
