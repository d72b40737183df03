"""The two kinds of panels in the picture of filters: throughput, and what is returned at default settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, NullLocator
from matplotlib.transforms import blended_transform_factory

from ann_benchmarks.common.numbers import percent_text
from ann_benchmarks.views.points import Point

from .canvas import EDGED, GREY, add_grid, coordinates, draw_bars, line_style
from .filter_panels import FULL, MEASURES, FilterPanel, default_lines, speed_lines
from .scales import Scale, apply_scale, with_room
from .styles import LIGHT_COLORS, MARKERS, Style

ARROW, SIZE, STEP = r"$\downarrow$", 6.0, 8.0  # the mark of what is not reached; points, to the next above
SHARES = (-0.04, 1.04)  # limits of an axis of shares
TICK_SIZE = 8
MARGIN = 0.06  # of the x axis, at either end
HOLLOW = {"mfc": "white", "mew": 1.2, "ls": (0, (1.5, 2)), "lw": 1.3}  # of recall, next to completeness


@dataclass(frozen=True)
class StrategyLooks:
    """How strategies are drawn, and whether with intervals."""

    styles: Mapping[str, Style]
    intervals: bool = True

    def color(self, name: str) -> str:
        """Return the colour of a strategy."""
        return LIGHT_COLORS[self.styles[name].color]

    def line(self, name: str) -> dict[str, Any]:
        """Return how its line is drawn."""
        style, color = self.styles[name], self.color(name)
        marked = {"marker": MARKERS[style.marker], "ls": line_style(style.dash), "lw": 1.8, "zorder": 3}
        return {**EDGED, **marked, "color": color, "ms": 6}


def draw_speeds(panels: Mapping[Axes, FilterPanel], names: Sequence[str], looks: StrategyLooks) -> int:
    """Draw throughput by share of rows, all panels by the same y axis; return the number of points.

    An arrow at the foot marks a strategy that was measured and does not reach the recall.
    """
    lines = {axes: speed_lines(panel, names, looks.intervals) for axes, panel in panels.items()}
    every = [point for of in lines.values() for pieces in of.values() for piece in pieces for point in piece]
    most = max(
        (len(one.missed) for panel in panels.values() for one in panel.sets),
        default=0,
    )
    for axes, panel in panels.items():
        _draw(axes, lines[axes], looks)
        if every:
            ends = [end for point in every for end in point.y_interval or () if end > 0]
            values = [point.y for point in every]
            apply_scale(axes, "y", Scale("log"), with_room(values, ends, Scale("log")), False)
            axes.set_ylim(*_limits(with_room(values, ends, Scale("log")), axes, most))
        else:
            axes.set_yticks([])
        _arrows(axes, panel, names, looks)
        _finish(axes, panel)
    return len(every)


def draw_defaults(panels: Mapping[Axes, FilterPanel], names: Sequence[str], looks: StrategyLooks) -> None:
    """Draw completeness (filled) and recall (hollow, dotted) at default settings by share of rows."""
    for axes, panel in panels.items():
        for metric in MEASURES:
            lines = default_lines(panel, names, metric, looks.intervals)
            _draw(axes, lines, looks, {} if metric == FULL else HOLLOW)
        axes.set_ylim(*SHARES)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        _finish(axes, panel)
        if not any(one.defaults for one in panel.sets):
            axes.text(
                0.5, 0.5, "no result at default settings", transform=axes.transAxes, ha="center", color=GREY
            )


def _draw(
    axes: Axes,
    lines: Mapping[str, Sequence[Sequence[Point]]],
    looks: StrategyLooks,
    more: Mapping[str, Any] | None = None,
) -> None:
    for name, pieces in lines.items():
        how = {**looks.line(name), **(more or {})}
        if more:
            how["mec"] = looks.color(name)
        for piece in pieces:
            axes.plot(*coordinates(piece), **how)
        draw_bars(axes, [(point, looks.color(name)) for piece in pieces for point in piece])


def _limits(values: Sequence[float], axes: Axes, arrows: int) -> tuple[float, float]:
    """Return the limits of a logarithmic axis around values, with room for arrows below them."""
    low, high = min(values), max(values)
    if high < 1.5 * low:
        low, high = low / 1.25, high * 1.25
    height = axes.bbox.height * 72 / axes.figure.dpi  # in points
    foot, top = (STEP * (arrows + 1) if arrows else 5.0) / height, 8.0 / height
    length = 1 - foot - top
    factor = high / low
    return low / factor ** (foot / length), high * factor ** (top / length)


def _arrows(axes: Axes, panel: FilterPanel, names: Sequence[str], looks: StrategyLooks) -> None:
    """Mark at the foot which strategies do not reach the recall, one above the other."""
    height = axes.bbox.height * 72 / axes.figure.dpi
    foot = blended_transform_factory(axes.transData, axes.transAxes)
    for place, one in zip(panel.places, panel.sets, strict=True):
        for i, name in enumerate(name for name in names if name in one.missed):
            y = STEP * (i + 0.8) / height
            how: dict[str, Any] = {
                "color": looks.color(name),
                "marker": ARROW,
                "ms": SIZE,
                "mew": 0.3,
                "ls": "",
                "zorder": 2,
            }
            axes.plot([place], [y], transform=foot, **how)


def _finish(axes: Axes, panel: FilterPanel) -> None:
    """Scale the x axis, and add its ticks, the grid and the heading."""
    if panel.is_named:
        axes.set_xlim(-0.5, len(panel.sets) - 0.5)
    else:
        low, high = panel.places[0], panel.places[-1]
        room = (high / low) ** MARGIN
        axes.set_xscale("log")
        axes.set_xlim(low / room, high * room)
    axes.set_xticks(panel.places, panel.texts)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title(panel.heading, loc="left", fontsize=10, color=GREY, parse_math=False)
    add_grid(axes)
    axes.tick_params(which="both", labelsize=TICK_SIZE)
    if not panel.is_named:
        _thin(axes, panel)


def _thin(axes: Axes, panel: FilterPanel) -> None:
    """Leave out labels that would be written over each other; the points keep their grid lines."""
    letter = 0.6 * TICK_SIZE * axes.figure.dpi / 72
    end, texts = float("inf"), []
    for place, one in zip(reversed(panel.places), reversed(panel.sets), strict=True):
        text = percent_text(one.selectivity)
        middle, half = axes.transData.transform((place, 1))[0], letter * (len(text) + 1) / 2
        texts.append(text if middle + half <= end else "")
        end = middle - half if texts[-1] else end
    axes.set_xticks(panel.places, texts[::-1])
