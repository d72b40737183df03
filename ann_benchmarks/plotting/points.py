"""The points of a plot: two metrics of each result, how sure they are, and what is special about it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ann_benchmarks.results.built import fastest_of_each_index
from ann_benchmarks.results.frontier import drawable
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.metrics import QPS_AT_RECALL, RECALLS, TARGET_RECALL, qps_at_recall
from ann_benchmarks.results.runs import Run

# The attributes that bound a metric, without _low and _high, and how many of its units are one of theirs.
BOUNDS = {
    "k-nn": ("recall", 1.0),
    "qps": ("qps", 1.0),
    QPS_AT_RECALL: ("qps", 1.0),
    **{name: (f"latency_{name}", 1e3) for name in ("p50", "p95", "p99", "p999")},  # s in ms
}
FEWEST_RUNS = 3  # of two, Student's interval is 12.7 standard errors wide either way: it says nothing


@dataclass(frozen=True)
class Point:
    """Two metrics of a result, with their 95% intervals where these are known.

    `found_for` is the recall that it was searched for, `label` what is written beside it. A point that
    `stays` is drawn wherever the frontier runs.
    """

    x: float
    y: float
    x_interval: Interval | None = None
    y_interval: Interval | None = None
    found_for: float | None = None
    label: str = ""
    stays: bool = False


def points_by_algorithm(
    runs: Iterable[Run], x: str, y: str, target: float = TARGET_RECALL, intervals: bool = True
) -> dict[str, list[Point]]:
    """Return for each algorithm the points that two metrics make of its results, where both are known.

    The throughput at the target recall has one point for each built index: its fastest result.
    """
    of_indexes = QPS_AT_RECALL in (x, y)
    chosen = fastest_of_each_index(runs, target) if of_indexes else [(run, "") for run in runs]
    series: dict[str, list[Point]] = {}
    for run, label in chosen:
        x_value, y_value = (
            qps_at_recall(run.metrics, target) if name == QPS_AT_RECALL else run.metrics[name]
            for name in (x, y)
        )
        if drawable(x_value, y_value):
            found_for = number(run, "target_recall")
            point = Point(
                x_value,
                y_value,
                interval(run, x) if intervals else None,
                interval(run, y) if intervals else None,
                found_for,
                label,
                stays=of_indexes or found_for is not None,
            )
            series.setdefault(run.algorithm, []).append(point)
    return series


def interval(run: Run, metric: str) -> Interval | None:
    """Return the 95% interval of a metric as the result file tells it, within what the metric can be."""
    if metric not in BOUNDS:
        return None
    attribute, unit = BOUNDS[metric]
    if metric not in RECALLS and (number(run, "run_count") or 0) < FEWEST_RUNS:
        return None
    low, high = number(run, f"{attribute}_low"), number(run, f"{attribute}_high")
    if low is None or high is None or low > high:
        return None
    most = 1.0 if metric in RECALLS else math.inf
    return Interval(max(low * unit, 0.0), min(high * unit, most))


def number(run: Run, attribute: str) -> float | None:
    """Return an attribute that is a finite number, or None."""
    value = run.attrs.get(attribute)
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
