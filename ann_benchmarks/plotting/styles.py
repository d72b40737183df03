"""Colour, marker and line of each series, which stay with its name from plot to plot."""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ann_benchmarks.results.file import iter_result_paths

# Seven colours that stay apart under protanopia, deuteranopia and tritanopia (smallest CIE Lab distance of
# any pair 15), on white and on a dark page.
LIGHT_COLORS = ("#0067a5", "#d55e00", "#009e73", "#aa3377", "#56b4e9", "#ddaa00", "#333333")
DARK_COLORS = ("#3d9be0", "#ff8a4c", "#21c79a", "#e08cc0", "#9bdbff", "#ffd166", "#e6e6e6")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")  # website/scales.js draws the same ones in the same order
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


def told_apart(known: Mapping[str, Style], names: Iterable[str]) -> dict[str, Style]:
    """Return the styles of what is shown together: colours repeat only when none is free."""
    styles = {name: known[name] for name in sorted(set(names)) if name in known}
    free = [color for color in range(len(LIGHT_COLORS)) if color not in {s.color for s in styles.values()}]
    apart: dict[str, Style] = {}
    for name, style in styles.items():
        is_taken = any(style.color == other.color for other in apart.values())
        apart[name] = replace(style, color=free.pop(0)) if is_taken and free else style
    return apart


def result_styles(names: Iterable[str]) -> dict[str, Style]:
    """Give each algorithm that has results of any dataset its style, so that it looks alike in every plot."""
    folders = {path.parent.name for path in iter_result_paths()}
    return assign_styles({*names} | {name.removesuffix("-batch") for name in folders})
