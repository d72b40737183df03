"""The points of a plot: two metrics of each result with their intervals, absolute or over the first one."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ann_benchmarks.results.built import fastest_of_each_index
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.metrics import (
    QPS_AT_RECALL,
    TARGET_RECALL,
    drawable,
    pareto_frontier,
    qps_at_recall,
)
from ann_benchmarks.results.runs import Run, interval, number


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


def over_first(points: Sequence[Point], metrics: tuple[str, str] | None = None) -> list[Point]:
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
    return over_first(known) if normalise else known
