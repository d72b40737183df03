"""Whether a result lies where its series and arguments say, and says one thing of itself.

Each function yields what is wrong with a point by itself.
"""

import json
import re
from collections.abc import Callable, Iterator

from ann_benchmarks.common.numbers import byte_size
from ann_benchmarks.definitions.servers import ROUTED
from ann_benchmarks.fields.rows import FIELDS
from ann_benchmarks.results.file import LONGEST_NAME, result_path

from ..files import remove_brackets
from .points import CheckedPoint

RELEASES = {"pgvector": "vector_version", "vchord": "vchord_version", "pgvectorscale": "vectorscale_version"}
ROUNDING = 1e-9  # of a share
MEGABYTE = 10**6  # of bandwidths
# Operations and bytes per second of the disks that have names.
LIMITS = {"gp3": (3_000, 125 * MEGABYTE), "gp3-16k": (16_000, 1_000 * MEGABYTE), "nvme": (None, None)}
_LIMIT = re.compile(r"(\d+)(iops|MBps)")
MEMORY = re.compile(r"(?:sb(\d+[MG]B)-)?ram(\d+[MG]B|all)")  # shared_buffers and RAM in the name of a tier


def _is_server_here(point: CheckedPoint) -> bool:
    """Whether the server ran on the machine of its clients, whose CPUs Linux counts."""
    is_own = point.attrs.get("server") in ("embedded", "installed")
    return is_own and str(point.attrs.get("kernel")).startswith("Linux")


# What results store, by what they are of, since there are bundles.
STORED: tuple[tuple[str, Callable[[CheckedPoint], bool], tuple[str, ...]], ...] = (
    ("a result", lambda point: True, (
        "cpu", "cores", "memory_bytes", "kernel", "python", "framework_version", "run_count", "run_seconds",
        "run_started", "run_recalls", "run_p50", "asking_seconds", "latency_queries", "build_time",
        "candidates", "recall_low", "recall_high", "qps_mean", "runs_disagree", "warmup",
    )),
    ("queries by clients", lambda point: point.series.clients is not None, (
        "clients", "query_order", "driver", "loop", "active_seconds", "queries_asked", "queries_counted",
        "client_cpu_share", "client_cpu_seconds_per_query", "clients_were_limit",
    )),
    ("a closed loop", lambda point: point.series.clients is not None and not point.series.is_open,
     ("clients_waiting_share",)),
    ("a rate", lambda point: point.series.is_open, (
        "rate", "queries_due", "queries_unanswered", "service_p50", "service_p99", "clients_late_seconds",
        "lead_in_seconds", "steady_state",
    )),
    ("queries by pgbench", lambda point: point.series.driver == "pgbench", ("pgbench_version",)),
    ("a server", lambda point: "postgres_version" in point.attrs, (
        "server", "load_time", "index_build_time", "index_size", "settings",
    )),
    ("an external server", lambda point: point.attrs.get("server") == "external", ("server_address",)),
    ("a server here", _is_server_here, ("machine_busy_share", "server_cpu_seconds_per_query")),
    ("rounds", lambda point: "run_rounds" in point.attrs, ("rounds",)),
    ("rounds since format 2", lambda point: "rounds" in point.attrs and "result_format" in point.attrs,
     ("rounds_chain", "rounds_turns")),
    ("a search for a recall", lambda point: "target_recall" in point.attrs,
     ("target_parameter", "target_value")),
)  # fmt: skip
# Of these, what nothing else can have stored.
TELLING = (
    *("clients", "loop", "active_seconds", "clients_waiting_share", "queries_due"),
    *("pgbench_version", "server_address"),
)
ALTERNATIVES = ("asked_duration", "asked_queries")  # one run ends after a time or after a number, not by both


def contradictions(point: CheckedPoint) -> Iterator[str]:
    """Yield the attributes that the file holds twice, lacks, or has and should not have."""
    for name in point.stored.contradictions:
        yield f"holds its attribute '{name}' twice, with two values"
    for what, is_so, names in STORED:
        is_stored = is_so(point)
        for name in names:
            if is_stored and name not in point.attrs:
                yield f"lacks '{name}', which is stored of {what}"
            elif not is_stored and name in TELLING and name in point.attrs:
                yield f"has '{name}', which is stored only of {what}"
    if all(name in point.attrs for name in ALTERNATIVES):
        yield f"has {' and '.join(ALTERNATIVES)}: a run ends after a time or after a number of queries"


def series_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield where the folder, the name or an attribute of a point contradicts its series."""
    series = point.series
    if (folder := remove_brackets(series.folder)) != point.folder:
        yield f"its series is '{folder}', and it lies in '{point.folder}'"
    if (said := point.attrs.get("algo")) != series.label:
        yield f"says algo '{said}', and its series is '{series.label}'"
    for problems in (field_problems, _load_problems, _shard_problems, tier_problems, name_problems):
        yield from problems(point)
    if re.fullmatch(r"v?\d+(\.\d+)+", series.version):  # a tag that is a release
        for stem, name in RELEASES.items():
            said = point.attrs.get(name)
            if series.algorithm.startswith(stem) and said not in (None, series.version.lstrip("v")):
                yield f"says {name} {said}, and its series the version {series.version}"


def dataset_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield what a point says of its dataset that the bundle does not."""
    for name, value in {"dataset": point.dataset, "distance": point.facts.metric}.items():
        if point.attrs.get(name) != value:
            yield f"says {name} {point.attrs.get(name)}, and the bundle {value}"
    if point.truth.matches is not None:
        share, said = float(point.truth.matches.mean()) / point.facts.rows, point.number("selectivity")
        if said is None or abs(said - share) > ROUNDING:
            yield f"says selectivity {said}, and {share:.6g} of the rows pass its filters"


def field_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield in what a point says another thing of itself than the fields of its series."""
    for field in FIELDS.values():
        name, expected = field.attribute, getattr(point.series, field.name)
        said, is_special = point.attrs.get(name), expected != field.default
        if name and said is None and is_special:
            yield f"does not say {name}, and its series does"
        elif said is not None and said != expected and (is_special or not field.is_also_measured):
            yield f"says {name} {said}, and its series {expected}"
        name, is_number = field.evidence, field.kind is int
        there = len(point.numbers(name)) if is_number else name in point.attrs
        if name and there != ((expected or 0) if is_number else is_special):
            said = f"of {there} {field.id}" if is_number else point.attrs.get(name)
            yield f"says {name} {said}, and its series '{expected or ''}'"


def _load_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield in what a point was measured under another load than its series says."""
    attrs, series = point.attrs, point.series
    if series.clients is not None and attrs.get("loop") != ("open" if series.is_open else "closed"):
        at = "a rate" if series.is_open else "no rate"
        yield f"says loop {attrs.get('loop')}, and its series has {at}"
    if series.is_cold and attrs.get("warmup") != "off":
        yield f"says warmup {attrs.get('warmup')}, and its series is cold"
    read = [point.number(f"{what}_blocks_read_per_query") for what in ("index", "table")]
    if series.is_cold and attrs.get("caches_dropped") and None not in read and not any(read):
        yield "its server has read no block in its runs, and its series is cold"


def _shard_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield in what a point was measured on other shards than its series says."""
    series, sizes, rows = point.series, point.numbers("shard_rows"), point.facts.rows
    count, probes = series.shards or 0, series.shard_probes
    on = f"{series.shards or 'no'} shards asked by '{series.shard_engine}'"
    if (series.shards is None) != (series.shard_engine == ""):
        yield f"has a series of {on}"
    elif (probes is None) == (series.shard_engine == ROUTED) or not 0 < (probes or 1) <= max(count, 1):
        yield f"has a series of {on}, {probes} of them"
    elif (sizes or probes) and (len(sizes) != count or sum(sizes) != rows):
        yield f"says {sum(sizes):,.0f} rows of {len(sizes)} shards, and has {rows:,} on {on}"
    elif probes:
        share, ordered = point.number("searched_rows_share"), sorted(sizes)
        least, most = sum(ordered[:probes]) / rows, sum(ordered[-probes:]) / rows
        if share is None or not least - ROUNDING <= share <= most + ROUNDING:
            what = f"{probes} of its shards have {least:.3g} to {most:.3g} of the rows"
            yield f"says searched_rows_share {share}, and {what}"


def tier_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield in what the simulated server of a point is another one than its series names."""
    attrs, series = point.attrs, point.series
    if not series.tier_method:
        return
    named = MEMORY.fullmatch(series.tier_memory)
    parts = [f"{series.tier_cpus}cpus" if series.tier_cpus is not None else "", series.tier_disk]
    parts = [part for part in parts if part]
    if named or not parts:
        parts.insert(0, f"{named[1] or 'all'}:{named[2]}" if named else "all:all")
    if attrs.get("tier") != "+".join(parts):
        yield f"says tier {attrs.get('tier')}, and its series {'+'.join(parts)}"
    if named and named[1]:
        # What is stored of the server itself is of all shards, or replicas, together.
        several = series.shards or series.replicas or 1
        for name, servers in (("tier_shared_buffers", 1), ("shared_buffers", several)):
            if point.number(name) != servers * byte_size(named[1]):
                yield f"says {name} {attrs.get(name)}, and its series {named[1]}"
    for name, limit in zip(("tier_iops", "tier_bandwidth"), limits_of(series.tier_disk), strict=True):
        if point.number(name) != limit:
            yield f"says {name} {attrs.get(name)}, and its series {series.tier_disk or 'no disk'}"


def limits_of(disk: str) -> tuple[int | None, int | None]:
    """Return the operations and bytes per second of a disk by its name, such as gp3 or 3000iops-125MBps."""
    if disk in LIMITS:
        return LIMITS[disk]
    found = {unit: int(number) for number, unit in _LIMIT.findall(disk)}
    bandwidth = found.get("MBps")
    return found.get("iops"), None if bandwidth is None else bandwidth * MEGABYTE


def name_problems(point: CheckedPoint) -> Iterator[str]:
    """Yield where the name of a file is not made of its build arguments and what it was searched for."""
    build, target = point.build_arguments, point.target
    if build is None:
        yield "does not say its build arguments"
    elif len(point.name) < LONGEST_NAME:
        if not point.name.startswith(tuple(file_names(build))):
            yield f"its build arguments are {json.dumps(build)}, which its name does not begin with"
        if "target_parameter" in point.attrs and (
            target is None or point.name not in file_names(build, f"target_recall={target:g}")
        ):
            yield f"was searched for a recall of {target}, which its name does not say"


def file_names(build: list[object], *others: object) -> list[str]:
    """Return the names that arguments may have: an array of HDF5 has whole numbers as floats among others."""
    whole = [int(one) if isinstance(one, float) and one.is_integer() else one for one in build]
    paths = [result_path("x", 1, "x", [*either, *others]) for either in (build, whole)]
    return [path.name.removesuffix(".hdf5") for path in paths]
