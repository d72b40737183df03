"""Another machine's figures in a picture: in grey, dashed, hollow, under a heading in the legend."""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ann_benchmarks.results.frontier import pareto_frontier

from .published import PublishedPoints
from .styles import MARKERS

GREYS = ("0.5", "0.72")
LONGEST_LABEL = 34  # of a line in the legend
HOLLOW: dict[str, Any] = {"lw": 1.3, "ms": 5, "mfc": "white"}
DASH = (0, (4.0, 2.0))


def heading(label: str) -> tuple[Line2D, str]:
    """Return the entry of a legend above those of another machine."""
    return Line2D([], [], ls=""), textwrap.fill(label, LONGEST_LABEL)


def greys(names: Iterable[str]) -> dict[str, str]:
    """Give each name one of the greys."""
    return {name: GREYS[i % len(GREYS)] for i, name in enumerate(dict.fromkeys(names))}


def draw_published(
    axes: Axes,
    others: PublishedPoints,
    markers: Mapping[str, str] | None = None,
    metrics: tuple[str, str] | None = None,
) -> tuple[list[Line2D], list[str]]:
    """Draw the points, joined where they are steps of a curve; return what to add to the legend.

    Names in `markers` get these. With two metrics a curve joins its Pareto frontier only.
    """
    first, text = heading(others.label)
    handles, names = [first], [text]
    colors = greys(others.series)
    for i, (name, points) in enumerate(others.series.items()):
        marker = (markers or {}).get(name) or MARKERS[i % len(MARKERS)]
        look = {"color": colors[name], "marker": marker, "clip_on": False, "zorder": 1.8, **HOLLOW}
        curve = list(points)
        if others.joined and metrics:
            frontier, _ = pareto_frontier([(point.x, point.y) for point in points], *metrics)
            curve = [points[j] for j in frontier]
        xs, ys = [point.x for point in curve], [point.y for point in curve]
        handles += axes.plot(xs, ys, ls=DASH if others.joined else "", **look)
        names.append(name)
    return handles, names
