"""Draws any chart: panels of curves with their intervals, bands and marks, and one legend."""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis as DrawnAxis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import warn
from ann_benchmarks.views.figures import LIGHT_COLORS, MARKERS, Axis, Chart, Curve, Panel
from ann_benchmarks.views.points import Point

from .canvas import (
    EDGED,
    GREY,
    GREYS,
    add_grid,
    add_labels,
    add_text,
    coordinates,
    draw_bars,
    line_style,
    mark,
    named_legend,
    save,
    shade,
)
from .scales import CHARACTER, Scale, add_room, apply_scale, functions, parse_scale, spaced

# How curves are drawn by their roles; a legend below panels lists them in this order.
ROLES: dict[str, dict[str, Any]] = {
    "line": {"lw": 2, "zorder": 3, **EDGED},
    "mark": {"lw": 0, "zorder": 3, **EDGED},
    "sample": {"lw": 1.4, "marker": ".", "ms": 4},
    "faded": {"lw": 0, "ms": 4, "alpha": 0.3, "zorder": 1},
    "band": {"lw": 1.4, "marker": ""},
    "thin": {"lw": 1.3, "marker": ""},
    "bar": {"lw": 11, "marker": "", "solid_capstyle": "butt"},
    "span": {"lw": 5, "marker": "", "alpha": 0.15, "zorder": 1},
    "hollow": {"lw": 1.3, "mfc": "white", "mew": 1.2, "ms": 7, "zorder": 3},
    "hollow mark": {"lw": 0, "mfc": "white", "mew": 1.2, "ms": 7, "zorder": 3},
    "heading": {"ls": "", "marker": ""},
    "published": {"lw": 1.3, "ms": 5, "mfc": "white", "zorder": 1.8},
    "published mark": {"lw": 0, "ms": 5, "mfc": "white", "zorder": 1.8},
    "ring": {"lw": 0, "marker": "o", "ms": 13, "mfc": "none", "mec": "0.2", "mew": 1.2, "zorder": 3},
}
OWN = ("line", "mark", "sample", "hollow", "hollow mark")  # roles whose intervals are drawn
# Lengths in inches: a panel by the number of columns, what is around all of them and between two.
WIDTHS = (7.75, 4.6, 3.6, 3.1, 2.7)
SHRUNK = (1.0, 0.9, 0.8, 0.7, 0.65)  # lines and markers, by the number of columns, the last for more
HEIGHTS = (0.64, 0.72)  # of a panel in its widths, alone and among others
LEFT, RIGHT, TOP, BOTTOM = 0.85, 0.1, 0.95, 0.5
ACROSS, FOR_NUMBERS, DOWN = 0.18, 0.55, 0.5
HEADING_SIZE, LEGEND_SIZE = 9, 9  # of letters, in points
NOTE_LINE = 0.14  # height of a line of the note, in inches
LETTER = 0.55 / 72  # width of a letter, in its sizes
LONGEST_LEGEND = 30  # entries in one column
SHADE = 0.15  # opacity of a band
APART = 5.0  # pixels between two labels of an axis


def draw_chart(chart: Chart, path: Path) -> None:
    """Draw a chart into a file, whose ending says the format; UserError if it cannot be written."""
    figure = Figure()
    grid = add_panels(figure, chart)
    entries: dict[tuple[str, str], Line2D] = {}
    for axes, panel in zip(grid, chart.panels, strict=True):
        found = draw_curves(axes, panel.curves, SHRUNK[min(chart.columns, len(SHRUNK)) - 1])
        if chart.has_legends:
            add_entries(figure, axes, found, chart)
            continue
        for entry, line in found.items():
            entries.setdefault(entry, line)
    for name in "xy":
        pairs = list(zip(grid, chart.panels, strict=True))
        for group in [pairs] if name in chart.shared else [[pair] for pair in pairs]:
            fit_axis([axes for axes, _ in group], name, [panel for _, panel in group])
    for number, (axes, panel) in enumerate(zip(grid, chart.panels, strict=True)):
        finish_panel(axes, panel, chart, number)
    for name in "xy":
        write_ticks(figure, grid, name, chart)
    write_around(figure, grid, chart)
    add_entries(figure, grid[0], entries, chart)
    save(figure, path)


def add_panels(figure: Figure, chart: Chart) -> list[Axes]:
    """Return the axes of the panels, row by row; the figure gets the size that they take."""
    columns, rows = chart.columns, math.ceil(len(chart.panels) / chart.columns)
    across = ACROSS if columns == 1 or "y" in chart.shared or chart.is_grid else FOR_NUMBERS
    down = ACROSS if chart.is_grid else DOWN
    width, height = panel_size(chart)
    wide = LEFT + columns * width + (columns - 1) * across + RIGHT
    high = TOP + rows * height + (rows - 1) * down + BOTTOM
    figure.set_size_inches(wide, high)
    places = {
        "left": LEFT / wide,
        "right": 1 - RIGHT / wide,
        "top": 1 - TOP / high,
        "bottom": BOTTOM / high,
        "wspace": across / width,
        "hspace": down / height,
    }
    shared: dict[str, Any] = {"sharex": "x" in chart.shared, "sharey": "y" in chart.shared}
    shared = {"sharex": "col", "sharey": "row"} if chart.is_grid else shared
    found = list(figure.subplots(rows, columns, squeeze=False, gridspec_kw=places, **shared).flat)
    number = len(chart.panels)
    for axes in found[number:]:
        axes.remove()
    for axes in found[max(number - columns, 0) : number]:  # the last row may be shorter
        axes.xaxis.set_tick_params(labelbottom=True)
    return found[:number]


def panel_size(chart: Chart) -> tuple[float, float]:
    """Return width and height of a panel."""
    if chart.size:
        return chart.size
    width = WIDTHS[chart.columns - 1]
    return width, width * HEIGHTS[chart.columns > 1]


def draw_curves(axes: Axes, curves: Sequence[Curve], share: float) -> dict[tuple[str, str], Line2D]:
    """Draw curves with their markers in a share of the usual size; return the entries of a legend."""
    entries = {}
    for curve in curves:
        (line,) = axes.plot(*coordinates(curve.points), clip_on=False, **look(curve))
        line.set(markersize=share * line.get_markersize(), linewidth=share * line.get_linewidth())
        if curve.role == "band":
            known = [(point.x, *point.y_interval) for point in curve.points if point.y_interval]
            x, low, high = ([one[i] for one in known] for i in range(3))
            axes.fill_between(x, low, high, color=line.get_color(), alpha=SHADE, lw=0)
        if curve.name:
            entries[curve.role, curve.name] = line
    return entries


def look(curve: Curve) -> dict[str, Any]:
    """Return how a curve is drawn."""
    style, is_published = curve.style, curve.role.startswith("published")
    color = GREYS[style.color % len(GREYS)] if is_published else LIGHT_COLORS[style.color % len(LIGHT_COLORS)]
    dash = {"ls": line_style(style.dash)} if ROLES[curve.role].get("lw") else {"ls": ""}
    return {"color": color, "marker": MARKERS[style.marker % len(MARKERS)], **dash, **ROLES[curve.role]}


def fit_axis(grid: Sequence[Axes], name: str, panels: Sequence[Panel]) -> None:
    """Give the axis x or y of panels that share it its scale, around the points and the bars near them."""
    axis: Axis = getattr(panels[0], name)
    curves = [curve for panel in panels for curve in panel.curves]
    values = [
        value for curve in curves for point in curve.points if math.isfinite(value := getattr(point, name))
    ]
    if not values:
        return
    intervals = [
        getattr(point, f"{name}_interval") for curve in curves if curve.role in OWN for point in curve.points
    ]
    is_far = min(values) > 0 and max(values) >= axis.far * min(values)
    scale = parse_scale(axis.scale or ("log" if is_far else "linear"), name)
    if scale.name == "log" and min(values) <= 0:
        raise UserError(f"a logarithmic {name} axis cannot show {min(values):g}: choose linear")
    values = add_room(values, [end for interval in intervals for end in interval or ()], scale)
    if scale.is_for_shares and max(values) > 1:  # ann-benchmarks draws a picture even so
        warn(
            f"the {scale} scale is for values up to 1, which {axis.metric} exceeds: the {name} axis is linear"
        )
        scale = Scale("linear")
    is_x, ends = name == "x", (min(values), max(values))
    places = [(end, end) for end in ends]
    grid[0].update_datalim(places, updatex=is_x, updatey=not is_x)
    apply_scale(grid[0], name, scale, values, axis.is_share)
    if axis.limits:
        grid[0].set(**{f"{name}lim": axis.limits})
    elif axis.from_zero and min(values) >= 0:
        grid[0].set_ylim(bottom=0)


def finish_panel(axes: Axes, panel: Panel, chart: Chart, number: int) -> None:
    """Add what lies behind, next to and above the curves of a panel."""
    shown = [curve for curve in panel.curves if curve.role != "faded"]
    bars = [(point, look(curve)["color"]) for curve in shown if curve.role in OWN for point in curve.points]
    add_grid(axes)
    shade(axes, panel.bands)
    mark(axes, panel.uprights)
    draw_bars(axes, bars)  # it needs the limits
    add_labels(axes, [point for curve in shown if curve.role != "ring" for point in curve.points], GREY)
    if panel.absent:
        axes.text(0.5, 0.5, panel.absent, transform=axes.transAxes, ha="center", fontsize=9, color=GREY)
        axes.tick_params(which="both", left=False, labelleft=False)
    heading, size = panel.heading, HEADING_SIZE + (chart.columns == 1)
    if chart.columns > 1:
        wide = int(panel_size(chart)[0] / (LETTER * HEADING_SIZE))
        heading = "\n".join(textwrap.wrap(heading, wide, max_lines=2, placeholder="..."))
        axes.tick_params(which="both", labelsize=8)
    pad = 20 if panel.bands else 8
    axes.set_title(heading, loc="left", fontsize=size, color=GREY, pad=pad, parse_math=False)
    is_left, is_last_row = number % chart.columns == 0, number >= len(chart.panels) - chart.columns
    if "x" not in chart.shared or (is_last_row and "y" not in chart.shared):
        label = panel.x.label if is_last_row else ""
        axes.set_xlabel(label, loc="left" if chart.shared else "center", parse_math=False)
    if "y" not in chart.shared and (is_left or not chart.is_grid):
        axes.set_ylabel(panel.y.label, parse_math=False)


def write_ticks(figure: Figure, grid: Sequence[Axes], name: str, chart: Chart) -> None:
    """Write the ticks that are requested, or those there are, as far as they can be read."""
    if name in chart.shared and chart.columns > 1:
        drawn = getattr(grid[-1 if name == "x" else 0], f"{name}axis")
        drawn.get_tightbbox()  # its ticks get their places
        kept = readable_ticks(drawn, name)
        for axes in grid:
            getattr(axes, f"{name}axis").set_ticks(kept)
    for axes, panel in zip(grid, chart.panels, strict=True):
        ticks = getattr(panel, name).ticks
        scale = getattr(axes, f"get_{name}scale")()
        if ticks and scale in ("linear", "log"):
            axes.autoscale_view(scalex=name == "x", scaley=name == "y")
            limits = getattr(axes, f"get_{name}lim")()
            lengths = {tick: max(map(len, text.split("\n"))) for tick, text in ticks.items()}
            kept, forward = sorted(ticks), functions(Scale(scale))[0]
            if name == "x":
                kept = spaced(kept, forward, limits, CHARACTER, lengths.__getitem__)
            axis = getattr(axes, f"{name}axis")
            axis.set_ticks(kept, [ticks[tick] for tick in kept], parse_math=False)
            axis.set_minor_locator(NullLocator())


def readable_ticks(axis: DrawnAxis, name: str) -> list[float]:
    """Return those ticks of an axis whose labels do not overlap, from the highest value down."""
    low, high = sorted(axis.get_view_interval())
    labels = [
        (tick.get_loc(), tick.label1.get_window_extent())
        for tick in axis.get_major_ticks()
        if low <= tick.get_loc() <= high and tick.label1.get_text()
    ]
    kept: list[float] = []
    end = math.inf
    for place, box in sorted(labels, key=lambda item: -item[0]):
        near, far = (box.x0, box.x1) if name == "x" else (box.y0, box.y1)
        if far + APART <= end:
            kept.append(place)
            end = near
    return kept


def write_around(figure: Figure, grid: Sequence[Axes], chart: Chart) -> None:
    """Write the titles above the panels, what axes show that all have in common, and how to read it."""
    above = 50 if chart.subtitle else 26
    add_text(grid[0], chart.title, (0, 1), (0, above), fontsize=13, fontweight="bold")
    add_text(grid[0], chart.subtitle, (0, 1), (0, 34), fontsize=10, color=GREY)
    if chart.columns == 1:
        add_text(grid[-1], chart.note, (1, 0), (0, -40), ha="right", va="top", fontsize=8, color="0.5")
        return
    width, height = figure.get_size_inches()
    figure.text(1 - RIGHT / width, -0.1 / height, chart.note, ha="right", va="top", fontsize=8, color="0.5")
    if chart.shared == "xy":
        figure.supxlabel(
            chart.panels[0].x.label, x=(LEFT + width - RIGHT) / 2 / width, y=0, va="bottom", fontsize=10
        )
        middle = 1 - (TOP + height - BOTTOM) / 2 / height
        figure.supylabel(chart.panels[0].y.label, x=0.05 / width, y=middle, va="center", fontsize=10)


def add_entries(figure: Figure, first: Axes, entries: dict[tuple[str, str], Line2D], chart: Chart) -> None:
    """Add one legend: to the right of a column, or below several in the order of roles and names."""
    if not entries:
        return
    if chart.columns == 1 or chart.has_legends:
        # A handle is so long that the gap of a dash is not behind the marker.
        how: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "handlelength": 4.2}
        columns = math.ceil(len(entries) / LONGEST_LEGEND)
        named_legend(first, list(entries.values()), [name for _, name in entries], ncols=columns, **how)
        return
    order = list(ROLES)
    ranked = sorted(entries, key=lambda entry: (order.index(entry[0]), entry[1]))
    width, height = figure.get_size_inches()
    names = [name for _, name in ranked]
    entry = max(map(len, names)) * LETTER * LEGEND_SIZE + 0.75
    below = 0.25 + NOTE_LINE * chart.note.count("\n")
    place = {"loc": "upper left", "bbox_to_anchor": (LEFT / width, -below / height)}
    columns = min(max(int((width - LEFT) / entry), 1), len(names))
    named_legend(figure, [entries[one] for one in ranked], names, ncols=columns, **place)


def own_points(chart: Chart) -> list[Point]:
    """Return the points of a chart that are one's own, faded ones too."""
    return [
        point
        for panel in chart.panels
        for curve in panel.curves
        if curve.role in (*OWN, "faded")
        for point in curve.points
    ]
