"""Functions that ann-benchmarks' tests and scripts import from here, by its names and with its parameters.

What they compute is in results/metrics.py, where plots, tables and exports of this project take it from.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ann_benchmarks.results.measurement import RECALL_SLACK, Measurement, recall_of_each
from ann_benchmarks.results.metrics import ResultMetric, all_metrics, relative_error
from ann_benchmarks.results.truth import Truth

Rows = Sequence[Sequence[float]]  # of distances, one for each query; none need be as long as another


def knn(
    dataset_distances: Rows, run_distances: Rows, count: int, metrics: Any, epsilon: float = RECALL_SLACK
) -> Any:
    """Return the group `knn` of `metrics`, made if need be: mean, std and each query's number of hits."""
    return _recalls(
        "knn", run_distances, [row[count - 1] + epsilon for row in dataset_distances], count, metrics
    )


def epsilon(
    dataset_distances: Rows, run_distances: Rows, count: int, metrics: Any, epsilon: float = 0.01
) -> Any:
    """Return the group `epsE` of `metrics`, as `knn` does, for a relative slack."""
    thresholds = [row[count - 1] * (1 + epsilon) for row in dataset_distances]
    return _recalls(f"eps{epsilon}", run_distances, thresholds, count, metrics)


def rel(dataset_distances: Rows, run_distances: Rows, metrics: Any) -> float:
    """Return the found distances over the true ones, kept as the attribute `rel` of `metrics`."""
    if "rel" not in metrics.attrs:
        found = _array(run_distances, 0)
        true, attrs = _array(dataset_distances, 0), {"count": found.shape[1]}
        metrics.attrs["rel"] = relative_error(_measurement(true, found, attrs))
    value: float = metrics.attrs["rel"]
    return value


def _adapt_metric(metric: ResultMetric) -> Callable[[Sequence[Any], Mapping[str, Any]], float]:
    """Return what takes the queries and the attributes of a result."""

    def function(queries: Sequence[Any], attrs: Mapping[str, Any]) -> float:
        assert metric.function is not None
        return metric.function(_measurement(np.empty((len(queries), 0)), np.empty((0, 0)), attrs))

    return function


queries_per_second = _adapt_metric(all_metrics["qps-best"])
index_size = _adapt_metric(all_metrics["indexsize"])
build_time = _adapt_metric(all_metrics["build"])
candidates = _adapt_metric(all_metrics["candidates"])
dist_computations = _adapt_metric(all_metrics["distcomps"])


def _recalls(name: str, run_distances: Rows, thresholds: Sequence[float], count: int, metrics: Any) -> Any:
    if name not in metrics:
        found = _array(run_distances, count)
        shares = recall_of_each(found, np.array(thresholds[: len(found)]), count)
        group = metrics.create_group(name)
        group.attrs["mean"], group.attrs["std"] = shares.mean(), shares.std()
        group["recalls"] = shares * count
    return metrics[name]


def _array(rows: Rows, width: int) -> np.ndarray:
    """Return distances as one array, inf where a query has fewer than others or than `width`."""
    array = np.full((len(rows), max([width, *map(len, rows)])), np.inf)
    for place, row in zip(array, rows, strict=True):
        place[: len(row)] = row
    return array


def _measurement(true: np.ndarray, found: np.ndarray, attrs: Mapping[str, Any]) -> Measurement:
    return Measurement(Truth(true), found, np.empty(0), attrs)
