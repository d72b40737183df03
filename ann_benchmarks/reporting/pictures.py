"""Pictures and tables of reports: how fast indexes are, how they scale, what filters and memory change."""

import math
from collections.abc import Mapping, Sequence

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import natural_order
from ann_benchmarks.published import published
from ann_benchmarks.results.at_recall import build_arguments, find_at_recall
from ann_benchmarks.results.comparable import clients, conditions, is_on_tier, ram
from ann_benchmarks.results.filtered import COMPLETE
from ann_benchmarks.results.metrics import all_metrics, plot_label
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.statistics.percentiles import least_queries
from ann_benchmarks.views.bars import build_chart, latency_chart
from ann_benchmarks.views.builds import build_costs
from ann_benchmarks.views.curves import View, line_chart, metric_chart
from ann_benchmarks.views.figures import assign_styles, curve_names, variant_styles
from ann_benchmarks.views.filter_chart import filter_chart
from ann_benchmarks.views.filters import (
    FilterView,
    decile_chart,
    decile_tables,
    filter_tables,
    view_filters,
)
from ann_benchmarks.views.points import Point, points_by_algorithm
from ann_benchmarks.views.published import read_lines, read_points, read_tiers
from ann_benchmarks.views.servers import ONE_SERVER, server_lines
from ann_benchmarks.views.tier_lines import relative_lines, tier_chart, tier_lines
from ann_benchmarks.views.tiers import tier_runs, tier_tables, whole_machine
from ann_benchmarks.views.workloads import insert_lines, write_charts

from .content import MOST_ROWS, Shown, origin_notes, part_blocks, rest_text
from .document import Block


def frontier_picture(shown: Shown) -> list[Block]:
    """Draw the best of each curve in recall and throughput."""
    axes = "recall", "qps"
    series = points_by_algorithm(shown.runs, *axes, shown.target)
    if not series:
        raise UserError("nothing to plot: no result has both recall and qps")
    others, overlay = None, shown.overlay
    if overlay.published:
        others = read_points(overlay.published, shown.runs[0].dataset, *axes, overlay.where)
    view = View(*axes, "a3", "log")
    chart = metric_chart(series, view, shown.title, shown.looks, others)
    picture = shown.picture("frontier", chart, f"{plot_label(*axes)}.")
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
    title = f"Latency at a recall of {shown.target:g}" if reach else "Latency"
    names = curve_names(run.series for run in rows[:MOST_ROWS])
    chart = latency_chart({names[run.algorithm]: run for run in rows[:MOST_ROWS]}, title)
    which = "result closest to it" if reach else f"result with the highest recall, below {shown.target:g},"
    caption = f"{title}: median and 99th percentile for the {which} of each curve"
    if any(is_on_tier(run) for run in rows):
        caption += " with its largest RAM"
    return [shown.picture("latency", chart, f"{caption}{rest_text(rows)}.")]


def build_picture(shown: Shown) -> list[Block]:
    """Draw what loading, clustering and building took."""
    found = [build for build in build_costs(shown.runs) if build.total > 0]
    if not found:
        raise UserError("no result states how long its build took")
    caption = f"Seconds of loading, clustering and building the index{rest_text(found)}."
    return [shown.picture("builds", build_chart(found[:MOST_ROWS]), caption)]


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


def line_picture(
    shown: Shown,
    kind: str,
    series: Mapping[str, Sequence[Point]],
    x: str,
    y: str = all_metrics["qps"].description,
    algorithms: Mapping[str, str] | None = None,
) -> list[Block]:
    """Draw lines, with published ones over the same axis; `algorithms` are those of the lines."""
    styles = variant_styles(algorithms, shown.looks) if algorithms else None
    overlay = shown.overlay
    others = read_lines(overlay.published, overlay.where or {}) if overlay.published else None
    chart = line_chart(series, (x, y), shown.title, "up is better", others, styles)
    picture = shown.picture(kind, chart, f"{y} over {x.lower()}.")
    return [picture, *origin_notes(others.origin if others else "")]


def client_picture(shown: Shown) -> list[Block]:
    """Draw throughput over clients, a line for each query argument; those searched for a recall are one."""
    series: dict[str, dict[int, Point]] = {}
    families: dict[str, str] = {}
    for run in shown.runs:
        if not run.series.is_open:
            others = conditions(run).removeprefix(f"-c{clients(run)}")
            point = Point(clients(run), run.metrics["qps"], None, interval(run, "qps"))
            name = f"{run.series.family}{others} {query_text(run)}"
            families[name] = run.series.family
            series.setdefault(name, {})[clients(run)] = point
    lines = {
        name: list(points.values())
        for name, points in sorted(series.items(), key=lambda item: natural_order(item[0]))
        if len(points) > 1
    }
    if not lines:
        raise UserError("no result was measured with several numbers of clients")
    more = len(lines) - MOST_ROWS
    left = part_blocks([f"{more} more lines are in the tables."] if more > 0 else [])
    drawn = dict(list(lines.items())[:MOST_ROWS])
    known = {name: families[name] for name in drawn}
    return [*line_picture(shown, "clients", drawn, "Clients", algorithms=known), *left]


def query_text(run: Run) -> str:
    """Return the query arguments of a result, or the recall for which they were searched."""
    if run.attrs.get("target_recall"):
        built = ", ".join(text for text in build_arguments(run).values() if text != run.distance)
        return f"({built}) at recall {run.attrs['target_recall']:g}"
    inside = run.parameters.partition("(")[2]
    return f"({inside}" if inside else run.parameters


def tier_picture(shown: Shown) -> list[Block]:
    """Draw throughput and p99 by available RAM."""
    on_tiers, name = tier_runs(shown.runs), shown.overlay.published
    lines = tier_lines(on_tiers, shown.target)
    others = read_tiers(name) if name else None
    if others:
        lines = relative_lines(lines)
    if not lines:
        raise UserError(f"no result on a tier reaches a recall of {shown.target:g}")
    chart = tier_chart(lines, shown.title, whole_machine(on_tiers), others, shown.looks)
    caption = (
        f"Throughput and p99 by available RAM, at a recall of {shown.target:g}; the p99 is that of the result"
        " closest to it."
    )
    origin = published(name.partition(":")[0]).origin if name else ""
    return [shown.picture("tiers", chart, caption), *origin_notes(origin)]


def tier_blocks(shown: Shown) -> list[Block]:
    """Return for each index what it has on each tier at the target recall."""
    if not (parts := tier_tables(tier_runs(shown.runs), shown.target)):
        raise UserError(f"no result on a tier reaches a recall of {shown.target:g}")
    return part_blocks(parts)


def server_pictures(shown: Shown) -> list[Block]:
    """Draw throughput and median latency over the number of servers, a line for each kind of them."""
    blocks: list[Block] = []
    for metric, direction in (("qps", "up is better"), ("p50", "down is better")):
        lines, kinds = server_lines(shown.runs, shown.target, metric)
        described = all_metrics[metric].description
        styles = variant_styles(kinds, assign_styles(kinds.values()))
        chart = line_chart(lines, ("Servers", described), shown.title, direction, styles=styles)
        caption = f"{described} by number of servers, at a recall of {shown.target:g}"
        caption += "" if metric == "qps" else ", of the result closest to it"
        name = "shards" if metric == "qps" else f"shards-{metric}"
        blocks.append(shown.picture(name, chart, f"{caption}; {ONE_SERVER} has all rows."))
    return blocks


def filter_view(shown: Shown) -> FilterView:
    """Return what is shown of filters; UserError without any filtered results."""
    view = view_filters(shown.runs, shown.target)
    if not view.sets:
        raise UserError("no result in a closed loop has a filter")
    return view


def filter_picture(shown: Shown) -> list[Block]:
    """Draw throughput and what defaults return by share of rows."""
    view = filter_view(shown)
    caption = (
        f"Strategies under filters: throughput at a recall of {shown.target:g} and a completeness of"
        f" {COMPLETE:g}, and what comes back at default settings."
    )
    chart = filter_chart(view, shown.title, shown.looks)
    return [shown.picture("filters", chart, caption), *part_blocks(view.choice.left_out)]


def filter_table(shown: Shown) -> list[Block]:
    """Return for each kind of filter a row for each strategy under each filter set."""
    view = filter_view(shown)
    return part_blocks([*filter_tables(view), *view.choice.left_out])


def decile_picture(shown: Shown) -> list[Block]:
    """Draw recall, completeness, p50 and p99 by decile of matches, a line a strategy."""
    blocks: list[Block] = []
    found = {one.name: one.deciles for one in filter_view(shown).sets if one.deciles}
    for number, (name, lines) in enumerate(found.items()):
        chart = decile_chart(lines, f"{shown.title}, {name}".strip(", "), shown.looks)
        caption = (
            f"By decile of matches under {name}: the queries with the fewest matching rows are on the left. A"
            " line is the result closest to the recall."
        )
        blocks.append(shown.picture("deciles", chart, caption, number))
    return checked_deciles(blocks)


def decile_table(shown: Shown) -> list[Block]:
    """Return for each filter set a row for each strategy and decile of matches."""
    return checked_deciles(part_blocks(decile_tables(filter_view(shown).sets)))


def checked_deciles(blocks: list[Block]) -> list[Block]:
    """Return what is shown; UserError where no result has deciles."""
    if not blocks:
        raise UserError("no result has figures by decile of matches")
    return blocks


def insert_picture(shown: Shown) -> list[Block]:
    """Draw inserts a second over writers."""
    lines, algorithms = insert_lines(shown.records)
    return line_picture(shown, "inserts", lines, "Writers", "Inserts per second (1/s)", algorithms)


def write_picture(shown: Shown) -> list[Block]:
    """Draw what happened over time while queries and writes ran side by side."""
    caption = "Queries and writes over time, with the names of the phases."
    charts = enumerate(write_charts(shown.records))
    return [shown.picture("writes", chart, caption, number) for number, chart in charts]
