"""Points as they are compared: what a result file says about one, and the metrics that are compared.

A machine whose speed drifts makes the side that was measured later look slower, or faster. Where the sides
take turns, the drift is in the spread of each; where they do not, nothing shows it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from ann_benchmarks.common.numbers import variance
from ann_benchmarks.common.text import from_json
from ann_benchmarks.fields.rows import FIELDS
from ann_benchmarks.results.measurement import has_mean_throughput, numbers, speed_of, throughput
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.statistics.differences import Estimate
from ann_benchmarks.statistics.intervals import Interval
from ann_benchmarks.statistics.percentiles import known_percentile
from ann_benchmarks.statistics.speeds import Speed, Standing

Key = tuple[str, ...]
LONG = 3  # repetitions to a stretch of one side, on average; 17% of random orders of five and five have it
MACHINE = ("cpu", "cores", "memory_bytes", "kernel", "python", "framework_version")
INDEX = (
    "dataset", "truth", "distance", "build_arguments",
    "target_recall", "target_value", "target_missed",
    "shared_buffers", "maintenance_work_mem", "max_parallel_maintenance_workers", "prewarmed_by",
    "docker_image", "docker_image_id", "container_memory_bytes", "graph_overflow_rows",
)  # fmt: skip
LOAD = (
    "algo", "loop", "asked_duration", "asked_queries", "run_count", "count", "warmup", "client_machines",
    "tier", "tier_ram", "tier_shared_buffers",
)  # fmt: skip
FREE_DISK = "setting max_wal_size"  # embedded servers choose a different one each time, by the free disk
QUICK, QUICK_SHARE = "latency_p10", 0.1  # the time of a query that nothing disturbs


@dataclass(frozen=True)
class MeasuredPoint:
    """One result file.

    `key` is what must be alike in A and B; `source` numbers the repetitions of a side.
    """

    path: Path
    key: Key
    source: int
    attrs: Mapping[str, Any]
    stands: Standing | None = None  # what its throughput is known from, where that is one at a recall

    @property
    def name(self) -> str:
        """Its name for people, without what is the same for all results of its folder."""
        return str(self.attrs.get("name", self.path.stem))

    @property
    def has_rate(self) -> bool:
        """Whether the throughput was given, so that it says nothing about the index."""
        return "rate" in self.attrs and "objective" not in self.attrs

    @cached_property
    def recall(self) -> float | None:
        """The recall, which follows from its interval: the file does not hold it.

        Wilson's bounds l and h are the roots of (1 + c) p^2 - (2 m + c) p + m^2, in which m is the mean; from
        their sum and their product, m = s / (s + r) with s = sqrt(l h) and r = sqrt((1 - l) (1 - h)).
        """
        if self.recall_interval is None:
            return None
        low, high = self.recall_interval
        found, missed = math.sqrt(low * high), math.sqrt((1 - low) * (1 - high))
        return found / (found + missed) if found + missed else None

    @property
    def recall_interval(self) -> Interval | None:
        """Wilson's 95% interval, None where it is not stored."""
        low, high = self.number("recall_low"), self.number("recall_high")
        return Interval(low, high) if 0 <= low <= high <= 1 else None

    @cached_property
    def speed(self) -> Speed:
        """Its throughput, rounds and recall, which is NaN where it is not known."""
        recall = math.nan if self.recall is None else self.recall
        index = str(self.attrs.get("build_arguments", self.number("build_time")))
        return speed_of(self.attrs, recall, throughput(self.attrs), index)

    def number(self, name: str) -> float:
        """Return an attribute as a number, NaN where it is missing or not a number."""
        value = self.attrs.get(name)
        return float(value) if isinstance(value, (int, float)) else math.nan

    def estimate(self, metric: str) -> Estimate | None:
        """Return one of the metrics that are compared, None where it is unknown, not above 0, or given."""
        if metric == "qps" and self.has_rate:
            return None
        found = METRICS[metric].of(self)
        return found if 0 < found.value < math.inf else None


@dataclass(frozen=True)
class ComparedMetric:
    """A metric that is compared: its title, how it is read, and the words for more and for less of it."""

    title: str
    of: Callable[[MeasuredPoint], Estimate]
    more: str = "slower"
    less: str = "faster"
    per_index: bool = False  # points of one built index share it
    drifts: bool = True  # with the speed of the machine


def _throughput(point: MeasuredPoint) -> Estimate:
    return point.speed.estimate if throughput(point.attrs) > 0 else Estimate(math.nan, math.nan, 1)


def _median(point: MeasuredPoint) -> Estimate:
    """Return the median latency of all runs, with the spread of the logarithms of theirs."""
    runs = [seconds for seconds in numbers(point.attrs.get("run_p50")) if seconds > 0]
    spread = variance(map(math.log, runs)) if len(runs) > 1 else math.nan
    return Estimate(_percentile("p50")(point).value, spread, max(len(runs), 1))


def _percentile(name: str) -> Callable[[MeasuredPoint], Estimate]:
    """Return what reads a percentile, in ms, if there are enough queries for it."""

    def read(point: MeasuredPoint) -> Estimate:
        seconds = known_percentile(point.attrs, name)
        return Estimate(math.nan if seconds is None else 1e3 * seconds, math.nan, 1)

    return read


def _sum(*names: str, scale: float = 1.0) -> Callable[[MeasuredPoint], Estimate]:
    return lambda point: Estimate(scale * math.fsum(map(point.number, names)), math.nan, 1)


def _cpu(point: MeasuredPoint) -> Estimate:
    """Return what the server took, with the pooler in front of it, where there is one."""
    of_pooler = point.number("pooler_cpu_seconds_per_query")
    found = _sum("server_cpu_seconds_per_query", scale=1e3)(point)
    return found if math.isnan(of_pooler) else found._replace(value=found.value + 1e3 * of_pooler)


def alike_throughputs(*sides: Sequence[MeasuredPoint]) -> list[list[MeasuredPoint]]:
    """Return points with the throughputs of their best runs, where files of ann-benchmarks state no other."""
    if all(has_mean_throughput(point.attrs) for side in sides for point in side):
        return [list(side) for side in sides]
    of_all = ("run_seconds", "qps_mean")
    return [
        [
            replace(point, attrs={name: v for name, v in point.attrs.items() if name not in of_all})
            for point in side
        ]
        for side in sides
    ]


Estimates = dict[Key, dict[int, Estimate]]  # by point and repetition
BLOCKS = [f"{of}_blocks_{how}_per_query" for of in ("index", "table") for how in ("hit", "read")]
METRICS: dict[str, ComparedMetric] = {
    "qps": ComparedMetric(all_metrics["qps"].title, _throughput, "faster", "slower"),
    "p10": ComparedMetric("p10 (ms)", _sum(QUICK, scale=1e3)),
    "p50": ComparedMetric(all_metrics["p50"].title, _median),
    # Its runs do not show how well it repeats.
    "p99": ComparedMetric(all_metrics["p99"].title, _percentile("p99")),
    "cpu": ComparedMetric("Server CPU (ms/query)", _cpu, "more", "less"),
    "blocks": ComparedMetric("Blocks (per query)", _sum(*BLOCKS), "more", "fewer", drifts=False),
    "build": ComparedMetric(all_metrics["build"].title, _sum("build_time"), per_index=True),
    "size": ComparedMetric(
        "Index (MB)", _sum("index_size", scale=1 / 1024), "larger", "smaller", True, drifts=False
    ),
}


def group_by_key(side: Iterable[MeasuredPoint]) -> dict[Key, list[MeasuredPoint]]:
    """Return the repetitions of each point."""
    groups: dict[Key, list[MeasuredPoint]] = {}
    for point in side:
        groups.setdefault(point.key, []).append(point)
    return groups


def known_estimates(metric: str, points: Iterable[MeasuredPoint]) -> Estimates:
    """Return the known values of a metric, by point and repetition."""
    found: Estimates = {}
    for point in points:
        if (estimate := point.estimate(metric)) is not None:
            found.setdefault(point.key, {})[point.source] = estimate
    return found


def are_in_blocks(a: Sequence[MeasuredPoint], b: Sequence[MeasuredPoint]) -> bool:
    """Whether repetitions of a side were measured in long stretches, such as all of A before all of B.

    False where a side has no time, or neither has repetitions.
    """
    times = [(at, name) for name, side in (("A", a), ("B", b)) for at in _starts(side)]
    if len(times) < 3 or any(math.isnan(at) for at, _ in times):
        return False
    names = [name for _, name in sorted(times)]
    stretches = 1 + sum(one != other for one, other in pairwise(names))
    return stretches <= max(2, round(len(names) / LONG))


def _starts(side: Iterable[MeasuredPoint]) -> list[float]:
    """Return when each repetition began, in UNIX seconds, NaN where that is not known."""
    starts: dict[int, float] = {}
    for point in side:
        at = started(point)
        known = starts.setdefault(point.source, at)
        starts[point.source] = at if math.isnan(known) else min(known, at)
    return list(starts.values())


def started(point: MeasuredPoint) -> float:
    """Return when a point's first run began, else when the point did; NaN where it does not say so."""
    if runs := numbers(point.attrs.get("run_started")):
        return min(runs)
    try:
        return datetime.fromisoformat(str(point.attrs.get("started_at"))).timestamp()
    except ValueError:
        return math.nan


def property_names() -> list[str]:
    """Return the attributes that are compared, in the order in which they are shown."""
    return [*MACHINE, *INDEX, *LOAD, *(field.attribute for field in FIELDS.values() if field.attribute)]


def properties(attrs: Mapping[str, Any]) -> dict[str, str]:
    """Return as text what was requested and under which conditions, without what differs each time."""
    found = {name: attrs[name] for name in property_names() if name in attrs}
    found |= {name: value for name, value in attrs.items() if name.endswith("_version")}
    found |= {
        f"setting {name}": value for name, value in from_json(attrs.get("settings"), dict[str, Any]()).items()
    }
    found.pop(FREE_DISK, None)
    return {name: str(value) for name, value in found.items()}
