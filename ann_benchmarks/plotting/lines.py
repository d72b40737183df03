"""Pictures of lines: what changes with clients, sizes or time, with 95% intervals; and recall by query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import percent_text, plain_number, share_text
from ann_benchmarks.results.tails import RecallTail
from ann_benchmarks.views.points import Point, ordered

from .canvas import (
    BARS,
    EDGED,
    GREY,
    add_legend,
    add_note,
    coordinates,
    draw_bars,
    draw_published,
    frame,
    line_style,
    save,
)
from .published import PublishedPoints
from .scales import apply_scale, parse_scale, spaced, with_room
from .styles import LIGHT_COLORS, MARKERS, Style

CLOSE = 2.0  # the largest value over the smallest, below which a linear axis from 0 shows more
FAR = 4.0  # the same of x, from which on a logarithmic axis does
FEW_STEPS = 20  # of recall, drawn with marks
COMPARED = "compare two lines only where their mean recalls are nearly equal"
MOST_TICKS = 12  # values of x that are written below the axis; of more, round ones are


@dataclass(frozen=True)
class LinePlot:
    """What is written around lines, and the scales: those of plot.py.

    A scale "" is logarithmic where values lie far apart. With `normalise` every line is divided by its first
    point, those of another machine too. `direction` says below the title which way is better.
    """

    x_label: str
    y_label: str
    x_scale: str = ""
    y_scale: str = ""
    title: str = ""
    direction: str = ""
    normalise: bool = False


def draw_lines(
    series: Mapping[str, Sequence[Point]],
    path: Path,
    plot: LinePlot,
    published: Sequence[PublishedPoints] = (),
    kinds: Mapping[str, tuple[str, str]] | None = None,
) -> int:
    """Draw a line through the points of each series, by x; return the number of points of one's own.

    Series with the same first of their `kinds` have the same colour and marker, those with the same second
    one the same dash. UserError if there are no points or the file cannot be written.
    """
    normalise = plot.normalise
    lines = {name: ordered(points, normalise) for name, points in series.items()}
    lines = {name: points for name, points in lines.items() if points}
    if not lines:
        raise UserError(f"nothing to plot: no result has both {plot.x_label} and {plot.y_label}")
    theirs = [
        replace(o, series={name: ordered(points, normalise) for name, points in o.series.items()})
        for o in published
    ]
    figure = Figure(figsize=(10, 6))
    axes = figure.subplots()
    names = list(lines)
    looks = line_looks(names, kinds)
    markers = {name: looks[name]["marker"] for name in names}
    handles = []
    drawn: list[tuple[Point, str]] = []
    for name, points in lines.items():
        handles += axes.plot(*coordinates(points), **looks[name])
        drawn += [(point, looks[name]["color"]) for point in points]
    for others in theirs:
        their_handles, their_names = draw_published(axes, others, markers)
        handles += their_handles
        names += their_names
    own = [point for point, _ in drawn]
    other_points = [p for others in theirs for points in others.series.values() for p in points]
    fit(axes, own, other_points, plot)
    draw_bars(axes, drawn)
    if any(point.y_interval for point in own):
        add_note(axes, BARS)
    frame(axes, plot.title)
    axes.set_title(plot.direction, loc="left", fontsize=10, color=GREY, pad=8)
    of_first = " / that of the line's first point" if normalise else ""
    axes.set_xlabel(plot.x_label, parse_math=False)
    axes.set_ylabel(plot.y_label + of_first, parse_math=False)
    add_legend(axes, handles, names)
    save(figure, path)
    return len(own)


def line_looks(
    names: Sequence[str], kinds: Mapping[str, tuple[str, str]] | None = None
) -> dict[str, dict[str, Any]]:
    """Return each line's colour, marker and dash, by its kinds or else by its place.

    Their order says more than their names: it is that of ef_search.
    """
    if kinds is None:
        return {name: look(i, i // len(LIGHT_COLORS)) for i, name in enumerate(names)}
    firsts, seconds = (list(dict.fromkeys(kinds[name][i] for name in names)) for i in (0, 1))
    return {name: look(firsts.index(kinds[name][0]), seconds.index(kinds[name][1])) for name in names}


def look(color: int, dash: int) -> dict[str, Any]:
    """Return a colour, with its marker, and a dash by their numbers."""
    return {
        "color": LIGHT_COLORS[color % len(LIGHT_COLORS)],
        "marker": MARKERS[color % len(MARKERS)],
        "ls": line_style(dash),
        "lw": 2,
        "zorder": 3,
        **EDGED,
    }


def fit(axes: Axes, own: Sequence[Point], theirs: Sequence[Point], plot: LinePlot) -> None:
    """Give both axes their scales; write the values of x below the axis where they are few."""
    xs, ys = coordinates([*own, *theirs])
    scales = (
        parse_scale(plot.x_scale or ("log" if min(xs) > 0 and max(xs) >= FAR * min(xs) else "linear"), "x"),
        parse_scale(plot.y_scale or ("log" if min(ys) > 0 and max(ys) >= CLOSE * min(ys) else "linear"), "y"),
    )
    ends = [end for point in own for end in point.y_interval or ()]
    shown = with_room(ys, ends, scales[1])
    for name, values, scale in zip("xy", (xs, shown), scales, strict=True):
        if scale.name == "log" and min(values) <= 0:
            raise UserError(f"a logarithmic {name} axis cannot show {min(values):g}: choose linear")
        axes.update_datalim([(xs[0], min(shown)), (xs[0], max(shown))])
        apply_scale(axes, name, scale, values, False)
    if scales[1].name == "linear" and min(shown) >= 0:
        axes.set_ylim(bottom=0)
    values = sorted(set(xs))
    if len(values) <= MOST_TICKS and scales[0].name in ("linear", "log"):
        axes.autoscale_view()
        forward = np.log if scales[0].name == "log" else np.positive
        ticks = spaced(values, forward, axes.get_xlim())
        axes.set_xticks(ticks, [plain_number(tick) for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())


def create_recall_figure(
    tails: Sequence[RecallTail], output: Path, title: str, styles: Mapping[str, Style]
) -> None:
    """Draw the share of queries with a recall below x. A series whose queries miss nothing has no line.

    The y axis is logarithmic, because a tail is a small share of the queries.
    """
    figure = Figure(figsize=(8.5, 5.0))
    axes = figure.subplots()
    handles, names = [], []
    for tail in tails:
        style = styles[tail.run.algorithm]
        how: dict[str, Any] = {**EDGED, "ms": 5 if tail.steps <= FEW_STEPS else 0, "lw": 1.6}
        how |= {"marker": MARKERS[style.marker], "color": LIGHT_COLORS[style.color]}
        xs, ys = zip(*tail.below, strict=True) if tail.below else ((), ())
        handles += axes.plot(xs, ys, ls=line_style(style.dash), drawstyle="steps-pre", **how)
        names.append(f"{tail.run.algorithm}, mean recall {share_text(tail.mean)}")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: percent_text(share)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(right=1.0)
    axes.set_xlabel("Recall of a query")
    axes.set_ylabel("Share of queries below it")
    frame(axes, title)
    add_note(axes, f"lower is better; {COMPARED}")
    add_legend(axes, handles, names)
    save(figure, output)
