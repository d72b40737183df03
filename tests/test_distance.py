import h5py
import numpy as np
import pytest

from ann_benchmarks import distance
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.distance import METRICS, candidate_distances, compute_distance, metrics

A, B = np.array([1.0, 2.0, 2.0]), np.array([2.0, 0.0, 1.0])
BITS_A, BITS_B = np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool)


def test_metrics_are_those_of_ann_benchmarks() -> None:
    assert compute_distance("euclidean", A, B) == pytest.approx(6**0.5)
    assert compute_distance("angular", A, B) == pytest.approx(1 - 4 / (3 * 5**0.5))
    assert compute_distance("ip", A, B) == -4
    assert compute_distance("manhattan", A, B) == 4
    assert compute_distance("hamming", BITS_A, BITS_B) == 0.5
    assert compute_distance("jaccard", [1, 2, 3], [2, 3, 4, 5]) == pytest.approx(1 - 2 / 5)
    assert compute_distance("jaccard", [], [1]) == 1
    assert compute_distance("jaccard", BITS_A, BITS_B) == pytest.approx(1 - 1 / 3)
    assert set(metrics) == set(METRICS)
    assert metrics["euclidean"].distance(A, B) == compute_distance("euclidean", A, B)
    assert metrics["jaccard"].distance_valid(0.5) and not metrics["jaccard"].distance_valid(1.0)
    assert metrics["angular"].distance_valid(2.0)


def test_a_vector_without_direction_is_at_angular_distance_one() -> None:
    assert compute_distance("angular", A, np.zeros(3)) == 1


@pytest.mark.parametrize("metric", METRICS)
def test_candidates_agree_with_single_distances_across_blocks(
    metric: str, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    rng = np.random.default_rng(1)
    train = rng.standard_normal((200, 12)).astype(np.float32)
    queries = rng.standard_normal((7, 12)).astype(np.float32)
    if metric in ("hamming", "jaccard"):
        train, queries = train > 0, queries > 0
    neighbors = rng.integers(-1, 200, (7, 9))
    neighbors[0, :2] = -1, 5
    expected = [
        [np.inf if row < 0 else compute_distance(metric, query, train[row]) for row in rows]
        for query, rows in zip(queries, neighbors, strict=True)
    ]
    with h5py.File(tmp_path / "rows.hdf5", "w") as file:
        stored = file.create_dataset("train", data=train)
        for block_bytes in (8 * 12, 8 * 12 * 10, 2**25):
            monkeypatch.setattr(distance, "BLOCK_BYTES", block_bytes)
            for rows in (train, list(train), stored):
                found = candidate_distances(metric, queries, rows, neighbors)
                assert found.dtype == np.float64
                np.testing.assert_array_equal(found, expected)


def test_candidates_are_computed_in_float64() -> None:
    train = np.array([[1e4, 1.0]], np.float32)
    queries = np.array([[1e4, 1.001]], np.float32)
    found = candidate_distances("euclidean", queries, train, np.array([[0]]))[0, 0]
    assert found == float(queries[0, 1]) - 1.0


def test_candidates_of_sets() -> None:
    train = [np.array([1, 2, 3]), np.array([], int), np.array([7, 9])]
    queries = [np.array([2, 3, 4]), np.array([9])]
    found = candidate_distances("jaccard", queries, train, np.array([[0, 1, -1], [2, 0, 1]]))
    np.testing.assert_allclose(found, [[0.5, 1, np.inf], [0.5, 1, 1]])


def test_wrong_candidates_and_metrics_are_explained() -> None:
    with pytest.raises(UserError, match="neighbour 3 is not one of the 2 training rows"):
        candidate_distances("euclidean", np.zeros((1, 2)), np.zeros((2, 2)), np.array([[3]]))
    with pytest.raises(UserError, match="unknown metric 'cosine'"):
        candidate_distances("cosine", np.zeros((1, 2)), np.zeros((2, 2)), np.array([[0]]))
