"""The columns of results on the pages, and which of them results can be filtered by."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.fields.rows import CONDITIONS, FIELDS, SPECIAL, Field
from ann_benchmarks.results.attributes import version_names
from ann_benchmarks.results.built import build_arguments
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.metrics import all_metrics, standard_metrics
from ann_benchmarks.results.runs import Run, interval, number
from ann_benchmarks.results.speeds import EXACT_SEARCH
from ann_benchmarks.results.warnings import main_wait, warnings_of_one

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
    """Return an attribute as text, None where there is none."""
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


def waits(run: Run) -> str | None:
    """Return what the sessions mostly waited for, if it was much."""
    return guarded(lambda: main_wait(run.attrs))


def warnings(run: Run) -> str | None:
    """Return what the reader of a figure should know about it."""
    return guarded(lambda: "; ".join(warnings_of_one(run)))


def guarded(write: Callable[[], str]) -> str | None:
    """Return a text, None if the attributes of a foreign file are not what it takes."""
    try:
        return write() or None
    except (LookupError, TypeError, ValueError, AttributeError):
        return None


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


OF_SERIES = (
    SiteColumn("algorithm", "Algorithm", "words", lambda run: run.series.name, True),
    SiteColumn("parameters", "Parameters", "words", lambda run: run.parameters),
    *(metric(name) for name in standard_metrics),
    SiteColumn("exact", "", "number", lambda run: 1 if run.attrs.get(EXACT_SEARCH) else None),
    SiteColumn("found", "Found for recall", "share", attribute("target_recall")),
    SiteColumn("form", "Index form", "words", form, True),
    SiteColumn("built", "Build arguments", "words", build, True),
)
OF_TIERS = tuple(
    SiteColumn(name, label, "words", memory(attribute), True, is_condition=True)
    for name, label, attribute in (
        ("ram", "Available RAM", "tier_ram"),
        ("buffers", "shared_buffers of the tier", "tier_shared_buffers"),
    )
)
OF_MEASURING = (
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
    SiteColumn("waits", "Waits", "words", waits),
    SiteColumn("warnings", "Warnings", "words", warnings),
    SiteColumn("started", "Measured", "words", lambda run: text(run, "started_at")),
)


def columns_of(runs: Sequence[Run]) -> tuple[SiteColumn, ...]:
    """Return the columns of results, with one for each software whose version they state."""
    names = {name: title for run in runs for name, title in version_names(run.attrs).items()}
    versions = (
        SiteColumn(name, title, "words", version(name), True) for name, title in sorted(names.items())
    )
    return (*OF_SERIES, *field_columns(), *OF_TIERS, *versions, *OF_MEASURING)
