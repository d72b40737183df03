"""Points as they are compared: what a result file says about one, and the metrics that are compared."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import variance
from typing import Any

from ann_benchmarks.results.equal_recall import Standing
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.judging import Estimate
from ann_benchmarks.results.measurement import of_runs, throughput
from ann_benchmarks.results.metrics import all_metrics
from ann_benchmarks.results.percentiles import known_percentile
from ann_benchmarks.results.speeds import Speed, speed_of

Key = tuple[str, ...]
QUICK, QUICK_SHARE = "latency_p10", 0.1  # the time of a query that nothing disturbs


@dataclass(frozen=True)
class MeasuredPoint:
    """One result file, or one kind of operation in a phase of a workload that writes.

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
        """Whether the throughput was given, so that it is no property of the index."""
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
        """Return an attribute as a number, NaN where it is missing or is none."""
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
    of_index: bool = False  # points of one built index share it
    drifts: bool = True  # with the speed of the machine


def _throughput(point: MeasuredPoint) -> Estimate:
    return point.speed.estimate if throughput(point.attrs) > 0 else Estimate(math.nan, math.nan, 1)


def _median(point: MeasuredPoint) -> Estimate:
    """Return the median latency of all runs, with the spread of the logarithms of theirs."""
    runs = of_runs(point.attrs, "run_p50")
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


BLOCKS = [f"{of}_blocks_{how}_per_query" for of in ("index", "table") for how in ("hit", "read")]
METRICS: dict[str, ComparedMetric] = {
    "qps": ComparedMetric(all_metrics["qps"].title, _throughput, "faster", "slower"),
    "p10": ComparedMetric("p10 (ms)", _sum(QUICK, scale=1e3)),
    "p50": ComparedMetric(all_metrics["p50"].title, _median),
    # Its runs do not show how well it repeats.
    "p99": ComparedMetric(all_metrics["p99"].title, _percentile("p99")),
    "cpu": ComparedMetric("Server CPU (ms/query)", _cpu, "more", "less"),
    "blocks": ComparedMetric("Blocks (per query)", _sum(*BLOCKS), "more", "fewer", drifts=False),
    "build": ComparedMetric(all_metrics["build"].title, _sum("build_time"), of_index=True),
    "size": ComparedMetric(
        "Index (MB)", _sum("index_size", scale=1 / 1024), "larger", "smaller", True, drifts=False
    ),
}
