"""Results on tiers as lines: throughput and p99 against available RAM, at a recall."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from ann_benchmarks.results.metrics import drawable
from ann_benchmarks.results.runs import interval
from ann_benchmarks.results.tiers import TierAtRecall, TierRun, tiers_at_recall

from .points import Point, divided

PANELS = ("qps", "p99")
TAKEN = 0.35  # of the distance between two tiers, by all lines side by side
MOST_STEP = 0.04  # of the logarithm of the RAM, between two lines
LEAST_GAP = 0.05  # of the same: closer places are those of one tier


@dataclass(frozen=True)
class TierLine:
    """One line of each panel: points at ascending RAM, or RAM / size of the index; sizes in bytes.

    There is no p99 where too few queries were measured for one.
    `variant` is what sets it apart from other lines of its algorithm.
    """

    name: str
    algorithm: str
    variant: str
    clients: int
    index_size: float | None
    panels: dict[str, list[Point]]


def tier_lines(
    runs: Sequence[TierRun], target: float, machine: float | None, intervals: bool = True
) -> list[TierLine]:
    """Return the lines of all results that reach a recall, each point as it stands there.

    `machine` is the RAM at which tiers are drawn that have all of it.
    """
    places = [tier_run for tier_run in runs if tier_run.ram or machine]
    best: dict[str, dict[float, TierAtRecall]] = {}
    for found in tiers_at_recall(places, lambda one: (one.name, one.ram or machine), target):
        best.setdefault(found.name, {})[found.ram or machine or 0] = found
    lines = []
    for label, at in sorted(best.items()):
        last = at[max(at)]
        panels = {
            panel: [
                point for x in sorted(at) if drawable(x, (point := point_of(at[x], x, panel, intervals)).y)
            ]
            for panel in PANELS
        }
        variant = label.removeprefix(last.algorithm)
        lines.append(TierLine(label, last.algorithm, variant, last.clients, last.index_size, panels))
    return lines


def point_of(found: TierAtRecall, x: float, panel: str, intervals: bool) -> Point:
    """Return the throughput at the recall, or the latency of the result next to it."""
    if panel == "qps":
        return Point(x, found.at.qps, None, found.at.interval if intervals else None)
    return Point(x, found.run.metrics[panel], None, interval(found.run, panel) if intervals else None)


def normalised(line: TierLine) -> TierLine:
    """Return a line, whose index has a known size, as shares of it and of its values at the most RAM."""
    size = line.index_size or math.nan

    def shares(points: Sequence[Point]) -> list[Point]:
        return [replace(divided(point, points[-1].y), x=point.x / size) for point in points]

    return replace(line, panels={panel: shares(points) for panel, points in line.panels.items()})


def side_by_side(lines: Sequence[TierLine]) -> list[TierLine]:
    """Return lines that are moved a little to either side, so that their bars do not hide each other.

    On a logarithmic axis, all of them together take a share of the smallest distance between two places.
    """
    places = sorted(
        {math.log(point.x) for line in lines for points in line.panels.values() for point in points}
    )
    gaps = [gap for one, other in pairwise(places) if (gap := other - one) > LEAST_GAP]
    step = min(TAKEN * min(gaps, default=1.0) / len(lines), MOST_STEP)

    def moved(points: Sequence[Point], number: int) -> list[Point]:
        by = math.exp((number - (len(lines) - 1) / 2) * step)
        return [replace(point, x=point.x * by) for point in points]

    return [
        replace(line, panels={panel: moved(points, number) for panel, points in line.panels.items()})
        for number, line in enumerate(lines)
    ]


def index_sizes(lines: Iterable[TierLine]) -> dict[str, float]:
    """Return the size of each algorithm's largest index, in bytes, the smallest first."""
    sizes: dict[str, float] = {}
    for algorithm, group in groupby(
        sorted(lines, key=lambda line: line.algorithm), lambda line: line.algorithm
    ):
        known = [line.index_size for line in group if line.index_size]
        if known:
            sizes[algorithm] = max(known)
    return dict(sorted(sizes.items(), key=lambda item: item[1]))
