"""Workloads that write, next to the results of their dataset."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.attributes import plain_attributes
from ann_benchmarks.results.metrics import standard_metrics
from ann_benchmarks.results.records import Phase, Rate, Record, iter_record_paths, over_time, read_record
from ann_benchmarks.results.runs import Run, skipped

from .columns import SiteColumn
from .data import json_number, points_data


def load_records() -> Iterator[Record]:
    """Yield each record that can be read; say on stderr which cannot, and why."""
    for path in iter_record_paths():
        try:
            yield read_record(path)
        except UserError as error:
            skipped(path, error)


def as_run(record: Record) -> Run:
    """Return a record as a result without metrics, so that it is listed and filtered like one."""
    attrs = plain_attributes(({"clients": record.clients} if record.clients else {}) | record.attrs)
    distance = str(attrs.get("distance", "unknown"))
    nothing = dict.fromkeys(standard_metrics, math.nan)
    series = record.series.without("workload", "writers", "write_rate")  # columns of their own
    return Run(record.dataset, record.count, distance, series, record.name, nothing, attrs)


def writing_data(records: Sequence[Record]) -> dict[str, Any]:
    """Return the columns of the records, like those of results, and the phases of each."""
    runs = [as_run(record) for record in records]
    of_run = {id(run): record for run, record in zip(runs, records, strict=True)}
    columns = [
        SiteColumn("workload", "Workload", "words", lambda run: of_run[id(run)].workload),
        SiteColumn("writers", "Writers", "number", lambda run: of_run[id(run)].writers),
        SiteColumn("rate", "Requested writes (1/s)", "number", lambda run: of_run[id(run)].rate),
    ]
    return {
        **points_data(runs, columns),
        "phases": [[phase_data(phase) for phase in record.phases] for record in records],
        "windows": [windows_data(record) for record in records],
    }


def windows_data(record: Record) -> dict[str, list[float | int | None]]:
    """Return what happened over time: `at` in s, and the figures by name; empty where that was not stored."""
    try:
        middles, figures = over_time(record.windows)
    except UserError:
        return {}
    known = {name: [json_number(value) for value in values] for name, values in figures.items()}
    return {"at": [json_number(value) for value in middles]} | {
        name: values for name, values in known.items() if any(values)
    }


def phase_data(phase: Phase) -> dict[str, Any]:
    """Return what the charts show of a phase: shares, ms, KiB, operations a second."""
    values = {
        "p99": in_ms(phase.queries.percentile("p99")) if phase.queries else None,
        "qps": phase.queries.per_second if phase.queries else None,
        "recall": phase.recall,
        "low": phase.recall_low,
        "high": phase.recall_high,
        "size": phase.index_size,
        "rows": phase.rows,
        "start": phase.start,
        "reach": phase.seconds_to_reach,
    }
    numbers = {name: json_number(value) for name, value in values.items()}
    writes = {kind: rate_data(rate) for kind, rate in phase.writes.items()}
    return {"name": phase.name, **{k: v for k, v in numbers.items() if v is not None}, "writes": writes}


def rate_data(rate: Rate) -> list[float | int | None]:
    """Return operations a second with their interval, and the 99th percentile of their time in ms."""
    return [
        json_number(value) for value in (rate.per_second, rate.low, rate.high, in_ms(rate.percentile("p99")))
    ]


def in_ms(seconds: float | None) -> float | None:
    """Return a time in ms, None where it is not known."""
    return None if seconds is None else seconds * 1e3
