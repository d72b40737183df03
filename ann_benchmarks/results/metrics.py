"""What a result is worth: the metrics of ann-benchmarks, by the same names and with the same values."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

ROUNDING = 1e-9  # by which the mean of shares may miss what it is
RECALL_SLACK = 1e-3  # absolute: absorbs the rounding of an algorithm that computes distances its own way
HIGHER_IS_BETTER = float("-inf")  # the worst value that such a metric can have
LOWER_IS_BETTER = float("inf")
QPS_AT_RECALL = "qpsatrecall"
TARGET_RECALL = 0.95  # of which people quote the throughput

PERCENTILES = (50.0, 95.0, 99.0, 99.9)


@dataclass(frozen=True)
class Truth:
    """The true distances that a dataset stores, (queries, neighbours), in ascending order."""

    distances: np.ndarray
    _columns: dict[int, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    def nth(self, number: int) -> np.ndarray:
        """Each query's distance to its n-th neighbour; copied once, because a column of a matrix is slow."""
        if number not in self._columns:
            self._columns[number] = np.ascontiguousarray(self.distances[:, number - 1])
        return self._columns[number]

    @cached_property
    def sums(self) -> np.ndarray:
        """Sum of each query's distances."""
        return self.distances.sum(axis=1, dtype=np.float64)


@dataclass(frozen=True)
class Measurement:
    """One result beside the truth that it is judged by.

    `found` is (queries, k), distances in ascending order and inf where nothing was found; `times` are
    seconds, one per query; `attrs` are the attributes of the result file.
    """

    truth: Truth
    found: np.ndarray
    times: np.ndarray
    attrs: Mapping[str, Any]

    @property
    def count(self) -> int:
        """k, the number of neighbours asked for."""
        return int(self.attrs["count"])

    @property
    def kth(self) -> np.ndarray:
        """Each query's true distance to its k-th neighbour."""
        return self.truth.nth(self.count)[: len(self.found)]

    @cached_property
    def latencies(self) -> dict[float, float]:
        """Percentiles of the times, in milliseconds, interpolated linearly."""
        if not len(self.times):
            return dict.fromkeys(PERCENTILES, math.nan)
        values = np.percentile(self.times, PERCENTILES) * 1000.0
        return dict(zip(PERCENTILES, values.tolist(), strict=True))

    def number(self, name: str, default: float = math.nan) -> float:
        """Return an attribute as a number, or `default` where it is missing or is none."""
        try:
            return float(self.attrs.get(name, default))
        except (TypeError, ValueError):
            return default


@dataclass(frozen=True)
class Metric:
    """A metric: what it is called, how it is computed, and the worst value it can have (its direction).

    Without a function it is none of ann-benchmarks': it follows from other metrics and what is asked.
    """

    description: str
    function: Callable[[Measurement], float] | None
    worst: float
    lim: tuple[float, float] | None = None

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value is the better one."""
        return self.worst < 0


def recall(found: np.ndarray, threshold: np.ndarray, count: int) -> float:
    """Return the mean share of each query's first `count` found distances within its threshold."""
    hits = np.count_nonzero(found[:, :count] <= threshold[:, np.newaxis])
    return hits / len(found) / count if len(found) else math.nan


def recall_of_each(found: np.ndarray, threshold: np.ndarray, count: int) -> np.ndarray:
    """Return each query's share, of which `recall` is the mean."""
    return np.count_nonzero(found[:, :count] <= threshold[:, np.newaxis], axis=1) / count


def knn_recall(m: Measurement) -> float:
    """Recall with an absolute slack: a distance counts up to the k-th true one + 1e-3."""
    return recall(m.found, m.kth + RECALL_SLACK, m.count)


def epsilon_recall(m: Measurement, epsilon: float) -> float:
    """Recall with a relative slack: a distance counts up to (1 + epsilon) times the k-th true one.

    A negative distance (`ip`) grows by epsilon times its size, so that the slack always admits more.
    """
    is_ip = m.attrs.get("distance") == "ip"
    threshold = m.kth + np.abs(m.kth) * epsilon if is_ip else m.kth * (1 + epsilon)
    return recall(m.found, threshold, m.count)


def relative_error(m: Measurement) -> float:
    """Sum of the found distances over the sum of all true ones that the dataset stores; inf if that is 0.

    As in ann-benchmarks the truth is not cut to k: the value is near 1 only where k is all that is stored.
    """
    closest = m.truth.sums[: len(m.found)].sum()
    if closest < 0.01:
        return math.inf
    return float(m.found.sum(dtype=np.float64) / closest)


def queries_per_second(m: Measurement) -> float:
    """Inverse of the mean seconds per query of the best run."""
    seconds = m.number("best_search_time")
    return 1.0 / seconds if seconds > 0 else math.nan


def distance_computations(m: Measurement) -> float:
    """Distances computed per query, where the algorithm counts them; 0 where it does not."""
    queries = m.number("run_count") * len(m.truth.distances)
    return m.number("dist_comps", 0.0) / queries if queries else math.nan


def index_size(m: Measurement) -> float:
    """Size of the index in KiB, 0 where it was not recorded."""
    return m.number("index_size", 0.0)


all_metrics: dict[str, Metric] = {
    "k-nn": Metric("Recall", knn_recall, HIGHER_IS_BETTER, (0.0, 1.03)),
    "epsilon": Metric("Epsilon 0.01 Recall", lambda m: epsilon_recall(m, 0.01), HIGHER_IS_BETTER),
    "largeepsilon": Metric("Epsilon 0.1 Recall", lambda m: epsilon_recall(m, 0.1), HIGHER_IS_BETTER),
    "rel": Metric("Relative Error", relative_error, LOWER_IS_BETTER),
    "qps": Metric("Queries per second (1/s)", queries_per_second, HIGHER_IS_BETTER),
    "p50": Metric("Percentile 50 (millis)", lambda m: m.latencies[50.0], LOWER_IS_BETTER),
    "p95": Metric("Percentile 95 (millis)", lambda m: m.latencies[95.0], LOWER_IS_BETTER),
    "p99": Metric("Percentile 99 (millis)", lambda m: m.latencies[99.0], LOWER_IS_BETTER),
    "p999": Metric("Percentile 99.9 (millis)", lambda m: m.latencies[99.9], LOWER_IS_BETTER),
    "distcomps": Metric("Distance computations", distance_computations, LOWER_IS_BETTER),
    "build": Metric("Build time (s)", lambda m: m.number("build_time"), LOWER_IS_BETTER),
    "candidates": Metric("Candidates generated", lambda m: m.number("candidates"), LOWER_IS_BETTER),
    "indexsize": Metric("Index size (kB)", index_size, LOWER_IS_BETTER),
    "queriessize": Metric(
        "Index size (kB)/Queries per second (s)",
        lambda m: index_size(m) / queries_per_second(m),
        LOWER_IS_BETTER,
    ),
    QPS_AT_RECALL: Metric("Queries per second at the target recall (1/s)", None, HIGHER_IS_BETTER),
}
standard_metrics = [name for name, metric in all_metrics.items() if metric.function]
RECALLS = ("k-nn", "epsilon", "largeepsilon")  # shares, which cannot exceed 1


def compute_all(measurement: Measurement) -> dict[str, float]:
    """Return every standard metric by name; nan where the result lacks what the metric needs."""
    return {name: metric.function(measurement) for name, metric in all_metrics.items() if metric.function}


def qps_at_recall(values: Mapping[str, float], target: float) -> float:
    """Return the throughput among a result's metrics if its recall reaches the target, otherwise nan."""
    return values["qps"] if values["k-nn"] >= target - ROUNDING else math.nan


def plot_label(x: str, y: str) -> str:
    """Say what a plot shows and where on it is good."""
    up = "up" if all_metrics[y].higher_is_better else "down"
    right = "right" if all_metrics[x].higher_is_better else "left"
    return (
        f"{all_metrics[x].description}-{all_metrics[y].description} tradeoff"
        f" - {up} and to the {right} is better"
    )
