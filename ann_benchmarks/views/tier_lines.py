"""Lines of results on tiers against available RAM, absolute or as shares of the index, and their chart."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ann_benchmarks.common.numbers import plain_number, size_text
from ann_benchmarks.results.metrics import all_metrics, drawable

from .figures import BARS, Axis, Chart, Curve, Panel, Style, assign_styles, heading_curve, variant_styles
from .points import Point, divided, point_at, side_by_side
from .tiers import TierAtRecall, TierRun, tiers_at_recall, whole_machine

PANELS = ("qps", "p99")
BEYOND = 2.0  # how far outside of the tiers, as a factor, an index is still marked
TITLES = {"qps": "Throughput - up is better", "p99": "Tail latency - down is better"}
LABELS_OF_SHARES = {"qps": "QPS / QPS with the most RAM", "p99": "p99 / p99 with the most RAM"}
RAM = "Available RAM: shared_buffers + the system's cache"
RAM_SHARE = "Available RAM / size of the index"


@dataclass(frozen=True)
class TierLine:
    """One line of each panel: points at ascending RAM, or RAM / size of the index; sizes in bytes.

    `p99` is missing where too few queries were measured for it.
    `variant` is what sets it apart from other lines of its algorithm.
    """

    name: str
    algorithm: str
    variant: str
    clients: int
    index_size: float | None
    panels: dict[str, list[Point]]


@dataclass(frozen=True)
class PublishedLines:
    """Lines of another machine, as shares, and how they are marked."""

    label: str
    lines: Sequence[TierLine]


def tier_lines(runs: Sequence[TierRun], target: float) -> list[TierLine]:
    """Return the lines of all results that reach a recall, each point as it stands there."""
    machine = whole_machine(runs)
    places = [tier_run for tier_run in runs if tier_run.ram or machine]
    best: dict[str, dict[float, TierAtRecall]] = {}
    for found in tiers_at_recall(places, lambda one: (one.name, one.ram or machine), target):
        best.setdefault(found.name, {})[found.ram or machine or 0] = found
    lines = []
    for name, at in sorted(best.items()):
        last = at[max(at)]
        panels = {
            panel: [point for x in sorted(at) if drawable(x, (point := point_at(at[x].at, panel, x)).y)]
            for panel in PANELS
        }
        variant = name.removeprefix(last.algorithm)
        lines.append(TierLine(name, last.algorithm, variant, last.clients, last.index_size, panels))
    return lines


def relative_lines(lines: Iterable[TierLine]) -> list[TierLine]:
    """Return lines as shares of the size of the index and of their values at the most RAM.

    Those of an index of unknown size are left out.
    """

    def shares(points: Sequence[Point], size: float) -> list[Point]:
        return [replace(divided(point, points[-1].y), x=point.x / size) for point in points]

    known = ((line, line.index_size) for line in lines if line.index_size)
    return [
        replace(line, panels={name: shares(points, size) for name, points in line.panels.items()})
        for line, size in known
    ]


def tier_chart(
    lines: Sequence[TierLine],
    title: str,
    machine: float | None,
    published: PublishedLines | None = None,
    known: Mapping[str, Style] | None = None,
) -> Chart:
    """Return throughput and p99 against available RAM, one above the other.

    `machine` is where tiers are drawn that have all RAM. Next to published lines, all are shares.
    `known` are the styles of algorithms in other pictures.
    """
    shares = bool(published)
    styles = known or assign_styles(line.algorithm for line in lines)
    styles = variant_styles({line.name: line.algorithm for line in lines}, styles)
    others = sorted(published.lines, key=mean_height, reverse=True) if published else []
    has_bars = any(point.y_interval for line in lines for panel in PANELS for point in line.panels[panel])
    drawn = sorted(spread_out(lines) if has_bars else lines, key=mean_height, reverse=True)
    places = sorted({point.x for line in lines for point in line.panels["qps"]})
    ticks = {place: size_text(place).replace(" ", "\n") for place in places}
    marks: list[tuple[str, float, int | None]] = []
    if shares:
        reach = [point.x for line in [*lines, *others] for point in line.panels["qps"]]
        powers = range(math.ceil(math.log2(min(reach))), math.floor(math.log2(max(reach))) + 1)
        ticks = {2.0**power: plain_number(2.0**power) for power in powers}
        marks = [("RAM = index", 1.0, None)]
    else:
        ticks |= {machine: f"{ticks[machine]} (all)"} if machine in ticks else {}
        colors = {line.algorithm: styles[line.name].color for line in lines}
        marks = [
            (f"{name} index: {size_text(size)}", size, colors[name])
            for name, size in index_sizes(lines).items()
            if places[0] / BEYOND <= size <= places[-1] * BEYOND
        ]
    panels = []
    for name in PANELS:
        curves = [Curve(line.name, line.panels[name], styles[line.name]) for line in drawn]
        curves += [heading_curve(published.label)] if published else []
        curves += [
            Curve(one.name, one.panels[name], Style(place, place, 1), "published")
            for place, one in enumerate(others)
        ]
        is_last = name == PANELS[-1]
        x = Axis((RAM_SHARE if shares else RAM) if is_last else "", "log", ticks=ticks)
        y = Axis(LABELS_OF_SHARES[name] if shares else all_metrics[name].description)
        uprights = [("" if is_last else text, size, color) for text, size, color in marks]
        panels.append(Panel(curves, x, y, TITLES[name], uprights=uprights))
    note = (BARS + "; lines are side by side" * (len(lines) > 1)) * has_bars
    return Chart(title, panels, shared="x", note=note, size=(7.75, 3.0))


def mean_height(line: TierLine) -> float:
    """Return the mean of the logarithms of a line's throughput."""
    points = line.panels["qps"]
    return sum(math.log(point.y) for point in points) / len(points)


def spread_out(lines: Sequence[TierLine]) -> list[TierLine]:
    """Return lines that are moved a little to either side."""
    places = [math.log(point.x) for line in lines for points in line.panels.values() for point in points]
    moved = []
    for line, shift in zip(lines, side_by_side(places, len(lines)), strict=True):
        by = math.exp(shift)
        panels = {name: [replace(one, x=one.x * by) for one in line.panels[name]] for name in PANELS}
        moved.append(replace(line, panels=panels))
    return moved


def index_sizes(lines: Iterable[TierLine]) -> dict[str, float]:
    """Return the size of each algorithm's largest index, in bytes, the smallest first."""
    sizes: dict[str, float] = {}
    for line in sorted(lines, key=lambda line: line.algorithm):
        if line.index_size:
            sizes[line.algorithm] = max(line.index_size, sizes.get(line.algorithm, 0.0))
    return dict(sorted(sizes.items(), key=lambda item: item[1]))
