"""Pictures of horizontal bars: latencies at a recall, and what building took."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ann_benchmarks.common.numbers import plain
from ann_benchmarks.plotting.figure import GREY, add_note, save
from ann_benchmarks.plotting.styles import LIGHT_COLORS
from ann_benchmarks.results.runs import Run, interval

from .builds import Build
from .canvas import WIDTH, height_for, name_rows, spread_out, tidy

PERCENTILES = {"p50": LIGHT_COLORS[4], "p99": LIGHT_COLORS[0]}
PARTS = {"load": LIGHT_COLORS[4], "clustering": LIGHT_COLORS[5], "index": LIGHT_COLORS[0]}
PART_NAMES = {"load": "loading the table", "clustering": "clustering", "index": "building the index"}
ROOM_FOR_TEXT = 1.18  # of the longest bar


def draw_latencies(runs: Sequence[Run], names: Sequence[str], path: Path, title: str) -> None:
    """Draw for each result a bar from its median latency to its 99th percentile."""
    figure = Figure(figsize=(WIDTH, height_for(len(runs))))
    axes = figure.subplots()
    for row, run in enumerate(runs):
        p50, p99 = run.metrics["p50"], run.metrics["p99"]
        axes.plot((p50, p99), (row, row), lw=5, color="0.85", solid_capstyle="butt", zorder=1)
        for metric, color in PERCENTILES.items():
            if bounds := interval(run, metric):
                axes.plot(bounds, (row, row), lw=1.2, color=color, alpha=0.6, zorder=1.5)
        write_beside(axes, plain(p99), max(p99, *(interval(run, "p99") or (0,))), row)
    for (metric, color), marker in zip(PERCENTILES.items(), "os", strict=True):
        values = [run.metrics[metric] for run in runs]
        axes.plot(values, range(len(runs)), marker, ms=7, color=color, mec="white", mew=0.6, label=metric)
    name_rows(axes, names)
    spread_out(axes)
    tidy(axes, title, "x")
    axes.set_xlabel("Latency (ms), logarithmic; to the left is better", fontsize=9)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.01, 0.5))
    if any(interval(run, metric) for run in runs for metric in PERCENTILES):
        add_note(axes, "thin lines: 95% intervals of the mean percentile of runs")
    save(figure, path)


def write_beside(axes: Axes, text: str, x: float, row: int) -> None:
    """Write a figure to the right of a bar."""
    how: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": GREY}
    axes.annotate(text, (x, row), xytext=(7, 0), **how)


def draw_builds(builds: Sequence[Build], names: Sequence[str], path: Path, title: str) -> None:
    """Draw for each index the seconds of loading, clustering and building, one after the other."""
    figure = Figure(figsize=(WIDTH, height_for(len(builds))))
    axes = figure.subplots()
    ends = [0.0] * len(builds)
    rows = range(len(builds))
    for part, color in PARTS.items():
        seconds = [getattr(build, part) or 0.0 for build in builds]
        if part == "index":  # where only the sum is known, it is that of building
            seconds = [build.total if build.index is None else build.index for build in builds]
        if any(seconds):
            axes.barh(rows, seconds, 0.62, ends, color=color, label=PART_NAMES[part])
        ends = [end + more for end, more in zip(ends, seconds, strict=True)]
    for row, end in zip(rows, ends, strict=True):
        write_beside(axes, f"{plain(end)} s", end, row)
    name_rows(axes, names)
    axes.set_xlim(0, max(ends) * ROOM_FOR_TEXT or 1)
    tidy(axes, title, "x")
    axes.set_xlabel("Seconds", fontsize=9)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.01, 0.5))
    save(figure, path)
