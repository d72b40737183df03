"""Results and records as a report gets them, made without any file."""

from statistics import fmean

from ann_benchmarks.fields.rows import SHUFFLED
from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.metrics import standard_metrics
from ann_benchmarks.results.records import Phase, Rate, Record
from ann_benchmarks.results.runs import Run

GB = 1 << 30


def make_run(
    family="hnsw", rates=(100.0, 101.0, 99.0), recall=0.95, clients=1, ram=None, dataset="mine", **attrs
):
    """Return a result with these throughputs of its runs; `ram` in GB, or "all", makes it one on a tier."""
    memory = ""
    if ram is not None:
        size = "all" if ram == "all" else f"{ram}GB"
        memory = f"sb1GB-ram{size}"
        attrs = {
            "tier": f"1GB:{size}",
            "tier_method": "cgroup",
            "tier_memory_series": f"-{memory}",
            "tier_shared_buffers": GB,
            "tier_available": (64 if ram == "all" else ram) * GB,
            **({} if ram == "all" else {"tier_ram": ram * GB}),
            **attrs,
        }
    seconds = [1 / rate for rate in rates]
    metrics = dict.fromkeys(standard_metrics, 0.0) | {
        "recall": recall,
        "qps": fmean(rates),
        "p50": 1.0,
        "p95": 2.0,
        "p99": 3.0,
        "p999": 4.0,
        "build": attrs.get("build_time", 10.0),
        "indexsize": attrs.pop("index_kib", 2048.0),
    }
    attrs = {
        "run_count": len(rates),
        "run_seconds": seconds,
        "clients": clients,
        "recall_low": recall - 0.01,
        "recall_high": min(recall + 0.01, 1.0),
        "truth": "d11f83fce2a60fbe",
        "cpu": "Test CPU",
        "cores": 2,
        "memory_bytes": 16 * GB,
        "kernel": "Linux 1",
        "build_arguments": '["euclidean", {"M": 16}]',
        **attrs,
    }
    name = attrs.pop("name", f"{family}(ef=1)")
    series = Series(
        family,
        clients=clients,
        query_order=attrs.get("query_order", SHUFFLED),
        distinct_queries=attrs.get("distinct_queries"),
        rate=attrs.get("rate", 100.0 if attrs.get("loop") == "open" else None),
        is_cold="caches_dropped" in attrs,
        filter=attrs.get("filter", ""),
        tier_method=attrs.get("tier_method", ""),
        tier_cpus=attrs.get("tier_cpus"),
        tier_disk=attrs.get("tier_disk", ""),
        tier_memory=memory,
    )
    return Run(dataset, 10, "euclidean", series, name, metrics, attrs)


def steady(family, rate, **more):
    """Return a result whose runs repeat to 1%."""
    return make_run(family, (rate, rate * 1.01, rate * 0.99), **more)


def make_rate(per_second=100.0, p99=0.005, spread=0.05, **more):
    """Return a rate with an interval of 5%, or as much as is said, either way."""
    bounds = (per_second * (1 - spread), per_second * (1 + spread))
    return Rate(round(per_second * 10), per_second, *bounds, 0.001, 0.003, p99, 0.01, **more)


def make_inserts(writers, per_second, name="hnsw(M=16)"):
    """Return the record of inserts by a number of writers."""
    phase = Phase("inserting", 0.0, 10.0, writes={"insert": make_rate(per_second)}, rows=1000)
    return Record("inserts", "mine", 10, f"hnsw-inserts-w{writers}", name, [], [], 0, writers, None, [phase])


def make_writes(name="hnsw(M=16)", family="hnsw"):
    """Return the record of writes during queries, with every phase."""
    phases = [
        Phase("before", 0.0, 10.0, make_rate(500), {}, 0.96, 0.95, 0.97, 1000, 2048.0, 4096.0),
        Phase(
            "writing", 10.0, 30.0, make_rate(300, late=7),
            {kind: make_rate(50, failed=2) for kind in ("insert", "update", "delete")},
            0.93, 0.92, 0.94, 1100, 3000.0, 5000.0,
        ),
        Phase("vacuumed", 45.0, 10.0, make_rate(400), {}, 0.94, 0.93, 0.95, 1100, 3000.0, 5000.0, 5.0),
        Phase("reindexed", 60.0, 10.0, make_rate(550), {}, 0.96, 0.95, 0.97, 1100, 2100.0, 5000.0, 5.0),
    ]  # fmt: skip
    times = [float(second) for second in range(0, 70, 5)]
    windows = {
        "start": times,
        "seconds": [5.0] * len(times),
        "queries": [2000] * len(times),
        "query_p50": [0.001] * len(times),
        "query_p99": [0.004 + 0.0001 * i for i in range(len(times))],
        "writes": [250 if 10 <= second < 40 else 0 for second in times],
        "write_p50": [0.002 if 10 <= second < 40 else None for second in times],
        "write_p99": [0.009 if 10 <= second < 40 else None for second in times],
        "index_size": [2048.0 + 10 * i for i in range(len(times))],
        "recall": [None, *[0.95] * (len(times) - 1)],
    }
    algo, shares = f"{family}-writes-c32-w4-r150-mix50-25-25", (0.5, 0.25, 0.25)
    attrs = {f"{kind}_share": share for kind, share in zip(phases[1].writes, shares, strict=True)}
    return Record("writes", "mine", 10, algo, name, [], [], 32, 4, 150.0, phases, windows, attrs)
