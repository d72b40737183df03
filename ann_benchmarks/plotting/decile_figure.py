"""The picture by decile of matches: recall, completeness, p50 and p99, a line a strategy."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from ann_benchmarks.common.numbers import plain_number
from ann_benchmarks.results.deciles import DecileLine

from .canvas import GREY, add_grid, name_entries, save
from .filter_axes import SHARES, StrategyLooks
from .styles import assign_styles, told_apart

PANELS = {"recall": "Recall", "completeness": "Completeness", "p50": "p50 (ms)", "p99": "p99 (ms)"}
TIMES = ("p50", "p99")
TOO_FEW = "too few queries were counted"
SIZE, COLUMNS = (10.0, 6.2), 3  # inches; of the legend


def create_decile_figure(lines: Sequence[DecileLine], output: Path, title: str) -> None:
    """Draw the lines of one filter set; the x axis has the mean of a decile's least and most matches."""
    figure = Figure(figsize=SIZE)
    looks = StrategyLooks(told_apart(assign_styles(line.strategy for line in lines)))
    grid = figure.subplots(2, 2, sharex=True, gridspec_kw={"hspace": 0.22, "wspace": 0.18})
    handles = {}
    for axes, (name, label) in zip(grid.flat, PANELS.items(), strict=True):
        for line in lines:
            xs = [math.sqrt(max(one.least, 1) * max(one.most, 1)) for one in line.deciles]
            ys = [getattr(one, name) * (1e3 if name in TIMES else 1) for one in line.deciles]
            (handles[line.strategy],) = axes.plot(xs, ys, **looks.line(line.strategy))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(plain_number))
        axes.xaxis.set_minor_locator(NullLocator())
        drawn = [y for line in axes.lines for y in np.asarray(line.get_ydata(), float) if math.isfinite(y)]
        if not drawn:
            axes.text(0.5, 0.5, TOO_FEW, ha="center", transform=axes.transAxes, fontsize=9, color=GREY)
            axes.set_yticks([])
        elif name in TIMES:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(plain_number))
            axes.yaxis.set_minor_locator(NullLocator())
        else:
            axes.set_ylim(*SHARES)
        axes.set_title(label, loc="left", fontsize=10, color=GREY)
        add_grid(axes)
        axes.tick_params(which="both", labelsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("Rows that match a query's filter", loc="left", fontsize=9, color=GREY)
    figure.suptitle(title, x=0.125, y=0.97, ha="left", fontsize=13, fontweight="bold", parse_math=False)
    legend = figure.legend(
        [*handles.values()],
        ["name"] * len(handles),
        loc="upper left",
        bbox_to_anchor=(0.125, 0.03),
        ncols=min(len(handles), COLUMNS),
        frameon=False,
        fontsize=9,
        handlelength=3.2,
        borderaxespad=0,
    )
    name_entries(legend, [*handles])
    save(figure, output)
