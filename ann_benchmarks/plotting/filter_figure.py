"""The picture of filters: throughput what defaults return, and which strategy is the fastest where."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ann_benchmarks.results.filtered import COMPLETE, UnderFilter, judged_together

from .canvas import BARS, GREY, name_entries, save
from .filter_axes import StrategyLooks, draw_defaults, draw_speeds
from .filter_map import HOW_TO_READ, cell_height, draw_map, filter_map, letters_in
from .filter_panels import filter_panels
from .styles import Style

COLUMNS = 4  # of panels
WIDTHS = (6.5, 4.8, 3.9, 3.3)  # of a panel, in inches as all lengths here, by the number of columns
SPEEDS, DEFAULTS = (0.66, 3.2), (0.42, 2.0)  # heights of panels, in widths, and the most
LEFT, RIGHT, TOP, ACROSS, ABOVE, BELOW = 0.85, 0.15, 0.72, 0.25, 0.28, 0.5  # around panels
SECTION = 0.3  # a line of text above panels
MAP_LEFT, MAP_TOP, CELLS = 1.0, 0.28, (1.2, 2.4)  # around the map, and the width of a cell of it
LETTER, HANDLE, ROW = 0.071, 0.62, 0.2  # of the legend
READING = 0.06  # a letter of the last lines
SPEED_TEXT = (
    "Queries per second at a recall of {} and a completeness of {}: up is better. Arrows: not reached"
)
DEFAULT_TEXT = (
    "At default settings: completeness (filled, rows returned / rows there were to return), recall (hollow)"
)
MAP_TEXT = "The fastest strategy at a recall of {} and a completeness of {}"
SHARE_OF_ROWS = "Share of the rows that pass the filter"


class _Page:
    """A figure of inches from its upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.figure, self.width, self.height = Figure(figsize=(width, height)), width, height

    def axes(self, left: float, top: float, width: float, height: float, beside: Axes | None = None) -> Axes:
        """Add axes, with the y axis of those that stand beside it."""
        place = left / self.width, 1 - (top + height) / self.height, width / self.width, height / self.height
        axes = self.figure.add_axes(place, sharey=beside)
        if beside is not None:
            axes.tick_params(labelleft=False)
        return axes

    def write(self, left: float, top: float, text: str, **how: Any) -> None:
        """Write below a height."""
        place = left / self.width, 1 - top / self.height
        self.figure.text(*place, text, **{"va": "top", "parse_math": False, **how})


def create_filter_figure(
    found: Sequence[UnderFilter],
    output: Path,
    title: str,
    styles: Mapping[str, Style],
    intervals: bool = True,
) -> int:
    """Draw all filter sets into one picture; return the number of points of throughput."""
    panels, looks = filter_panels(found), StrategyLooks(styles, intervals)
    names = sorted({name for one in found for name in one.strategies})
    fastest = {one.name: known for one, known in zip(found, judged_together(found), strict=True)}
    shown = filter_map(found)
    columns = min(len(panels), COLUMNS)
    wide, down = WIDTHS[columns - 1], math.ceil(len(panels) / columns)
    width = LEFT + columns * wide + (columns - 1) * ACROSS + RIGHT
    cell = min(max((width - MAP_LEFT - RIGHT) / len(shown.columns), CELLS[0]), CELLS[1])
    width = max(width, MAP_LEFT + cell * len(shown.columns) + RIGHT)
    letters = letters_in(cell)
    of_map = cell_height(shown, fastest, letters) * len(shown.rows)
    has_defaults = any(one.defaults for one in found)
    per_row = max(int((width - LEFT) / (max(map(len, names)) * LETTER + HANDLE)), 1)
    legend = ROW * math.ceil(len(names) / per_row) + 0.15
    named = 0.15 if any("\n" in text for panel in panels for text in panel.texts) else 0.0
    of_kinds = [min(share * wide, most) for share, most in (SPEEDS, *([DEFAULTS] if has_defaults else []))]
    of_panels = sum(SECTION + down * (ABOVE + high + BELOW + named) for high in of_kinds)
    page = _Page(width, TOP + legend + of_panels + SECTION + MAP_TOP + of_map + 0.55)

    target, complete = (f"{value:g}" for value in (found[0].compared.target, COMPLETE))
    page.write(0.12, 0.05, title, fontsize=13, fontweight="bold")
    of_bars = f"; {BARS}" if intervals else ""
    page.write(0.12, 0.37, f"A line a strategy, a panel a kind of filter{of_bars}", fontsize=9, color="0.5")
    _add_legend(page, names, looks, per_row, TOP - 0.1)
    top, drawn = TOP + legend, 0
    for high in of_kinds:
        is_speed = high == of_kinds[0]
        text = SPEED_TEXT.format(target, complete) if is_speed else DEFAULT_TEXT
        page.write(0.12, top, text, fontsize=10, color=GREY)
        top += SECTION
        placed: dict[Axes, Any] = {}
        first = None
        for number, panel in enumerate(panels):
            row, column = divmod(number, columns)
            at = LEFT + column * (wide + ACROSS), top + row * (ABOVE + high + BELOW + named) + ABOVE
            axes = page.axes(*at, wide, high, first if column else None)
            first = first if column else axes
            placed[axes] = panel
            if not column:
                axes.set_ylabel("QPS" if is_speed else "Share", fontsize=9, color=GREY)
            if row == down - 1 and not column and not panel.is_named:
                axes.set_xlabel(SHARE_OF_ROWS, loc="left", fontsize=8, color=GREY)
        if is_speed:
            drawn = draw_speeds(placed, names, looks)
        else:
            draw_defaults(placed, names, looks)
        top += down * (ABOVE + high + BELOW + named)
    page.write(0.12, top, MAP_TEXT.format(target, complete), fontsize=10, color=GREY)
    axes = page.axes(MAP_LEFT, top + SECTION + MAP_TOP - 0.1, cell * len(shown.columns), of_map)
    draw_map(axes, shown, fastest, {name: looks.color(name) for name in names}, letters)
    reading = textwrap.fill(HOW_TO_READ, int(width / READING))
    page.write(0.12, top + SECTION + MAP_TOP + of_map, reading, fontsize=7.5, color="0.5")
    save(page.figure, output)
    return drawn


def _add_legend(page: _Page, names: Sequence[str], looks: StrategyLooks, per_row: int, top: float) -> None:
    """Add the strategies above all panels, no wider than these."""
    handles = [Line2D([], [], **looks.line(name)) for name in names]
    legend = page.figure.legend(
        handles,
        ["name"] * len(names),  # set below: here a leading "_" would hide an entry and "$" begin a formula
        loc="upper left",
        bbox_to_anchor=(0.12 / page.width, 1 - top / page.height),
        borderaxespad=0,
        borderpad=0,
        ncols=min(per_row, len(names)),
        frameon=False,
        fontsize=9,
        handlelength=3.2,
    )
    name_entries(legend, names)
