"""95% intervals as bars, and the note that says what they are."""

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from ann_benchmarks.results.metrics import all_metrics

from .points import Point


def draw_bars(axes: Axes, points: Iterable[tuple[Point, str]]) -> None:
    """Draw the intervals of points, each in its colour, below the points; the axes keep their limits."""
    segments, colors = [], []
    for point, color in points:
        if point.x_interval:
            segments.append([(end, point.y) for end in point.x_interval])
            colors.append(color)
        if point.y_interval:
            segments.append([(point.x, end) for end in point.y_interval])
            colors.append(color)
    bars = LineCollection(segments, colors=colors, linewidths=1.0, alpha=0.5, zorder=1.5)
    axes.add_collection(bars, autolim=False)


def bars_note(points: Iterable[Point], x: str, y: str) -> str:
    """Say of which metrics there are bars and what they are; nothing where there are none."""
    points = list(points)
    shown = [
        *([all_metrics[x]] if any(point.x_interval for point in points) else []),
        *([all_metrics[y]] if any(point.y_interval for point in points) else []),
    ]
    bounded = dict.fromkeys(metric.bounds.of for metric in shown if metric.bounds)
    one_run = "" if all(metric.is_share for metric in shown) else " (a point is one run)"
    return f"bars: 95% intervals of {' and of '.join(bounded)}{one_run}" if shown else ""
