"""Pictures of how throughput scales: queries over clients, and inserts over writers."""

import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plotting.lines import LinePlot, draw_lines
from ann_benchmarks.plotting.published import PublishedPoints, read_series
from ann_benchmarks.published import published as published_file
from ann_benchmarks.published.selecting import Selection
from ann_benchmarks.results.built import build_arguments
from ann_benchmarks.results.comparable import clients, conditions
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.runs import Run, interval
from ann_benchmarks.views.points import Point

from .content import MOST_ROWS, Overlay, Shown, origin_note
from .document import Block, Paragraph, Picture
from .workloads import inserts_of, place

THROUGHPUT = ("qps", "tps")  # columns of published figures
NO_OVERLAY = Overlay()


def by_clients(shown: Shown, overlay: Overlay = NO_OVERLAY) -> list[Block]:
    """Draw throughput over clients, a line for each query argument; those searched for a recall are one."""
    series: dict[str, dict[int, Point]] = {}
    for run in shown.runs:
        if not run.series.is_open:
            others = conditions(run).removeprefix(f"-c{clients(run)}")
            point = Point(clients(run), run.metrics["qps"], None, interval(run, "qps"))
            series.setdefault(f"{run.series.family}{others} {query_of(run)}", {})[clients(run)] = point
    lines = {
        name: list(points.values())
        for name, points in sorted(series.items(), key=lambda item: natural(item[0]))
        if len(points) > 1
    }
    if not lines:
        raise UserError("no result was measured with several numbers of clients")
    more = len(lines) - MOST_ROWS
    left = [Paragraph(f"{more} more lines are in the tables.", is_note=True)] if more > 0 else []
    axes = ("Clients", all_metrics["qps"].description)
    return [*line_picture(shown, "clients", dict(list(lines.items())[:MOST_ROWS]), axes, overlay), *left]


def natural(text: str) -> list[tuple[str, float]]:
    """Return what names are sorted by, so that 20 comes before 100."""
    return [(words, float(number or 0)) for words, number in re.findall(r"(\D*)(\d+|$)", text)]


def query_of(run: Run) -> str:
    """Return the query arguments of a result, or the recall for which they were searched."""
    if run.attrs.get("target_recall"):
        built = ", ".join(text for text in build_arguments(run).values() if text != run.distance)
        return f"({built}) at recall {run.attrs['target_recall']:g}"
    inside = run.parameters.partition("(")[2]
    return f"({inside}" if inside else run.parameters


def inserts(shown: Shown, overlay: Overlay = NO_OVERLAY) -> list[Block]:
    """Draw inserts a second over writers."""
    series = {
        " on ".join(reversed(key)): [
            Point(record.writers, rate.per_second, None, bounds(rate.low, rate.high))
            for record, rate in group
        ]
        for key, group in groupby(inserts_of(shown.records), lambda item: place(item[0]))
    }
    if not series:
        raise UserError("there is no workload of inserts")
    return line_picture(shown, "inserts", series, ("Writers", "Inserts per second (1/s)"), overlay)


def bounds(low: float | None, high: float | None) -> Interval | None:
    """Return an interval that a picture can show."""
    return Interval(low, high) if low is not None and high is not None and low <= high else None


def line_picture(
    shown: Shown, kind: str, series: dict[str, list[Point]], axes: tuple[str, str], overlay: Overlay
) -> list[Block]:
    """Draw lines, with published ones over the same axis."""
    others = [published_lines(overlay.published, overlay.where or {})] if overlay.published else []
    path = shown.file(kind)
    plot = LinePlot(*axes, "log", "", shown.title, "up is better", overlay.normalise)
    draw_lines(series, path, plot, others)
    picture = Picture(path.name, f"{axes[1]} over {axes[0].lower()}.")
    return [picture, *(note for other in others for note in origin_note(other.origin))]


def published_lines(name: str, where: Mapping[str, Any]) -> PublishedPoints:
    """Return throughput over clients out of NAME or NAME:TABLE, a line for each curve of the table."""
    source, table_name = published_file(name.partition(":")[0]), name.partition(":")[2]
    tables = [source.table(table_name)] if table_name else source.tables
    for table in tables:
        rate = next((column for column in THROUGHPUT if {"clients", column} <= set(table.columns)), None)
        if rate:
            by = [column for column in table.curves if column not in where and column != "clients"]
            return read_series(Selection(source.name, "clients", rate, table.name, where, by))
    raise UserError(f"{source.path} has no table of {' or '.join(THROUGHPUT)} over clients")
