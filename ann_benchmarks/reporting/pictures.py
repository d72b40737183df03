"""The pictures of a report: one function a kind, in the dict below."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.fields.series import BESIDE
from ann_benchmarks.monitoring.stored import read_monitoring
from ann_benchmarks.plotting.dashboard import draw_dashboard, sampled_with
from ann_benchmarks.plotting.figure import View, create_plot
from ann_benchmarks.plotting.lines import LinePlot, draw_lines
from ann_benchmarks.plotting.published import read_points, read_tiers
from ann_benchmarks.plotting.tier_figure import create_tier_figure
from ann_benchmarks.published import published as published_file
from ann_benchmarks.results.at_recall import at_recall, may_reach
from ann_benchmarks.results.comparable import (
    clients,
    is_on_tier,
    ram,
)
from ann_benchmarks.results.file import iter_result_paths, read_attributes
from ann_benchmarks.results.metrics import all_metrics, plot_label
from ann_benchmarks.results.percentiles import least_queries
from ann_benchmarks.results.runs import Run
from ann_benchmarks.views.points import points_by_algorithm
from ann_benchmarks.views.servers import ONE_SERVER, server_lines
from ann_benchmarks.views.tiers import relative_lines, tier_lines, tier_runs, whole_machine

from .builds import builds_of
from .content import MOST_ROWS, Kind, Overlay, Shown, origin_note
from .document import Block, Picture
from .drawing import draw_builds, draw_latencies, draw_writes
from .filters import decile_picture, filter_picture
from .recalls import recall_picture
from .scaling import NO_OVERLAY, by_clients, inserts

SIDE_BY_SIDE = 2  # workloads in a picture
DASHBOARDS = 2
MONITORED = "monitoring_cpu_seconds"  # an attribute of results that were monitored


def frontier(
    shown: Shown,
    x: str = "recall",
    y: str = "qps",
    x_scale: str = "",
    y_scale: str = "log",
    raw: bool = False,
    overlay: Overlay = NO_OVERLAY,
) -> list[Block]:
    """Draw the best of each curve in two metrics."""
    for name in (x, y):
        if name not in all_metrics:
            raise UserError(f"there is no metric '{name}': choose from {', '.join(all_metrics)}")
    series = points_by_algorithm(shown.runs, x, y, shown.target)
    if not series:
        raise UserError(f"nothing to plot: no result has both {x} and {y}")
    others = None
    if overlay.published and shown.runs:
        dataset = shown.runs[0].dataset
        others = read_points(overlay.published, dataset, x, y, overlay.normalise, overlay.where)
    path = shown.file("frontier" if (x, y) == ("recall", "qps") else f"{y}-over-{x}")
    x_scale = x_scale or ("a3" if all_metrics[x].is_share else "linear")
    view = View(x, y, x_scale, y_scale, raw, overlay.normalise)
    create_plot(series, view, path, shown.title, shown.styles, others)
    return [Picture(path.name, f"{plot_label(x, y)}."), *origin_note(others.origin if others else "")]


def latency(shown: Shown, over: str = "", percentile: str = "p99") -> list[Block]:
    """Draw p50 and p99 of the result of each curve next to a recall, or a percentile over recall."""
    if over == "recall":
        return frontier(shown, "recall", percentile)
    if over:
        raise UserError(f"latency can be drawn over recall, not over '{over}'")
    chosen, reach = worth_a_bar(shown)
    if not chosen:
        raise UserError("no result was selected")
    known = [run for run in chosen if math.isfinite(run.metrics["p50"])]
    rows = sorted(known, key=lambda run: (clients(run), run.metrics["p50"]))
    if not rows:
        raise UserError(f"a median latency takes {least_queries('p50')} queries: measure with more of them")
    path = shown.file("latency")
    title = f"Latency at a recall of {shown.target:g}" if reach else "Latency"
    draw_latencies(rows[:MOST_ROWS], path, title)
    which = "result next to it" if reach else f"result with the highest recall, below {shown.target:g},"
    caption = f"{title}: median and 99th percentile for the {which} of each curve"
    if any(is_on_tier(run) for run in rows):
        caption += " with its largest RAM"
    return [Picture(path.name, f"{caption}{left_out(rows)}.")]


def worth_a_bar(shown: Shown) -> tuple[list[Run], bool]:
    """Return a result of each curve, with its largest RAM, and whether any reaches the target recall.

    It is the one next to that recall; where none reaches it, the one with the highest recall.
    """
    most: dict[str, float] = {}
    for run in shown.runs:
        most[run.series.without("tier_memory").label] = max(
            most.get(run.series.without("tier_memory").label, 0.0), ram(run)
        )
    groups: dict[str, list[Run]] = {}
    for run in shown.runs:
        if ram(run) == most[run.series.without("tier_memory").label]:
            groups.setdefault(run.algorithm, []).append(run)
    if found := at_recall(groups, shown.target):
        return [at.run for at in found.values()], True
    return [max(group, key=lambda run: run.metrics["recall"]) for group in groups.values()], False


def tiers(shown: Shown, published: str = "", normalise: bool = False) -> list[Block]:
    """Draw throughput and p99 by available RAM."""
    on_tiers = tier_runs(shown.runs)
    lines = tier_lines(on_tiers, shown.target)
    others = read_tiers(published) if published else None
    shares = normalise or bool(others)
    if shares:
        lines = relative_lines(lines)
    if not lines:
        raise UserError(f"no result on a tier reaches a recall of {shown.target:g}")
    path = shown.file("tiers")
    create_tier_figure(lines, path, shown.title, whole_machine(on_tiers), others, shares)
    caption = (
        f"Throughput and p99 by available RAM, at a recall of {shown.target:g}; the p99 is that of the result"
        " next to it."
    )
    origin = published_file(published.partition(":")[0]).origin if published else ""
    return [Picture(path.name, caption), *origin_note(origin)]


def servers(shown: Shown) -> list[Block]:
    """Draw throughput and median latency over the number of servers, a line for each kind of them."""
    blocks: list[Block] = []
    for metric, direction in (("qps", "up is better"), ("p50", "down is better")):
        lines, kinds = server_lines(shown.runs, shown.target, metric)
        described = all_metrics[metric].description
        path = shown.file("shards" if metric == "qps" else f"shards-{metric}")
        draw_lines(lines, path, LinePlot("Servers", described, "", "", shown.title, direction), kinds=kinds)
        caption = f"{described} by number of servers, at a recall of {shown.target:g}"
        caption += "" if metric == "qps" else ", of the result next to it"
        blocks.append(Picture(path.name, f"{caption}; {ONE_SERVER} has all rows."))
    return blocks


def builds(shown: Shown) -> list[Block]:
    """Draw what loading, clustering and building took."""
    found = [build for build in builds_of(shown.runs) if build.total > 0]
    if not found:
        raise UserError("no result states how long its build took")
    several = len({build.run.dataset for build in found}) > 1
    names = [f"{build.short_name}{f', {build.run.dataset}' if several else ''}" for build in found]
    path = shown.file("builds")
    draw_builds(found[:MOST_ROWS], names[:MOST_ROWS], path)
    return [Picture(path.name, f"Seconds of loading, clustering and building the index{left_out(found)}.")]


def writes(shown: Shown) -> list[Block]:
    """Draw what happened over time while queries and writes ran side by side."""
    records = [record for record in shown.records if record.workload == "writes" and record.windows]
    if not records:
        raise UserError("there is no workload of writes")
    blocks: list[Block] = []
    records = sorted(records, key=lambda record: (record.dataset, record.rate or 0, record.algo))
    for number in range(-(-len(records) // SIDE_BY_SIDE)):
        path = shown.file("writes", number)
        draw_writes(records[number * SIDE_BY_SIDE : (number + 1) * SIDE_BY_SIDE], path)
        blocks.append(Picture(path.name, "Queries and writes over time, with the names of the phases."))
    return blocks


def dashboard(shown: Shown, most: int = DASHBOARDS) -> list[Block]:
    """Draw the samples of machine and server, for a few results and workloads."""
    samples = []
    for run in worth_a_dashboard(shown.runs, shown.target)[:most]:
        if (sampled := read_monitoring(path_of(run))) is not None:
            samples.append((sampled, f"{run.algorithm}: {run.parameters}", "measured"))
    for record in [record for record in shown.records if record.monitoring is not None][:most]:
        sampled = sampled_with(record)
        assert sampled is not None
        samples.append((sampled, f"{record.algo}: {record.name}", "written to"))
    if not samples:
        raise UserError("no result was monitored")
    blocks: list[Block] = []
    for number, (sampled, name, done) in enumerate(samples):
        path = shown.file("dashboard", number)
        draw_dashboard(sampled, path, name)
        blocks.append(Picture(path.name, f"Machine and server while {name} was {done}."))
    return blocks


def worth_a_dashboard(runs: Iterable[Run], target: float) -> list[Run]:
    """Return of each algorithm the monitored result with the most clients: the fastest at a recall."""

    def worth(run: Run) -> tuple[int, float, float]:
        return clients(run), may_reach(run, target), run.metrics["qps"]

    best: dict[str, Run] = {}
    for run in sorted((run for run in runs if MONITORED in run.attrs), key=worth, reverse=True):
        best.setdefault(run.series.family, run)
    return list(best.values())


def path_of(run: Run) -> Path:
    """Return the file that a result was read from; UserError if it is no longer there."""
    plain = run.series.without("environment").label
    for path in iter_result_paths(run.dataset, run.count):
        if path.parent.name.partition(BESIDE)[0].removesuffix("-batch") == plain:
            attrs = read_attributes(path)
            if all(attrs.get(name) == run.attrs.get(name) for name in ("name", "started_at", "series")):
                return path
    raise UserError(f"the result file of {run.algorithm}, {run.parameters}, is no longer there")


def left_out(rows: Sequence[Any]) -> str:
    """Say for how many rows there was no room."""
    return f"; {len(rows) - MOST_ROWS} more are in the tables" if len(rows) > MOST_ROWS else ""


picture_kinds: dict[str, Kind] = {
    "frontier": frontier,
    "latency": latency,
    "recalls": recall_picture,
    "tiers": tiers,
    "filters": filter_picture,
    "deciles": decile_picture,
    "builds": builds,
    "clients": by_clients,
    "shards": servers,
    "inserts": inserts,
    "writes": writes,
    "dashboard": dashboard,
}
