"""What the picture of filters has panels for, and the lines of each: a line a strategy, a panel a kind."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ann_benchmarks.common.numbers import percent_text
from ann_benchmarks.results.filtered import UnderFilter, at_defaults, by_kind
from ann_benchmarks.results.metrics import drawable
from ann_benchmarks.views.points import Point

from .tier_figure import MOST_STEP, TAKEN

OTHERS = "one set of each kind"
APART = 1.03  # two shares of rows that are closer cannot be seen apart on an axis
FULL, MEASURES = "completeness", ("completeness", "recall")  # at default settings

Pieces = list[list[Point]]  # of a line, which is broken where a strategy has no value


@dataclass(frozen=True)
class FilterPanel:
    """The filter sets of one panel, from the smallest share of rows on; where `is_named`, by their names."""

    heading: str
    sets: Sequence[UnderFilter]
    is_named: bool

    @property
    def places(self) -> list[float]:
        """Where each set is on the x axis: at its share of the rows or, by name, at 0, 1, 2..."""
        return [float(i) if self.is_named else one.selectivity for i, one in enumerate(self.sets)]

    @property
    def texts(self) -> list[str]:
        """What is written below each of the places."""
        shares = [percent_text(one.selectivity) for one in self.sets]
        if not self.is_named:
            return shares
        names = [one.name for one in self.sets]
        return [
            name if says_share(name) else f"{name}\n{share}"
            for name, share in zip(names, shares, strict=True)
        ]

    def beside(self, place: float, number: int, count: int) -> float:
        """Move a place a little for one of several lines, so that their bars do not hide each other."""
        steps = number - (count - 1) / 2
        if self.is_named:
            return place + steps * min(TAKEN / count, MOST_STEP)
        logs = [math.log(x) for x in self.places]
        gap = min((b - a for a, b in pairwise(logs)), default=1.0)
        return place * math.exp(steps * min(TAKEN * gap / count, MOST_STEP))


def filter_panels(found: Sequence[UnderFilter]) -> list[FilterPanel]:
    """Return a panel for each kind with several sets, and one for all that have one set each."""
    panels, single = [], []
    for kind, sets in by_kind(found).items():
        rising = sets[::-1]
        if len(sets) == 1:
            single += sets
            continue
        shares = [one.selectivity for one in rising]
        is_close = any(b < a * APART for a, b in pairwise(shares))
        panels.append(FilterPanel(kind, rising, is_close))
    if single:
        heading = OTHERS if len(single) > 1 else single[0].kind
        panels.append(FilterPanel(heading, single, True))
    return panels


def speed_lines(panel: FilterPanel, names: Sequence[str], intervals: bool) -> dict[str, Pieces]:
    """Return the throughput of each strategy at the recall and the completeness."""

    def of(one: UnderFilter) -> dict[str, Point]:
        return {
            name: Point(0.0, at.qps, None, at.interval if intervals else None)
            for name, at in one.at_recall.items()
            if drawable(1.0, at.qps)
        }

    return _lines(panel, names, of)


def default_lines(
    panel: FilterPanel, names: Sequence[str], metric: str, intervals: bool
) -> dict[str, Pieces]:
    """Return a metric of each strategy at its default settings; 0 is a value."""

    def of(one: UnderFilter) -> dict[str, Point]:
        return {
            name: Point(0.0, value, None, bounds if intervals else None)
            for name, (value, bounds) in at_defaults(one, metric).items()
            if math.isfinite(value)
        }

    return _lines(panel, names, of)


def _lines(
    panel: FilterPanel, names: Sequence[str], of: Callable[[UnderFilter], Mapping[str, Point]]
) -> dict[str, Pieces]:
    found = [of(one) for one in panel.sets]
    drawn = [name for name in names if any(name in points for points in found)]
    lines: dict[str, Pieces] = {}
    for number, name in enumerate(drawn):
        points = [
            replace(points[name], x=panel.beside(place, number, len(drawn))) if name in points else None
            for place, points in zip(panel.places, found, strict=True)
        ]
        lines[name] = list(_pieces(points, panel.is_named))
    return lines


def _pieces(points: Sequence[Point | None], is_named: bool) -> Iterator[list[Point]]:
    """Yield the points that are joined: neighbours on an axis of shares, none of an axis of names."""
    piece: list[Point] = []
    for point in points:
        if piece and (point is None or is_named):
            yield piece
            piece = []
        if point is not None:
            piece.append(point)
    if piece:
        yield piece


def says_share(name: str) -> bool:
    """Whether the name of a set ends in its share of the rows."""
    number = name.partition(":")[2]
    return number.startswith("0.") or number == "1"
