"""The picture of throughput and p99 against available RAM: two panels, one above the other."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from ann_benchmarks.common.numbers import plain_number, size_text
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.views.points import Point
from ann_benchmarks.views.tiers import PANELS, TierLine

from .canvas import (
    BARS,
    EDGED,
    GREY,
    HOLLOW,
    add_legend,
    add_note,
    coordinates,
    draw_bars,
    greys,
    heading,
    line_style,
    save,
)
from .figure import decorate, fit_scales
from .published import PublishedLines
from .scales import Scale, spaced
from .styles import LIGHT_COLORS, MARKERS, assign_styles

CLOSE = 2.0  # the largest value over the smallest, below which a linear axis from 0 shows more
BEYOND = 2.0  # how far outside of the tiers, as a factor, an index is still marked
TAKEN = 0.35  # of the distance between two tiers, by all lines side by side
MOST_STEP = 0.04  # of the logarithm of the RAM, between two lines
LEAST_GAP = 0.05  # of the same: closer places are those of one tier
ROW = 13.0  # height of a line of text, in points
TITLES = {"qps": "Throughput - up is better", "p99": "Tail latency - down is better"}
LABELS_OF_SHARES = {"qps": "QPS / QPS with the most RAM", "p99": "p99 / p99 with the most RAM"}
RAM = "Available RAM: shared_buffers + the system's cache"
RAM_SHARE = "Available RAM / size of the index"


def create_tier_figure(
    lines: Sequence[TierLine],
    output: Path,
    title: str,
    machine: float | None,
    published: PublishedLines | None = None,
    shares: bool = False,
) -> int:
    """Draw the lines into a picture; return the number of results shown.

    `machine` is where tiers are drawn that have all RAM. With `shares`, and next to published lines, all
    lines have to be shares.
    """
    figure = Figure(figsize=(10, 8.5))
    panels = dict(zip(PANELS, figure.subplots(2, sharex=True, gridspec_kw={"hspace": 0.2}), strict=True))
    others = published.lines if published else []
    shares = shares or bool(published)
    looks = variant_looks(lines, others)
    styles = assign_styles(line.algorithm for line in lines)
    colors = {name: LIGHT_COLORS[style.color] for name, style in styles.items()}
    has_bars = any(point.y_interval for line in lines for panel in PANELS for point in line.panels[panel])
    drawn_lines = side_by_side(lines) if has_bars else lines
    engine_greys = greys(line.algorithm for line in others)
    for panel, axes in panels.items():
        handles, names = draw_lines(axes, panel, others, engine_greys, looks, HOLLOW)
        if published:
            head, label = heading(published.label)
            handles, names = [head, *handles], [label, *names]
        own, own_names = draw_lines(axes, panel, drawn_lines, colors, looks, {"lw": 2, "zorder": 3, **EDGED})
        drawn = [(point, colors[line.algorithm]) for line in drawn_lines for point in line.panels[panel]]
        fit_panel(axes, [point for point, _ in drawn], [p for line in others for p in line.panels[panel]])
        draw_bars(axes, drawn)
        decorate(axes, panel, panel, title if panel == PANELS[0] else "")
        axes.set_title(TITLES[panel], loc="left", fontsize=10, color=GREY, pad=8)
        axes.set(xlabel="", ylabel=LABELS_OF_SHARES[panel] if shares else all_metrics[panel].description)
    upper, lower = panels.values()
    add_legend(upper, [*own, *handles], [*own_names, *names])
    points = [point for line in lines for point in line.panels["qps"]]
    rams = sorted({point.x for point in points})
    if shares:
        share_ticks(lower)
        mark_indexes([upper, lower], [("RAM = index", 1.0, GREY)])
        lower.set_xlabel(RAM_SHARE, loc="left")
    else:
        sizes = [
            (f"{name} index: {size_text(size)}", size, colors[name])
            for name, size in index_sizes(lines).items()
            if rams[0] / BEYOND <= size <= rams[-1] * BEYOND
        ]
        mark_indexes([upper, lower], sizes)
        ram_ticks(lower, rams, machine)
        lower.set_xlabel(RAM, loc="left")
    if has_bars:
        add_note(lower, BARS + "; lines are side by side to show them" * (len(lines) > 1))
    save(figure, output)
    return len(points)


def variant_looks(lines: Sequence[TierLine], others: Sequence[TierLine]) -> dict[str, dict[str, Any]]:
    """Give each variant its marker and dash: those of its number of clients, for one variant of each.

    Further variants with as many clients, on another disk for one, get others.
    """
    clients = sorted({line.clients for line in [*lines, *others]})
    numbers: dict[str, int] = {}
    free = len(clients)
    for count, variant in sorted({(line.clients, line.variant) for line in lines}):
        number = clients.index(count)
        if number in numbers.values():
            number, free = free, free + 1
        numbers[variant] = number
    numbers |= {line.variant: clients.index(line.clients) for line in others}
    return {
        variant: {"marker": MARKERS[number % len(MARKERS)], "ls": line_style(number), "clip_on": False}
        for variant, number in numbers.items()
    }


def draw_lines(
    axes: Axes,
    panel: str,
    lines: Sequence[TierLine],
    colors: Mapping[str, str],
    looks: Mapping[str, dict[str, Any]],
    how: Mapping[str, Any],
) -> tuple[list[Line2D], list[str]]:
    """Draw lines into a panel; return the legend, in the order of their throughput."""
    handles = []
    lines = sorted(lines, key=mean_height, reverse=True)
    for line in lines:
        coloured = {"color": colors[line.algorithm], **looks[line.variant], **how}
        handles += axes.plot(*coordinates(line.panels[panel]), **coloured)
    return handles, [line.name for line in lines]


def mean_height(line: TierLine) -> float:
    """Return the mean of the logarithms of a line's throughput."""
    points = line.panels["qps"]
    return sum(math.log(point.y) for point in points) / len(points)


def fit_panel(axes: Axes, points: Sequence[Point], others: Sequence[Point]) -> None:
    """Scale both axes logarithmically, y from 0 where all values lie close."""
    values = [point.y for point in [*points, *others]]
    if not values:
        return
    is_close = max(values) < CLOSE * min(values)
    scales = (Scale("log"), Scale("linear" if is_close else "log"))
    fit_scales(axes, points, others, ("indexsize", "qps"), scales)
    if is_close:
        axes.set_ylim(bottom=0)


def mark_indexes(panels: Sequence[Axes], indexes: Sequence[tuple[str, float, str]]) -> None:
    """Draw a thin vertical line at each size, and its text above all points of the upper panel."""
    upper = panels[0]
    leave_room(upper, len(indexes) * ROW)
    for row, (text, size, color) in enumerate(indexes):
        for axes in panels:
            axes.axvline(size, color=color, lw=0.9, ls=(0, (1, 2)), zorder=0.5)
        is_right = upper.transAxes.inverted().transform(upper.transData.transform((size, 1)))[0] > 0.6
        place = {"xytext": (-4 if is_right else 4, -row * ROW), "ha": "right" if is_right else "left"}
        box = {"fc": "white", "ec": "none", "pad": 0.5}
        how: dict[str, Any] = {"va": "top", "fontsize": 8.5, "color": color, "bbox": box, **place}
        how |= {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "parse_math": False}
        upper.annotate(text, (size, 1), **how)


def leave_room(axes: Axes, height: float) -> None:
    """Raise the upper end of the y axis by this height, in points of the picture."""
    axes.autoscale_view()
    (low, high), is_log = axes.get_ylim(), axes.get_yscale() == "log"
    share = height / (axes.bbox.height * 72 / axes.figure.dpi)
    start, end = (math.log(low), math.log(high)) if is_log else (low, high)
    top = start + (end - start) / (1 - share)
    axes.set_ylim(low, math.exp(top) if is_log else top)


def ram_ticks(axes: Axes, rams: list[float], machine: float | None) -> None:
    """Put a tick at each amount of RAM, as far as they can be read."""
    ticks = spaced(rams, np.log, axes.get_xlim())
    texts = [size_text(ram).replace(" ", "\n") for ram in ticks]
    texts = [f"{text} (all)" if ram == machine else text for ram, text in zip(ticks, texts, strict=True)]
    axes.set_xticks(ticks, texts)
    axes.xaxis.set_minor_locator(NullLocator())


def share_ticks(axes: Axes) -> None:
    """Put ticks at powers of 2."""
    low, high = axes.get_xlim()
    ticks = [2.0**power for power in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)]
    axes.set_xticks(ticks, [plain_number(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def side_by_side(lines: Sequence[TierLine]) -> list[TierLine]:
    """Return lines that are moved a little to either side, so that their bars do not hide each other.

    On a logarithmic axis, all of them together take a share of the smallest distance between two places.
    """
    places = sorted(
        {math.log(point.x) for line in lines for points in line.panels.values() for point in points}
    )
    gaps = [gap for one, other in pairwise(places) if (gap := other - one) > LEAST_GAP]
    step = min(TAKEN * min(gaps, default=1.0) / len(lines), MOST_STEP)
    moved = []
    for number, line in enumerate(lines):
        by = math.exp((number - (len(lines) - 1) / 2) * step)
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
