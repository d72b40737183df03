"""Strategies under filters: how fast each is at a recall and a completeness, and what its defaults return.

Whoever calls chooses results of one load on one server.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from ann_benchmarks.common.text import is_number
from ann_benchmarks.data.filters import SYNTHETIC_KINDS
from ann_benchmarks.statistics.contests import Ratio
from ann_benchmarks.statistics.intervals import Interval
from ann_benchmarks.statistics.speeds import Speed

from .at_recall import AtRecall, is_known, speed_of_run
from .comparable import Comparison, clients
from .runs import Run, interval, number

COMPLETE = 0.99  # the completeness that is required beside the recall
# Attributes.
DEFAULTS = "has_default_settings"  # nothing that a query depends on was set
DECILES = "deciles"  # a list of objects as JSON, the fewest matches first
MOST_DECILES = 10
# What is known of the fastest strategy under a filter, in the words of every table, picture and sentence.
FASTEST, AHEAD, ALIKE = "the fastest", "ahead, but not surely", "cannot be told apart"
MEASURED = "the fastest as measured"  # others may be faster at lower recalls than they were measured at
ONLY, ALONE = "the only one that reaches it", "the only one that was measured"
NONE = "no strategy reaches it"


@dataclass(frozen=True)
class FastestStrategy:
    """Which strategy is the fastest under a filter.

    `state` is FASTEST, MEASURED, AHEAD, ALIKE, ONLY, ALONE or NONE. `names` are those that are or may be it,
    the first first. `higher` are those that were measured at higher recalls only, and are slower there.
    `ratios` are the speeds of the first over every other strategy that reaches the recall, whose intervals
    hold together with those of other filters.
    """

    state: str
    names: Sequence[str]
    ratios: Mapping[str, Ratio]
    higher: Sequence[str] = ()

    @property
    def next(self) -> Ratio | None:
        """The ratio to the best of those that are surely or probably slower, None without such.

        At an equal recall, where one was measured there.
        """
        behind = [(not ratio.is_fair, ratio) for name, ratio in self.ratios.items() if name not in self.names]
        return min(behind, key=lambda one: (one[0], one[1].value), default=(False, None))[1]


@dataclass(frozen=True)
class UnderFilter:
    """The results under one filter set; `selectivity` is the mean share of the rows that pass."""

    name: str
    selectivity: float
    compared: Comparison

    @property
    def kind(self) -> str:
        """What comes before the number in its name, of a set of the user's own the whole name."""
        return self.name.partition(":")[0]

    @property
    def says_share(self) -> bool:
        """Whether its name ends in its share of the rows."""
        number = self.name.partition(":")[2]
        return number.startswith("0.") or number == "1"

    @property
    def strategies(self) -> list[str]:
        """All that were measured, by name."""
        return sorted({run.series.family for run in self.compared.runs})

    @property
    def standings(self) -> dict[str, AtRecall]:
        """How each strategy stands that reaches the recall and the completeness, the fastest first."""
        return self.compared.standings

    @cached_property
    def missed(self) -> dict[str, Run]:
        """The result that comes nearest to both, of each strategy that reaches them with none."""
        nearest: dict[str, Run] = {}
        for run in sorted(self.compared.runs, key=lambda run: -self.compared.speed(run).recall):
            if run.series.family not in self.standings:
                nearest.setdefault(run.series.family, run)
        return dict(sorted(nearest.items()))

    @cached_property
    def defaults(self) -> dict[str, Run]:
        """The result of each strategy at default settings; of several indexes, that of the best recall."""
        found: dict[str, Run] = {}
        for run in sorted(self.compared.runs, key=lambda run: -run.metrics["recall"]):
            if run.attrs.get(DEFAULTS):
                found.setdefault(run.series.family, run)
        return dict(sorted(found.items()))

    @property
    def deciles(self) -> dict[str, list["Decile"]]:
        """Each strategy's deciles: of the result next to the recall, else of that nearest to it."""
        chosen = {name: at.run for name, at in self.standings.items()} | self.missed
        found = {name: read_deciles(run) for name, run in sorted(chosen.items())}
        return {name: deciles for name, deciles in found.items() if deciles}

    def fastest(self, error_rate: float) -> FastestStrategy:
        """Judge which is the fastest, so that all that is said of this filter errs at this rate."""
        names = [*self.standings]
        ratios = self.compared.contest.ratios(error_rate) if names else {}
        if not ratios:
            is_alone = len(self.strategies) == 1
            return FastestStrategy((ALONE if is_alone else ONLY) if names else NONE, names, {})
        unfair = {name: found.interval for name, found in ratios.items() if not found.is_fair}
        higher = [name for name, bounds in unfair.items() if bounds is not None and bounds.low > 1]
        alike = [
            name
            for name, found in ratios.items()
            if name not in higher and (found.is_noise or name in unfair)
        ]
        if alike:
            return FastestStrategy(ALIKE, [names[0], *alike], ratios, higher)
        is_sure = all(found.is_sure or (name in higher and found.rounds) for name, found in ratios.items())
        state = (MEASURED if higher else FASTEST) if is_sure else AHEAD
        return FastestStrategy(state, names[:1], ratios, higher)


def group_by_filter(runs: Iterable[Run], target: float) -> list[UnderFilter]:
    """Return the results of each filter set, those of a kind together, from the largest share of rows on.

    Left out is what has no filter, a given rate, or no known recall, completeness, throughput or selectivity.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        is_share = 0 < (number(run, "selectivity") or 0) <= 1 and run.metrics["completeness"] >= 0
        if run.series.filter and not run.series.is_open and is_known(run) and is_share:
            groups.setdefault(run.series.filter, []).append(run)
    speed = partial(filtered_speed, target=target)
    found = [
        UnderFilter(
            name,
            number(group[0], "selectivity") or 0.0,
            Comparison(clients(group[0]), group, target, speed),
        )
        for name, group in groups.items()
    ]
    known = {kind: place for place, kind in enumerate(SYNTHETIC_KINDS)}
    return sorted(
        found, key=lambda one: (known.get(one.kind, len(known)), one.kind, -one.selectivity, one.name)
    )


def filtered_speed(run: Run, target: float) -> Speed:
    """Return the speed of a result, with a recall at which it stands for recall and completeness at once.

    Where a share r of the neighbours is missed and a share c of the rows that there were to return, that is
    1 - max(r, c (1 - target) / (1 - COMPLETE)): the target is reached where both are. With all rows returned,
    it is the recall.
    """
    speed, known = speed_of_run(run), interval(run, "completeness")
    scale = (1 - target) / (1 - COMPLETE)

    def equivalent(completeness: float) -> float:
        return 1 - scale * (1 - completeness)

    complete = equivalent(run.metrics["completeness"])
    if not complete < 1:
        return speed
    bounds = Interval(*map(equivalent, known)) if known else None
    stands, is_incomplete = min(speed.recall, complete), complete < speed.recall
    decisive = bounds if is_incomplete else speed.interval
    if decisive is None:
        return replace(speed, recall=stands, interval=None, parts=())
    highest = min(
        one.high if one else value for one, value in ((speed.interval, speed.recall), (bounds, complete))
    )
    within = Interval(min(decisive.low, stands), max(highest, stands))
    return replace(speed, recall=stands, interval=within, parts=() if is_incomplete else speed.parts)


@dataclass(frozen=True)
class Decile:
    """Queries with `least` to `most` matching rows; latencies in s, NaN where too few queries show one."""

    least: int
    most: int
    queries: int
    recall: float
    completeness: float
    p50: float
    p99: float


def read_deciles(run: Run) -> list[Decile]:
    """Return the deciles of a result, nothing where it has none or they cannot be read."""
    try:
        stored = run.attrs.get(DECILES, "[]")
        found = json.loads(stored) if isinstance(stored, str) else stored
        return [_decile(one) for one in found[:MOST_DECILES]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def _decile(stored: dict[str, Any]) -> Decile:
    numbers = [stored[name] for name in ("least", "most", "queries", "recall", "completeness")]
    if not all(is_number(value) for value in numbers):
        raise ValueError
    least, most, queries = map(int, numbers[:3])
    shares = [float(value) for value in numbers[3:]]
    if not 0 <= least <= most or queries < 1 or not all(0 <= share <= 1 for share in shares):
        raise ValueError
    known = (stored.get("p50", math.nan), stored.get("p99", math.nan))
    times = [float(value) if is_number(value) and value > 0 else math.nan for value in known]
    return Decile(least, most, queries, *shares, *times)
