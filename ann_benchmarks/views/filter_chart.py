"""The chart of strategies under filters: throughput, and what default settings return, a column a kind."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from ann_benchmarks.common.numbers import percent_text
from ann_benchmarks.results.filtered import NONE, UnderFilter
from ann_benchmarks.results.metrics import drawable
from ann_benchmarks.results.runs import interval

from .figures import BARS, SHARES, Axis, Chart, Curve, Panel, Style
from .filters import FilterView
from .points import Point, side_by_side

WIDTHS = (6.5, 4.8, 3.9, 3.3)  # of a panel in inches, by the number of columns; the last for more of them
HEIGHT = 2.4
APART = 1.03  # two shares of rows that are closer cannot be seen apart on an axis
SHARE = "Share of the rows that pass the filter"
DEFAULT_TEXT = (
    "at default settings, completeness (filled) is rows returned / rows to return, recall is hollow"
)
MISSED = "a strategy without a point does not reach them"
NO_DEFAULTS = "no result at default settings"
AS_MARKS = {"line": "mark", "hollow": "hollow mark"}  # what is not joined
Figures = Callable[[UnderFilter], Mapping[str, Point]]  # points of strategies under a filter, at any x


@dataclass(frozen=True)
class FilterColumn:
    """The filter sets of one column: by their shares of rows or, if `is_named`, by name."""

    heading: str
    sets: Sequence[UnderFilter]
    is_named: bool

    @property
    def x(self) -> Axis:
        """The axis of the sets."""
        shares = [percent_text(one.selectivity) for one in self.sets]
        if not self.is_named:
            places = [one.selectivity for one in self.sets]
            return Axis(SHARE, "log", ticks=dict(zip(places, shares, strict=True)))
        named = zip(self.sets, shares, strict=True)
        texts = [one.name if one.says_share else f"{one.name}\n{share}" for one, share in named]
        return Axis("", "linear", limits=(-0.5, len(texts) - 0.5), ticks=dict(enumerate(texts)))

    def curves(
        self, names: Sequence[str], figures: Figures, styles: Mapping[str, Style], role: str = "line"
    ) -> Iterator[Curve]:
        """Yield the points of each strategy with figures, side by side; NaN where it has none."""
        found = [figures(one) for one in self.sets]
        drawn = [name for name in names if any(name in known for known in found)]
        places = [
            number if self.is_named else math.log(one.selectivity) for number, one in enumerate(self.sets)
        ]
        role = AS_MARKS[role] if self.is_named else role
        for name, shift in zip(drawn, side_by_side(places, len(drawn)), strict=True):
            moved = [place + shift for place in places]
            points = [
                replace(known.get(name, Point(0, math.nan)), x=x if self.is_named else math.exp(x))
                for x, known in zip(moved, found, strict=True)
            ]
            yield Curve(name, points, styles[name], role)


def filter_columns(view: FilterView) -> list[FilterColumn]:
    """Return a column for each kind with several sets, and one for all that have one set each."""
    columns, single = [], [sets[0] for sets in view.kinds.values() if len(sets) == 1]
    for kind, sets in view.kinds.items():
        if len(sets) > 1:
            is_close = any(a.selectivity < b.selectivity * APART for a, b in pairwise(sets))
            columns.append(FilterColumn(kind, sets[::-1], is_close))
    heading = "one set of each kind" if len(single) > 1 else ""
    return [*columns, *([FilterColumn(heading or single[0].kind, single, True)] if single else [])]


def filter_chart(view: FilterView, title: str, styles: Mapping[str, Style]) -> Chart:
    """Return throughput at the recall and the completeness above what defaults return, if that is known."""

    def speeds(one: UnderFilter) -> dict[str, Point]:
        reaching = {name: at for name, at in one.standings.items() if drawable(1.0, at.qps)}
        return {name: Point(0, at.qps, None, at.interval) for name, at in reaching.items()}

    def shares(metric: str, one: UnderFilter) -> dict[str, Point]:
        return {
            name: Point(0, run.metrics[metric], None, interval(run, metric))
            for name, run in one.defaults.items()
        }

    names, columns = view.strategies, filter_columns(view)
    above, below = [], []
    for column in columns:
        curves = list(column.curves(names, speeds, styles))
        qps = Axis("QPS", "log")
        above.append(Panel(curves, column.x, qps, column.heading, absent="" if curves else NONE))
        returned = [
            curve
            for metric, role in (("completeness", "line"), ("recall", "hollow"))
            for curve in column.curves(names, partial(shares, metric), styles, role)
        ]
        share = Axis("Share at defaults", "linear", limits=SHARES)
        below.append(Panel(returned, column.x, share, absent="" if returned else NO_DEFAULTS))
    notes = [f"QPS at {view.required}: {MISSED}", DEFAULT_TEXT * view.has_defaults, BARS]
    return Chart(
        title,
        named_once([*above, *below] if view.has_defaults else above),
        len(columns),
        note="\n".join(filter(None, notes)),
        size=(WIDTHS[min(len(columns), len(WIDTHS)) - 1], HEIGHT),
        is_grid=True,
    )


def named_once(panels: Sequence[Panel]) -> list[Panel]:
    """Return panels with the name of each curve at its first place alone: a legend has it once."""
    known: set[str] = set()
    found = []
    for panel in panels:
        curves = []
        for curve in panel.curves:
            curves.append(replace(curve, name="" if curve.name in known else curve.name))
            known.add(curve.name)
        found.append(replace(panel, curves=curves))
    return found
