"""What only some loads have, changed by somebody: rates, objectives, targets, rounds, cold caches."""

from functools import partial
from pathlib import Path

import h5py
import numpy as np

from ann_benchmarks.submission.checking.expected import percentile_bounds
from ann_benchmarks.submission.checking.points import HISTOGRAM

from .bundle_data import QUERIES, attributes, set_arrays, set_attributes
from .load_bundles import BATCH, COLD, FILTERED, OPEN, TURNS
from .tampering import RESULTS, Change, PointChange, Tampering, faster, move, relabelled


def file_of(folder: Path, series: str) -> Path:
    return min((folder / RESULTS / series).glob("*.hdf5"))


def of(series: str, **values: object) -> Change:
    return PointChange(lambda known: values, where=lambda folder: file_of(folder, series))


def of_all(series: str, **values: object) -> Change:
    return lambda folder: [
        set_attributes(path, **values) for path in (folder / RESULTS / series).glob("*.hdf5")
    ]


def of_connections(folder: Path) -> None:
    """Have a batch of a database whose latencies two connections have no time for."""
    path = file_of(folder, BATCH)
    whole = attributes(path)["best_search_time"] * QUERIES
    set_attributes(path, server="embedded", cores=2)
    set_arrays(
        path, times=lambda times: np.linspace(0.1, 0.9, len(times), dtype=np.float32) * np.float32(whole)
    )


def of_all_runs(more: int = 0) -> Change:
    """Have the runs that are not stored be of fast queries, in the histogram and the percentiles."""

    def change(folder: Path) -> None:
        path = file_of(folder, FILTERED)
        with h5py.File(path) as file:
            times, edges, counts = (file[name][()] for name in ("times", *HISTOGRAM))
        own = np.histogram(times.astype(float), edges)[0]
        own[0] += counts.sum() - own.sum() + more
        ends = {"p50": 50, "p95": 95, "p99": 99, "p999": 99.9}
        known = {f"latency_{name}": np.mean(percentile_bounds(edges, own, end)) for name, end in ends.items()}
        none = {f"{name}_{end}": None for name in known for end in ("low", "high")}
        medians = [float(np.median(times)), *[float(edges[0])] * (len(attributes(path)["run_p50"]) - 1)]
        set_attributes(path, **known, **none, latency_queries=int(own.sum()), run_p50=medians)
        set_arrays(path, latency_histogram=lambda _: own)

    return change


def flooded(folder: Path) -> None:
    """Have a histogram of very many queries that were faster than all others."""
    path = file_of(folder, TURNS)
    with h5py.File(path) as file:
        fastest = float(file[HISTOGRAM[0]][0])
    set_arrays(
        path,
        latency_histogram_edges=lambda edges: np.insert(edges, 0, fastest / 2),
        latency_histogram=lambda counts: np.insert(counts, 0, 10**7),
    )
    known = {f"latency_{name}": 0.7 * fastest for name in ("p50", "p95", "p99", "p999")}
    none = {f"{name}_{end}": None for name in known for end in ("low", "high")}
    number = attributes(path)["latency_queries"] + 10**7
    set_attributes(path, **known, **none, latency_queries=number)


def within(objective: str) -> Change:
    """Say that the rate of a series is the highest that keeps an objective."""
    return relabelled(OPEN, {"objective": objective}, rate=None, objective=objective)


def search_renamed(folder: Path) -> None:
    """Have a search be for a recall of 0.99, in the file's name, too."""
    path = file_of(folder, COLD)
    set_attributes(path, target_recall=0.99)
    path.rename(path.with_name(path.name.replace("target_recall_0_5", "target_recall_0_99")))


CALLED_COLD = {"warmup": "off", "caches_dropped": True}
NOTHING_READ = {"index_blocks_read_per_query": 0.0, "table_blocks_read_per_query": 0.0}
LOADS = (
    Tampering("a batch's throughput", "timings", "says best_search_time",
              faster(2, partial(file_of, series=BATCH))),
    Tampering("a batch's latencies", "timings", "says best_search_time", of_connections),
    Tampering("a rate", "timings", "says queries_due",
              relabelled(OPEN, {"rate": 2000.0}, rate=2000.0)),
    Tampering("a throughput at a rate", "timings", "says best_search_time",
              faster(4, partial(file_of, series=OPEN))),
    Tampering("queries that were not sent", "timings", "says queries_asked", of(OPEN, queries_asked=20)),
    Tampering("a rate as a closed loop", "timings", "says loop closed", of(OPEN, loop="closed")),
    Tampering("an objective", "target", "says latency_p50", within("p50:1us")),
    Tampering("an objective of no percentile", "target", "it is a percentile and a time", within("fast")),
    Tampering("a target recall", "series", "which its name does not say", of(COLD, target_recall=0.99)),
    Tampering("a target recall in the name, too", "target", "says target_recall 0.99", search_renamed),
    Tampering("the value of a search", "target", "share=100 was found",
              of(COLD, target_value=100, settings='{"part.share": "500"}')),
    Tampering("a warm series as a cold one", "series", "says warmup 10", relabelled(OPEN, {}, is_cold=True)),
    Tampering("a cold one that reads nothing", "series", "has read no block",
              relabelled(OPEN, {**CALLED_COLD, **NOTHING_READ}, is_cold=True)),
    Tampering("caches that were not emptied", "warnings", "not emptied", of_all(COLD, caches_dropped=None)),
    Tampering("a payload", "series", "says payload_bytes", relabelled(OPEN, {}, payload="text")),
    Tampering("an order of queries", "series", "says query_order", relabelled(OPEN, {}, query_order="same")),
    Tampering("a round left out", "timings", "of the rounds 1, 2, 3, 5", of(TURNS, run_rounds=[1, 2, 3, 5])),
    Tampering("rounds one after the other", "timings", "that began before round",
              lambda folder: move(folder, days=1e-3, series=TURNS)),
    Tampering("a selectivity", "dataset", "says selectivity", of(FILTERED, selectivity=0.001)),
    Tampering("completeness", "figures", "says completeness", of(FILTERED, completeness=0.99)),
    Tampering("runs that are not stored", "timings", "says run_seconds", of_all_runs()),
    Tampering("queries of other runs", "timings", "says latency_queries", of_all_runs(more=900)),
    Tampering("longer runs", "timings", "says latency_queries",
              of(TURNS, active_seconds=9, asked_duration=9)),
    Tampering("fast queries", "figures", "says latency_p50", flooded),
    Tampering("more queries than time", "timings", "says latency_queries", flooded),
)  # fmt: skip
