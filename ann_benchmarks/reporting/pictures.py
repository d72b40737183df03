"""The pictures of a report: one function a kind, in the dict below."""

from collections.abc import Sequence
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.monitoring.stored import read_monitoring
from ann_benchmarks.plotting.figure import create_plot
from ann_benchmarks.plotting.points import points_by_algorithm
from ann_benchmarks.plotting.published import read_points, read_tiers
from ann_benchmarks.plotting.ram import normalised, ram_lines
from ann_benchmarks.plotting.ram_figure import create_ram_figure
from ann_benchmarks.published import published as published_file
from ann_benchmarks.results.comparable import clients, fastest_of_each, is_on_tier, ram, without_memory
from ann_benchmarks.results.metrics import all_metrics, plot_label, qps_at_recall
from ann_benchmarks.results.runs import Run
from ann_benchmarks.results.tiers import as_tier_run, whole_machine

from .bar_figures import draw_builds, draw_latencies
from .builds import builds_of
from .document import Block, Picture
from .kinds import MOST_ROWS, Kind, Shown, file_of, origin_note, origins, without_results
from .line_pictures import Where, by_clients, inserts
from .monitored import path_of, worth_a_dashboard
from .write_figure import draw_writes

SIDE_BY_SIDE = 2  # workloads in a picture
DASHBOARDS = 2


def frontier(
    shown: Shown,
    x: str = "k-nn",
    y: str = "qps",
    x_scale: str = "a3",
    y_scale: str = "log",
    raw: bool = False,
    published: str = "",
    where: Where = None,
    normalise: bool = False,
) -> list[Block]:
    """Draw the best of each curve in two metrics; `where` chooses rows of the published figures."""
    for name in (x, y):
        if name not in all_metrics:
            raise UserError(f"there is no metric '{name}': there are {', '.join(all_metrics)}")
    series = points_by_algorithm(shown.runs, x, y, shown.target)
    others = None
    if published and shown.runs:
        others = read_points(published, shown.runs[0].dataset, x, y, normalise, where)
    path = file_of(shown, "frontier" if (x, y) == ("k-nn", "qps") else f"{y}-over-{x}")
    rest = (raw, shown.title, shown.styles, others, normalise)
    try:
        create_plot(series, x, y, path, x_scale, y_scale, *rest)
    except UserError:  # a scale that spreads what is near 1, and shares that are all 1, or no shares
        if not x_scale.startswith("a"):
            raise
        create_plot(series, x, y, path, "linear", y_scale, *rest)
    return [Picture(path.name, f"{plot_label(x, y)}."), *origins(others)]


def latency(shown: Shown, over: str = "", percentile: str = "p99") -> list[Block]:
    """Draw p50 and p99 of the fastest result of each curve at a recall, or a percentile over recall."""
    if over == "recall":
        return frontier(shown, "k-nn", percentile)
    if over:
        raise UserError(f"latency can be drawn over recall, not over '{over}'")
    rows = sorted(worth_a_bar(shown), key=lambda run: (clients(run), run.metrics["p99"]))
    if not rows:
        raise without_results("was chosen")
    path = file_of(shown, "latency")
    reach = qps_at_recall(rows[0].metrics, shown.target) > 0
    title = f"Latency at a recall of {shown.target:g}" if reach else "Latency"
    draw_latencies(rows[:MOST_ROWS], [run.algorithm for run in rows[:MOST_ROWS]], path, title)
    what = "the fastest result" if reach else f"the highest recall, below {shown.target:g},"
    caption = f"{title}: from the median to the 99th percentile, of {what} of each curve"
    if any(is_on_tier(run) for run in rows):
        caption += " with the most RAM that it had"
    return [Picture(path.name, f"{caption}{left_out(rows)}.")]


def worth_a_bar(shown: Shown) -> list[Run]:
    """Return of each curve, with the most RAM that it had, the fastest result at the target recall.

    Where none reaches that, it is the one with the highest recall.
    """
    most: dict[str, float] = {}
    for run in shown.runs:
        most[without_memory(run)] = max(most.get(without_memory(run), 0.0), ram(run))
    groups: dict[str, list[Run]] = {}
    for run in shown.runs:
        if ram(run) == most[without_memory(run)]:
            groups.setdefault(run.algorithm, []).append(run)
    fastest = [run for group in groups.values() for run in fastest_of_each(group, shown.target).values()]
    return fastest or [max(group, key=lambda run: run.metrics["k-nn"]) for group in groups.values()]


def tiers(shown: Shown, published: str = "", normalise: bool = False) -> list[Block]:
    """Draw throughput and p99 by available RAM."""
    on_tiers = [found for run in shown.runs if (found := as_tier_run(run))]
    machine = whole_machine(on_tiers)
    lines = ram_lines(on_tiers, shown.target, machine)
    others = read_tiers(published) if published else None
    shares = normalise or bool(others)
    if shares:
        lines = [normalised(line) for line in lines if line.index_size]
    if not lines:
        raise without_results(f"on a tier reaches a recall of {shown.target:g}")
    path = file_of(shown, "tiers")
    create_ram_figure(lines, path, shown.title, machine, others, shares)
    caption = f"Throughput and p99 by available RAM, at a recall of {shown.target:g}."
    origin = published_file(published.partition(":")[0]).origin if published else ""
    return [Picture(path.name, caption), *origin_note(origin)]


def builds(shown: Shown) -> list[Block]:
    """Draw what loading, clustering and building took."""
    found = [build for build in builds_of(shown.runs) if build.total > 0]
    if not found:
        raise without_results("tells how long its build took")
    several = len({build.dataset for build in found}) > 1
    names = [f"{build.short_name}{f', {build.dataset}' if several else ''}" for build in found]
    path = file_of(shown, "builds")
    draw_builds(found[:MOST_ROWS], names[:MOST_ROWS], path, "What building took; shorter is better")
    return [Picture(path.name, f"Seconds of loading, clustering and building the index{left_out(found)}.")]


def writes(shown: Shown) -> list[Block]:
    """Draw what happened over time while queries and changes went on side by side."""
    records = [record for record in shown.records if record.workload == "writes" and record.windows]
    if not records:
        raise without_results("is of changes beside queries")
    blocks: list[Block] = []
    records = sorted(records, key=lambda record: (record.dataset, record.rate or 0, record.algo))
    for number in range(-(-len(records) // SIDE_BY_SIDE)):
        path = file_of(shown, "writes", number)
        draw_writes(records[number * SIDE_BY_SIDE : (number + 1) * SIDE_BY_SIDE], path)
        blocks.append(Picture(path.name, "Queries and changes over time; the phases are named above."))
    return blocks


def dashboard(shown: Shown, most: int = DASHBOARDS) -> list[Block]:
    """Draw what was sampled of the machine and the server meanwhile, of a few results and workloads."""
    try:
        from ann_benchmarks.plotting.dashboard import draw_dashboard, sampled_with
    except ImportError:
        raise UserError("this version cannot draw what was sampled") from None
    blocks: list[Block] = []
    for number, run in enumerate(worth_a_dashboard(shown.runs, shown.target)[:most]):
        sampled = read_monitoring(path_of(run))
        if sampled is not None:
            path = file_of(shown, "dashboard", number)
            draw_dashboard(sampled, path, f"{run.algorithm}: {run.parameters}")
            blocks.append(Picture(path.name, f"While {run.algorithm}, {run.parameters}, was measured."))
    watched = [record for record in shown.records if record.monitoring is not None]
    for number, record in enumerate(watched[:most], len(blocks)):
        sampled = sampled_with(record)
        assert sampled is not None
        path = file_of(shown, "dashboard", number)
        draw_dashboard(sampled, path, f"{record.algo}: {record.name}")
        blocks.append(Picture(path.name, f"While {record.algo}, {record.name}, was written to."))
    if not blocks:
        raise without_results("was monitored")
    return blocks


def left_out(rows: Sequence[Any]) -> str:
    """Say how many rows there was no room for."""
    return f"; {len(rows) - MOST_ROWS} more are in the tables" if len(rows) > MOST_ROWS else ""


picture_kinds: dict[str, Kind] = {
    "frontier": frontier,
    "latency": latency,
    "tiers": tiers,
    "builds": builds,
    "clients": by_clients,
    "inserts": inserts,
    "writes": writes,
    "dashboard": dashboard,
}
