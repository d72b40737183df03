"""Another machine's figures next to one's own: dashed and in grey in pictures, and as a table in Markdown."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ann_benchmarks.common.numbers import UNKNOWN, figure_text, plain_number
from ann_benchmarks.results.intervals import interval_text
from ann_benchmarks.results.metrics import pareto_frontier
from ann_benchmarks.views.points import Point, ordered

from .published import PublishedPoints
from .styles import MARKERS

GREYS = ("0.5", "0.72")
LONGEST_LABEL = 34  # of a line in the legend
HOLLOW: dict[str, Any] = {"lw": 1.3, "ms": 5, "mfc": "white"}
DASH = (0, (4.0, 2.0))
THEIRS = "another machine"


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


def table_beside(
    own: Mapping[str, Sequence[Point]],
    others: PublishedPoints,
    x: str,
    y: str,
    normalise: bool = False,
    same: Mapping[str, str] | None = None,
) -> str:
    """Return a row for each curve and x, with one's own y, the published one and own / published.

    Curves belong together by `same` (own name: published name), by their names or, where one is published
    alone, all to that. With `normalise` every y is over the first of its curve. An interval is in brackets.
    """
    theirs = {name: ordered(points, normalise) for name, points in others.series.items()}
    mine = {name: ordered(points, normalise) for name, points in own.items()}
    alone = next(iter(theirs)) if len(theirs) == 1 else None
    pairs = [(name, (same or {}).get(name, name if name in theirs else alone)) for name in mine]
    pairs += [(name, name) for name in theirs if name not in {other for _, other in pairs}]
    done: set[str] = set()
    what = f"{y} / first" if normalise else y
    lines = [
        f"| Curve | {x} | own {what} | {what}, {THEIRS} | own / {THEIRS} |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, other in pairs:
        left = {point.x: point for point in mine.get(name, ())}
        right = {point.x: point for point in theirs.get(other or "", ())}
        title = name if other in (name, None) else f"{name} ({other})"
        for at in sorted(left if other in done else {*left, *right}):
            a, b = left.get(at), right.get(at)
            ratio = figure_text(a.y / b.y) if a and b and b.y else UNKNOWN
            lines.append(f"| {escaped(title)} | {plain_number(at)} | {cell(a)} | {cell(b)} | {ratio} |")
        done.add(other or "")
    return "\n".join([*lines, "", note(others, normalise), ""])


def cell(point: Point | None) -> str:
    """Write a figure, with its interval where there is one."""
    return figure_text(point.y) + interval_text(point.y_interval) if point else UNKNOWN


def escaped(text: str) -> str:
    """Write text that may stand in a cell."""
    return text.replace("|", "\\|")


def note(others: PublishedPoints, normalise: bool) -> str:
    """Say whose the other figures are, and what the ratio means."""
    means = (
        "each figure is over the first of its curve, so that shapes are compared and not machines"
        if normalise
        else "the ratio compares machines as much as what ran on them"
    )
    return f"Published: {others.label}: {means}. {others.origin}".strip()
