"""Points over the first one of their curve: what shapes are compared by, and not machines."""

from collections.abc import Sequence
from dataclasses import replace

from ann_benchmarks.results.frontier import pareto_frontier
from ann_benchmarks.results.intervals import Interval

from .points import Point


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
