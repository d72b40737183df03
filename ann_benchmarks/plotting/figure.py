"""The recall/QPS figure, and any other of two metrics."""

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ann_benchmarks.common.atomic import atomic_path
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.frontier import pareto_frontier
from ann_benchmarks.results.metrics import all_metrics, plot_label

from .bars import bars_note, draw_bars
from .labels import add_labels
from .overlay import draw_published
from .points import Point
from .published import PublishedPoints
from .scales import Scale, apply_scale, parse_scale, with_room
from .styles import DASHES, LIGHT_COLORS, MARKERS, Style, assign_styles

Drawn = list[tuple[Point, str]]  # each with its colour
LONGEST_LEGEND = 30  # entries in one column
GREY = "0.35"
RING: dict[str, Any] = {"marker": "o", "ms": 13, "mfc": "none", "mec": "0.2", "mew": 1.2, "ls": ""}


def create_plot(
    series: Mapping[str, Sequence[Point]],
    x: str,
    y: str,
    output: Path,
    x_scale: str = "linear",
    y_scale: str = "linear",
    raw: bool = False,
    title: str = "",
    styles: Mapping[str, Style] | None = None,
    others: PublishedPoints | None = None,
    shares: bool = False,
) -> int:
    """Draw the Pareto frontier of each series into a picture; return the number of points drawn.

    `x` and `y` name the metrics; `raw` adds the points behind the frontier in faded colours, `others` those
    of another machine. With `shares` every y is over the first of its curve (shares.over_first). The format
    follows the name's ending. UserError if nothing can be drawn or the file not written.
    """
    scales = (parse_scale(x_scale, "x"), parse_scale(y_scale, "y"))
    styles = styles or assign_styles(series)
    figure = Figure(figsize=(10, 6.5))
    axes = figure.subplots()
    drawn, faded = draw_series(axes, series, x, y, raw, styles, others)
    if not drawn:
        raise UserError(f"nothing to plot: no result has both {x} and {y}")
    points = [point for point, _ in drawn]
    theirs = [point for curve in others.series.values() for point in curve] if others else []
    fit_scales(axes, points, [*faded, *theirs], (x, "qps" if shares else y), scales)
    draw_bars(axes, drawn)
    add_note(axes, bars_note(points, x, y))
    add_labels(axes, [*points, *theirs], GREY)
    decorate(axes, x, y, title)
    if shares:
        axes.set_ylabel(f"{all_metrics[y].description} / that of the curve's first point")
    save(figure, output)
    return len(drawn) + len(faded)


def draw_series(
    axes: Axes,
    series: Mapping[str, Sequence[Point]],
    x: str,
    y: str,
    raw: bool,
    styles: Mapping[str, Style],
    published: PublishedPoints | None = None,
) -> tuple[Drawn, list[Point]]:
    """Draw every series and the legend beside them, in the order of their heights.

    Return the points drawn in full, with their colours, and the faded ones.
    """
    frontiers = {
        name: pareto_frontier([(point.x, point.y) for point in points], x, y)
        for name, points in series.items()
    }

    def mean_height(name: str) -> float:
        heights = [abs(series[name][i].y) for i in frontiers[name][0]]
        return sum(map(math.log, heights)) / len(heights)

    drawn: Drawn = []
    faded: list[Point] = []
    handles, names = [], []
    for name in sorted((n for n in series if frontiers[n][0]), key=mean_height, reverse=True):
        frontier, every = frontiers[name]
        style = styles[name]
        color, dash = LIGHT_COLORS[style.color], DASHES[style.dash].split()
        line_style = (0, tuple(map(float, dash))) if dash else "-"
        look: dict[str, Any] = {"color": color, "marker": MARKERS[style.marker], "clip_on": False}
        edged = {**look, "ms": 7, "mec": "white", "mew": 0.6}
        curve = [series[name][i] for i in frontier]
        behind = [series[name][i] for i in every if i not in set(frontier)]
        staying = [point for point in behind if point.stays]
        others = [point for point in behind if not point.stays] if raw else []
        (line,) = axes.plot(*coordinates(curve), lw=2, ls=line_style, **edged)
        axes.plot(*coordinates(staying), ls="", **edged)
        axes.plot(*coordinates(others), ls="", ms=4, alpha=0.3, zorder=1, **look)
        drawn += [(point, color) for point in curve + staying]
        faded += others
        handles.append(line)
        names.append(name)
    found = [point for point, _ in drawn if point.found_for is not None]
    if found:
        (ring,) = axes.plot(*coordinates(found), clip_on=False, **RING)
        handles.append(ring)
        recalls = sorted({point.found_for for point in found if point.found_for is not None})
        names.append(f"found for recall {', '.join(f'{recall:g}' for recall in recalls)}")
    if published:
        their_handles, their_names = draw_published(axes, published, metrics=(x, y))
        handles += their_handles
        names += their_names
    if handles:
        add_legend(axes, handles, names)
    return drawn, faded


def coordinates(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """Return the x and the y of points."""
    return [point.x for point in points], [point.y for point in points]


def add_legend(axes: Axes, handles: list, names: list[str]) -> None:
    """Add a legend to the right of the axes, where it covers no data, with the names as they are."""
    legend = axes.legend(
        handles,
        ["name"] * len(names),  # set below: here a leading "_" would hide an entry and "$" begin a formula
        loc="center left",
        bbox_to_anchor=(1.01, 0.5),
        ncols=math.ceil(len(names) / LONGEST_LEGEND),
        frameon=False,
        fontsize=9,
        handlelength=3.2,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)


def add_note(axes: Axes, text: str) -> None:
    """Write below the axes how the picture is to be read."""
    axes.annotate(
        text,
        (1, 0),
        xytext=(0, -46),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color="0.5",
    )


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
        apply_scale(axes, name, scale, values, all_metrics[metric].is_share)


def decorate(axes: Axes, x: str, y: str, title: str) -> None:
    """Add labels, grid and the title that says which way is better."""
    axes.set_xlabel(all_metrics[x].description)
    axes.set_ylabel(all_metrics[y].description)
    axes.set_title(plot_label(x, y), loc="left", fontsize=10, color=GREY, pad=8)
    frame(axes, title)


def frame(axes: Axes, title: str) -> None:
    """Add the title above all else and the grid; take away what says nothing."""
    axes.annotate(
        title,
        (0, 1),
        xytext=(0, 26),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=13,
        fontweight="bold",
        parse_math=False,
    )
    axes.grid(which="major", color="0.88", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", color="0.7", labelcolor=GREY)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("0.7")


def save(figure: Figure, output: Path) -> None:
    """Write the figure to a file that is whole or not there."""
    extension = output.suffix.removeprefix(".").lower()
    known = figure.canvas.get_supported_filetypes()
    if extension not in known:
        raise UserError(f"cannot draw '{output}': its name must end in one of .{', .'.join(sorted(known))}")
    try:
        with warnings.catch_warnings(), atomic_path(output) as temporary:
            warnings.filterwarnings("ignore", "Glyph .* missing")
            figure.savefig(temporary, format=extension, bbox_inches="tight", dpi=144)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror or error}") from error
