"""What answered the queries of a point - a server, shards, replicas, a simulated server - by its series."""

import re
from collections.abc import Iterator, Mapping
from functools import cache

from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.common.numbers import byte_size
from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.definitions.servers import ROUTED
from ann_benchmarks.fields.series import Series

from .points import CheckedPoint
from .rules import INF, NOTHING, ROUNDING, Expected, near

OFF, LEAST_OFF = 0.01, 2 << 20  # share and bytes of a tier's memory that are not corrected while it works
MEGABYTE = 10**6  # of bandwidths
UNITS = {"iops": 1, "MBps": MEGABYTE}
# Operations and bytes per second of the disks that have names.
LIMITS = {"gp3": (3_000, 125 * MEGABYTE), "gp3-16k": (16_000, 1_000 * MEGABYTE), "nvme": (None, None)}
_LIMIT = re.compile(r"(\d+)(iops|MBps)")
MEMORY = re.compile(r"(?:sb(\d+[MG]B)-)?ram(\d+[MG]B|all)")  # shared_buffers and RAM in the name of a tier


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


def has_server(point: CheckedPoint) -> bool:
    """Whether a PostgreSQL server has answered: its algorithm needs one, or it says so."""
    says_so = {"server", "postgres_version"} & point.attrs.keys()
    return bool(says_so) or point.series.algorithm in server_algorithms()


def limits_of(disk: str) -> tuple[int | None, int | None]:
    """Return the operations and bytes per second of a disk by its name, such as gp3 or 3000iops-125MBps."""
    if disk in LIMITS:
        return LIMITS[disk]
    rates = {unit: int(number) * UNITS[unit] for number, unit in _LIMIT.findall(disk)}
    return rates.get("iops"), rates.get("MBps")


def tier_name(series: Series) -> str:
    """Return what results call the tier of a series, such as 2GB:8GB+4cpus+gp3."""
    named = MEMORY.fullmatch(series.tier_memory)
    cpus = "" if series.tier_cpus is None else f"{series.tier_cpus}cpus"
    parts = [part for part in (cpus, series.tier_disk) if part]
    if named or not parts:
        parts.insert(0, f"{named[1] or 'all'}:{named[2]}" if named else "all:all")
    return "+".join(parts)


def machine_facts(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what a machine has at least, on which a server runs."""
    return {"cores": (1, INF), "memory_bytes": (p.number("shared_buffers") or 1, INF)}


def tier_facts(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from the name of a tier."""
    found: dict[str, Expected] = {"tier": {tier_name(p.series)}}
    if (named := MEMORY.fullmatch(p.series.tier_memory)) and named[1]:
        # What is stored of the server itself is of all shards, or replicas, together.
        several, size = p.series.shards or p.series.replicas or 1, byte_size(named[1])
        found |= {"tier_shared_buffers": {size}, "shared_buffers": {several * size}}
    limits = zip(("tier_iops", "tier_bandwidth"), limits_of(p.series.tier_disk), strict=True)
    return found | {name: {limit} if limit else NOTHING for name, limit in limits}


def tier_memory(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from the memory that a tier is named by."""
    named = MEMORY.fullmatch(p.series.tier_memory)
    size = byte_size(named[2]) if named else 0
    had = near(size, max(OFF * size, LEAST_OFF))
    name = "tier_available" if "tier_available" in p.attrs else "tier_available_at_start"
    return {"tier_ram": {size}, name: had}


def shard_figures(p: CheckedPoint) -> Mapping[str, Expected]:
    """Return what follows from the rows of shards."""
    probes, ordered, rows = p.series.shard_probes or 0, sorted(p.numbers("shard_rows")), p.facts.rows
    asked = near(sum(ordered[:probes]) / rows, ROUNDING)[0], near(sum(ordered[-probes:]) / rows, ROUNDING)[1]
    return {"searched_rows_share": asked} if probes else {}


def server_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield in what a point was measured on other shards or replicas than its series says."""
    series, sizes, rows = point.series, point.numbers("shard_rows"), point.facts.rows
    count, probes, queries = series.shards or 0, series.shard_probes, point.numbers("replica_queries")
    on = f"{series.shards or 'no'} shards asked by '{series.shard_engine}'"
    if (series.shards is None) != (series.shard_engine == ""):
        yield f"has a series of {on}"
    elif (probes is None) == (series.shard_engine == ROUTED) or not 0 < (probes or 1) <= max(count, 1):
        yield f"has a series of {on}, {probes} of them"
    elif sizes and (len(sizes) != count or sum(sizes) != rows):
        yield f"says {sum(sizes):,.0f} rows of {len(sizes)} shards, and has {rows:,} on {on}"
    if queries and point.series.clients is not None and sum(queries) < len(point.times):
        yield f"has {len(point.times):,} latencies, and its replicas had {sum(queries):,.0f} queries"
