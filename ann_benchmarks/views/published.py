"""Published figures as the points and lines that pictures draw."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.published import (
    Published,
    PublishedTable,
    Row,
    curve_name,
    pairs,
    published,
    rows_where,
)
from ann_benchmarks.results.metrics import QPS_AT_RECALL, all_metrics

from .points import Point
from .tier_lines import PublishedLines, TierLine, relative_lines

OTHER_DATA = ", another dataset"
THROUGHPUT = ("qps", "tps")
IN_TIERS = ("ram", "index_size", "clients", "qps", "p99")


@dataclass(frozen=True)
class PublishedPoints:
    """Points of another machine by curve, how they are marked, and where they come from.

    Those of a table with labels are not steps along one setting: they are not `joined`.
    """

    label: str
    series: Mapping[str, Sequence[Point]]
    joined: bool = True
    origin: str = ""


def read_tiers(requested: str) -> PublishedLines:
    """Return throughput and p99 by RAM out of NAME or NAME:TABLE."""
    source, table = find_table(requested, IN_TIERS)
    lines = []
    for values, rows in curves(table.rows, [*dict.fromkeys([*table.curves, "clients"])]):
        clients = int(rows[0]["clients"])
        variant = f"{clients} client{'s' * (clients > 1)}"
        name = curve_name(table, {key: value for key, value in values.items() if key != "clients"})
        ram = table.find_factor("ram", "KiB") * 1024
        panels = {
            panel: [
                Point(row["ram"] * ram, row[panel] * table.find_factor(panel, unit))
                for row in sorted(rows, key=lambda row: row["ram"])
            ]
            for panel, unit in (("qps", "1/s"), ("p99", "ms"))
        }
        size = rows[0]["index_size"] * table.find_factor("index_size", "KiB") * 1024
        lines.append(TierLine(f"{name}, {variant}", name, variant, clients, size, panels))
    return PublishedLines(source.label + OTHER_DATA, relative_lines(lines))


def read_points(
    requested: str,
    dataset: str,
    x: str,
    y: str,
    where: Mapping[str, Any] | None = None,
) -> PublishedPoints:
    """Return two metrics out of NAME or NAME:TABLE: of a dataset where the table has it, else of all of them.

    `where` chooses rows by their columns instead. UserError if published figures have no such metric or the
    table not its column.
    """
    columns = [published_column(metric) for metric in (x, y)]
    source, table = find_table(requested, columns)
    is_there = not where and any(row.get("dataset") == dataset for row in table.rows)
    rows = rows_where(table, {"dataset": dataset} if is_there else where or {})
    x_column, y_column = columns
    x_unit, y_unit = (
        table.find_factor(name, all_metrics[metric].unit)
        for name, metric in zip(columns, (x, y), strict=True)
    )
    series = {}
    for values, group in curves(rows, table.curves):
        points = [
            Point(row[x_column] * x_unit, row[y_column] * y_unit, label=str(row.get(table.labels) or ""))
            for row in group
            if row[x_column] and row[y_column]
        ]
        named = {key: value for key, value in values.items() if key != "dataset" or not is_there}
        name = curve_name(table, named) or table.name
        if points:
            series[name] = points
    label = source.label if is_there else source.label + OTHER_DATA
    return PublishedPoints(label, series, not table.labels, source.origin)


def published_column(metric: str) -> str:
    """Return what a metric is called in tables; UserError if published figures have no such metric."""
    if column := all_metrics[metric].published:
        return column
    known = ", ".join(name for name, metric in all_metrics.items() if metric.published)
    hint = " (qps for its throughput)" if metric == QPS_AT_RECALL else ""
    raise UserError(f"published figures have no {metric}{hint}: choose from {known}")


def read_lines(requested: str, where: Mapping[str, Any]) -> PublishedPoints:
    """Return throughput over clients out of NAME or NAME:TABLE, a line for each curve of the table."""
    name, _, table_name = requested.partition(":")
    source = published(name)
    for table in [source.table(table_name)] if table_name else source.tables:
        rate = next((column for column in THROUGHPUT if {"clients", column} <= set(table.columns)), None)
        if rate:
            by = [column for column in table.curves if column not in where and column != "clients"]
            series = {
                curve_name(table, values or where): [Point(*pair) for pair in known]
                for values, rows in curves(rows_where(table, where), by)
                if (known := pairs(table, rows, "clients", rate))
            }
            return PublishedPoints(source.label + OTHER_DATA, series, True, source.origin)
    raise UserError(f"{source.path} has no table of {' or '.join(THROUGHPUT)} over clients")


def find_table(requested: str, columns: Sequence[str]) -> tuple[Published, PublishedTable]:
    """Return the file and table of NAME:TABLE or, of NAME, the first table with these columns."""
    name, _, table_name = requested.partition(":")
    source = published(name)
    table = source.table(table_name, *columns)
    table.check(*columns)
    return source, table


def curves(rows: Iterable[Row], columns: Sequence[str]) -> list[tuple[dict[str, Any], list[Row]]]:
    """Return the rows of each curve, and what sets it apart: its values of some columns."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return [(dict(zip(columns, values, strict=True)), group) for values, group in groups.items()]
