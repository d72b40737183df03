"""Workloads that write, as measurements: one for the queries, and each kind of write, of each phase."""

from collections.abc import Iterator
from pathlib import Path

from ann_benchmarks.results.records import Rate, Record, read_record

from .measurements import Key, Measurement


def read_workload(path: Path, key: Key, source: int) -> Iterator[Measurement]:
    """Yield what a record holds; UserError where it is damaged.

    What came at a rate that was asked for has no throughput of its own, but latencies.
    """
    record = read_record(path)
    for phase in record.phases:
        kinds: dict[str, Rate] = ({"query": phase.queries} if phase.queries else {}) | phase.writes
        for kind, rate in kinds.items():
            attrs = _attributes(record, f"{record.name} {phase.name}: {kind}", rate, is_query=kind == "query")
            attrs |= {"recall_low": phase.recall_low, "recall_high": phase.recall_high}
            attrs |= {"index_size": phase.index_size or None}
            yield Measurement(path, (*key, f"{phase.name} {kind}"), source, attrs)


def _attributes(record: Record, name: str, rate: Rate, is_query: bool) -> dict[str, object]:
    return {
        **{name: value for name, value in record.attrs.items() if name not in ("rate", "run_seconds")},
        **({"rate": record.rate} if record.rate and not is_query else {}),
        "name": name,
        "best_search_time": 1 / rate.per_second if rate.per_second else None,
        "latency_p50": rate.p50,
        "latency_p99": rate.p99,
        "run_count": 1,
        "clients": record.clients,
        "writers": record.writers,
        "workload": record.workload,
    }
