"""What a result is worth: the metrics of ann-benchmarks, by the same names.

The values of its own files are the same; its `rel` and percentiles, in single precision, agree with these to
about five digits. Of files that state what all runs were like, throughput and latencies are those of all
runs, and not of one.

A new metric is one entry of `all_metrics`: plots, tables, pages, comparisons and published figures read there
what it is called, in which unit it is, which way is better, and where its 95% interval is stored.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ann_benchmarks.common.numbers import KIB, figure_text, share_text, size_text
from ann_benchmarks.statistics.intervals import fifth_percentile
from ann_benchmarks.statistics.percentiles import PERCENTILES

from .measurement import RECALL_SLACK, Measurement, best_throughput, completeness_of_each, recall, throughput

HIGHER, LOWER = True, False  # the better values
QPS_AT_RECALL = "qpsatrecall"
TARGET_RECALL = 0.95  # the throughput at it is the one that people quote


@dataclass(frozen=True)
class StoredInterval:
    """Where the 95% interval of a metric is stored: in ATTRIBUTE_low and _high, `scale` of its units each."""

    attribute: str
    of: str  # what lies within it
    scale: float = 1.0


@dataclass(frozen=True)
class ResultMetric:
    """A metric: what it is called, its unit and direction, how it is computed, where its interval is stored.

    `description` names an axis, as in ann-benchmarks; `title` heads a column. `unit` is share, 1/s, ms, s,
    KiB or "". `published` is its column in tables of published figures. Without a function it follows from
    other metrics and what is requested.
    """

    description: str
    title: str
    unit: str
    higher_is_better: bool
    function: Callable[[Measurement], float] | None
    bounds: StoredInterval | None = None
    published: str = ""

    @property
    def is_share(self) -> bool:
        """Whether it cannot exceed 1."""
        return self.unit == "share"

    def write(self, value: float) -> str:
        """Write a value as tables have it."""
        if self.unit == "KiB":
            return size_text(value, KIB)
        return share_text(value) if self.is_share else figure_text(value)


def epsilon_recall(epsilon: float) -> Callable[[Measurement], float]:
    """Recall with a relative slack: a distance counts up to (1 + epsilon) times the k-th true one.

    A negative distance (`ip`) grows by epsilon times its size, so that the slack always admits more.
    """

    def function(m: Measurement) -> float:
        is_ip = m.attrs.get("distance") == "ip"
        threshold = m.kth + np.abs(m.kth) * epsilon if is_ip else m.kth * (1 + epsilon)
        return recall(m.found, threshold, m.count, m.due)

    return function


def relative_error(m: Measurement) -> float:
    """Sum of the found distances over the sum of all true ones that the dataset stores; inf if that is 0.

    As in ann-benchmarks the truth is not cut to k: the value is near 1 only where k is all that is stored.
    """
    closest = m.truth.sums[: len(m.found)].sum()
    if closest < 0.01:
        return math.inf
    found = m.found
    if m.due is not None:  # beyond that, there is nothing to find
        found = np.where(np.arange(found.shape[1]) < m.due[:, np.newaxis], found, 0)
    return float(found.sum(dtype=np.float64) / closest)


def shares_of_due(m: Measurement) -> np.ndarray:
    """Return the share of the rows that each query was to return; nan without a filter."""
    if m.due is None or not len(m.found):
        return np.array([math.nan])
    return completeness_of_each(m.found[:, : m.count], m.due)


def short_answers(m: Measurement) -> float:
    """Return the share of queries with fewer rows than there were to return; nan without a filter."""
    shares = shares_of_due(m)
    return math.nan if np.isnan(shares).any() else float(np.mean(shares < 1))


def distance_computations(m: Measurement) -> float:
    """Distances computed per query, where the algorithm counts them; 0 where it does not."""
    queries = m.number("run_count") * len(m.truth.distances)
    return m.number("dist_comps", 0.0) / queries if queries else math.nan


def stored(attribute: str, scale: float = 1.0, otherwise: float = math.nan) -> Callable[[Measurement], float]:
    """Return a function that reads an attribute."""
    return lambda m: scale * m.number(attribute, otherwise)


index_size = stored("index_size", otherwise=0.0)  # KiB; it was not recorded where it is 0


def percentile(name: str) -> ResultMetric:
    """Return the metric of a percentile of the latencies."""
    percent = f"{PERCENTILES[name]:g}"
    axis, title = f"Percentile {percent} (millis)", f"{name} (ms)"
    bounds = StoredInterval(f"latency_{name}", f"percentile {percent} of all runs", 1e3)
    return ResultMetric(axis, title, "ms", LOWER, lambda m: 1e3 * m.percentiles[name], bounds, published=name)


RECALL, KNN = "recall", "k-nn"  # the second is that of ann-benchmarks, with its slack
FIFTH = "recall_p5"
_SHARE, _RATE = "share", "1/s"
# In the order of the columns of ann-benchmarks' CSV files.
all_metrics: dict[str, ResultMetric] = {
    KNN: ResultMetric("Recall (within 0.001)", "Recall (within 0.001)", _SHARE, HIGHER,
                      lambda m: recall(m.found, m.kth + RECALL_SLACK, m.count, m.due)),
    RECALL: ResultMetric("Recall", "Recall", _SHARE, HIGHER,
                         lambda m: recall(m.found, m.farthest, m.count, m.due),
                         StoredInterval("recall", "recall over queries"), "recall"),
    "epsilon": ResultMetric("Epsilon 0.01 Recall", "Recall, 1%", _SHARE, HIGHER, epsilon_recall(0.01)),
    "largeepsilon": ResultMetric("Epsilon 0.1 Recall", "Recall, 10%", _SHARE, HIGHER, epsilon_recall(0.1)),
    "rel": ResultMetric("Relative Error", "Relative error", "", LOWER, relative_error),
    "qps": ResultMetric("Queries per second, mean of runs (1/s)", "QPS", _RATE, HIGHER,
                        lambda m: throughput(m.attrs), StoredInterval("qps", "the mean QPS of runs"), "qps"),
    "qps-best": ResultMetric("Queries per second of the best run (1/s)", "QPS, best run", _RATE, HIGHER,
                             lambda m: best_throughput(m.attrs)),
    **{name: percentile(name) for name in PERCENTILES},
    "distcomps": ResultMetric("Distance computations", "Distances", "", LOWER, distance_computations),
    "build": ResultMetric("Build time (s)", "Build (s)", "s", LOWER, stored("build_time"),
                          published="build_time"),
    "candidates": ResultMetric("Candidates generated", "Candidates", "", LOWER, stored("candidates")),
    "indexsize": ResultMetric("Index size (kB)", "Index", "KiB", LOWER, index_size, None, "index_size"),
    "queriessize": ResultMetric("Index size (kB)/Queries per second (s)", "Index / QPS", "", LOWER,
                                lambda m: index_size(m) / throughput(m.attrs)),
    "recall-p5": ResultMetric("Recall at the 5th percentile of queries", "Recall p5", _SHARE, HIGHER,
                              lambda m: fifth_percentile(m.recalls),
                              StoredInterval(FIFTH, "recall at the 5th percentile of queries")),
    # It falls with the number of queries.
    "recall-worst": ResultMetric("Recall of the worst query", "Worst recall", _SHARE, HIGHER,
                                 lambda m: float(m.recalls.min()) if len(m.recalls) else math.nan),
    "completeness": ResultMetric("Completeness: rows returned / min(k, matches)", "Completeness", _SHARE,
                                 HIGHER, lambda m: float(shares_of_due(m).mean()),
                                 StoredInterval("completeness", "completeness over queries")),
    "short": ResultMetric("Share of queries with too few rows", "Short answers", _SHARE, LOWER, short_answers,
                          StoredInterval("short_answers", "short answers over queries")),
    "planning": ResultMetric("Planning time (millis)", "Planning (ms)", "ms", LOWER,
                             stored("planning_time", 1e3)),
    "locks": ResultMetric("Relation locks of a query's transaction", "Locks", "", LOWER, stored("locks")),
    "removed": ResultMetric("Rows removed by the filter per query", "Rows removed", "", LOWER,
                            stored("rows_removed")),
    QPS_AT_RECALL: ResultMetric("Queries per second at the target recall (1/s)", "QPS at recall", _RATE,
                                HIGHER, None, StoredInterval("qps", "QPS at that recall")),
}  # fmt: skip
# Results without a filter do not have these.
OF_FILTERS = frozenset({"completeness", "short", "planning", "locks", "removed"})
standard_metrics = [name for name, metric in all_metrics.items() if metric.function]


def compute_all(measurement: Measurement) -> dict[str, float]:
    """Return every standard metric by name; nan where the result lacks what the metric needs."""
    return {name: metric.function(measurement) for name, metric in all_metrics.items() if metric.function}


def plot_label(x: str, y: str) -> str:
    """Say what a plot shows and where on it is good."""
    up = "up" if all_metrics[y].higher_is_better else "down"
    right = "right" if all_metrics[x].higher_is_better else "left"
    return (
        f"{all_metrics[x].description}-{all_metrics[y].description} tradeoff"
        f" - {up} and to the {right} is better"
    )


def drawable(x: float, y: float) -> bool:
    """Whether a point can be drawn: both values are known, finite and, as in ann-benchmarks, not zero."""
    return math.isfinite(x) and math.isfinite(y) and x != 0 and y != 0


def pareto_frontier(points: Sequence[tuple[float, float]], x: str, y: str) -> tuple[list[int], list[int]]:
    """Return the indexes of the points on the frontier of metrics `x` and `y`, and of all drawable points.

    Both run from the best y to the worst; along the frontier x gets strictly better.
    """
    x_sign = -1 if all_metrics[x].higher_is_better else 1
    y_sign = -1 if all_metrics[y].higher_is_better else 1
    every = [i for i, point in enumerate(points) if drawable(*point)]
    every.sort(key=lambda i: (y_sign * points[i][1], x_sign * points[i][0]))
    frontier: list[int] = []
    best = math.inf
    for i in every:
        if x_sign * points[i][0] < best:
            best = x_sign * points[i][0]
            frontier.append(i)
    return frontier, every
