"""How throughput scales: with the number of clients, with the memory of a server, and with their number."""

import re

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plotting.lines import LinePlot, draw_lines
from ann_benchmarks.plotting.published import read_tiers
from ann_benchmarks.plotting.tier_figure import create_tier_figure
from ann_benchmarks.published import published
from ann_benchmarks.results.at_recall import build_arguments
from ann_benchmarks.results.comparable import clients, conditions
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.views.points import Point
from ann_benchmarks.views.servers import ONE_SERVER, server_lines, server_tables
from ann_benchmarks.views.tiers import relative_lines, tier_lines, tier_runs, tier_tables, whole_machine

from .content import MOST_ROWS, Shown, origin_notes, part_blocks
from .document import Block, Picture
from .drawing import line_picture


def client_picture(shown: Shown) -> list[Block]:
    """Draw throughput over clients, a line for each query argument; those searched for a recall are one."""
    series: dict[str, dict[int, Point]] = {}
    for run in shown.runs:
        if not run.series.is_open:
            others = conditions(run).removeprefix(f"-c{clients(run)}")
            point = Point(clients(run), run.metrics["qps"], None, interval(run, "qps"))
            series.setdefault(f"{run.series.family}{others} {query_text(run)}", {})[clients(run)] = point
    lines = {
        name: list(points.values())
        for name, points in sorted(series.items(), key=lambda item: natural_order(item[0]))
        if len(points) > 1
    }
    if not lines:
        raise UserError("no result was measured with several numbers of clients")
    more = len(lines) - MOST_ROWS
    left = part_blocks([f"{more} more lines are in the tables."] if more > 0 else [])
    axes = ("Clients", all_metrics["qps"].description)
    return [*line_picture(shown, "clients", dict(list(lines.items())[:MOST_ROWS]), axes), *left]


def natural_order(text: str) -> list[tuple[str, float]]:
    """Return what names are sorted by, so that 20 comes before 100."""
    return [(words, float(number or 0)) for words, number in re.findall(r"(\D*)(\d+|$)", text)]


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
    shares = shown.overlay.normalise or bool(others)
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
    origin = published(name.partition(":")[0]).origin if name else ""
    return [Picture(path.name, caption), *origin_notes(origin)]


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
        path = shown.file("shards" if metric == "qps" else f"shards-{metric}")
        draw_lines(lines, path, LinePlot("Servers", described, "", "", shown.title, direction), kinds=kinds)
        caption = f"{described} by number of servers, at a recall of {shown.target:g}"
        caption += "" if metric == "qps" else ", of the result next to it"
        blocks.append(Picture(path.name, f"{caption}; {ONE_SERVER} has all rows."))
    return blocks


def server_blocks(shown: Shown) -> list[Block]:
    """Return for each curve how it does on several servers."""
    return part_blocks(server_tables(shown.runs, shown.target))
