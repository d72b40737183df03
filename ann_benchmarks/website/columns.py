"""The columns of tables of results, which of them results can be filtered by, and their data on a page."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.fields.rows import CONDITIONS, FIELDS, SPECIAL, Field
from ann_benchmarks.results.at_recall import build_arguments
from ann_benchmarks.results.attributes import version_names
from ann_benchmarks.results.environment import UNKNOWN
from ann_benchmarks.results.filtered import DEFAULTS
from ann_benchmarks.results.measurement import EXACT_SEARCH
from ann_benchmarks.results.metrics import all_metrics, standard_metrics
from ann_benchmarks.results.remarks import main_wait, stored_remarks
from ann_benchmarks.results.runs import Run, interval, number
from ann_benchmarks.statistics.intervals import Interval
from ann_benchmarks.views.chosen import choose_filtered, servers
from ann_benchmarks.views.tiers import tier_runs, whole_machine

DIGITS = 6  # of a number, more than any of them is sure
Value = str | float | None


@dataclass(frozen=True)
class SiteColumn:
    """A column: `kind` is words, number, s, ms, kib, bytes or share; a facet can be filtered by."""

    id: str
    label: str
    kind: str
    value: Callable[[Run], Value]
    is_facet: bool = False
    bounds: Callable[[Run], Interval | None] | None = None
    is_condition: bool = False  # points that differ in it are of two curves


def text(run: Run, attribute: str) -> str | None:
    """Return an attribute as text, None if it is missing."""
    value = run.attrs.get(attribute)
    return None if value is None or value == "" else str(value)


def build(run: Run) -> str | None:
    """Return the build arguments but the metric, which the page's title says."""
    arguments = [value for value in build_arguments(run).values() if value != run.distance]
    return ", ".join(arguments) or None


def form(run: Run) -> str | None:
    """Return what an index keeps of the vectors; plug-ins of PostgreSQL have the argument `form`."""
    if text(run, "build_arguments") is None or text(run, "postgres_version") is None:
        return None
    return build_arguments(run).get("form", "form=vector").removeprefix("form=")


def memory(attribute: str) -> Callable[[Run], str | None]:
    """Return a function that writes an amount of memory of a tier."""

    def written(run: Run) -> str | None:
        if text(run, "tier") is None:
            return None
        size = number(run, attribute)
        return size_text(size) if size else "all"

    return written


def machine(run: Run) -> str | None:
    """Return the machine that it ran on: processor, cores and memory."""
    cores, size = number(run, "cores"), number(run, "memory_bytes")
    parts = [text(run, "cpu"), f"{cores:.0f} cores" if cores else None, size_text(size) if size else None]
    return ", ".join(part for part in parts if part) or None


def version(attribute: str) -> Callable[[Run], str | None]:
    """Return a function that returns a version without what its packager adds."""
    return lambda run: (text(run, attribute) or "").split(" (")[0] or None


def attribute(name: str) -> Callable[[Run], float | None]:
    """Return a function that reads a number."""
    return lambda run: number(run, name)


def metric(name: str) -> SiteColumn:
    """Return the column of a metric, with its 95% interval."""
    known = all_metrics[name]
    kind = {"": "number", "1/s": "number"}.get(known.unit, known.unit.lower())
    bounds = partial(interval, metric=name) if known.bounds else None
    return SiteColumn(name, known.description, kind, lambda run: run.metrics.get(name), bounds=bounds)


def field_column(field: Field) -> SiteColumn:
    """Return the column of a field, which is empty where nothing about it is special."""
    kind = "words" if field.kind is str else "number"
    is_condition = field.group in CONDITIONS and field.group != "filter"

    def value(run: Run) -> Value:
        return getattr(run.series, field.name) or None

    return SiteColumn(field.id, field.heading, kind, value, True, is_condition=is_condition)


def field_columns() -> list[SiteColumn]:
    """Return the column of each field, and one of all that is special about a load."""
    in_load = {*SPECIAL} - {"filter"}
    fields = [field for field in FIELDS.values() if field.title and field.group not in in_load]
    load = SiteColumn(
        "load", "Load", "words", lambda run: run.series.special or "plain", True, is_condition=True
    )
    return [*map(field_column, fields), load]


SERIES_COLUMNS = (
    SiteColumn("algorithm", "Algorithm", "words", lambda run: run.series.name, True),
    SiteColumn("parameters", "Parameters", "words", lambda run: run.parameters),
    *(metric(name) for name in standard_metrics),
    SiteColumn("exact", "", "number", lambda run: 1 if run.attrs.get(EXACT_SEARCH) else None),
    SiteColumn("found", "Found for recall", "share", attribute("target_recall")),
    SiteColumn("form", "Index form", "words", form, True),
    SiteColumn("built", "Build arguments", "words", build, True),
)
TIER_COLUMNS = tuple(
    SiteColumn(name, label, "words", memory(attribute), True, is_condition=True)
    for name, label, attribute in (
        ("ram", "Available RAM", "tier_ram"),
        ("buffers", "shared_buffers of the tier", "tier_shared_buffers"),
    )
)
MEASUREMENT_COLUMNS = (
    SiteColumn("machine", "Machine", "words", machine, True),
    SiteColumn("available", "RAM measured", "bytes", attribute("tier_available")),
    SiteColumn("shared", "shared_buffers", "bytes", attribute("shared_buffers")),
    SiteColumn("loading", "Loading", "s", attribute("load_time")),
    SiteColumn("clustering", "Clustering", "s", attribute("clustering_time")),
    SiteColumn("indexing", "Index build", "s", attribute("index_build_time")),
    SiteColumn("estimate", "Index size, estimated", "kib", attribute("estimated_index_size")),
    SiteColumn("table", "Table size", "kib", attribute("table_size")),
    SiteColumn("memory", "maintenance_work_mem", "words", lambda run: text(run, "maintenance_work_mem")),
    SiteColumn("runs", "Runs", "number", attribute("run_count")),
    SiteColumn("queries", "Queries counted", "number", attribute("queries_counted")),
    SiteColumn("payload", "Payload of a query", "bytes", attribute("payload_bytes")),
    SiteColumn("waits", "Waits", "words", lambda run: main_wait(run.attrs) or None),
    SiteColumn("warnings", "Warnings", "words", lambda run: "; ".join(stored_remarks(run.attrs)) or None),
    SiteColumn("started", "Measured", "words", lambda run: text(run, "started_at")),
)


def result_columns(runs: Sequence[Run]) -> tuple[SiteColumn, ...]:
    """Return the columns of results, with one for each software whose version they state."""
    return (*SERIES_COLUMNS, *field_columns(), *TIER_COLUMNS, *version_columns(runs), *MEASUREMENT_COLUMNS)


def version_columns(runs: Sequence[Run]) -> list[SiteColumn]:
    """Return a column for each software whose version results state."""
    names = {name: title for run in runs for name, title in version_names(run.attrs).items()}
    return [SiteColumn(name, title, "words", version(name), True) for name, title in sorted(names.items())]


def filter_columns(runs: Sequence[Run]) -> tuple[SiteColumn, ...]:
    """Return the columns that charts of filters draw: `filterkind` is that of the results of one load."""
    compared = {id(run) for run in choose_filtered(runs).runs}

    def kind(run: Run) -> str | None:
        return run.series.filter.partition(":")[0] if id(run) in compared else None

    return (
        SiteColumn("filterkind", "", "words", kind),
        SiteColumn("selectivity", "Share of rows that pass", "share", attribute("selectivity")),
        SiteColumn("defaults", "", "number", lambda run: 1 if run.attrs.get(DEFAULTS) else None),
    )


def column_data(column: SiteColumn, runs: Sequence[Run]) -> dict[str, Any] | None:
    """Return a column with its values in the order of the results; None if no result has one.

    Words stand once, in `words`, in the order in which they are listed; `at` has their places, -1 for none.
    One value that all have is in `same`, other numbers are in `values`, with intervals in `low` and `high`.
    """
    values = [column.value(run) for run in runs]
    if column.kind == "words":
        texts = [None if value is None else str(value) for value in values]
        words = sorted({text for text in texts if text is not None}, key=natural)
        if not words:
            return None
        index = {word: i for i, word in enumerate(words)}
        data: dict[str, Any] = {
            "words": words,
            **compact("at", [-1 if text is None else index[text] for text in texts]),
        }
    else:
        numbers = [json_number(value) for value in values]
        if all(value is None for value in numbers):
            return None
        data = compact("values", numbers)
        intervals = [column.bounds(run) for run in runs] if column.bounds else []
        if any(intervals):
            data["low"] = [json_number(one.low) if one else None for one in intervals]
            data["high"] = [json_number(one.high) if one else None for one in intervals]
    marks = {"facet": column.is_facet, "condition": column.is_condition}
    told = {name: True for name, is_so in marks.items() if is_so}
    return {"id": column.id, "label": column.label, "kind": column.kind, **told, **data}


def compact(name: str, values: list[Any]) -> dict[str, Any]:
    """Return the values by this name, or the one that they all are."""
    return {"same": values[0]} if all(value == values[0] for value in values) else {name: values}


def json_number(value: Value) -> float | int | None:
    """Return a number as short as it may be, None for what JSON has no number for."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    if float(value).is_integer():
        return int(value)
    return float(f"{value:.{DIGITS}g}")


def natural(text: str) -> tuple[Any, ...]:
    """Return a key that sorts numbers in a text by size, amounts of memory too; "all" is the most."""
    if text == "all":
        return ((2, 0.0, ""),)
    size = re.fullmatch(r"([\d.,]+) ([MG])B", text)
    if size:
        return ((0, float(size[1].replace(",", "")) * {"M": 1, "G": 1024}[size[2]], ""),)
    parts = re.split(r"(\d+)", text)
    return tuple((0, float(part), "") if i % 2 else (1, 0.0, part.lower()) for i, part in enumerate(parts))


def points_data(runs: Sequence[Run], extra: Iterable[SiteColumn]) -> dict[str, Any]:
    """Return all columns of the results: first those that a page adds, then those of every result."""
    every = (*extra, server_column(runs), *result_columns(runs), ram_column(runs))
    columns = [column_data(column, runs) for column in every]
    return {"count": len(runs), "columns": [column for column in columns if column is not None]}


def server_column(runs: Sequence[Run]) -> SiteColumn:
    """Return the server of each result as far as it is known, nothing where all are of one."""
    places, _, names = servers(runs)
    known = {place: name for place, name in enumerate(names) if name not in ("", UNKNOWN)}
    by_run = {id(run): known.get(place) for run, place in zip(runs, places, strict=True) if len(known) > 1}
    return SiteColumn("server", "Server", "words", lambda run: by_run.get(id(run)), True)


def ram_column(runs: Sequence[Run]) -> SiteColumn:
    """Return where results are drawn against available RAM, in bytes, as plot.py --tiers does."""
    on_tiers = tier_runs(runs)
    machine = whole_machine(on_tiers)
    places = {id(one.run): one.ram or machine for one in on_tiers}
    return SiteColumn("ramat", "", "bytes", lambda run: places.get(id(run)))
