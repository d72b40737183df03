"""A series: the points that make one curve, as a value with fields that is stored with each of them."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import LONGEST_FOLDER, too_long
from ann_benchmarks.common.text import clean_text, from_json
from ann_benchmarks.definitions.poolers import Pooler
from ann_benchmarks.definitions.replicas import Replicas
from ann_benchmarks.definitions.shards import Shards

from .kinds import is_number, made_of

ATTRIBUTE = "series"  # of a result file: the fields that are not the default, as JSON
OWN_DRIVER = "own"
SHUFFLED = "shuffled"
EXTENSIONS = ("vector", "vchord")  # whose releases a tag may name on a machine without containers
WRITES = ("insert", "update", "delete")
BATCH = "-batch"  # at the end of the name of a folder, as in ann-benchmarks
FILTERED = "filter-"  # in the name of a folder, before the name of a filter
BESIDE = "@"  # in the name of a folder, before what tells its environment from that of the plain folder


@dataclass(frozen=True)
class Series:
    """How the points of a curve were measured, apart from their build and query arguments.

    The label is made from the fields and names a folder below results/. It is never read back, except of
    files that have no field `series`: those of ann-benchmarks, and those of this project's first releases.
    """

    algorithm: str
    version: str = ""  # the tag that the user named, "" without one
    batch: bool = False
    clients: int | None = None  # None: one query after the other, from the algorithm's own process
    query_order: str = SHUFFLED  # or same, single, zipf:S
    distinct_queries: int | None = None  # None: all of the dataset's
    rate: float | None = None  # requested queries per second; None: a closed loop, or an objective
    objective: str = ""  # such as p99:50ms, for which the highest rate was searched
    driver: str = OWN_DRIVER  # or pgbench
    is_cold: bool = False  # every run began with cold caches
    workload: str = ""  # inserts or writes
    writers: int | None = None
    write_rate: float | None = None  # requested writes per second
    write_mix: str = ""  # shares of inserts, updates and deletes in %, such as 50-25-25
    loaded: float | None = None  # share of the rows that were there at first, where it was requested
    autovacuum: bool = False
    tier_method: str = ""  # hugepages, cgroup or container
    tier_cpus: int | None = None
    tier_disk: str = ""
    tier_memory: str = ""  # such as sb2GB-ram8GB
    environment: str = ""  # what tells its server from another one's with results of the same
    filter: str = ""  # the filter set of its queries, such as uniform:0.01
    post_filter: float | None = None  # times k rows were requested, and filtered afterwards
    payload: str = ""  # what came back beside the ids: text or vector
    settings: str = ""  # of its server, where they were compared: such as "jit=off work_mem=64MB"
    shards: int | None = None  # servers that hold parts of the rows; None: one has all
    shard_engine: str = ""  # what asked them, such as fdw
    shard_probes: int | None = None  # how many of them a query asked; None: all
    pooler: str = ""  # what queries went through, such as pgbouncer:transaction
    pool_size: int | None = None  # its connections to the server, where that was requested
    replicas: int | None = None  # servers that clients queried in place of their primary; None: the primary

    @property
    def name(self) -> str:
        """The algorithm with its version, servers and settings, and how its answers were filtered."""
        post = "" if self.post_filter is None else f"post{self.post_filter:.12g}"
        replicas, settings = str(Replicas(self.replicas or 0)), self.settings.replace(" ", "-")
        parts = [self.algorithm, self.version, self.sharding, self.pooling, replicas, settings, post]
        return "-".join(part for part in parts if part)

    @property
    def sharding(self) -> str:
        """The part of the name that says on how many shards it was, such as shards4-fdw."""
        if self.shards is None:
            return ""
        return str(Shards(self.shards, self.shard_engine, probes=self.shard_probes))

    @property
    def on_one_server(self) -> "Series":
        """The same without shards."""
        return replace(self, shards=None, shard_engine="", shard_probes=None)

    @property
    def has_several_servers(self) -> bool:
        """Whether shards or replicas answered: each has the memory of a tier."""
        return bool(self.shards or self.replicas)

    @property
    def pooling(self) -> str:
        """The part of the name that says which pooler it was, such as pgbouncer-transaction."""
        return str(Pooler(self.pooler, self.pool_size)) if self.pooler else ""

    @property
    def setting_names(self) -> set[str]:
        """The names of the settings."""
        return {word.partition("=")[0] for word in self.settings.split()}

    @property
    def _where(self) -> str:
        return f" ({self.environment})" if self.environment else ""

    @property
    def family(self) -> str:
        """The name with what tells its server from others: what a comparison is between."""
        return self.name + self._where

    @property
    def is_open(self) -> bool:
        """Whether queries came at a rate, so that the throughput says nothing about the index."""
        return self.rate is not None or bool(self.objective)

    @property
    def load(self) -> str:
        """The part of the label that says what was special about the load, besides clients and tier."""
        parts = []
        if self.query_order != SHUFFLED:
            parts.append(self.query_order.replace(":", ""))
        if self.distinct_queries is not None:
            parts.append(f"q{self.distinct_queries}")
        if self.rate is not None:
            parts.append(f"r{self.rate:.12g}")
        if self.objective:
            parts.append(f"slo-{self.objective}".replace(":", "-"))
        if self.driver != OWN_DRIVER:
            parts.append(self.driver)
        return "-".join(parts)

    @property
    def writing(self) -> str:
        """The part of the label that says what was written, apart from the kind of workload."""
        parts = [f"w{self.writers}"] if self.workload else []
        if self.write_rate is not None:
            parts.append(f"r{self.write_rate:.12g}-mix{self.write_mix}")
        if self.loaded is not None:
            parts.append(f"l{self.loaded:.12g}")
        return "-".join([*parts, *(["autovacuum"] if self.autovacuum else [])])

    @property
    def special(self) -> str:
        """The part of the label that neither clients nor tier explain, such as q64 or slo-p99-50ms-cold."""
        filtered = f"{FILTERED}{self.filter}".replace(":", "-") if self.filter else ""
        payload = f"payload-{self.payload}" if self.payload else ""
        parts = [self.load, self.writing, filtered, payload, "cold" * self.is_cold]
        return "-".join(part for part in parts if part)

    @property
    def conditions(self) -> str:
        """The part of the label beside the family, "" where nothing is special: what a comparison shares."""
        cpus = f"{self.tier_cpus}cpus" if self.tier_cpus is not None else ""
        tier = (self.tier_method, cpus, self.tier_disk, self.tier_memory)
        clients = f"c{self.clients}" if self.clients is not None else ""
        parts = (self.workload, clients, self.special, *tier)
        return "".join(f"-{part}" for part in parts if part)

    @property
    def label(self) -> str:
        """The name of the curve."""
        return self.name + self.conditions + self._where

    @property
    def folder(self) -> str:
        """The name of the folder of its result files, as in ann-benchmarks."""
        where = f"{BESIDE}{self.environment}" if self.environment else ""
        return self.name + self.conditions + where + (BATCH if self.batch else "")

    @property
    def without_memory(self) -> "Series":
        """The same without the memory of its tier, over which a line of the picture of tiers runs."""
        return replace(self, tier_memory="")

    def as_json(self) -> str:
        """Write the fields that are not the default."""
        default = Series(self.algorithm)
        changed = {name: value for name, value in asdict(self).items() if value != getattr(default, name)}
        return json.dumps({"algorithm": self.algorithm, **changed})


FIELDS = {field.name for field in fields(Series)}


def series_from(stored: Mapping[str, Any]) -> Series:
    """Return the series of fields as JSON holds them, ignoring unknown ones; TypeError for a wrong value."""
    return made_of(Series, {name: value for name, value in stored.items() if name in FIELDS})


def series_of(attrs: Mapping[str, Any], folder: str) -> Series:
    """Return the series of a result or workload by its attributes, else by the name of its folder.

    Unknown fields, of a newer release, are ignored. A file without the field `series` that names its curve
    by `algo` is read as this project's first releases wrote it; where that does not explain the whole name,
    as of any file of ann-benchmarks, all of the name is the algorithm. UserError for a name that no folder
    can have.
    """
    series = _series_of(attrs, folder)
    if problem := too_long(series.folder, LONGEST_FOLDER):
        raise UserError(f"the name of its series {problem}: it names a folder")
    return series


def _series_of(attrs: Mapping[str, Any], folder: str) -> Series:
    if found := stored_series(attrs):
        return found
    is_batch = bool(attrs.get("batch_mode", False))
    label = clean_text(attrs.get("algo", folder.removesuffix("-batch") if is_batch else folder))
    return replace(_explained(label, attrs), batch=is_batch)


def stored_series(attrs: Mapping[str, Any]) -> Series | None:
    """Return the series by its field of the attributes, None where there is none that can be read."""
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        return series_from(from_json(attrs[ATTRIBUTE], dict[str, Any]()))
    return None


def _explained(label: str, attrs: Mapping[str, Any]) -> Series:
    """Explain a label by the attributes that were stored next to it."""
    workload = str(attrs.get("workload", ""))
    shares = [_number(attrs.get(f"{kind}_share")) for kind in WRITES]
    known = Series(
        "",
        clients=_whole(attrs.get("clients")),
        query_order=str(attrs.get("query_order", SHUFFLED)),
        distinct_queries=_whole(attrs.get("distinct_queries")),
        rate=None if workload or attrs.get("objective") else _number(attrs.get("rate")),
        objective=str(attrs.get("objective", "")),
        driver=str(attrs.get("driver", OWN_DRIVER)),
        workload=workload,
        writers=_whole(attrs.get("writers")),
        write_rate=_number(attrs.get("write_rate")),
        write_mix="-".join(f"{100 * share:.4g}" for share in shares if share is not None),
        autovacuum=bool(workload and attrs.get("autovacuum")),
        tier_method=str(attrs.get("tier_method", "")) if attrs.get("tier") else "",
        tier_cpus=_whole(attrs.get("tier_cpus")),
        tier_disk=str(attrs.get("tier_disk", "")),
        tier_memory=str(attrs.get("tier_memory_series", "")).removeprefix("-"),
    )
    candidates = [replace(known, is_cold=True), known] if attrs.get("warmup") == "off" else [known]
    if workload:  # the share of rows that was requested is stored in the label alone
        requested = re.findall(r"-l(\d[\d.e-]*\d|\d)", label)
        candidates += [replace(known, loaded=_number(share)) for share in requested]
    for candidate in candidates:
        algorithm = label.removesuffix(candidate.conditions)
        if algorithm not in ("", label):
            return _with_version(replace(candidate, algorithm=algorithm), attrs)
    return _with_version(Series(label), attrs)


def _with_version(series: Series, attrs: Mapping[str, Any]) -> Series:
    """Separate a tag at the end of the name from it, by the image or the release that was used."""
    image = str(attrs.get("docker_image", "")).rpartition(":")[2]
    for tag in (image, *(str(attrs.get(f"{extension}_version", "")) for extension in EXTENSIONS)):
        algorithm = series.algorithm.removesuffix(f"-{tag}")
        if tag and algorithm not in ("", series.algorithm):
            return replace(series, algorithm=algorithm, version=tag)
    return series


def _number(value: Any) -> float | None:
    with suppress(TypeError, ValueError, OverflowError):
        return float(value) if is_number(float(value)) else None
    return None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
