"""Results on tiers as lines: throughput and p99 against available RAM, at a recall."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ann_benchmarks.results.metrics import drawable
from ann_benchmarks.results.runs import interval
from ann_benchmarks.results.tiers import TierRun, fastest

from .points import Point, divided

PANELS = ("qps", "p99")


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
    """Return the lines of all results that reach a recall; of several at the same RAM the fastest counts.

    `machine` is the RAM at which tiers are drawn that have all of it.
    """
    best: dict[str, dict[float, TierRun]] = {}
    for tier_run in fastest(runs, target):
        x = tier_run.ram or machine
        if x and drawable(x, tier_run.run.metrics["qps"]):
            best.setdefault(tier_run.name, {}).setdefault(x, tier_run)
    lines = []
    for label, at in sorted(best.items()):
        last = at[max(at)]
        panels = {
            panel: [
                Point(x, at[x].run.metrics[panel], None, interval(at[x].run, panel) if intervals else None)
                for x in sorted(at)
                if drawable(x, at[x].run.metrics[panel])
            ]
            for panel in PANELS
        }
        variant = label.removeprefix(last.algorithm)
        lines.append(TierLine(label, last.algorithm, variant, last.clients, last.index_size, panels))
    return lines


def normalised(line: TierLine) -> TierLine:
    """Return a line, whose index has a known size, as shares of it and of its values at the most RAM."""
    size = line.index_size or math.nan

    def shares(points: Sequence[Point]) -> list[Point]:
        return [replace(divided(point, points[-1].y), x=point.x / size) for point in points]

    return replace(line, panels={panel: shares(points) for panel, points in line.panels.items()})


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
