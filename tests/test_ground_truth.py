import numpy as np
import pytest

from ann_benchmarks import ground_truth
from ann_benchmarks.distance import METRICS, candidate_distances
from ann_benchmarks.errors import UserError
from ann_benchmarks.ground_truth import exact_neighbors

VECTOR_METRICS = ("euclidean", "angular", "ip")


def by_sorting_everything(metric: str, train, queries, k: int) -> tuple[np.ndarray, np.ndarray]:
    every = np.tile(np.arange(len(train)), (len(queries), 1))
    distances = candidate_distances(metric, queries, train, every)
    ids = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return ids, np.take_along_axis(distances, ids, axis=1)


def assert_exact(metric: str, train, queries, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, distances = by_sorting_everything(metric, train, queries, k)
    for scores in (1, 2**22):  # blocks of 256 rows, and one block
        monkeypatch.setattr(ground_truth, "SCORES_PER_BLOCK", scores)
        found = exact_neighbors(metric, train, queries, k, progress=False)
        np.testing.assert_array_equal(found[0], ids)
        np.testing.assert_array_equal(found[1], distances)
        assert found[0].dtype == np.int64 and found[1].dtype == np.float64


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 10, 700])
def test_equals_sorting_every_distance(metric: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    train, queries = rng.standard_normal((1300, 24)), rng.standard_normal((20, 24))
    if metric in ("hamming", "jaccard"):  # 24 bits: very many ties
        assert_exact(metric, train > 0, queries > 0, k, monkeypatch)
    else:
        assert_exact(metric, train.astype(np.float32), queries.astype(np.float32), k, monkeypatch)


@pytest.mark.parametrize("metric", VECTOR_METRICS)
def test_duplicates_are_ordered_by_id(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    train = np.repeat(rng.standard_normal((4, 17)).astype(np.float32), 300, axis=0)[rng.permutation(1200)]
    assert_exact(metric, train, train[:5], 350, monkeypatch)


@pytest.mark.parametrize("metric", VECTOR_METRICS)
def test_differences_that_float32_products_cannot_see(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    train = (1000 + 0.01 * rng.standard_normal((1500, 64))).astype(np.float32)
    train[7] *= 1e6  # an outlier must not widen the search for the others
    assert_exact(metric, train, train[100:110] + np.float32(0.001), 10, monkeypatch)


@pytest.mark.parametrize("metric", VECTOR_METRICS)
def test_rows_that_come_nearer_and_nearer(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    train = rng.standard_normal((2000, 8)).astype(np.float32)
    query = rng.standard_normal((1, 8)).astype(np.float32)
    order = by_sorting_everything(metric, train, query, 2000)[0][0]
    assert_exact(metric, train[order[::-1]], query, 20, monkeypatch)


def test_vectors_without_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    train, queries = rng.standard_normal((600, 5)), rng.standard_normal((3, 5))
    train[[3, 300, 599]] = 0
    queries[1] = 0
    assert_exact("angular", train, queries, 400, monkeypatch)


def test_sets() -> None:
    rng = np.random.default_rng(7)
    train = [rng.choice(40, rng.integers(0, 12), replace=False) for _ in range(300)]
    queries = [rng.choice(40, 8, replace=False) for _ in range(5)]
    ids, distances = by_sorting_everything("jaccard", train, queries, 50)
    found = exact_neighbors("jaccard", train, queries, 50, progress=False)
    np.testing.assert_array_equal(found[0], ids)
    np.testing.assert_array_equal(found[1], distances)


def test_a_memory_map_is_read_in_blocks(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    np.save(tmp_path / "x.npy", rng.standard_normal((1000, 16)).astype(np.float32))
    train = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert_exact("euclidean", train, np.array(train[:4]), 10, monkeypatch)


def test_more_neighbours_than_rows_is_refused() -> None:
    with pytest.raises(UserError, match="11 neighbours asked for, but there are only 10"):
        exact_neighbors("euclidean", np.zeros((10, 2)), np.zeros((1, 2)), 11)
