"""Pictures as data: charts of panels of curves, and the style of each name, the same from plot to plot.

plotting/chart.py draws any of them and knows no subject.
"""

import re
import textwrap
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ann_benchmarks.fields.rows import FIELDS, NAME
from ann_benchmarks.fields.series import Series

from .points import Point

# Seven colours that stay apart under protanopia, deuteranopia and tritanopia (smallest CIE Lab distance of
# any pair 15), on white and on a dark page.
LIGHT_COLORS = ("#0067a5", "#d55e00", "#009e73", "#aa3377", "#56b4e9", "#ddaa00", "#333333")
DARK_COLORS = ("#3d9be0", "#ff8a4c", "#21c79a", "#e08cc0", "#9bdbff", "#ffd166", "#e6e6e6")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")  # website/scales.js draws the same ones in this order
BARS = "bars (arrows: go on): 95% intervals"
SHARES = (-0.04, 1.04)  # limits of an axis of shares
LONGEST_LABEL = 34  # of a line in the legend
DASHES = ("", "6 3", "2 2.5", "8 3 2 3")


@dataclass(frozen=True)
class Style:
    """Indexes into LIGHT_COLORS and DARK_COLORS, MARKERS and DASHES."""

    color: int
    marker: int
    dash: int


def assign_styles(names: Iterable[str]) -> dict[str, Style]:
    """Give each name the colour that it hashes to, or the next one that fewer of the others have.

    A name keeps its style when others come or go, unless one that sorts before it wants the same colour.
    Beyond seven names colours repeat with another marker and another kind of line.
    """
    users = [0] * len(LIGHT_COLORS)
    styles: dict[str, Style] = {}
    for name in sorted(set(names)):
        first = zlib.crc32(name.encode()) % len(users)
        candidates = [(first + step) % len(users) for step in range(len(users))]
        color = min(candidates, key=lambda candidate: users[candidate])
        turn = users[color]
        users[color] += 1
        styles[name] = Style(color, (color + turn) % len(MARKERS), turn % len(DASHES))
    return styles


def variant_styles(curves: Mapping[str, str], styles: Mapping[str, Style]) -> dict[str, Style]:
    """Return the style of each curve by its algorithm's: the same colour, and another marker and dash."""
    turns: Counter[str] = Counter()
    found = {}
    for curve, algorithm in curves.items():
        own, turn = styles[algorithm], turns[algorithm]
        turns[algorithm] += 1
        found[curve] = Style(own.color, (own.marker + turn) % len(MARKERS), (own.dash + turn) % len(DASHES))
    return found


def series_styles(each: Iterable[Series]) -> dict[str, Style]:
    """Return styles by the names and families of what was measured, and by the labels of series.

    An algorithm has one colour, whatever its version, servers and settings; another strategy has its own.
    """
    series = {one.label: one for one in each}
    colored = {one: one.only("algorithm", "strategy").replaced(version="").name for one in series.values()}
    algorithms = assign_styles(colored.values())
    styles: dict[str, Style] = {}
    for name in ("name", "family", "label"):
        named = {getattr(one, name): algorithm for one, algorithm in colored.items()}
        styles |= variant_styles({curve: named[curve] for curve in sorted(named)}, algorithms)
    return styles


@dataclass(frozen=True)
class Curve:
    """Points that are drawn alike, in a role that plotting/chart.py has a look for.

    A curve without a name is not in the legend, one without points may be.
    """

    name: str
    points: Sequence[Point]
    style: Style = Style(0, 0, 0)
    role: str = "line"


def curve_names(each: Iterable[Series]) -> dict[str, str]:
    """Return what legends call series: by name, and by label with and without the memory of a tier."""
    series = list(each)
    plain = short_names(one.only(*NAME) for one in series)
    over_memory = short_names(one.drop("tier_memory") for one in series if one.tier_memory)
    return plain | over_memory | short_names(series)


def heading_curve(label: str) -> Curve:
    """Return the entry of a legend above those of another machine."""
    return Curve(textwrap.fill(label, LONGEST_LABEL), [], role="heading")


@dataclass(frozen=True)
class Axis:
    """What is written along an axis, and its scale: one of plot.py's.

    A scale "" is logarithmic where the largest value is `far` times the smallest, else linear from 0. The
    `metric` is named where its values do not fit the scale. `ticks` are written as far as there is room.
    """

    label: str = ""
    scale: str = ""
    far: float = 2.0
    metric: str = ""
    is_share: bool = False
    from_zero: bool = False
    limits: tuple[float, float] | None = None
    ticks: Mapping[float, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Panel:
    """Curves with the same axes; `bands` are (start, end, name), `uprights` (text, x, number of a colour).

    `absent` says why there is nothing to see.
    """

    curves: Sequence[Curve]
    x: Axis
    y: Axis
    heading: str = ""
    bands: Sequence[tuple[float, float, str]] = ()
    uprights: Sequence[tuple[str, float, int | None]] = ()
    absent: str = ""


@dataclass(frozen=True)
class Chart:
    """Panels row by row below a title; `shared` names the axes, x and y, that all panels have in common.

    `size` is that of a panel in inches. In a grid, columns share their x and rows their y. With `has_legends`
    each panel has its own.
    """

    title: str
    panels: Sequence[Panel]
    columns: int = 1
    shared: str = ""
    subtitle: str = ""
    note: str = ""
    size: tuple[float, float] | None = None
    is_grid: bool = False
    has_legends: bool = False

    def renamed(self, names: Mapping[str, str]) -> "Chart":
        """Return the same chart with other names of curves, those that are in `names`."""
        panels = [
            replace(panel, curves=[replace(one, name=names.get(one.name, one.name)) for one in panel.curves])
            for panel in self.panels
        ]
        return replace(self, panels=panels)


# Words in the names of algorithms as people write them; a name that begins with another word is left alone.
WORDS = {
    "pgvector": "", "hnsw": "HNSW", "ivfflat": "IVFFlat", "exact": "exact scan", "vchord": "VectorChord",
    "your": "your", "vchordg": "VectorChord graph", "pgpu": "VectorChord by pgpu", "pgvectorscale": "DiskANN",
}  # fmt: skip
MEMORY = re.compile(r"(?:sb\w+-)?ram(\d+)([MG]B)")  # the label of a tier is such a text
ALWAYS = ("algorithm", "version")  # in every name, where there is one


def algorithm_title(name: str) -> str:
    """Write the name of an algorithm for people, such as HNSW halfvec for pgvector_hnsw_halfvec."""
    words = name.split("_")
    return " ".join(filter(None, (WORDS.get(word, word) for word in words))) if words[0] in WORDS else name


def short_names(each: Iterable[Series]) -> dict[str, str]:
    """Return what to call each of some series beside the others, by their labels.

    They keep their labels where what differs does not tell all of them apart.
    """
    series = {one.label: one for one in each}
    differing = [
        field
        for name, field in FIELDS.items()
        if name not in ALWAYS and len({getattr(one, name) for one in series.values()}) > 1
    ]
    methods = {one.tier_method for one in series.values() if one.tier_method}
    names = {}
    for label, one in series.items():
        special = [field for field in one.special_fields if field in differing]
        parts = [field.write(field.words or field.label, one).removeprefix("by ") for field in special]
        if parts and (memory := MEMORY.fullmatch(parts[-1])):
            parts[-1] = f"{memory[1]} {memory[2]} of RAM"
            parts = [part for part in parts if len(methods) > 1 or part not in methods]
        title = f"{algorithm_title(one.algorithm)} {one.version}".strip()
        names[label] = ", ".join(filter(None, [title, *parts]))
    return names if len(set(names.values())) == len(names) else {label: label for label in names}
