"""How the pictures are drawn that only reports have: bars, lines with published ones, writes over time."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import figure_text, plain_number
from ann_benchmarks.plotting.canvas import GREY, add_note, save
from ann_benchmarks.plotting.lines import LinePlot, draw_lines
from ann_benchmarks.plotting.published import PublishedPoints, read_series
from ann_benchmarks.plotting.styles import LIGHT_COLORS
from ann_benchmarks.published import published
from ann_benchmarks.results.records import Record, over_time
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.views.points import Point

from .content import Shown, origin_notes
from .document import Block, Picture

WIDTH = 9.0  # inches, of a picture of bars
ROW, MARGIN = 0.3, 1.3  # inches, of a bar and around all of them
LONGEST = 60  # characters of a name next to an axis
ROOM_FOR_TEXT = 1.18  # of the longest bar
PERCENTILES = {"p50": LIGHT_COLORS[4], "p99": LIGHT_COLORS[0]}
PANEL, COLUMN = 1.5, 6.5  # inches, of one figure over time
RECALL, SIZE = "Recall", "Index (MB)"
PANELS = {
    "Queries/s": "queries",
    "Query p99 (ms)": "query_p99",
    "Writes/s": "writes",
    "Write p99 (ms)": "write_p99",
    RECALL: "recall",
    SIZE: "index_size",
}
SHADES = ("0.95", "1.0")  # of phases, in turn
THROUGHPUT = ("qps", "tps")  # columns of published figures


def draw_latencies(runs: Sequence[Run], path: Path, title: str) -> None:
    """Draw for each result, whose median is known, a bar from there to its 99th percentile."""
    figure, axes = bars([run.algorithm for run in runs])
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
        add_note(axes, "thin lines: 95% intervals")
    finish_bars(figure, path, title, "Latency (ms), logarithmic; to the left is better")


def draw_stacked(names: Sequence[str], parts: Mapping[str, tuple[str, Sequence[float]]], path: Path) -> None:
    """Draw for each name its seconds, one part after the other; a part has a color and a number for each."""
    figure, axes = bars(names)
    ends = [0.0] * len(names)
    rows = range(len(names))
    for part, (color, seconds) in parts.items():
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
    axes.set_yticks(range(len(names)), [shortened(name) for name in names], parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    return figure, axes


def finish_bars(figure: Figure, path: Path, title: str, label: str) -> None:
    """Add what all pictures of bars have, and save."""
    axes = figure.axes[0]
    tidy(axes, title, "x")
    axes.set_xlabel(label, fontsize=9)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.01, 0.5))
    save(figure, path)


def write_after(axes: Axes, text: str, x: float, row: int) -> None:
    """Write a figure to the right of a bar."""
    how: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": GREY}
    axes.annotate(text, (x, row), xytext=(7, 0), **how)


def tidy(axes: Axes, title: str, grid: Literal["x", "y"] = "y") -> None:
    """Give axes a title above their left end, a light grid and no frame."""
    axes.set_title(title, loc="left", fontsize=11, pad=10, parse_math=False)
    axes.grid(axis=grid, color="0.88", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", color="0.7", labelcolor=GREY, labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("0.7")


def shortened(name: str) -> str:
    """Return a name that leaves room for a picture."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def line_picture(
    shown: Shown, kind: str, series: dict[str, list[Point]], axes: tuple[str, str]
) -> list[Block]:
    """Draw lines, with published ones over the same axis."""
    overlay = shown.overlay
    others = [published_lines(overlay.published, overlay.where or {})] if overlay.published else []
    path = shown.file(kind)
    plot = LinePlot(*axes, "log", "", shown.title, "up is better", overlay.normalise)
    draw_lines(series, path, plot, others)
    picture = Picture(path.name, f"{axes[1]} over {axes[0].lower()}.")
    return [picture, *(note for other in others for note in origin_notes(other.origin))]


def published_lines(name: str, where: Mapping[str, Any]) -> PublishedPoints:
    """Return throughput over clients out of NAME or NAME:TABLE, a line for each curve of the table."""
    source, table_name = published(name.partition(":")[0]), name.partition(":")[2]
    tables = [source.table(table_name)] if table_name else source.tables
    for table in tables:
        rate = next((column for column in THROUGHPUT if {"clients", column} <= set(table.columns)), None)
        if rate:
            by = [column for column in table.curves if column not in where and column != "clients"]
            chosen = {"table": table.name, "x": "clients", "y": rate, "where": where, "by": by}
            return read_series({"published": source.name, **chosen})
    raise UserError(f"{source.path} has no table of {' or '.join(THROUGHPUT)} over clients")


def draw_writes(records: Sequence[Record], path: Path) -> None:
    """Draw workloads side by side, with a panel for each figure that is known of any of them."""
    drawn = [over_time(record.windows) for record in records]
    names = [
        name
        for name, column in PANELS.items()
        if any(math.isfinite(value) for _, figures in drawn for value in figures[column])
    ]
    if not names:
        raise UserError("no record states what happened over time")
    figure = Figure(figsize=(COLUMN * len(records), PANEL * len(names) + 1))
    gaps = {"hspace": 0.18, "wspace": 0.06}
    grid = figure.subplots(
        len(names), len(records), sharex="col", sharey="row", squeeze=False, gridspec_kw=gaps
    )
    for place, (record, (middles, figures)) in enumerate(zip(records, drawn, strict=True)):
        for row, name in enumerate(names):
            axes = grid[row, place]
            shade(axes, record, is_top=row == 0)
            xs, ys = middles, figures[PANELS[name]]
            if name == RECALL:  # measured now and then: what lies between is joined
                known = [(x, y) for x, y in zip(xs, ys, strict=True) if math.isfinite(y)]
                xs, ys = [x for x, _ in known], [y for _, y in known]
            axes.plot(xs, ys, ".-", lw=1.4, ms=4, color=LIGHT_COLORS[row % len(LIGHT_COLORS)])
            tidy(axes, "")
            axes.margins(x=0.01)
        grid[0, place].set_title(shortened(record.title), loc="left", fontsize=11, pad=20, parse_math=False)
        grid[-1, place].set_xlabel("Seconds in which something was measured", fontsize=9)
    for row, name in enumerate(names):
        grid[row, 0].set_ylabel(name, fontsize=9, color=GREY)
        if name not in (RECALL, SIZE):
            grid[row, 0].set_ylim(bottom=0)  # the whole row shares it, when all is drawn
    save(figure, path)


def shade(axes: Axes, record: Record, is_top: bool) -> None:
    """Mark the phases, with their names above the first panel, as far as there is room."""
    end = max((phase.start + phase.seconds for phase in record.phases), default=1.0)
    free = -math.inf  # the end of the last name
    for number, phase in enumerate(record.phases):
        axes.axvspan(phase.start, phase.start + phase.seconds, color=SHADES[number % 2], zorder=0, lw=0)
        if is_top and phase.start >= free:
            at = (phase.start, 1.0)
            how: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "color": GREY}
            axes.annotate(phase.name, at, (2, 4), xycoords=("data", "axes fraction"), parse_math=False, **how)
            free = phase.start + len(phase.name) * 0.013 * end
