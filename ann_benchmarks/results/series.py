"""A series: the points that make one curve, as a value with fields that is stored with each of them."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

ATTRIBUTE = "series"  # of a result file: the fields that are not the default, as JSON
OWN_DRIVER = "own"
SHUFFLED = "shuffled"


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

    @property
    def family(self) -> str:
        """The algorithm with its version: what a comparison is between."""
        return f"{self.algorithm}-{self.version}" if self.version else self.algorithm

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
        """The part of the label that says what was written besides its kind."""
        parts = [f"w{self.writers}"] if self.workload else []
        if self.write_rate is not None:
            parts.append(f"r{self.write_rate:.12g}-mix{self.write_mix}")
        if self.loaded is not None:
            parts.append(f"l{self.loaded:.12g}")
        return "-".join([*parts, *(["autovacuum"] if self.autovacuum else [])])

    @property
    def conditions(self) -> str:
        """The label without the family, "" where nothing is special: what a comparison has to share."""
        tier = [
            f"{self.tier_cpus}cpus" if self.tier_cpus is not None else "",
            self.tier_disk,
            self.tier_memory,
        ]
        clients = f"c{self.clients}" if self.clients is not None else ""
        cold = "cold" if self.is_cold else ""
        parts = (self.workload, clients, self.load, self.writing, cold, self.tier_method, *tier)
        return "".join(f"-{part}" for part in parts if part)

    @property
    def label(self) -> str:
        """The name of the curve."""
        return self.family + self.conditions

    @property
    def folder(self) -> str:
        """The name of the folder of its result files, as in ann-benchmarks."""
        return self.label + ("-batch" if self.batch else "")

    @property
    def without_memory(self) -> "Series":
        """The same without the memory of its tier, over which a line of the picture of tiers runs."""
        return replace(self, tier_memory="")

    def as_json(self) -> str:
        """Write the fields that are not the default."""
        default = Series(self.algorithm)
        changed = {name: value for name, value in asdict(self).items() if value != getattr(default, name)}
        return json.dumps({"algorithm": self.algorithm, **changed})


def series_of(attrs: Mapping[str, Any], folder: str) -> Series:
    """Return the series of a result by its attributes, else by the name of its folder.

    Unknown fields, of a newer release, are ignored. A file without the field `series` that names its curve
    by `algo` is read as this project's first releases wrote it; where that does not explain the whole name,
    as of any file of ann-benchmarks, all of the name is the algorithm.
    """
    is_batch = bool(attrs.get("batch_mode", False))
    try:
        known = {field.name for field in fields(Series)}
        stored = json.loads(attrs[ATTRIBUTE])
        return Series(**{name: value for name, value in stored.items() if name in known})
    except (KeyError, TypeError, ValueError, AttributeError):
        label = str(attrs.get("algo", folder.removesuffix("-batch") if is_batch else folder))
        return replace(_read_label(label, attrs), batch=is_batch)


def _read_label(label: str, attrs: Mapping[str, Any]) -> Series:
    """Explain a label by the attributes that were stored next to it."""
    found = Series(
        "",
        clients=_whole(attrs.get("clients")),
        query_order=str(attrs.get("query_order", SHUFFLED)),
        distinct_queries=_whole(attrs.get("distinct_queries")),
        rate=None if attrs.get("objective") else _number(attrs.get("rate")),
        objective=str(attrs.get("objective", "")),
        driver=str(attrs.get("driver", OWN_DRIVER)),
        tier_method=str(attrs.get("tier_method", "")) if attrs.get("tier") else "",
        tier_cpus=_whole(attrs.get("tier_cpus")),
        tier_disk=str(attrs.get("tier_disk", "")),
        tier_memory=str(attrs.get("tier_memory_series", "")).removeprefix("-"),
    )
    for candidate in (replace(found, is_cold=attrs.get("warmup") == "off"), found):
        if candidate.conditions and label.endswith(candidate.conditions) and label != candidate.conditions:
            return _with_version(
                replace(candidate, algorithm=label.removesuffix(candidate.conditions)), attrs
            )
    return _with_version(Series(label), attrs)


def _with_version(series: Series, attrs: Mapping[str, Any]) -> Series:
    """Tell a tag at the end of the name from the name, by the image or the release that it was a tag of."""
    tags = (str(attrs.get("docker_image", "")).rpartition(":")[2], str(attrs.get("vector_version", "")))
    for tag in tags:
        if tag and series.algorithm.endswith(f"-{tag}"):
            return replace(series, algorithm=series.algorithm.removesuffix(f"-{tag}"), version=tag)
    return series


def _number(value: Any) -> float | None:
    try:
        return float(value) if math.isfinite(float(value)) else None
    except (TypeError, ValueError):
        return None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
