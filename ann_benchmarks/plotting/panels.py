"""Small multiples: one picture of several panels with the same axes, the same colours and one legend."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.metrics import all_metrics, plot_label
from ann_benchmarks.views.points import Point

from .canvas import GREY, add_grid, add_labels, bars_note, draw_bars, named_legend, save
from .figure import View, draw_curves, fit_scales
from .scales import parse_scale
from .styles import Style

MOST_PANELS = 25
WIDTHS = (6.5, 4.6, 3.6, 3.1, 2.7)  # of a panel in inches, as all lengths here, by the number of columns
SHRUNK = (1.0, 0.9, 0.8, 0.7, 0.65)  # lines and markers, by the number of columns
HEIGHT = 0.72  # of a panel, in its widths
LEFT, RIGHT, TOP, BOTTOM = 0.85, 0.1, 0.95, 0.5  # around the panels
ACROSS, DOWN = 0.18, 0.5  # between them
TICK_SIZE, HEADING_SIZE, LEGEND_SIZE = 8, 9, 9  # of letters, in points
LETTER = 0.55 / 72  # width of a letter, in its sizes
APART = 5.0  # pixels between two labels of an axis

Curves = Mapping[str, Sequence[Point]]


def create_panels(
    panels: Mapping[str, Curves], view: View, output: Path, title: str, styles: Mapping[str, Style]
) -> int:
    """Draw the frontiers of each panel's series under its heading; return the number of points drawn.

    UserError if there are too many panels, or the file cannot be written.
    """
    if len(panels) > MOST_PANELS:
        raise UserError(f"{len(panels)} panels are more than {MOST_PANELS}: choose some by --series")
    columns = 3 if len(panels) == 3 else math.ceil(math.sqrt(len(panels)))
    rows = math.ceil(len(panels) / columns)
    figure = Figure()
    axes = grid(figure, rows, columns)
    scales = (parse_scale(view.x_scale, "x"), parse_scale(view.y_scale, "y"))
    every = [point for series in panels.values() for points in series.values() for point in points]
    drawn, lines = 0, dict[str, Line2D]()
    for one, (heading, series) in zip(axes, panels.items(), strict=False):
        shown, faded, of_panel = draw_curves(one, series, view, styles)
        shrink(one, SHRUNK[columns - 1])
        fit_scales(one, every, [], (view.x, "qps" if view.normalise else view.y), scales)
        draw_bars(one, shown)
        add_grid(one)
        one.tick_params(which="both", labelsize=TICK_SIZE)
        wide = int(WIDTHS[columns - 1] / (LETTER * HEADING_SIZE))
        text = "\n".join(textwrap.wrap(heading, wide, max_lines=2, placeholder="..."))
        one.set_title(text, loc="left", fontsize=HEADING_SIZE, color=GREY, parse_math=False)
        add_labels(one, [point for point, _ in shown], GREY)
        lines = {**{name: handle for handle, name in of_panel}, **lines}
        drawn += len(shown) + len(faded)
    for one in axes[len(panels) :]:
        one.remove()
    for one in axes[len(panels) - columns : len(panels)]:  # the last row may be shorter
        one.xaxis.set_tick_params(labelbottom=True)
    thin_ticks(figure, axes[: len(panels)])
    write_around(figure, view, title, bars_note(every, *view.metrics))
    add_legend_below(figure, lines, list(chain.from_iterable(panels.values())))
    save(figure, output)
    return drawn


def grid(figure: Figure, rows: int, columns: int) -> list[Axes]:
    """Return panels row by row, all with the same axes; the figure gets the size that they take."""
    width = WIDTHS[columns - 1]
    height = width * HEIGHT
    whole = (
        LEFT + columns * width + (columns - 1) * ACROSS + RIGHT,
        TOP + rows * height + (rows - 1) * DOWN + BOTTOM,
    )
    figure.set_size_inches(whole)
    places = {
        "left": LEFT / whole[0],
        "right": 1 - RIGHT / whole[0],
        "top": 1 - TOP / whole[1],
        "bottom": BOTTOM / whole[1],
        "wspace": ACROSS / width,
        "hspace": DOWN / height,
    }
    found = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False, gridspec_kw=places)
    return list(found.flat)


def shrink(axes: Axes, share: float) -> None:
    """Make lines and markers smaller."""
    for line in axes.lines:
        line.set(markersize=share * line.get_markersize(), linewidth=share * line.get_linewidth())


def thin_ticks(figure: Figure, panels: Sequence[Axes]) -> None:
    """Leave out labels that would be written over each other, from the highest value down."""
    figure.draw_without_rendering()
    bottom, left = panels[-1], panels[0]
    for axis, side in ((bottom.xaxis, 0), (left.yaxis, 1)):
        kept = readable_ticks(axis, side)
        for one in panels:
            (one.xaxis, one.yaxis)[side].set_ticks(kept)


def readable_ticks(axis: Axis, side: int) -> list[float]:
    """Return those ticks of an axis whose labels do not overlap; `side` is 0 for x, 1 for y."""
    low, high = sorted(axis.get_view_interval())
    labels = [
        (tick.get_loc(), tick.label1.get_window_extent())
        for tick in axis.get_major_ticks()
        if low <= tick.get_loc() <= high and tick.label1.get_text()
    ]
    kept: list[float] = []
    end = math.inf
    for place, box in sorted(labels, key=lambda item: -item[0]):
        near, far = (box.x0, box.x1) if side == 0 else (box.y0, box.y1)
        if far + APART <= end:
            kept.append(place)
            end = near
    return kept


def write_around(figure: Figure, view: View, title: str, note: str) -> None:
    """Write titles above the panels, what the axes show, and how to read the bars."""
    width, height = figure.get_size_inches()

    def write(x: float, y: float, text: str, **how: Any) -> None:
        """Write at inches from the left, and from the top, or if negative from the bottom."""
        figure.text(x / width, (-y if y < 0 else height - y) / height, text, parse_math=False, **how)

    of_first = " / that of the curve's first point" if view.normalise else ""
    write(LEFT, 0.02, title, fontsize=13, fontweight="bold", va="top")
    write(LEFT, 0.32, plot_label(*view.metrics), fontsize=10, color=GREY, va="top")
    middle = {"x": (LEFT + width - RIGHT) / 2, "y": (TOP + height - BOTTOM) / 2}
    how: dict[str, Any] = {"ha": "center", "fontsize": 10}
    figure.text(middle["x"] / width, 0.0, all_metrics[view.x].description, va="bottom", **how)
    label = all_metrics[view.y].description + of_first
    figure.text(0.05 / width, 1 - middle["y"] / height, label, va="center", rotation=90, **how)
    write(width - RIGHT, 0.1 + height, note, fontsize=8, color="0.5", ha="right", va="top")


def add_legend_below(figure: Figure, lines: Mapping[str, Line2D], series: Sequence[str]) -> None:
    """Add one legend for all panels, in the order of the names, rings last."""
    names = [name for name in sorted(lines) if name in series]
    names += [name for name in lines if name not in series]
    if not names:
        return
    width, height = figure.get_size_inches()
    entry = max(map(len, names)) * LETTER * LEGEND_SIZE + 0.75
    place = {"loc": "upper left", "bbox_to_anchor": (LEFT / width, -0.25 / height)}
    columns = min(max(int((width - LEFT) / entry), 1), len(names))
    named_legend(figure, [lines[name] for name in names], names, ncols=columns, **place)
