"""95% intervals as bars, and the note that says what they are."""

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from ann_benchmarks.results.metrics import QPS_AT_RECALL

from .points import Point

BOUNDED = {
    "k-nn": "recall over queries",
    "qps": "the mean QPS of runs",
    QPS_AT_RECALL: "the mean QPS of runs",
}


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
        *([x] if any(point.x_interval for point in points) else []),
        *([y] if any(point.y_interval for point in points) else []),
    ]
    bounded = dict.fromkeys(BOUNDED.get(name, "the mean percentile of runs") for name in shown)
    one_run = " (a point is one run)" if set(shown) - {"k-nn"} else ""
    return f"bars: 95% intervals of {' and of '.join(bounded)}{one_run}" if shown else ""
