import math
import random

import h5py
import numpy as np
import pytest

from ann_benchmarks import distance
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.distance import METRICS, candidate_distances, compute_distance, metrics
from ann_benchmarks.results.measurement import Measurement
from ann_benchmarks.results.metrics import (
    OF_FILTERS,
    all_metrics,
    compute_all,
    pareto_frontier,
    plot_label,
    standard_metrics,
)
from ann_benchmarks.results.truth import Truth
from ann_benchmarks.statistics.percentiles import stored_percentiles

# Two queries with k = 2, of which the dataset stores three neighbours.
TRUTH = np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]], np.float32)
FOUND = np.array([[1.0, 2.0009], [10.0, 20.5]], np.float32)
ATTRS = {
    "count": 2,
    "best_search_time": 0.004,
    "build_time": 7.5,
    "index_size": 500.0,
    "candidates": 2.0,
    "run_count": 5,
    "dist_comps": 1000,
    "distance": "euclidean",
}


def measured(truth=TRUTH, found=FOUND, times=(0.001, 0.003), **attrs):
    return compute_all(Measurement(Truth(truth), found, np.array(times), {**ATTRS, **attrs}))


def test_every_metric_of_a_worked_example():
    values = measured()
    assert values == {
        "k-nn": 3 / 4,  # 2.0009 is within 2 + 0.001, 20.5 is not within 20 + 0.001
        "recall": 2 / 4,  # but neither is as near as the second neighbour
        "epsilon": 3 / 4,  # nor within 20 * 1.01
        "largeepsilon": 1.0,  # but within 20 * 1.1
        "rel": pytest.approx((1 + 2.0009 + 10 + 20.5) / (1 + 2 + 3 + 10 + 20 + 30)),
        "qps": 250.0,
        "qps-best": 250.0,
        **dict.fromkeys(
            ("p50", "p95", "p99", "p999"), pytest.approx(math.nan, nan_ok=True)
        ),  # of two queries
        "distcomps": 100.0,  # 1000 over 5 runs of 2 queries
        "build": 7.5,
        "candidates": 2.0,
        "indexsize": 500.0,
        "queriessize": 2.0,
        "recall-p5": pytest.approx(math.nan, nan_ok=True),  # of 20 queries and more
        "recall-worst": 1 / 2,
        **dict.fromkeys(OF_FILTERS, pytest.approx(math.nan, nan_ok=True)),  # no filters
    }
    assert list(values) == standard_metrics


def test_throughput_is_the_mean_of_the_runs_and_best_search_time_that_of_the_best():
    runs = {"run_seconds": [0.004, 0.005, 0.01]}
    values = measured(**runs)
    assert values["qps"] == pytest.approx((250 + 200 + 100) / 3)
    assert values["qps-best"] == 250.0
    assert values["queriessize"] == pytest.approx(500 / values["qps"])
    assert measured(run_seconds=0.005)["qps"] == 200  # HDF5 has a list of one as a number
    assert measured(**runs, qps_mean=190.0)["qps"] == 190  # of more runs than an attribute may list


def test_percentiles_are_those_of_all_runs_and_of_enough_queries():
    rng = np.random.default_rng(0)
    times = rng.lognormal(-7, 0.5, 1000)
    of_theirs = measured(times=times)
    for name, percent in (("p50", 50), ("p95", 95), ("p99", 99)):
        assert of_theirs[name] == pytest.approx(1e3 * np.percentile(times, percent))
    assert math.isnan(of_theirs["p999"])
    ours = stored_percentiles([times, 3 * times])
    values = measured(times=times, **ours)
    for name, percent in (("p50", 50), ("p95", 95), ("p99", 99)):
        assert values[name] == pytest.approx(1e3 * np.percentile([times, 3 * times], percent))
    assert math.isnan(values["p999"])
    older = {name: value for name, value in ours.items() if name != "latency_queries"}
    assert math.isnan(measured(times=times, run_count=9, **older)["p999"])
    assert measured(times=times, run_count=10, **older)["p999"] == 1e3 * ours["latency_p999"]


def test_recall_counts_a_neighbour_at_the_same_distance_and_no_missing_one():
    truth = np.array([[1.0, 5.0], [0.0, 0.0]], np.float32)
    found = np.array([[5.0, 5.0], [0.0, np.inf]], np.float32)
    assert measured(truth, found)["k-nn"] == 3 / 4
    assert measured(truth, np.full((2, 2), np.inf, np.float32))["k-nn"] == 0


def test_recall_looks_at_the_first_k_found_only():
    found = np.array([[9.0, 9.0, 1.0], [99.0, 99.0, 10.0]], np.float32)
    assert measured(found=found)["k-nn"] == 0


def test_inner_products_get_their_slack_on_the_far_side():
    truth = np.array([[-100.0, -50.0]], np.float32)
    found = np.array([[-100.0, -49.8]], np.float32)
    values = measured(truth, found, distance="ip")
    assert (values["k-nn"], values["epsilon"], values["largeepsilon"]) == (0.5, 1.0, 1.0)
    exact = measured(truth, truth, distance="ip")
    assert (exact["k-nn"], exact["epsilon"], exact["largeepsilon"]) == (1, 1, 1)
    # A positive distance under ip is an inner product below 0; its slack goes the same way.
    truth = np.array([[10.0, 50.0]], np.float32)
    assert measured(truth, np.array([[10.0, 50.4]], np.float32), distance="ip")["epsilon"] == 1


def test_relative_error_of_a_truth_of_nothing_is_infinite():
    zeros = np.zeros((2, 2), np.float32)
    assert measured(zeros, zeros)["rel"] == math.inf


def test_missing_attributes_make_unknown_values_and_absent_counters_zero():
    attrs = {"count": 2, "run_count": 1}
    values = compute_all(Measurement(Truth(TRUTH), FOUND, np.array([0.1, 0.1]), attrs))
    assert all(math.isnan(values[name]) for name in ("qps", "build", "candidates", "queriessize"))
    assert (values["indexsize"], values["distcomps"], values["k-nn"]) == (0, 0, 3 / 4)
    assert math.isnan(measured(best_search_time="soon")["qps"])


def test_fewer_results_than_the_truth_has_queries():
    assert measured(found=FOUND[:1])["k-nn"] == 1.0


def test_vectorised_recall_equals_a_count_by_hand():
    generator = np.random.default_rng(3)
    truth = np.sort(generator.random((500, 20)).astype(np.float32), axis=1)
    found = np.sort(truth[:, :10] + generator.choice([0, 0.0005, 0.002, 0.1], (500, 10)), axis=1)
    hits = sum(d <= row[9] + np.float32(1e-3) for row, near in zip(truth, found, strict=True) for d in near)
    assert measured(truth, found, count=10)["k-nn"] == pytest.approx(hits / 5000)


def brute_frontier(points, x, y):
    """A point is on the frontier if no other is at least as good on one axis and better on the other."""
    sx = 1 if all_metrics[x].higher_is_better else -1
    sy = 1 if all_metrics[y].higher_is_better else -1
    good = [(sx * a, sy * b) for a, b in points if a and b]
    beaten = {p for p in good for q in good if q != p and q[0] >= p[0] and q[1] >= p[1]}
    return {(sx * a, sy * b) for a, b in set(good) - beaten}


@pytest.mark.parametrize(("x", "y"), [("k-nn", "qps"), ("k-nn", "p99"), ("rel", "qps"), ("rel", "build")])
def test_frontier_is_what_nothing_beats(x, y):
    generator = random.Random(1)
    for _ in range(200):
        points = [(generator.randint(0, 8), generator.randint(0, 8)) for _ in range(generator.randint(0, 20))]
        frontier, every = pareto_frontier(points, x, y)
        assert {points[i] for i in frontier} == brute_frontier(points, x, y)
        assert sorted(every) == [i for i, (a, b) in enumerate(points) if a and b]
        assert len({points[i][0] for i in frontier}) == len(frontier)


def test_what_is_unknown_or_infinite_is_on_no_frontier():
    points = [(math.nan, 1.0), (0.5, math.inf), (0.5, math.nan), (0.9, 2.0)]
    assert pareto_frontier(points, "k-nn", "qps") == ([3], [3])


def test_label_says_which_way_is_better():
    assert plot_label("k-nn", "qps").endswith("up and to the right is better")
    assert plot_label("rel", "p99").endswith("down and to the left is better")


# Distances


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
