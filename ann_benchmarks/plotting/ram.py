"""Results on tiers as lines: throughput and p99 against available RAM, at a recall."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median

from ann_benchmarks.results.frontier import drawable
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.metrics import qps_at_recall
from ann_benchmarks.results.runs import Run, interval, number

from .points import Point

GB, MB, KIB = 1 << 30, 1 << 20, 1 << 10
PANELS = ("qps", "p99")


@dataclass(frozen=True)
class TierRun:
    """A result whose tier has an amount of memory; sizes in bytes.

    `name` is that of its line: the curve's without the memory. `ram` is None where the tier has all of the
    machine's, of which `available` was measured.
    """

    run: Run
    algorithm: str
    name: str
    clients: int
    method: str
    ram: int | None
    available: int | None
    shared_buffers: int | None
    index_size: float | None


@dataclass(frozen=True)
class Line:
    """One line of each panel: points at ascending RAM, or RAM / size of the index; sizes in bytes.

    `variant` is what sets it apart from other lines of its algorithm.
    """

    name: str
    algorithm: str
    variant: str
    clients: int
    index_size: float | None
    panels: dict[str, list[Point]]


def as_tier_run(run: Run) -> TierRun | None:
    """Return a result as one on a tier, None if it is none or its tier leaves the memory alone."""
    ram, measured, at_start, limit, buffers = (
        int(value) if (value := number(run, name)) and value > 0 else None
        for name in ("tier_ram", "tier_available", "tier_available_at_start", "container_memory_bytes",
                     "tier_shared_buffers")
    )  # fmt: skip
    available = measured or at_start or limit
    if not run.attrs.get("tier") or (ram is None and (buffers is None or available is None)):
        return None
    name = run.algorithm.removesuffix(str(run.attrs.get("tier_memory_series", "")))
    clients = number(run, "clients")
    method = str(run.attrs.get("tier_method") or "")
    index_size = run.metrics["indexsize"] * KIB
    return TierRun(
        run,
        algorithm_of(name, run, method),
        name,
        int(clients or 1),
        method,
        ram,
        available,
        buffers,
        index_size if index_size > 0 else None,
    )


def algorithm_of(name: str, run: Run, method: str) -> str:
    """Return the algorithm that a line's name begins with, before clients, CPUs, disk and method."""
    cpus, clients = number(run, "tier_cpus"), number(run, "clients")
    parts = [
        *([f"c{clients:.0f}"] if clients else []),
        *([f"{cpus:.0f}cpus"] if cpus else []),
        *([str(run.attrs["tier_disk"])] if run.attrs.get("tier_disk") else []),
        *([method] if method else []),
        "cold",
    ]
    return re.split(rf"-(?:{'|'.join(map(re.escape, parts))})(?=-|$)", name, maxsplit=1)[0]


def fastest(runs: Iterable[TierRun], target: float) -> list[TierRun]:
    """Return those that reach a recall, the fastest first."""
    reaching = [tier_run for tier_run in runs if qps_at_recall(tier_run.run.metrics, target) > 0]
    return sorted(reaching, key=lambda tier_run: -tier_run.run.metrics["qps"])


def whole_machine(runs: Iterable[TierRun]) -> int | None:
    """Return where tiers with all of the machine's RAM are drawn: the median of what was measured."""
    measured = [tier_run.available for tier_run in runs if tier_run.ram is None and tier_run.available]
    return round(median(measured)) if measured else None


def with_methods(runs: Sequence[TierRun]) -> list[tuple[str, TierRun]]:
    """Return each result with the label of its line, which names the method where one name has several.

    A result without a method, as where nothing had to be limited, belongs to the lines of all.
    """
    methods: dict[str, set[str]] = {}
    for tier_run in runs:
        methods.setdefault(tier_run.name, set()).update([tier_run.method] if tier_run.method else [])
    labelled = []
    for tier_run in runs:
        known = methods[tier_run.name]
        for method in [tier_run.method] if tier_run.method else sorted(known) or [""]:
            is_told = len(known) > 1
            labelled.append((f"{tier_run.name} ({method})" if is_told else tier_run.name, tier_run))
    return labelled


def ram_lines(
    runs: Sequence[TierRun], target: float, machine: float | None, intervals: bool = True
) -> list[Line]:
    """Return the lines of all results that reach a recall; of several at the same RAM the fastest counts.

    `machine` is the RAM at which tiers are drawn that have all of it.
    """
    best: dict[str, dict[float, TierRun]] = {}
    for label, tier_run in with_methods(fastest(runs, target)):
        x = tier_run.ram or machine
        if x and all(drawable(x, tier_run.run.metrics[panel]) for panel in PANELS):
            best.setdefault(label, {}).setdefault(x, tier_run)
    lines = []
    for label, at in sorted(best.items()):
        last = at[max(at)]
        panels = {
            panel: [
                Point(x, at[x].run.metrics[panel], None, interval(at[x].run, panel) if intervals else None)
                for x in sorted(at)
            ]
            for panel in PANELS
        }
        variant = label.removeprefix(last.algorithm)
        lines.append(Line(label, last.algorithm, variant, last.clients, last.index_size, panels))
    return lines


def normalised(line: Line) -> Line:
    """Return a line, whose index has a known size, as shares of it and of its values at the most RAM."""
    size = line.index_size or math.nan

    def shares(points: Sequence[Point]) -> list[Point]:
        whole = points[-1].y
        return [
            replace(
                point,
                x=point.x / size,
                y=point.y / whole,
                y_interval=Interval(*(end / whole for end in point.y_interval)) if point.y_interval else None,
            )
            for point in points
        ]

    return replace(line, panels={panel: shares(points) for panel, points in line.panels.items()})


def index_sizes(lines: Iterable[Line]) -> dict[str, float]:
    """Return the size of each algorithm's largest index, in bytes, the smallest first."""
    sizes: dict[str, float] = {}
    for algorithm, group in groupby(
        sorted(lines, key=lambda line: line.algorithm), lambda line: line.algorithm
    ):
        known = [line.index_size for line in group if line.index_size]
        if known:
            sizes[algorithm] = max(known)
    return dict(sorted(sizes.items(), key=lambda item: item[1]))


def size_text(size: float) -> str:
    """Write bytes with three digits, as GB from one on (2^30 bytes)."""
    return f"{significant(size / GB)} GB" if size >= GB else f"{significant(size / MB)} MB"


def significant(value: float) -> str:
    """Write a number from 1 on with three digits or, if it has more of them, all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
