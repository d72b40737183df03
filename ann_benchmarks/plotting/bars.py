"""Pictures of horizontal bars: latencies of results, and what building indexes took."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ann_benchmarks.common.numbers import figure_text, plain_number
from ann_benchmarks.common.text import shortened
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.views.figures import LIGHT_COLORS

from .canvas import GREY, add_grid, add_text, save

WIDTH = 9.0  # inches, of a picture of bars
ROW, MARGIN = 0.3, 1.3  # inches, of a bar and around all of them
LONGEST = 60  # characters of a name next to an axis
ROOM_FOR_TEXT = 1.18  # of the longest bar
STACKED = (LIGHT_COLORS[4], LIGHT_COLORS[5], LIGHT_COLORS[0])
PERCENTILES = {"p50": LIGHT_COLORS[4], "p99": LIGHT_COLORS[0]}


def draw_latencies(named: Mapping[str, Run], path: Path, title: str) -> None:
    """Draw for each result by its name, whose median is known, a bar from there to its 99th percentile."""
    figure, axes = bars([*named])
    runs = list(named.values())
    for row, run in enumerate(runs):
        p50, p99 = run.metrics["p50"], run.metrics["p99"]
        longest = p99 if math.isfinite(p99) else p50
        axes.plot((p50, p99), (row, row), lw=5, color="0.85", solid_capstyle="butt", zorder=1)
        for metric, color in PERCENTILES.items():
            if bounds := interval(run, metric):
                axes.plot(bounds, (row, row), lw=1.2, color=color, alpha=0.6, zorder=1.5)
        write_after(axes, figure_text(longest), max(longest, *(interval(run, "p99") or (0,))), row)
    for (metric, color), marker in zip(PERCENTILES.items(), "os", strict=True):
        values = [run.metrics[metric] for run in runs]
        axes.plot(values, range(len(runs)), marker, ms=7, color=color, mec="white", mew=0.6, label=metric)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(plain_number))
    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 1e3 else (1.0,), numticks=50)
    )
    axes.xaxis.set_minor_formatter(NullFormatter())
    if any(interval(run, metric) for run in runs for metric in PERCENTILES):
        add_text(axes, "thin lines: 95% intervals", (1, 0), (0, -46), ha="right", fontsize=8, color="0.5")
    finish_bars(figure, path, title, "Latency (ms), logarithmic; to the left is better")


def draw_stacked(names: Sequence[str], parts: Mapping[str, Sequence[float]], path: Path) -> None:
    """Draw for each name its seconds, one part after the other; a part has a number for each name."""
    figure, axes = bars(names)
    ends = [0.0] * len(names)
    rows = range(len(names))
    for (part, seconds), color in zip(parts.items(), STACKED, strict=False):
        if any(seconds):
            axes.barh(rows, seconds, 0.62, ends, color=color, label=part)
        ends = [end + more for end, more in zip(ends, seconds, strict=True)]
    for row, end in zip(rows, ends, strict=True):
        write_after(axes, f"{figure_text(end)} s", end, row)
    axes.set_xlim(0, max(ends) * ROOM_FOR_TEXT or 1)
    finish_bars(figure, path, "What building took; shorter is better", "Seconds")


def bars(names: Sequence[str]) -> tuple[Figure, Axes]:
    """Return the axes of horizontal bars with these names, from the top."""
    figure = Figure(figsize=(WIDTH, MARGIN + ROW * len(names)))
    axes = figure.subplots()
    axes.set_yticks(range(len(names)), [shortened(name, LONGEST) for name in names], parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    return figure, axes


def finish_bars(figure: Figure, path: Path, title: str, label: str) -> None:
    """Add what all pictures of bars have, and save."""
    axes = figure.axes[0]
    add_grid(axes)
    axes.grid(axis="y", visible=False)
    axes.set_title(title, loc="left", fontsize=11, pad=10, parse_math=False)
    axes.set_xlabel(label, fontsize=9)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.01, 0.5))
    save(figure, path)


def write_after(axes: Axes, text: str, x: float, row: int) -> None:
    """Write a figure to the right of a bar."""
    how: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": GREY}
    axes.annotate(text, (x, row), xytext=(7, 0), **how)
