"""The map of filters: the fastest strategy for each kind and share of rows, and how sure that is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ann_benchmarks.common.numbers import percent_text, three_digits
from ann_benchmarks.results.filtered import (
    AHEAD,
    ALIKE,
    ALONE,
    FASTEST,
    MEASURED,
    NONE,
    ONLY,
    FastestStrategy,
    UnderFilter,
    by_kind,
)

from .canvas import GREY
from .filter_panels import says_share

SAME = 1.25  # the largest share of rows in a column over the smallest
MOST_NAMED = 3  # of those that cannot be told apart
MOST_STRIPES = 6
LETTER, LINE, ROOM = 0.06, 0.145, 0.12  # inches: a letter, a line, and around the text of a cell
SURE, UNSURE = 0.32, 0.14  # how strong a colour is
KNOWN = (FASTEST, ONLY, ALONE)  # states in which no other can be the fastest
SAYS = {
    FASTEST: "{ratio} times the next",
    MEASURED: "{ratio} times the next, as measured",
    AHEAD: "ahead, not sure",
    ALIKE: "not told apart",
    ONLY: "no other reaches it",
    ALONE: "nothing else measured",
    NONE: "no strategy\nreaches it",
}
HOW_TO_READ = (
    "Strong colour: surely the fastest, or the only one that reaches recall and completeness. Pale: not sure"
    " (measured once or at different times, or others at higher recalls only). Stripes: no difference"
    " beyond noise."
)


@dataclass(frozen=True)
class MapRow:
    """A row of the map: cells by their columns; the text above a cell where the column does not say it."""

    heading: str
    cells: Mapping[int, UnderFilter]
    is_named: bool


@dataclass(frozen=True)
class FilterMap:
    """The whole map: what is written above each column, and the rows."""

    columns: Sequence[str]
    rows: Sequence[MapRow]


def filter_map(found: Sequence[UnderFilter]) -> FilterMap:
    """Return the map: a row for each kind with several sets, a column for each share of rows.

    Kinds with one set are cells with names, as many in a row as there are columns.
    """
    kinds = by_kind(found)
    several = {kind: sets for kind, sets in kinds.items() if len(sets) > 1}
    single = [sets[0] for sets in kinds.values() if len(sets) == 1]
    columns: list[list[UnderFilter]] = []
    for one in sorted((one for sets in several.values() for one in sets), key=lambda one: -one.selectivity):
        column = next((column for column in columns[-2:] if _fits(one, column)), None)
        if column is None:
            columns.append([one])
        else:
            column.append(one)
    place = {one.name: i for i, column in enumerate(columns) for one in column}
    rows = [MapRow(kind, {place[one.name]: one for one in sets}, False) for kind, sets in several.items()]
    width = max(len(columns), min(len(single), 4))
    for start in range(0, len(single), max(width, 1)):
        cells = dict(enumerate(single[start : start + width]))
        rows.append(MapRow("" if not several or start else "others", cells, True))
    return FilterMap([_share_text(column) for column in columns] + [""] * (width - len(columns)), rows)


def _fits(one: UnderFilter, column: Sequence[UnderFilter]) -> bool:
    return one.selectivity * SAME >= column[0].selectivity and all(one.kind != other.kind for other in column)


def _share_text(column: Sequence[UnderFilter]) -> str:
    """Write the share of rows of a column: that of most of its sets."""
    texts = [percent_text(one.selectivity) for one in column]
    return max(texts, key=texts.count)


def cell_lines(
    one: UnderFilter, known: FastestStrategy, is_named: bool, wide: int
) -> tuple[str, list[str], str]:
    """Return what a cell says: the name of its set, the strategies, and how sure it is."""
    above = ""
    if is_named:
        share = "" if says_share(one.name) else f" ({percent_text(one.selectivity)})"
        above = f"{one.name[: max(wide - len(share), 1)]}{share}"
    names = [line for name in known.names[:MOST_NAMED] for line in wrapped(name, wide)]
    more = len(known.names) - MOST_NAMED
    ratio = three_digits(known.next.value) if known.next else ""
    return above, [*names, *([f"and {more} more"] if more > 0 else [])], SAYS[known.state].format(ratio=ratio)


def letters_in(width: float) -> int:
    """Return how many letters a cell of this width has room for, in inches."""
    return max(int((width - ROOM) / LETTER), 8)


def cell_height(shown: FilterMap, fastest: Mapping[str, FastestStrategy], wide: int) -> float:
    """Return the height of a cell that has room for the text of each, in inches."""
    most = 0
    for row in shown.rows:
        for one in row.cells.values():
            above, names, _ = cell_lines(one, fastest[one.name], row.is_named, wide)
            most = max(most, bool(above) + len(names) + 1)
    return most * LINE + ROOM


def draw_map(
    axes: Axes,
    shown: FilterMap,
    fastest: Mapping[str, FastestStrategy],
    colors: Mapping[str, str],
    wide: int,
) -> None:
    """Draw the map; `fastest` is what is known of each set by its name, `wide` the letters in a cell."""
    axes.set(xlim=(0, len(shown.columns)), ylim=(len(shown.rows), 0), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    for column, text in enumerate(shown.columns):
        axes.annotate(
            text, (column + 0.5, 0), (0, 2), textcoords="offset points", ha="center", fontsize=8, color=GREY
        )
    for number, row in enumerate(shown.rows):
        axes.annotate(
            row.heading,
            (0, number + 0.5),
            (-5, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=9,
            parse_math=False,
        )
        for column, one in row.cells.items():
            known = fastest[one.name]
            _fill(axes, (column, number), known, colors)
            above, names, says = cell_lines(one, known, row.is_named, wide)
            how: dict[str, Any] = {"ha": "center", "parse_math": False, "clip_on": False}
            at = column + 0.5
            axes.text(at, number + 0.07, above, va="top", fontsize=7.5, color=GREY, **how)
            weight = "bold" if known.state in KNOWN else "normal"
            middle = number + (0.49 if above else 0.42)
            axes.text(at, middle, "\n".join(names), va="center", fontsize=8, weight=weight, **how)
            low: dict[str, Any] = (
                {"y": number + 0.94, "va": "bottom"} if names else {"y": number + 0.5, "va": "center"}
            )
            axes.text(x=at, s=says, fontsize=7, color=GREY, **low, **how)


def _fill(axes: Axes, place: tuple[int, int], known: FastestStrategy, colors: Mapping[str, str]) -> None:
    """Fill a cell with the colours of those that are or may be the fastest, in stripes of each."""
    left, top, width, height = place[0] + 0.02, place[1] + 0.03, 0.96, 0.94
    names = known.names[:MOST_STRIPES]
    stripes = len(names)
    for stripe in range(stripes):
        box = Rectangle((left + stripe * width / stripes, top), width / stripes, height, clip_on=False)
        box.set(fc=colors[names[stripe]], alpha=SURE if known.state in KNOWN else UNSURE, ec="none")
        axes.add_patch(box)
    edge = colors[names[0]] if len(names) == 1 else "0.6"
    how: dict[str, Any] = {"ls": "-" if names else (0, (3, 3)), "lw": 0.8, "ec": edge, "clip_on": False}
    axes.add_patch(Rectangle((left, top), width, height, fill=False, **how))


def wrapped(name: str, wide: int) -> list[str]:
    """Return a name in lines of at most `wide` letters, broken after an underscore or hyphen if it can be."""
    lines, line = [], ""
    for part in name.replace("_", "_\0").replace("-", "-\0").split("\0"):
        if line and len(line) + len(part) > wide:
            lines.append(line)
            line = ""
        line += part
    return [*lines, line]
