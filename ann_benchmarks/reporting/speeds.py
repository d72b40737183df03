"""How fast indexes are: tables of points, speedups and published figures, pictures of QPS and latency."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import KIB, UNKNOWN, plain_number, share_text, size_text, three_digits
from ann_benchmarks.plotting.bars import draw_latencies, draw_stacked
from ann_benchmarks.published import TEXT, published
from ann_benchmarks.published.selecting import rows_where
from ann_benchmarks.results.at_recall import (
    AtRecall,
    find_at_recall,
    indexes_at_recall,
    latency_notes,
    ratio_of_throughputs,
)
from ann_benchmarks.results.comparable import clients, comparisons, is_on_tier, ram
from ann_benchmarks.results.metrics import QPS_AT_RECALL, all_metrics, plot_label
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.statistics.differences import ERROR_RATE
from ann_benchmarks.statistics.intervals import interval_text
from ann_benchmarks.statistics.percentiles import PERCENTILES, least_queries
from ann_benchmarks.views.builds import IndexNames, build_bars, build_costs, build_table
from ann_benchmarks.views.curves import View, metric_chart
from ann_benchmarks.views.figures import curve_names
from ann_benchmarks.views.parts import Table, known_table, notes_on, qps_text, speedup_text
from ann_benchmarks.views.points import points_by_algorithm
from ann_benchmarks.views.published import read_points

from .content import MOST_ROWS, Shown, origin_notes, part_blocks, rest_text
from .document import Block, Picture

SPEEDUPS = ("p99", "build")


def frontier_picture(
    shown: Shown,
    x: str = "recall",
    y: str = "qps",
    x_scale: str = "",
    y_scale: str = "log",
    raw: bool = False,
) -> list[Block]:
    """Draw the best of each curve in two metrics."""
    for name in (x, y):
        if name not in all_metrics:
            raise UserError(f"unknown metric '{name}': choose from {', '.join(all_metrics)}")
    series = points_by_algorithm(shown.runs, x, y, shown.target)
    if not series:
        raise UserError(f"nothing to plot: no result has both {x} and {y}")
    others, overlay = None, shown.overlay
    if overlay.published and shown.runs:
        dataset = shown.runs[0].dataset
        others = read_points(overlay.published, dataset, x, y, overlay.normalise, overlay.where)
    name = "frontier" if (x, y) == ("recall", "qps") else f"{y}-over-{x}"
    x_scale = x_scale or ("a3" if all_metrics[x].is_share else "linear")
    view = View(x, y, x_scale, y_scale, raw, overlay.normalise)
    picture = shown.picture(
        name, metric_chart(series, view, shown.title, shown.looks, others), f"{plot_label(x, y)}."
    )
    return [picture, *origin_notes(others.origin if others else "")]


def latency_picture(shown: Shown, over: str = "", percentile: str = "p99") -> list[Block]:
    """Draw p50 and p99 of the result of each curve next to a recall, or a percentile over recall."""
    if over == "recall":
        return frontier_picture(shown, "recall", percentile)
    if over:
        raise UserError(f"latency can be drawn over recall, not over '{over}'")
    chosen, reach = latency_results(shown)
    if not chosen:
        raise UserError("no result was selected")
    known = [run for run in chosen if math.isfinite(run.metrics["p50"])]
    rows = sorted(known, key=lambda run: (clients(run), run.metrics["p50"]))
    if not rows:
        raise UserError(f"a median latency takes {least_queries('p50')} queries: measure with more of them")
    path = shown.file("latency")
    title = f"Latency at a recall of {shown.target:g}" if reach else "Latency"
    names = curve_names(run.series for run in rows[:MOST_ROWS])
    draw_latencies({names[run.algorithm]: run for run in rows[:MOST_ROWS]}, path, title)
    which = "result next to it" if reach else f"result with the highest recall, below {shown.target:g},"
    caption = f"{title}: median and 99th percentile for the {which} of each curve"
    if any(is_on_tier(run) for run in rows):
        caption += " with its largest RAM"
    return [Picture(path.name, f"{caption}{rest_text(rows)}.")]


def build_picture(shown: Shown) -> list[Block]:
    """Draw what loading, clustering and building took."""
    found = [build for build in build_costs(shown.runs) if build.total > 0]
    if not found:
        raise UserError("no result states how long its build took")
    path = shown.file("builds")
    draw_stacked(*build_bars(found[:MOST_ROWS]), path)
    return [Picture(path.name, f"Seconds of loading, clustering and building the index{rest_text(found)}.")]


def build_tables(shown: Shown) -> list[Block]:
    """Return the table of all builds."""
    return [build_table(shown.runs, shown.title)]


def latency_results(shown: Shown) -> tuple[list[Run], bool]:
    """Return a result of each curve, with its largest RAM, and whether any reaches the target recall.

    It is the one next to that recall; where none reaches it, the one with the highest recall.
    """
    curves: dict[str, list[Run]] = {}
    for run in shown.runs:
        curves.setdefault(run.series.drop("tier_memory").label, []).append(run)
    groups: dict[str, list[Run]] = {}
    for curve in curves.values():
        most = max(map(ram, curve))
        for run in curve:
            if ram(run) == most:
                groups.setdefault(run.algorithm, []).append(run)
    if found := find_at_recall(groups, shown.target):
        return [at.run for at in found.values()], True
    return [max(group, key=lambda run: run.metrics["recall"]) for group in groups.values()], False


def point_table(shown: Shown) -> list[Block]:
    """Return all results with their intervals."""
    if not shown.runs:
        raise UserError("no result was selected")
    runs = sorted(shown.runs, key=lambda run: (run.dataset, run.algorithm, run.metrics["recall"]))
    columns = {
        "Curve": [run.algorithm for run in runs],
        "Parameters": [run.parameters for run in runs],
        "Dataset": [run.dataset for run in runs],
        "k": [str(run.count) for run in runs],
    }
    for name in ("recall", "qps", *PERCENTILES):
        columns[all_metrics[name].title] = [figure_cell(run, name) for run in runs]
    title = shown.title or f"All points ({len(runs)})"
    return [known_table(columns, title, ("Curve", "Parameters", "Dataset"), ("Dataset", "k"))]


def figure_cell(run: Run, name: str) -> str:
    """Write a metric with its interval."""
    write = all_metrics[name].write
    return write(run.metrics[name]) + interval_text(interval(run, name), write)


def speedup_tables(shown: Shown, baseline: str = "") -> list[Block]:
    """Return for each number of clients the figures of each index at the target recall, and their ratios.

    Without a `baseline`, the name of a row or of its algorithm, the worst of each column is 1.
    """
    blocks: list[Block] = []
    for comparison in comparisons(shown.runs, shown.target):
        found = [at for at, _ in indexes_at_recall(comparison.runs, shown.target)]
        if not found:
            continue
        conditions = f"{comparison.client_text}{comparison.place_text}, at a recall of {shown.target:g}"
        blocks += speedup_table(sorted(found, key=lambda at: at.run.series.family), conditions, baseline)
        reaching = {at.run.series.family for at in found}
        if short := sorted({run.series.family for run in comparison.runs} - reaching):
            blocks += part_blocks([f"Below that recall: {', '.join(short)}."])
    if not blocks:
        raise UserError(f"no result reaches a recall of {shown.target:g}")
    return blocks


def speedup_table(found: Sequence[AtRecall], conditions: str, baseline: str) -> list[Block]:
    """Return the table of indexes under the same conditions, and what its ratios leave open."""
    runs = [at.run for at in found]
    index_names = IndexNames(runs)
    names = [index_names.find(run) for run in runs]
    bases = [i for i, name in enumerate(names) if baseline in (name, runs[i].series.family)]

    def times(values: list[float], more_is_better: bool) -> list[str]:
        known = [value for value in values if value > 0]
        worst = (min if more_is_better else max)(known, default=0.0)
        base = values[bases[0]] if bases else worst
        return [
            three_digits(value / base if more_is_better else base / value)
            if value > 0 and base > 0
            else UNKNOWN
            for value in values
        ]

    base = found[bases[0]] if bases else min(found, key=lambda at: at.qps)
    rate = ERROR_RATE / max(math.comb(len(found), 2), 1)
    ratios = {i: ratio_of_throughputs(at, base, rate) for i, at in enumerate(found) if at is not base}
    columns = {
        "Index": names,
        "Recall": [share_text(run.metrics["recall"]) for run in runs],
        all_metrics[QPS_AT_RECALL].title: [qps_text(at) for at in found],
        "QPS speedup": [
            speedup_text(ratios[i], at.is_bound, base.is_bound) if i in ratios else "1"
            for i, at in enumerate(found)
        ],
    }
    for name in SPEEDUPS:
        metric = all_metrics[name]
        values = [run.metrics[name] for run in runs]
        columns[metric.title] = [metric.write(value) for value in values]
        columns[f"{metric.title.partition(' (')[0]} speedup"] = times(values, metric.higher_is_better)
    sizes = [run.metrics["indexsize"] for run in runs]
    columns["Size"] = [size_text(size, KIB) for size in sizes]
    columns["Size improvement"] = times(sizes, False)
    best = f"{names[bases[0]]} is 1" if bases else "the worst of each column is 1"
    table = known_table(columns, f"{conditions}: each index; {best}", ["Index"])
    return [table, *part_blocks([*notes_on(ratios, runs, base.run), *latency_notes(found)])]


def published_table(shown: Shown, name: str = "", where: Mapping[str, Any] | None = None) -> list[Block]:
    """Return a table of published figures, NAME or NAME:TABLE; `where` chooses rows by their columns."""
    source = published(name.partition(":")[0])
    table = source.table(name.partition(":")[2]) if ":" in name else source.tables[0]
    columns = [
        column if unit in (TEXT, column) else f"{column} ({unit})" for column, unit in table.columns.items()
    ]
    rows = [
        [
            cell if isinstance(cell, str) else plain_number(cell) if cell is not None else UNKNOWN
            for cell in row.values()
        ]
        for row in rows_where(table, where or {})
    ]
    words = frozenset(column for column, unit in table.columns.items() if unit == TEXT)
    shown_table = Table(columns, rows, shown.title or source.label, words)
    return [shown_table, *part_blocks([f"Published, from another machine: {source.origin}"])]
