"""Results on tiers, with clients and versions, and records of workloads that write, for tests of pages."""

from dataclasses import replace
from pathlib import Path

from ann_benchmarks.fields.series import ATTRIBUTE, Series
from ann_benchmarks.results.records import Phase, Record, write_record

from .report_data import make_rate

SIZES = {"256MB": 1 << 28, "1GB": 1 << 30, "4GB": 4 << 30}


def tier_attrs(clients, ram, **more):
    """Return the attributes of a result of this project that a tier and clients make."""
    memory = f"-sb256MB-ram{ram}"
    return {
        "clients": clients,
        "tier": f"256MB:{ram}",
        "tier_ram": SIZES[ram],
        "tier_available": SIZES[ram],
        "tier_shared_buffers": SIZES["256MB"],
        "tier_method": "cgroup",
        "tier_memory_series": memory,
        "postgres_version": "18.1",
        "vector_version": "0.8.1",
        "cpu": "Some CPU",
        "cores": 8,
        "memory_bytes": 64 << 30,
        "load_time": 2.5,
        "index_build_time": 10.0,
        "wait_events": '{"IO:DataFileRead": 0.6, "CPU": 0.4}',
        **more,
    }


def inserting(algorithm, writers):
    """Return the series of inserts by this many writers."""
    return Series(algorithm, workload="inserts", writers=writers)


def changing(algorithm, **more):
    """Return the series of changes by 4 writers next to the queries of 32 clients."""
    how = {"write_rate": 100.0, "write_mix": "50-25-25"}
    return Series(algorithm, clients=32, workload="writes", writers=4, **how, **more)


def make_record(dataset, series, queries=500.0):
    """Write a record, as a workload that writes leaves it."""
    if series.workload == "inserts":
        writes = {"insert": make_rate(1000.0 * series.writers)}
        phases = [Phase("inserting", 0, 10, None, writes, 0.95, 0.94, 0.96, 10000, 900.0)]
    else:
        names = ("before", "writing", "after", "vacuumed", "reindexed")
        changes = {kind: make_rate(50.0) for kind in ("insert", "update", "delete")}
        phases = [
            Phase(name, 10.0 * i, 10, make_rate(queries, 0.01 * (i + 1)), recall=0.95 - i / 100)
            for i, name in enumerate(names)
        ]
        phases[1] = replace(phases[1], writes=changes)
    path = Path("results", dataset, "10", series.folder, "x.workload.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    attrs = {"vector_version": "0.8.1", "postgres_version": "18.1", "distance": "euclidean"}
    if series.tier_memory:
        attrs |= tier_attrs(series.clients, series.tier_memory.rpartition("ram")[2])
    attrs[ATTRIBUTE] = series.dump_json()
    requested = (["euclidean"], [], series.clients or 0, series.writers, series.write_rate)
    seconds = int(phases[-1].start + phases[-1].seconds)
    windows = {"start": list(range(seconds)), "seconds": [1] * seconds, "writes": [100] * seconds}
    if series.clients:
        windows |= {"queries": [queries] * seconds, "query_p99": [None] + [0.01] * (seconds - 1)}
        windows |= {"recall": [0.95, *[None] * 9] * (seconds // 10), "index_size": [2048.0] * seconds}
    how = (series.workload, dataset, 10, series.label, "Index(x)")
    write_record(Record(*how, *requested, phases, windows, attrs, path))
