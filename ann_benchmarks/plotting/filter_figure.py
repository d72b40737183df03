"""The picture of filters: throughput, what defaults return, and a map of the fastest strategies."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from ann_benchmarks.common.numbers import percent_text
from ann_benchmarks.results.filtered import UnderFilter
from ann_benchmarks.results.metrics import drawable
from ann_benchmarks.results.runs import interval
from ann_benchmarks.statistics.intervals import Interval
from ann_benchmarks.views.figures import BARS, LIGHT_COLORS, MARKERS, SHARES, Style
from ann_benchmarks.views.filters import FilterView
from ann_benchmarks.views.points import Point

from .canvas import EDGED, GREY, add_grid, coordinates, draw_bars, line_style, named_legend, save
from .filter_map import HOW_TO_READ, draw_map, filter_map
from .scales import Scale, add_room, apply_scale

COLUMNS = 4  # of panels
WIDTHS = (6.5, 4.8, 3.9, 3.3)  # of a panel by the number of columns, in inches as all lengths here
SPEEDS, DEFAULTS, AROUND = 2.5, 1.8, 0.95  # heights of panels, and of what is around them
LETTER, HANDLE = 0.071, 0.62  # of the legend
MAP_LEFT, MAP_AROUND = 1.0, 1.1
READING = 0.06  # a letter of what is below the map
APART = 1.03  # two shares of rows that are closer cannot be seen apart on an axis
TAKEN, MOST_STEP = 0.35, 0.04  # of the distance between two places: by all lines, and from one to the next
# Shares of the height of a panel: from a letter to the next, for all letters at most, and above all points.
LETTER_STEP, MOST_FOOT, TOP_ROOM = 0.06, 0.25, 0.06
HOLLOW = {"mfc": "white", "mew": 1.2, "ls": (0, (1.5, 2)), "lw": 1.3}  # of recall, next to completeness
SPEED_TEXT = "QPS at {}: up is better\nat the foot: not reached, for want of R recall, C completeness"
DEFAULT_TEXT = (
    "At default settings: completeness (filled, rows returned / rows there were to return), recall (hollow)"
)
Known = tuple[float, Interval | None]  # a figure and its interval


@dataclass(frozen=True)
class FilterPanel:
    """The filter sets of one panel: by the logarithms of their shares of rows or, if `is_named`, by name."""

    heading: str
    sets: Sequence[UnderFilter]
    is_named: bool

    @property
    def places(self) -> list[float]:
        """Where each set is on the x axis."""
        return [float(i) if self.is_named else math.log(one.selectivity) for i, one in enumerate(self.sets)]

    def points(
        self, names: Sequence[str], figures: Callable[[UnderFilter], Mapping[str, Known]]
    ) -> dict[str, list[Point]]:
        """Return the points of each strategy with figures, NaN where it has none.

        Those of several are side by side, so that their bars do not hide each other.
        """
        found = [figures(one) for one in self.sets]
        drawn = [name for name in names if any(name in known for known in found)]
        gap = min((b - a for a, b in pairwise(self.places)), default=1.0)
        step = min(TAKEN * gap / max(len(drawn), 1), MOST_STEP)
        lines = {}
        for number, name in enumerate(drawn):
            shift = step * (number - (len(drawn) - 1) / 2)
            known = [one.get(name, (math.nan, None)) for one in found]
            lines[name] = [
                Point(place + shift, value, None, bounds)
                for place, (value, bounds) in zip(self.places, known, strict=True)
            ]
        return lines


def filter_panels(view: FilterView) -> list[FilterPanel]:
    """Return a panel for each kind with several sets, and one for all that have one set each."""
    panels, single = [], [sets[0] for sets in view.kinds.values() if len(sets) == 1]
    for kind, sets in view.kinds.items():
        if len(sets) > 1:
            is_close = any(a.selectivity < b.selectivity * APART for a, b in pairwise(sets))
            panels.append(FilterPanel(kind, sets[::-1], is_close))
    heading = "one set of each kind" if len(single) > 1 else ""
    return [*panels, *([FilterPanel(heading or single[0].kind, single, True)] if single else [])]


def create_filter_figure(
    view: FilterView, output: Path, title: str, styles: Mapping[str, Style], intervals: bool = True
) -> None:
    """Draw all filter sets into one picture."""
    panels, names = filter_panels(view), view.strategies
    columns = min(len(panels), COLUMNS)
    width, down = WIDTHS[columns - 1] * columns, math.ceil(len(panels) / columns)
    cells = filter_map(view, width - MAP_LEFT)
    looks = {name: strategy_look(styles[name]) for name in names}
    per_row = max(int(width / (max(map(len, names)) * LETTER + HANDLE)), 1)
    heights = [0.35 + 0.2 * math.ceil(len(names) / per_row), down * (SPEEDS + AROUND)]
    heights += [down * (DEFAULTS + AROUND)] * view.has_defaults
    heights.append(cells.cell_height * len(cells.rows) + MAP_AROUND)
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    head, *parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False).flat
    head.text(0.01, 0.98, title, va="top", fontsize=13, fontweight="bold", parse_math=False)
    handles = [Line2D([], [], **looks[name]) for name in names]
    place = {"loc": "lower left", "bbox_to_anchor": (0.01, 0), "bbox_transform": head.transSubfigure}
    columns = min(per_row, len(names))
    named_legend(figure, handles, names, ncols=columns, borderaxespad=0, borderpad=0, **place)
    write_heading(parts[0], SPEED_TEXT.format(view.required) + f"; {BARS}" * intervals)
    draw_speeds(add_panels(parts[0], panels, columns, "QPS"), names, looks, intervals)
    if view.has_defaults:
        write_heading(parts[1], DEFAULT_TEXT)
        draw_defaults(add_panels(parts[1], panels, columns, "Share"), names, looks, intervals)
    write_heading(parts[-1], f"The fastest strategy at {view.required}")
    axes = parts[-1].subplots()
    draw_map(axes, cells, view, {name: look["color"] for name, look in looks.items()})
    reading = textwrap.fill(HOW_TO_READ, int(width / READING))
    axes.set_xlabel(reading, loc="left", fontsize=7.5, color="0.5")
    save(figure, output)


def write_heading(part: SubFigure, text: str) -> None:
    """Write above a part of the figure what it shows."""
    part.suptitle(text, x=0.01, ha="left", fontsize=10, color=GREY)


def strategy_look(style: Style) -> dict[str, Any]:
    """Return how the line of a strategy is drawn."""
    color = LIGHT_COLORS[style.color]
    how = {"marker": MARKERS[style.marker], "ls": line_style(style.dash), "lw": 1.8, "zorder": 3}
    return {**EDGED, **how, "color": color, "ms": 6, "clip_on": False}


def add_panels(
    part: SubFigure, panels: Sequence[FilterPanel], columns: int, label: str
) -> dict[Axes, FilterPanel]:
    """Return the panels of a part with their axes, which have the y axis in common."""
    grid = part.subplots(math.ceil(len(panels) / columns), columns, sharey=True, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    for axes in grid[:, 0]:
        axes.set_ylabel(label, fontsize=9, color=GREY)
    placed = dict(zip(grid.flat, panels, strict=False))
    for axes, panel in placed.items():
        axes.set_title(panel.heading, loc="left", fontsize=10, color=GREY, parse_math=False)
        add_grid(axes)
        axes.tick_params(which="both", labelsize=8)
        places, shares = panel.places, [percent_text(one.selectivity) for one in panel.sets]
        edge = 0.5 if panel.is_named else 0.06 * (places[-1] - places[0])
        axes.set_xlim(places[0] - edge, places[-1] + edge)
        if panel.is_named:
            named = zip(panel.sets, shares, strict=True)
            texts = [one.name if one.says_share else f"{one.name}\n{share}" for one, share in named]
        else:
            axes.set_xlabel("Share of the rows that pass the filter", loc="left", fontsize=8, color=GREY)
            texts = thinned(places, shares, (places[-1] - places[0]) / WIDTHS[columns - 1])
        axes.set_xticks(places, texts, parse_math=False)
    return placed


def thinned(places: Sequence[float], texts: Sequence[str], inch: float) -> list[str]:
    """Return the texts below places, empty where one would be written over that on its right."""
    kept: list[str] = []
    end = math.inf
    for place, text in zip(reversed(places), reversed(texts), strict=True):
        half = inch * LETTER * (len(text) + 1) / 2
        kept.append(text if place + half <= end else "")
        end = place - half if kept[-1] else end
    return kept[::-1]


def draw_speeds(
    placed: Mapping[Axes, FilterPanel], names: Sequence[str], looks: Mapping[str, Any], intervals: bool
) -> None:
    """Draw throughput at the recall and the completeness.

    Letters at the foot mark strategies that were measured and do not reach them: what they miss.
    """

    def speeds(one: UnderFilter) -> dict[str, Known]:
        reaching = {name: at for name, at in one.standings.items() if drawable(1.0, at.qps)}
        return {name: (at.qps, at.interval if intervals else None) for name, at in reaching.items()}

    lines = {axes: panel.points(names, speeds) for axes, panel in placed.items()}
    every = [p for found in lines.values() for points in found.values() for p in points if p.y > 0]
    letters = max(len(one.missed) for panel in placed.values() for one in panel.sets) + 1
    step = min(LETTER_STEP, MOST_FOOT / letters)
    first = next(iter(placed))
    if every:
        ends = [end for point in every for end in point.y_interval or () if end > 0]
        values = add_room([point.y for point in every], ends, Scale("log"))
        apply_scale(first, "y", Scale("log"), values, False)
        low, high = min(values), max(values)
        low, high = (low, high) if high >= 1.5 * low else (low / 1.25, high * 1.25)
        foot = step * letters
        stretch = (high / low) ** (1 / (1 - foot - TOP_ROOM))
        first.set_ylim(low / stretch**foot, high * stretch**TOP_ROOM)
    else:
        first.set_yticks([])
    for axes, panel in placed.items():
        draw_lines(axes, panel, lines[axes], looks)
        for place, one in zip(panel.places, panel.sets, strict=True):
            for number, name in enumerate(name for name in names if name in one.missed):
                how = {"color": looks[name]["color"], "ha": "center", "va": "center", "fontsize": 7}
                at = (place, step * (number + 0.8))
                axes.text(*at, one.lacking(name), transform=axes.get_xaxis_transform(), zorder=2, **how)


def draw_defaults(
    placed: Mapping[Axes, FilterPanel], names: Sequence[str], looks: Mapping[str, Any], intervals: bool
) -> None:
    """Draw completeness (filled) and recall (hollow, dotted) at default settings."""
    for axes, panel in placed.items():
        for metric in ("completeness", "recall"):

            def shares(one: UnderFilter, metric: str = metric) -> dict[str, Known]:
                runs = {n: run for n, run in one.defaults.items() if math.isfinite(run.metrics[metric])}
                return {
                    n: (run.metrics[metric], interval(run, metric) if intervals else None)
                    for n, run in runs.items()
                }

            hollow = {name: {**look, **HOLLOW, "mec": look["color"]} for name, look in looks.items()}
            lines = panel.points(names, shares)
            draw_lines(axes, panel, lines, looks if metric == "completeness" else hollow)
        axes.set_ylim(*SHARES)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        if not any(one.defaults for one in panel.sets):
            none = "no result at default settings"
            axes.text(0.5, 0.5, none, transform=axes.transAxes, ha="center", color=GREY)


def draw_lines(
    axes: Axes, panel: FilterPanel, lines: Mapping[str, Sequence[Point]], looks: Mapping[str, Any]
) -> None:
    """Draw the points of each strategy with their intervals, joined on an axis of shares."""
    for name, points in lines.items():
        axes.plot(*coordinates(points), **looks[name] | ({"ls": ""} if panel.is_named else {}))
        draw_bars(axes, [(point, looks[name]["color"]) for point in points])
