"""The points of a plot: two metrics of each result with their intervals, absolute or over the first one."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ann_benchmarks.results.at_recall import AtRecall, indexes_at_recall
from ann_benchmarks.results.metrics import (
    KNN,
    QPS_AT_RECALL,
    RECALL,
    TARGET_RECALL,
    drawable,
    pareto_frontier,
)
from ann_benchmarks.results.runs import Run, interval, number
from ann_benchmarks.statistics.intervals import Interval


@dataclass(frozen=True)
class Point:
    """Two metrics of a result, with their 95% intervals where these are known.

    `found_for` is the recall that it was searched for, `label` what is written next to it. A point that
    `stays` is drawn wherever the frontier runs.
    """

    x: float
    y: float
    x_interval: Interval | None = None
    y_interval: Interval | None = None
    found_for: float | None = None
    label: str = ""
    stays: bool = False
    raised: float = 0.0  # the recall of ann-benchmarks less the recall


def points_by_algorithm(
    runs: Iterable[Run], x: str, y: str, target: float = TARGET_RECALL, intervals: bool = True
) -> dict[str, list[Point]]:
    """Return for each algorithm the points that two metrics make of its results, where both are known.

    The throughput at the target recall has one point for each built index; its other metrics are those of
    the result next to that recall.
    """
    if QPS_AT_RECALL not in (x, y):
        chosen = [(run, point_of(run, x, y, None, intervals)) for run in runs]
    else:
        chosen = [
            (at.run, replace(point_of(at.run, x, y, at, intervals), label=label, stays=True))
            for at, label in indexes_at_recall(runs, target)
        ]
    series: dict[str, list[Point]] = {}
    for run, point in chosen:
        if drawable(point.x, point.y):
            series.setdefault(run.algorithm, []).append(point)
    return series


def point_of(run: Run, x: str, y: str, at: AtRecall | None, intervals: bool) -> Point:
    """Return the point that two metrics make of a result, with the throughput at a recall of `at`."""

    def value_of(name: str) -> tuple[float, Interval | None]:
        if at and name == QPS_AT_RECALL:
            return at.qps, at.interval if intervals else None
        return run.metrics[name], interval(run, name) if intervals else None

    (x_value, x_interval), (y_value, y_interval) = map(value_of, (x, y))
    found_for = number(run, "target_recall")
    raised = run.metrics[KNN] - run.metrics[RECALL] if KNN in (x, y) else 0.0
    return Point(x_value, y_value, x_interval, y_interval, found_for, "", found_for is not None, raised)


def point_at(at: AtRecall, metric: str, x: float, intervals: bool = True) -> Point:
    """Return the throughput at a recall, or another metric of the result next to it, at a place."""
    if metric == "qps":
        return Point(x, at.qps, None, at.interval if intervals else None)
    return Point(x, at.run.metrics[metric], None, interval(at.run, metric) if intervals else None)


def divide_by_first(points: Sequence[Point], metrics: tuple[str, str] | None = None) -> list[Point]:
    """Return points with their y and its interval divided by the y of the first of them.

    With two metrics the first is the one with the smallest x on their Pareto frontier, the curve as drawn.
    """
    first = points[0] if points else None
    if metrics:
        frontier, _ = pareto_frontier([(point.x, point.y) for point in points], *metrics)
        first = min((points[i] for i in frontier), key=lambda point: point.x, default=None)
    if first is None or not first.y:
        return []
    return [divided(point, first.y) for point in points]


def divided(point: Point, whole: float) -> Point:
    """Return a point whose y is a share of `whole`."""
    bounds = point.y_interval
    shares = Interval(*(end / whole for end in bounds)) if bounds else None
    return replace(point, y=point.y / whole, y_interval=shares)


def ordered(points: Sequence[Point], normalise: bool) -> list[Point]:
    """Return the points with finite values by x, as shares of the first with `normalise`."""
    known = sorted(
        (p for p in points if math.isfinite(p.x) and math.isfinite(p.y)), key=lambda point: point.x
    )
    return divide_by_first(known) if normalise else known
