"""The pictures and tables of filters: strategies by share of rows, and figures by decile of matches."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import plain_number
from ann_benchmarks.plotting.canvas import GREY, add_grid, named_legend, save
from ann_benchmarks.plotting.filter_figure import SHARES, create_filter_figure, strategy_look
from ann_benchmarks.plotting.styles import assign_styles, told_apart
from ann_benchmarks.results.filtered import COMPLETE, Decile
from ann_benchmarks.views.filters import FilterView, decile_tables, filter_tables, view_filters

from .content import Shown, part_blocks
from .document import Block, Picture

PANELS = {"recall": "Recall", "completeness": "Completeness", "p50": "p50 (ms)", "p99": "p99 (ms)"}
LEGEND_COLUMNS = 3


def filter_view(shown: Shown) -> FilterView:
    """Return what is shown of filters; UserError without any filtered results."""
    view = view_filters(shown.runs, shown.target)
    if not view.sets:
        raise UserError("no result in a closed loop has a filter")
    return view


def filter_picture(shown: Shown) -> list[Block]:
    """Draw throughput and what defaults return by share of rows, and the map of the fastest strategies."""
    view, path = filter_view(shown), shown.file("filters")
    create_filter_figure(view, path, shown.title, assign_styles(view.strategies))
    caption = (
        f"Strategies under filters: throughput at a recall of {shown.target:g} and a completeness of"
        f" {COMPLETE:g}, what comes back at default settings, and which strategy is the fastest where."
    )
    return [Picture(path.name, caption), *part_blocks(view.left_out)]


def filter_table(shown: Shown) -> list[Block]:
    """Return for each kind of filter a row for each strategy under each filter set."""
    view = filter_view(shown)
    return part_blocks([*filter_tables(view), *view.left_out])


def decile_picture(shown: Shown) -> list[Block]:
    """Draw recall, completeness, p50 and p99 by decile of matches, a line a strategy."""
    blocks: list[Block] = []
    found = {one.name: one.deciles for one in filter_view(shown).sets if one.deciles}
    for number, (name, lines) in enumerate(found.items()):
        path = shown.file("deciles", number)
        create_decile_figure(lines, path, f"{shown.title}, {name}".strip(", "))
        caption = (
            f"By decile of matches under {name}: the queries with the fewest matching rows are on the left. A"
            " line is the result next to the recall."
        )
        blocks.append(Picture(path.name, caption))
    return checked_deciles(blocks)


def decile_table(shown: Shown) -> list[Block]:
    """Return for each filter set a row for each strategy and decile of matches."""
    return checked_deciles(part_blocks(decile_tables(filter_view(shown))))


def checked_deciles(blocks: list[Block]) -> list[Block]:
    """Return what is shown; UserError where no result has deciles."""
    if not blocks:
        raise UserError("no result has figures by decile of matches")
    return blocks


def create_decile_figure(lines: Mapping[str, Sequence[Decile]], output: Path, title: str) -> None:
    """Draw the lines of one filter set; the x axis has the mean of a decile's least and most matches."""
    figure = Figure(figsize=(10.0, 6.2))
    styles = told_apart(assign_styles(lines), lines)
    grid = figure.subplots(2, 2, sharex=True, gridspec_kw={"hspace": 0.22, "wspace": 0.18})
    handles = {}
    for axes, (metric, label) in zip(grid.flat, PANELS.items(), strict=True):
        is_time = metric in ("p50", "p99")
        for name, deciles in lines.items():
            xs = [math.sqrt(max(one.least, 1) * max(one.most, 1)) for one in deciles]
            ys = [getattr(one, metric) * (1e3 if is_time else 1) for one in deciles]
            (handles[name],) = axes.plot(xs, ys, **strategy_look(styles[name]))
        axes.set(xscale="log", yscale="log" if is_time else "linear")
        for axis in (axes.xaxis, *([axes.yaxis] if is_time else [])):
            axis.set_major_formatter(FuncFormatter(plain_number))
            axis.set_minor_locator(NullLocator())
        if not is_time:
            axes.set_ylim(*SHARES)
        elif not np.isfinite([line.get_ydata() for line in axes.lines]).any():
            few = "too few queries were counted"
            axes.text(0.5, 0.5, few, transform=axes.transAxes, ha="center", fontsize=9, color=GREY)
            axes.set_yticks([])
        axes.set_title(label, loc="left", fontsize=10, color=GREY)
        add_grid(axes)
        axes.tick_params(which="both", labelsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("Rows that match a query's filter", loc="left", fontsize=9, color=GREY)
    figure.suptitle(title, x=0.125, y=0.97, ha="left", fontsize=13, fontweight="bold", parse_math=False)
    columns = min(len(handles), LEGEND_COLUMNS)
    place = {"loc": "upper left", "bbox_to_anchor": (0.125, 0.03), "borderaxespad": 0}
    named_legend(figure, [*handles.values()], [*handles], ncols=columns, **place)
    save(figure, output)
