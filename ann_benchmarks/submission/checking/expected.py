"""What attributes of a result can be: what follows from its answers, latencies, runs and series."""

import math
import re
from collections.abc import Mapping
from functools import cache

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.common.numbers import byte_size
from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.fields.rows import OWN_DRIVER
from ann_benchmarks.fields.series import Series
from ann_benchmarks.load.request import QUERIES_A_CLIENT, Objective
from ann_benchmarks.measure.answers import filter_figures
from ann_benchmarks.measure.observed import SPENT
from ann_benchmarks.results.measurement import PARTS, completeness_of_each, recall_parts, run_throughputs
from ann_benchmarks.results.remarks import RECALL_CHANGED
from ann_benchmarks.statistics.intervals import mean_interval, share_interval
from ann_benchmarks.statistics.percentiles import PERCENTILES, QUERIES

from .points import CheckedPoint
from .rules import INF, NOTHING, ROUNDING, SAME, Expected, closely, near

CLOSE = 1e-6  # of shares
BUCKET = 1e-6  # relative width about an edge, within which a latency may lie on either side
CLOCK = 2.0  # s, that a clock is set by meanwhile; times of day are stored in whole seconds
UNEQUAL, UNEQUAL_SECONDS = 0.9, 0.1  # share and s of the duration that runs last at least
APART = 0.01  # relative: what is interpolated, and queries at the ends of runs
CPU_SLACK, TICKS = 1.15, 0.1  # of CPU time, which is counted in ticks, relative and in s
SHARE_SLACK = 1.5  # of a share of CPU at a rate, whose lead-in does not count
LEAST_CPU = 5e-6  # s of a client for a query, whatever machine it has
SAMPLES = 8  # in a run, for one to be surely of it alone
FASTEST = 1.25  # times the rate of the fastest sample, which a run may have had
UNLIKELY = 6.0  # standard deviations of a Poisson process
PART, PART_SECONDS = 0.01, 0.05  # by which a build is not the sum of its parts
DENSE = ("euclidean", "angular", "hamming")  # metrics
BITS_OF_KIB = 8 << 10  # a vector has a bit of each dimension at least
HALF_OF_FLOAT = 16  # bits, as numbers may be compressed
POINTER_BYTES = 6  # from an index to a row
OFF, LEAST_OFF = 0.01, 2 << 20  # share and bytes of a tier's memory that are not corrected while it works
MEMORY = re.compile(r"(?:sb(\d+[MG]B)-)?ram(\d+[MG]B|all)")  # shared_buffers and RAM in the name of a tier
INDEX = re.compile(r"CREATE INDEX [^;]* USING (?!btree|gin|hash)")  # of vectors


@cache
def server_algorithms() -> frozenset[str]:
    """Return the algorithms of this release that a PostgreSQL server answers for."""
    return frozenset(
        entry["name"]
        for config in read_configs(DEFINITIONS_FOLDER)[0]
        if "postgres" in (config.path.parent / "module.py").read_text(encoding="utf-8")
        for metrics in config.entries.values()
        for listed in metrics.values()
        for entry in listed
    )


def has_server(p: CheckedPoint) -> bool:
    """Whether a PostgreSQL server has answered: its algorithm needs one, or it says so."""
    return bool({"server", "postgres_version"} & p.attrs.keys()) or p.series.algorithm in server_algorithms()


def chance(arrivals: float) -> float:
    """Return by how many queries chance may miss the expected number of them."""
    return UNLIKELY * math.sqrt(max(arrivals, 0.0)) + 1


def percentile_bounds(edges: np.ndarray, counts: np.ndarray, percent: float) -> tuple[float, float]:
    """Return between which seconds a percentile of the latencies lies, by their histogram."""
    place = percent / 100 * (int(counts.sum()) - 1)
    ranks = [math.floor(place), math.ceil(place)]
    low, high = np.searchsorted(np.cumsum(counts), ranks, side="right")
    return float(edges[low]), float(edges[min(high, len(counts) - 1) + 1])


def answer_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from the answers."""
    low, high = share_interval(p.recalls)
    return {"recall_low": near(low, CLOSE), "recall_high": near(high, CLOSE), PARTS: recall_parts(p.recalls)}


def filtered_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from answers under filters."""
    due, matches = p.truth.due(p.count), p.truth.matches
    assert due is not None and matches is not None
    figures = filter_figures(completeness_of_each(p.distances, due))
    figures["queries_without_matches"] = float((matches == 0).sum())
    return {name: near(value, CLOSE) for name, value in figures.items()}


def run_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from the seconds of the runs."""
    rates, seconds, best = run_throughputs(p.attrs), p.run_seconds, p["best_search_time"]
    by, mean = SAME * max(rates), p.run.metrics["qps"]
    ends = {f"qps_{end}": near(value, by) if math.isfinite(value) else NOTHING
            for end, value in mean_interval(rates)._asdict().items()}  # fmt: skip
    shown_run = min(seconds, key=lambda one: abs(one - best)) if p.series.is_open else min(seconds)
    spent = {f"{name}_per_query": (min(each) * (1 - SAME), max(each) * (1 + SAME))
             for name in SPENT if (each := p.numbers(f"run_{name}"))}  # fmt: skip
    return {**ends, **spent, "qps_mean": near(mean, by), "best_search_time": closely(shown_run)}


def latency_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from latencies and their histogram."""
    found: dict[str, Expected] = {QUERIES: near(float(p.counts.sum()), 0.5)}
    medians = p.numbers("run_p50")
    for name, percent in PERCENTILES.items():
        low, high = percentile_bounds(p.edges, p.counts, percent)
        if name == "p50" and medians:
            low, high = max(low, min(medians) * (1 - APART)), min(high, max(medians) * (1 + APART))
        found[f"latency_{name}"] = low * (1 - BUCKET), high * (1 + BUCKET)
    return {**found, "run_p50": (p.edges[0] * (1 - BUCKET), p.edges[-1] * (1 + BUCKET))}


def build_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from the parts of a build."""
    parts = [p.number(name) or 0.0 for name in ("load_time", "index_build_time")]
    most = sum(parts) + (p.number("attribute_index_build_time") or 0.0)
    whole = (sum(parts) * (1 - PART) - PART_SECONDS, most * (1 + PART) + PART_SECONDS)
    if shards := p.numbers("shard_build_times"):
        whole = near(sum(shards), PART * sum(shards) + PART_SECONDS)
    sizes = dict.fromkeys(("load_time", "index_build_time", "index_size", "table_size"), (0.0, INF))
    return {**sizes, "build_time": whole if sum(parts) else (0.0, INF)}


def sequence_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from queries that were sent one after the other."""
    seconds = math.fsum(p.run_seconds) * p.facts.queries
    number = p.facts.queries * len(p.run_seconds)
    found: dict[str, Expected] = {QUERIES: near(number, 0.5), "asking_seconds": closely(seconds)}
    if not p.series.batch:
        least, most = float((p.counts * p.edges[:-1]).sum()), float((p.counts * p.edges[1:]).sum())
        if not least * (1 - SAME) <= seconds <= most * (1 + SAME):
            found["run_seconds"] = (least / number, most / number)
        found["best_search_time"] = closely(float(p.times.mean()))
    return found


def batch_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from a batch.

    It lasts as long as any of its queries; a database answers it by a connection for each core.
    """
    queries, best, one = p.facts.queries, p["best_search_time"], float(p.times[0])
    if p.times.min() == p.times.max():
        return {"best_search_time": closely(min((one, one / queries), key=lambda each: abs(each - best)))}
    whole = float(p.times.sum()) / p["cores"] if has_server(p) else 0.0
    return {"best_search_time": (max(float(p.times.max()), whole) / queries * (1 - SAME), INF)}


def closed_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from clients that have one query under way: latencies add up to their waiting."""
    clients, active, seconds = p["clients"], p["active_seconds"], p.run_seconds
    longest, total, number = float(p.times.max()), float(p.times.sum()), len(p.times)
    share, slack = total / (clients * active), longest * (1 + SAME) / active + 1e-3 / clients
    in_all = p.number("asked_queries") or max(p.facts.queries, QUERIES_A_CLIENT * clients)
    sent: tuple[float, float] = (number, number if clients == 1 else INF)
    if p.number("asked_duration") is None:
        sent = (max(number, in_all), in_all + clients)
    if asked := p.number("asked_duration"):
        # Clients begin and end a run of the requested duration at somewhat different times.
        least = max(UNEQUAL * min(asked, active) - UNEQUAL_SECONDS, 0.0)
        fewest = sum(least / one - clients for one in seconds)
    else:
        fewest = UNEQUAL * len(seconds) * number - clients * len(seconds)
    most = (p["asking_seconds"] / min(seconds) + clients * len(seconds)) * (1 + APART)
    return {
        "asking_seconds": (len(seconds) * (UNEQUAL * (asked or 0.0) - UNEQUAL_SECONDS), INF),
        "active_seconds": ((total / clients - longest) * (1 - SAME), INF),
        "clients_waiting_share": (max(share - slack, 0.0), min(share + slack, 1.001)),
        "queries_counted": near(number, clients + 0.5),
        "best_search_time": closely(active / p["queries_counted"]),
        "queries_asked": sent,
        QUERIES: (fewest, most),
        "loop": {"closed"},
    }


def open_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from queries that come at a rate until the last is due, and from their answers."""
    rate, active, number, asked = p["rate"], p["active_seconds"], len(p.times), p["queries_asked"]
    most, least = rate * active, rate * max(active - float(p.times.max()), 0.0)
    early = rate * p["lead_in_seconds"]
    return {
        "queries_counted": near(number, 0),
        "queries_due": (max(least - chance(least), number), min(most + chance(most), number)),
        "queries_asked": near(number - p["queries_unanswered"], 0),
        "best_search_time": (
            active / (asked + early + chance(early)) * (1 - SAME), active / max(asked, 1) * (1 + SAME)),
        "loop": {"open"},
    }  # fmt: skip


def cpu_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from the CPUs that there were."""
    limit = p.number("tier_cpus") or p["cores"]
    most = limit * (CPU_SLACK * p["best_search_time"] + TICKS / len(p.times))
    shares = dict.fromkeys(("machine_busy_share", "client_cpu_share"), (0.0, 1.05))
    return {**shares, "server_cpu_seconds_per_query": (0.0, most)}


def client_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return the CPU time of clients: of their share of the time, and one core each if a server searches."""
    cores, sent = p.number("client_cores") or p["cores"], p["queries_asked"]
    share, slack = p["client_cpu_share"] * cores / sent, SHARE_SLACK if p.series.is_open else 1 + APART
    least, most = (share * p[name] for name in ("active_seconds", "asking_seconds"))
    has = p["clients"] * (CPU_SLACK * p["asking_seconds"] + TICKS) / sent if has_server(p) else INF
    warmed = p["warmup_queries"] * p.edges[0] * (1 - BUCKET) / p["clients"]
    return {"client_cpu_seconds_per_query": (max(least / slack, LEAST_CPU), min(most * slack, has)),
            "warmup_seconds": (warmed, INF), "driver": {OWN_DRIVER}}  # fmt: skip


def sampled_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from the samples of monitoring, and from transactions that one server here counts.

    A server counts the transactions of a connection once a second.
    """
    sampled, asking = p.sampled or {}, p["asking_seconds"]
    found: dict[str, Expected] = {"asking_seconds": (0.0, (sampled["seconds"] + CLOCK) * (1 + SAME))}
    if p.attrs.get("server") in ("embedded", "installed") and not p.series.parts("servers"):
        if asking > 2 * CLOCK:
            found[QUERIES] = (0.0, sampled["commits"] / (1 - 2 * CLOCK / asking))
        # Of a run that is as long as several samples, one is of it alone.
        if asking > SAMPLES * sampled["longest"] * p["run_count"]:
            most = FASTEST * sampled["fastest"]
            found["best_search_time"] = (1 / most if most else INF, INF)
    return found


def searched_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what recalls can have been searched for.

    Answers to the same queries may differ, of an index that answers by chance.
    """
    return {"target_recall": (0.0, p.recall + RECALL_CHANGED)}


def kept_objective(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what an objective allows the latencies of all runs to be."""
    try:
        objective = Objective.parse(p.series.objective)
    except UserError:
        return {"objective": {"a percentile and a time, such as p99:50ms"}}
    most = objective.seconds * (1 + CLOSE)
    return {f"latency_{objective.percentile}": (0.0, most), "queries_unanswered": (0.0, 0.0)}


def dataset_facts(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from the dataset."""
    found: dict[str, Expected] = {"dataset": {p.dataset}, "distance": {p.facts.metric},
                                  "rows": near(p.facts.rows, 0.5), "scanned_share": (0.0, 1.0)}  # fmt: skip
    sql = str(p.attrs.get("build_sql"))
    if p.facts.metric in DENSE and "sparsevec" not in sql:
        bits = HALF_OF_FLOAT if "embedding vector(" in sql else 1
        found["table_size"] = (p.facts.rows * p.facts.dimension * bits / BITS_OF_KIB, INF)
    if INDEX.search(sql):
        found["index_size"] = (p.facts.rows * POINTER_BYTES / 1024, INF)
    if p.truth.matches is not None:
        found["selectivity"] = near(float(p.truth.matches.mean()) / p.facts.rows, ROUNDING)
    return found


def tier_name(series: Series) -> str:
    """Return what results call the tier of a series, such as 2GB:8GB+4cpus+gp3."""
    named = MEMORY.fullmatch(series.tier_memory)
    cpus = "" if series.tier_cpus is None else f"{series.tier_cpus}cpus"
    parts = [part for part in (cpus, series.tier_disk) if part]
    if named or not parts:
        parts.insert(0, f"{named[1] or 'all'}:{named[2]}" if named else "all:all")
    return "+".join(parts)


def tier_facts(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from the name of a tier."""
    found: dict[str, Expected] = {"tier": {tier_name(p.series)}}
    if (named := MEMORY.fullmatch(p.series.tier_memory)) and named[1]:
        # What is stored of the server itself is of all shards, or replicas, together.
        several, size = p.series.shards or p.series.replicas or 1, byte_size(named[1])
        found |= {"tier_shared_buffers": {size}, "shared_buffers": {several * size}}
    return found


def tier_memory(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from the memory that a tier is named by."""
    named = MEMORY.fullmatch(p.series.tier_memory)
    size = byte_size(named[2]) if named else 0
    name = "tier_available" if "tier_available" in p.attrs else "tier_available_at_start"
    return {"tier_ram": {size}, name: near(size, max(OFF * size, LEAST_OFF))}
