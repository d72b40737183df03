"""How fast indexes are: tables of points and of published figures, pictures of QPS and latency."""

import math

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plotting.bars import draw_latencies, draw_stacked
from ann_benchmarks.results.at_recall import (
    find_at_recall,
)
from ann_benchmarks.results.comparable import clients, is_on_tier, ram
from ann_benchmarks.results.metrics import all_metrics, plot_label
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.statistics.intervals import interval_text
from ann_benchmarks.statistics.percentiles import PERCENTILES, least_queries
from ann_benchmarks.views.builds import build_bars, build_costs, build_table
from ann_benchmarks.views.curves import View, metric_chart
from ann_benchmarks.views.figures import curve_names
from ann_benchmarks.views.parts import known_table
from ann_benchmarks.views.points import points_by_algorithm
from ann_benchmarks.views.published import read_points

from .content import MOST_ROWS, Shown, origin_notes, rest_text
from .document import Block, Picture


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
        others = read_points(overlay.published, dataset, x, y, overlay.where)
    name = "frontier" if (x, y) == ("recall", "qps") else f"{y}-over-{x}"
    x_scale = x_scale or ("a3" if all_metrics[x].is_share else "linear")
    view = View(x, y, x_scale, y_scale, raw)
    picture = shown.picture(
        name, metric_chart(series, view, shown.title, shown.looks, others), f"{plot_label(x, y)}."
    )
    return [picture, *origin_notes(others.origin if others else "")]


def latency_picture(shown: Shown) -> list[Block]:
    """Draw p50 and p99 of the result of each curve next to a recall."""
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
    which = "result closest to it" if reach else f"result with the highest recall, below {shown.target:g},"
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
