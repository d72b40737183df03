"""The map of filters: the fastest strategy for each kind and share of rows, and how sure that is."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ann_benchmarks.common.numbers import percent_text
from ann_benchmarks.results.filtered import ALONE, FASTEST, ONLY, FastestStrategy, UnderFilter
from ann_benchmarks.views.filters import FilterView, fastest_text

from .canvas import GREY

ALIKE_SHARES = 1.25  # the largest share of rows in a column over the smallest
MOST_COLUMNS = 4  # of cells with names
MOST_NAMED, MOST_STRIPES = 3, 6  # strategies in a cell that cannot be told apart
LETTER, LINE, ROOM = 0.06, 0.15, 0.14  # inches: a letter, a line, and around the text of a cell
KNOWN = (FASTEST, ONLY, ALONE)  # states in which no other can be the fastest
SMALLER = 1.2  # letters of how sure it is, in the space of one of a name
STRONG, PALE = 0.32, 0.14  # colours
HOW_TO_READ = (
    "Strong colour: surely the fastest, or the only one that reaches recall and completeness. Pale: not sure"
    " (measured once or at different times, or others at higher recalls only). Stripes: no difference"
    " beyond noise."
)


@dataclass(frozen=True)
class MapRow:
    """A row of the map: cells by their columns; where `is_named`, the columns do not say what they are."""

    heading: str
    cells: Mapping[int, UnderFilter]
    is_named: bool


@dataclass(frozen=True)
class FilterMap:
    """The whole map: what is written above each column, the rows, and what each cell says by its set's name.

    A cell says the name of its set, the strategies, and how sure it is.
    """

    columns: Sequence[str]
    rows: Sequence[MapRow]
    texts: Mapping[str, tuple[str, str, str]]

    @property
    def cell_height(self) -> float:
        """The height in inches that has room for the text of any cell."""
        return ROOM + LINE * max(sum(map(count_lines, texts)) for texts in self.texts.values())


def filter_map(view: FilterView, width: float) -> FilterMap:
    """Return the map, so many inches wide: a row for each kind with several sets, a column for each share.

    Kinds with one set are cells with names, as many in a row as there are columns.
    """
    several = {kind: sets for kind, sets in view.kinds.items() if len(sets) > 1}
    single = [sets[0] for sets in view.kinds.values() if len(sets) == 1]
    columns: list[list[UnderFilter]] = []
    for one in sorted((one for sets in several.values() for one in sets), key=lambda one: -one.selectivity):
        column = next((column for column in columns[-2:] if fits(one, column)), None)
        if column is None:
            columns.append([one])
        else:
            column.append(one)
    place = {one.name: i for i, column in enumerate(columns) for one in column}
    rows = [MapRow(kind, {place[one.name]: one for one in sets}, False) for kind, sets in several.items()]
    count = max(len(columns), min(len(single), MOST_COLUMNS))
    for start in range(0, len(single), count):
        cells = dict(enumerate(single[start : start + count]))
        rows.append(MapRow("" if not several or start else "others", cells, True))
    shares = [[percent_text(one.selectivity) for one in column] for column in columns]
    headings = [max(texts, key=texts.count) for texts in shares]
    letters = max(int((width / count - ROOM) / LETTER), 8)
    texts = {
        one.name: cell_texts(one, view.fastest[one.name], row.is_named, letters)
        for row in rows
        for one in row.cells.values()
    }
    return FilterMap(headings + [""] * (count - len(columns)), rows, texts)


def fits(one: UnderFilter, column: Sequence[UnderFilter]) -> bool:
    """Whether a set has about the share of rows of a column in which its kind has no other one."""
    is_alike = one.selectivity * ALIKE_SHARES >= column[0].selectivity
    return is_alike and all(one.kind != other.kind for other in column)


def cell_texts(
    one: UnderFilter, known: FastestStrategy, is_named: bool, letters: int
) -> tuple[str, str, str]:
    """Return what a cell says, in lines of so many letters."""
    share = "" if one.says_share else f" ({percent_text(one.selectivity)})"
    above = f"{one.name[: max(letters - len(share), 1)]}{share}" if is_named else ""
    names = [wrapped(name, letters) for name in known.names[:MOST_NAMED]]
    more = len(known.names) - MOST_NAMED
    names += [f"and {more} more"] if more > 0 else []
    return above, "\n".join(names), textwrap.fill(fastest_text([known]), int(SMALLER * letters))


def wrapped(name: str, letters: int) -> str:
    """Return a name in lines, broken after an underscore or hyphen if it can be."""
    lines = [""]
    for part in name.replace("_", "_\0").replace("-", "-\0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(part) > letters:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def count_lines(text: str) -> int:
    """Return how many lines a text has."""
    return len(text.splitlines())


def draw_map(axes: Axes, shown: FilterMap, view: FilterView, colors: Mapping[str, str]) -> None:
    """Draw the map, with the colours of the strategies."""
    axes.set(xlim=(0, len(shown.columns)), ylim=(len(shown.rows), 0))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_xticks([i + 0.5 for i in range(len(shown.columns))], shown.columns, fontsize=8, color=GREY)
    headings = [row.heading for row in shown.rows]
    axes.set_yticks([i + 0.5 for i in range(len(headings))], headings, fontsize=9, parse_math=False)
    line = LINE / shown.cell_height
    how: dict[str, Any] = {"ha": "center", "parse_math": False, "clip_on": False}
    for number, row in enumerate(shown.rows):
        for column, one in row.cells.items():
            known = view.fastest[one.name]
            fill(axes, column, number, known, colors)
            above, names, says = shown.texts[one.name]
            weight = "bold" if known.state in KNOWN else "normal"
            middle = number + 0.5 + line * (count_lines(above) - count_lines(says)) / 2
            axes.text(column + 0.5, number + 0.07, above, va="top", fontsize=7.5, color=GREY, **how)
            axes.text(column + 0.5, middle, names, va="center", fontsize=8, weight=weight, **how)
            y, va = (number + 0.94, "bottom") if names else (middle, "center")
            axes.text(column + 0.5, y, says, va=va, fontsize=7, color=GREY, **how)


def fill(axes: Axes, column: int, row: int, known: FastestStrategy, colors: Mapping[str, str]) -> None:
    """Fill a cell with the colours of those that are or may be the fastest, in stripes of each."""
    left, top, width, height = column + 0.02, row + 0.03, 0.96, 0.94
    names = known.names[:MOST_STRIPES]
    for stripe, name in enumerate(names):
        box = Rectangle((left + stripe * width / len(names), top), width / len(names), height, clip_on=False)
        box.set(fc=colors[name], alpha=STRONG if known.state in KNOWN else PALE, ec="none")
        axes.add_patch(box)
    edge = colors[names[0]] if len(names) == 1 else "0.6"
    how: dict[str, Any] = {"ls": "-" if names else (0, (3, 3)), "lw": 0.8, "ec": edge, "clip_on": False}
    axes.add_patch(Rectangle((left, top), width, height, fill=False, **how))
