"""The recall/QPS figure, and any other of two metrics."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ann_benchmarks.common.text import warn
from ann_benchmarks.results.metrics import all_metrics, pareto_frontier, plot_label
from ann_benchmarks.views.points import Point

from .canvas import (
    EDGED,
    GREY,
    add_labels,
    add_legend,
    add_note,
    bars_note,
    coordinates,
    draw_bars,
    draw_published,
    frame,
    line_style,
    save,
    slack_note,
)
from .published import PublishedPoints
from .scales import Scale, apply_scale, parse_scale, with_room
from .styles import LIGHT_COLORS, MARKERS, Style, assign_styles

Drawn = list[tuple[Point, str]]  # each with its colour
RING: dict[str, Any] = {"marker": "o", "ms": 13, "mfc": "none", "mec": "0.2", "mew": 1.2, "ls": ""}


@dataclass(frozen=True)
class View:
    """What a picture of two metrics shows: which ones, on which scales, and which points.

    `raw` adds the points behind the frontier, in faded colours. With `normalise` every y is over the first of
    its curve (points.over_first).
    """

    x: str = "recall"
    y: str = "qps"
    x_scale: str = "linear"
    y_scale: str = "linear"
    raw: bool = False
    normalise: bool = False

    @property
    def metrics(self) -> tuple[str, str]:
        """The names of both metrics."""
        return self.x, self.y


def create_plot(
    series: Mapping[str, Sequence[Point]],
    view: View,
    output: Path,
    title: str = "",
    styles: Mapping[str, Style] | None = None,
    others: PublishedPoints | None = None,
) -> int:
    """Draw the Pareto frontier of each series into a picture; return the number of points drawn.

    `others` are points of another machine; with `view.normalise` all are shares already. Without a point the
    picture is an empty frame. The format follows the name's ending. UserError if the file cannot be written.
    """
    scales = (parse_scale(view.x_scale, "x"), parse_scale(view.y_scale, "y"))
    figure = Figure(figsize=(10, 6.5))
    axes = figure.subplots()
    drawn, faded, lines = draw_curves(axes, series, view, styles or assign_styles(series))
    if others:
        lines += zip(*draw_published(axes, others, metrics=view.metrics), strict=True)
    if lines:
        add_legend(axes, [handle for handle, _ in lines], [name for _, name in lines])
    points = [point for point, _ in drawn]
    theirs = [point for curve in others.series.values() for point in curve] if others else []
    if points or theirs:
        fit_scales(axes, points, [*faded, *theirs], (view.x, "qps" if view.normalise else view.y), scales)
    draw_bars(axes, drawn)
    add_note(axes, bars_note(points, *view.metrics))
    if text := slack_note(points):
        warn(text)
    add_labels(axes, [*points, *theirs], GREY)
    decorate(axes, *view.metrics, title)
    if view.normalise:
        axes.set_ylabel(f"{all_metrics[view.y].description} / that of the curve's first point")
    save(figure, output)
    return len(drawn) + len(faded)


def draw_curves(
    axes: Axes, series: Mapping[str, Sequence[Point]], view: View, styles: Mapping[str, Style]
) -> tuple[Drawn, list[Point], list[tuple[Line2D, str]]]:
    """Draw every series in the order of their heights; return its points, and the entries of a legend."""
    frontiers = {
        name: pareto_frontier([(point.x, point.y) for point in points], *view.metrics)
        for name, points in series.items()
    }

    def mean_height(name: str) -> float:
        heights = [abs(series[name][i].y) for i in frontiers[name][0]]
        return sum(map(math.log, heights)) / len(heights)

    drawn: Drawn = []
    faded: list[Point] = []
    lines: list[tuple[Line2D, str]] = []
    for name in sorted((n for n in series if frontiers[n][0]), key=mean_height, reverse=True):
        frontier, every = frontiers[name]
        style = styles[name]
        color = LIGHT_COLORS[style.color]
        look: dict[str, Any] = {"color": color, "marker": MARKERS[style.marker], "clip_on": False}
        edged = {**look, **EDGED}
        curve = [series[name][i] for i in frontier]
        behind = [series[name][i] for i in every if i not in set(frontier)]
        staying = [point for point in behind if point.stays]
        others = [point for point in behind if not point.stays] if view.raw else []
        (line,) = axes.plot(*coordinates(curve), lw=2, ls=line_style(style.dash), **edged)
        axes.plot(*coordinates(staying), ls="", **edged)
        axes.plot(*coordinates(others), ls="", ms=4, alpha=0.3, zorder=1, **look)
        drawn += [(point, color) for point in curve + staying]
        faded += others
        lines.append((line, name))
    found = [point for point, _ in drawn if point.found_for is not None]
    if found:
        (ring,) = axes.plot(*coordinates(found), clip_on=False, **RING)
        recalls = sorted({point.found_for for point in found if point.found_for is not None})
        lines.append((ring, f"found for recall {', '.join(f'{recall:g}' for recall in recalls)}"))
    return drawn, faded, lines


def fit_scales(
    axes: Axes,
    drawn: Sequence[Point],
    faded: Sequence[Point],
    metrics: Sequence[str],
    scales: Sequence[Scale],
) -> None:
    """Give both axes their scales, with limits around the points and the bars near them."""
    ends = (
        [end for point in drawn for end in point.x_interval or ()],
        [end for point in drawn for end in point.y_interval or ()],
    )
    xs, ys = map(with_room, coordinates([*drawn, *faded]), ends, scales)
    axes.update_datalim([(min(xs), min(ys)), (max(xs), max(ys))])
    for name, values, metric, scale in zip("xy", (xs, ys), metrics, scales, strict=True):
        if scale.is_for_shares and max(values) > 1:  # as in ann-benchmarks, there is a picture even so
            warn(
                f"the {scale} scale is for values up to 1, which {metric} exceeds: the {name} axis is linear"
            )
            scale = Scale("linear")
        apply_scale(axes, name, scale, values, all_metrics[metric].is_share)


def decorate(axes: Axes, x: str, y: str, title: str) -> None:
    """Add labels, grid and the title that says which way is better."""
    axes.set_xlabel(all_metrics[x].description)
    axes.set_ylabel(all_metrics[y].description)
    axes.set_title(plot_label(x, y), loc="left", fontsize=10, color=GREY, pad=8)
    frame(axes, title)
