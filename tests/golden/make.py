"""Makes the stored results: a small dataset, and results in which each field and attribute says something.

`python -m tests.golden --make` writes them into stored.tar.xz. That is seldom needed: later versions have to
read what this one has written, so that new fields are added here without making the old files again.
"""

import io
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from zlib import crc32

import h5py
import numpy as np
import yaml

from ann_benchmarks.data.datasets import prepare_filters, stored_truth
from ann_benchmarks.fields.series import ATTRIBUTE, Series
from ann_benchmarks.load.spans import histogram
from ann_benchmarks.monitoring.stored import GROUP, Monitored, group_writer, monitored_json
from ann_benchmarks.results.file import result_path, truth_mark, write_result
from ann_benchmarks.results.records import record_path, write_record
from ann_benchmarks.statistics.intervals import mean_interval, share_interval
from ann_benchmarks.statistics.percentiles import stored_percentiles
from tests.conftest import make_dataset
from tests.plotting_data import make_result, trust
from tests.report_data import make_inserts, make_writes

GB = 1 << 30
FILTERS = ("uniform:0.2", "near:0.1", "far:0.1")
GRAPH, LISTS = {"M": 16, "efConstruction": 64}, {"lists": [20]}
NOT_SETTLED = {"warmup_settled": False, "warmup_seconds": 30.0}
ALONE = (Series("pgvector_hnsw", clients=1), Series("vchord", clients=1))
# What every result of this project says.
ATTRIBUTES = yaml.safe_load((Path(__file__).with_name("attributes.yml")).read_text())
COMMON = ATTRIBUTES["common"]


@contextmanager
def chdir(folder: Path) -> Iterator[None]:
    """Go into a folder, and back."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@cache
def truth(dataset: str, filter: str) -> np.ndarray:
    """Return the true distances, (queries, 20), infinite where fewer rows match."""
    return np.asarray(stored_truth(dataset, filter).known_distances)


@cache
def answers(dataset: str, filter: str, count: int, recall: float, complete: float) -> np.ndarray:
    """Return the distances, (queries, count), of answers with this recall and completeness."""
    draw = np.random.default_rng(crc32(repr((filter, count, recall, complete)).encode()))
    found = truth(dataset, filter)[:, :count].copy()
    wrong = draw.random(found.shape) > recall * (0.9 + 0.2 * draw.random((len(found), 1)))
    found[wrong] = found[wrong] * 1.2 + 0.5
    found.sort(axis=1)
    found[draw.random(found.shape) > complete] = np.inf
    return np.sort(found, axis=1)


def put(series: Series, query: list, qps: float, recall: float, **attrs: object) -> Path:
    """Write a result as run.py does; `runs`, `rounds`, `count`, `build`, `more` and all else are keywords."""
    dataset, count = str(attrs.get("dataset", "golden")), int(attrs.pop("count", 10))
    runs, complete, more = attrs.pop("runs", 3), attrs.pop("complete", 1.0), attrs.pop("more", {})
    build = [
        attrs.get("distance", "euclidean"),
        attrs.pop("build", GRAPH if "hnsw" in series.algorithm else LISTS),
    ]
    found = answers(dataset, series.filter, count, recall, complete)
    true = truth(dataset, series.filter)[:, :count]
    path = result_path(dataset, count, series.folder, [build, query])
    draw = np.random.default_rng(crc32(str(path).encode()))
    rates = qps * draw.normal(1, 0.01, runs)
    clients = series.clients or 1
    times = [draw.lognormal(np.log(clients / rate), 0.3, 2000) for rate in rates]
    recalls = (found <= true[:, -1:] * (1 + 1e-6)).mean(axis=1)
    bounds, speed = share_interval(recalls), mean_interval(list(rates))
    start = 1_767_258_000.0 + crc32(str(path).encode()) % 86_400
    written = {
        **COMMON,
        **stored_percentiles(times),
        **{"run_seconds": list(1 / rates), "run_started": [start + 5 * i for i in range(runs)]},
        **{"run_count": runs, "run_recalls": [recall] * runs, "run_others_cpu": [0.01] * runs},
        **{"recall_low": bounds.low, "recall_high": bounds.high, "qps_mean": float(rates.mean())},
        **{"qps_low": speed.low, "qps_high": speed.high, "best_search_time": float(1 / rates.max())},
        **{"runs_disagree": False, "clients_were_limit": False, "truth": truth_mark(true), "count": count},
        **{"started_at": "2026-01-01T10:00:00+00:00", "ended_at": "2026-01-01T10:05:00+00:00"},
        **{"build_arguments": build, "name": f"{series.algorithm}({', '.join(map(str, query))})"},
        **{"algo": series.label, "query_order": series.query_order, "batch_mode": series.batch},
        **{"candidates": float(np.isfinite(found).sum(axis=1).mean()), "asking_seconds": 6.0},
        **{"clients": series.clients, "distinct_queries": series.distinct_queries, "driver": series.driver},
        **{"filter": series.filter or None, "post_filter": series.post_filter, "rate": series.rate},
        **{"objective": series.objective or None, "tier_cpus": series.tier_cpus},
        **{"tier_disk": series.tier_disk or None, "tier_method": series.tier_method or None},
        **attrs,
        ATTRIBUTE: series.dump_json(),
    }
    edges, counts = histogram(times)
    more = {"latency_histogram_edges": edges, "latency_histogram": counts, **more}
    ids = np.where(np.isfinite(found), np.arange(count), -1)
    write_result(path, written, times[0][: len(found)], ids, found, more)
    return path


def rounds(mark: str, number: int = 8) -> dict[str, object]:
    """Return what says that a point was measured in turn with others."""
    return {"rounds": mark, "run_rounds": list(range(number)), "runs": number, "rounds_requested": "until 5%",
            "rounds_ended": "the interval is narrow enough"}  # fmt: skip


def tier(series: Series, ram: int | None, **more: object) -> tuple[Series, dict[str, object]]:
    """Return a series on a tier with this many GB of memory, None for all of it, and its attributes."""
    size = "all" if ram is None else f"{ram}GB"
    how = {"tier_method": "cgroup", "tier_memory": f"sb1GB-ram{size}", **more}
    attrs = {"tier": f"1GB:{size}", "tier_shared_buffers": GB, "tier_memory_series": f"-sb1GB-ram{size}",
             "tier_available": (ram or 64) * GB * 1.02, "tier_available_at_start": (ram or 64) * GB,
             "tier_ram": ram and ram * GB, "tier_iops": 3000, "tier_bandwidth": 125_000_000}  # fmt: skip
    return series.replaced(**how), attrs


def sampled() -> Monitored:
    """Return what was sampled while an index was built and measured."""
    seconds = np.arange(16, dtype=float)
    phase = np.array([0] * 4 + [1] * 4 + [2] * 4 + [3] * 4, np.int8)
    names = ("machine.cpu_percent", "machine.iowait_percent", "machine.memory_used_bytes",
             "machine.page_cache_bytes", "disk.nvme0n1.read_bytes", "network.sent_bytes",
             "postgresql.blocks_hit",
             "postgresql.wal_bytes", "postgresql.cpu_sessions", "golden.rows_seen")  # fmt: skip
    columns = {name: ((i + 1) * 10 + seconds).astype(np.float32) for i, name in enumerate(names)}
    units = {name: "bytes/s" if name.endswith("_bytes") else "%" for name in names}
    attrs = {
        "monitoring_cpu_seconds": 0.4,
        "in_container": True,
        "panels": json.dumps({"golden.rows_seen": "Rows"}),
    }
    phases = ["load", "build", "warm-up", "measure"]
    return Monitored(seconds, phase, phases, [0, 4, 8, 12], columns, units, attrs)


def put_loads() -> None:
    """Write results that differ in algorithm, version, clients and load."""
    one, other = ALONE
    for place, (ef, recall, qps) in enumerate(
        [(10, 0.85, 900), (40, 0.94, 500), (80, 0.965, 330), (200, 0.99, 150)]
    ):
        more = {"more": {GROUP: group_writer(sampled())}, "monitoring_cpu_seconds": 0.4} if place == 1 else {}
        put(one, [ef], qps, recall, **rounds("m1"), **more)
        put(other, [ef, 1.9], 1.3 * qps, recall, **rounds("m1"))
    put(Series("pgvector_exact", clients=1), [], 12, 1.0, is_exact=True, **rounds("m1"))
    for clients, speedup in ((8, 6), (32, 11)):
        for series in ALONE:
            query = [80] if series is one else [80, 1.9]
            limit = {"clients_were_limit": clients == 32, "client_cpu_share": 0.98}
            put(series.replaced(clients=clients), query, 330 * speedup, 0.965, **limit)
    put(replace(one, clients=None), [80], 320, 0.965, dist_comps=123_456.0, target_recall=0.95,
        target_parameter="ef_search", target_value=80, target_overstated=0.002)  # fmt: skip
    put(Series("pgvector_hnsw", batch=True), [80], 900, 0.965)
    image = ATTRIBUTES["image"]
    put(replace(one, version="0.7.4"), [80], 250, 0.965, **image | {"vector_version": "0.7.4"})
    put(one, [80], 300, 0.965, count=5, index_reused=True, queries_in_train=3, run_sent_once=[0.5, 0.4, 1.0])
    put(replace(one, query_order="same"), [80], 400, 0.965, build={**GRAPH, "form": "halfvec"})
    put(replace(one, query_order="zipf:1.1"), [80], 390, 0.965, **NOT_SETTLED, graph_overflow_rows=400)
    put(replace(one, distinct_queries=64), [80], 380, 0.965, build_notices="no longer fits into memory")
    put(replace(one, is_cold=True), [80], 40, 0.965, caches_dropped=True, warmup="off", asked_queries=100)
    put(replace(one, driver="pgbench"), [80], 350, 0.965, pgbench_version="18.1", queries_answered_aside=7)
    arriving = ATTRIBUTES["arriving"]
    put(replace(one, rate=200.0), [80], 200, 0.965, **arriving)
    late = ATTRIBUTES["late"]
    put(replace(one, rate=320.0), [80], 310, 0.965, **arriving | late)
    put(replace(one, objective="p99:50ms"), [80], 280, 0.965, **arriving)
    put(one, [400], 90, 0.96, target_missed=0.97, target_parameter="ef_search", runs_disagree=True,
        run_others_cpu=[0.3, 0.0, 0.2], run_recalls=[0.93, 0.96, 0.97], runs=2)  # fmt: skip
    external = ATTRIBUTES["external"]
    put(replace(one, environment="other"), [80], 500, 0.965, **external)
    put(replace(one, settings="jit=off work_mem=64MB"), [80], 335, 0.965)
    for kind, size in (("text", 900.0), ("vector", 3000.0)):
        put(replace(one, payload=kind), [80], 200, 0.965, payload_bytes=size)


def put_servers() -> None:
    """Write results on shards, replicas, poolers and tiers."""
    one, other = ALONE
    cells = ATTRIBUTES["shards"]
    for shards, engine, probes, qps in (
        (2, "fdw", None, 300),
        (4, "client", None, 250),
        (4, "routed", 1, 600),
    ):
        placed = replace(one, shards=shards, shard_engine=engine, shard_probes=probes)
        put(placed, [80], qps, 0.97, **cells)
        put(placed, [40], 1.4 * qps, 0.94, **cells)
    lag = {f"replication_lag_{unit}{end}": 2.5 for unit in ("bytes", "seconds") for end in ("", "_max")}
    put(replace(one, replicas=2, clients=8), [80], 3500, 0.965, replica_times=[2.0, 3.0], **lag,
        replica_backup_times=[1.0, 1.5], replica_queries=[3000, 3000])  # fmt: skip
    pool = ATTRIBUTES["pooler"]
    put(replace(one, pooler="pgbouncer:transaction", pool_size=8, clients=32), [80], 3000, 0.965, **pool)
    put(replace(one, pooler="pgbouncer:session", clients=32), [80], 3100, 0.965, **pool)
    for ram, share in ((2, 0.2), (8, 0.85), (32, 1.0), (None, 1.0)):
        for series in ALONE:
            placed, attrs = tier(series, ram)
            put(placed, [80] if series is one else [80, 1.9], 320 * share, 0.965, **rounds("m2"), **attrs)
    for number, how in enumerate((("hugepages", None, ""), ("container", 2, "gp3"), ("cgroup", 4, "gp3"))):
        placed, attrs = tier(other, 16, tier_method=how[0], tier_cpus=how[1], tier_disk=how[2])
        put(placed, [80, 1.9], 200.0 + number, 0.965, **attrs)
    placed, attrs = tier(replace(one, shards=2, shard_engine="fdw"), 8)
    put(placed, [80], 260, 0.97, **attrs, **cells)


def put_filtered() -> None:
    """Write results of strategies under filters, and one set of another dataset and metric."""
    deciles = [{"least": 10 * i, "most": 10 * i + 9, "queries": 20, "recall": 0.9 + i / 100,
                "completeness": 1.0,
                "p50": 0.002, "p99": 0.004 if i else None} for i in range(10)]  # fmt: skip
    for place, name in enumerate(FILTERS):
        known = {"selectivity": (0.2, 0.1, 0.1)[place], "queries_without_matches": place,
                 "rows_removed": 80.0,
                 "planning_time": 0.0004, "locks": 3.0, "planner_regret": 1.5, "planner_best": "Seq Scan",
                 "planner_regret_low": 1.2 - place / 4, "planner_regret_high": 1.9, "completeness": 0.995,
                 "completeness_low": 0.99, "completeness_high": 1.0, "short_answers": 0.02,
                 "short_answers_low": 0.0,
                 "short_answers_high": 0.05, "planner_plans": json.dumps({"Seq Scan": 1.0}),
                 "deciles": json.dumps(deciles)}  # fmt: skip
        for series, query, qps, recall in ((ALONE[0], [40], 400, 0.93), (ALONE[1], [80, 1.9], 250, 0.98)):
            put(series.replaced(filter=name), query, qps, recall, **rounds("f"), **known)
        put(replace(ALONE[0], filter=name), [80], 200, 0.97, has_default_settings=True, complete=0.8, **known)
        exact = Series("pgvector_exact", clients=1, filter=name)
        put(exact, [], 60, 1.0, is_exact=True, **rounds("f"), **known)
    put(replace(ALONE[0], filter=FILTERS[0], post_filter=5.0), [80], 180, 0.96, **known)
    for query, recall in ((40, 0.94), (80, 0.97)):
        put(ALONE[0], [query], 700 - query, recall, dataset="second", distance="angular", **rounds("s"))


def put_records() -> None:
    """Write workloads that insert and that write, by several algorithms."""
    attrs = {**COMMON, "started_at": "2026-01-02T10:00:00+00:00", "ended_at": "2026-01-02T10:05:00+00:00",
             "autovacuum": True, "rows": 600, "rows_loaded": 300, "learns_from_rows": False}  # fmt: skip
    lag = {"recall_lag_seconds": 0.5, "replication_lag_seconds": 0.25, "replication_lag_seconds_max": 2.0}
    how = {"workload": "writes", "writers": 4, "write_rate": 150.0, "write_mix": "50-25-25", "loaded": 0.5}
    for algorithm in ("pgvector_hnsw", "vchord"):
        records = [
            (
                Series(algorithm, workload="inserts", writers=writers),
                make_inserts(writers, 900.0 * writers**0.5),
            )
            for writers in (1, 4)
        ]
        series = Series(algorithm, clients=32, autovacuum=True, **how)
        records += [(series, make_writes()), (series.replaced(replicas=2), make_writes())]
        for series, record in records[: 4 if algorithm == "vchord" else 3]:
            phases = [replace(phase, facts=lag if series.replicas else {}) for phase in record.phases]
            its = {**attrs, **record.attrs, ATTRIBUTE: series.dump_json(), "algo": series.label}
            path = record_path(result_path("golden", 10, series.folder, [["euclidean", GRAPH], []]))
            path.parent.mkdir(parents=True, exist_ok=True)
            named = {"dataset": "golden", "algo": series.label, "name": f"{algorithm}(M=16)", "path": path}
            monitoring = {"monitoring": monitored_json(sampled())} if series.replicas else {}
            write_record(replace(record, phases=phases, attrs=its, **named, **monitoring))


def put_others() -> None:
    """Write files of ann-benchmarks, of this project's first releases, and such that nobody can read."""
    true = truth("golden", "")
    for arguments, recall, seconds in (("M=8", 0.9, 0.001), ("M=16", 0.97, 0.002)):
        make_result("golden", "hnswlib", arguments, true, recall, seconds)
        make_result("golden", "hnswlib", arguments, true, recall, seconds / 2, batch=True)
    old = {"clients": 4, "distinct_queries": 64, "vector_version": "0.5.0", "postgres_version": "15.2"}
    make_result("golden", "pgvector_ivfflat-0.5.0-c4-q64", "lists=10", true, 0.96, 0.004, **old)
    old |= {"tier": "1GB:2GB", "tier_method": "cgroup", "tier_memory_series": "-sb1GB-ram2GB",
            "tier_ram": 2 * GB,
            "tier_shared_buffers": GB, "tier_available": 2 * GB, "distinct_queries": None}  # fmt: skip
    make_result("golden", "vchord-c4-cgroup-sb1GB-ram2GB", "lists=10", true, 0.96, 0.004,
                **{name: value for name, value in old.items() if value is not None})  # fmt: skip
    put(Series("other_vectors"), [1], 10, 0.9, truth="0" * 16)
    put(Series("wrong_kind"), [1], 10, 0.9, clients="many")
    with h5py.File(put(Series("not_numbers"), [1], 10, 0.9), "r+") as file:
        file["distances"][:3, 0] = np.nan
    damaged = put(Series("damaged"), [1], 10, 0.9)
    damaged.write_bytes(damaged.read_bytes()[:3000])
    damaged.with_name("x.workload.json").write_text('{"form": 0}\n')


def make(folder: Path) -> None:
    """Write all of it into an empty folder."""
    with chdir(folder):
        for name, metric in (("golden", "euclidean"), ("second", "angular")):
            path = make_dataset(name, metric, rows=600, queries=200, neighbours=20)
            os.utime(path, (1_767_258_000, 1_767_258_000))
            trust(path)
        prepare_filters("golden", FILTERS)
        for write in (put_loads, put_servers, put_filtered, put_records, put_others):
            write()
        for side in ("a", "b"):
            for repetition in (1, 2):
                place = Path("compared", f"{side}-{repetition}")
                place.mkdir(parents=True)
                with chdir(place):
                    for series, factor in zip(ALONE, (0.8, 1.0), strict=True):
                        changed = {"work_mem": "64MB" if side == "a" else "32MB"}
                        speed = (330 + repetition) * (factor if side == "b" else 1)
                        put(series, [80], speed, 0.965, settings=json.dumps(changed), cores=8 + (side == "b"))


def pack(folder: Path, archive: Path) -> None:
    """Write the files of a folder into an archive that is the same whenever it is written."""
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
                entry.size, entry.mtime = path.stat().st_size, 1_767_258_000
                packed.addfile(entry, io.BytesIO(path.read_bytes()))
