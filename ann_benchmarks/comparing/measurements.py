"""Measurements as they are compared: what a result file says of one, without its dataset."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ann_benchmarks.results.intervals import Interval, mean_interval

Key = tuple[str, ...]
QUICK, QUICK_SHARE = "latency_p10", 0.1  # what a query takes that nothing disturbs


class Figure(NamedTuple):
    """A positive number, and the variance that its logarithm has from run to run; NaN where unknown."""

    value: float
    variance: float
    runs: int


@dataclass(frozen=True)
class Measurement:
    """One result file. `key` is what must be alike in A and B; `source` counts what a side was named by."""

    path: Path
    key: Key
    source: int
    attrs: Mapping[str, Any]

    @property
    def point(self) -> str:
        """Name it for people: dataset and count where they are not the same for all, series, arguments."""
        return str(self.attrs.get("name", self.path.stem))

    @property
    def series(self) -> str:
        """The curve's name."""
        return self.path.parent.name

    @property
    def dataset(self) -> str:
        """The dataset's name."""
        return self.path.parts[-4]

    @property
    def count(self) -> str:
        """How many neighbours were asked for."""
        return self.path.parts[-3]

    @property
    def has_rate(self) -> bool:
        """Whether the throughput was given, so that it says nothing."""
        return "rate" in self.attrs and "objective" not in self.attrs

    @cached_property
    def recall(self) -> float | None:
        """The recall, which the file does not hold, but Wilson's interval of it, of which it follows.

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

    def number(self, name: str) -> float:
        """Return an attribute as a number, NaN where it is missing or is none."""
        value = self.attrs.get(name)
        return float(value) if isinstance(value, (int, float)) else math.nan

    def figure(self, metric: str) -> Figure | None:
        """Return one of the figures that are compared, None where it is unknown, not above 0, or given."""
        if metric == "qps" and self.has_rate:
            return None
        figure = METRICS[metric].of(self)
        return figure if 0 < figure.value < math.inf else None


@dataclass(frozen=True)
class Metric:
    """A figure that is compared: its name, how it is read, what more and what less of it is called."""

    title: str
    of: Callable[[Measurement], Figure]
    more: str = "slower"
    less: str = "faster"
    of_index: bool = False  # points of one built index share it


def _throughput(m: Measurement) -> Figure:
    seconds = m.attrs.get("run_seconds", ())
    runs = [seconds] if isinstance(seconds, (int, float)) else list(seconds)
    logarithms = [-math.log(run) for run in runs if run > 0]
    best = m.number("best_search_time")
    return Figure(1 / best if best > 0 else math.nan, _variance(logarithms), max(len(logarithms), 1))


def _variance(values: list[float]) -> float:
    n = len(values)
    if n < 2:
        return math.nan
    mean = math.fsum(values) / n
    return math.fsum((value - mean) ** 2 for value in values) / (n - 1)


def _latency(name: str) -> Callable[[Measurement], Figure]:
    def of(m: Measurement) -> Figure:
        runs = int(m.attrs.get("run_count", 1))
        return Figure(1e3 * m.number(name), _variance_of(m, name, runs), runs)

    return of


def _variance_of(m: Measurement, name: str, runs: int) -> float:
    """Return what Student's interval of the runs' mean says of the spread of their logarithms.

    An interval that was cut off at 0 is reflected at the mean, which is then unknown: its upper half is taken
    from the percentile of all queries.
    """
    low, high = m.number(f"{name}_low"), m.number(f"{name}_high")
    if runs < 2 or not high > 0:
        return math.nan
    mean = (low + high) / 2 if low > 0 else m.number(name)
    unit = mean_interval([1.0] * (runs - 1) + [1.0 + math.sqrt(runs)])  # of a sample with deviation 1
    return ((high - mean) / mean / ((unit.high - unit.low) / 2)) ** 2


def _plain(*names: str, scale: float = 1.0) -> Callable[[Measurement], Figure]:
    def of(m: Measurement) -> Figure:
        return Figure(scale * math.fsum(m.number(name) for name in names), math.nan, 1)

    return of


METRICS: dict[str, Metric] = {
    "qps": Metric("QPS", _throughput, "faster", "slower"),
    "p10": Metric("p10 (ms)", _plain(QUICK, scale=1e3)),
    "p50": Metric("p50 (ms)", _latency("latency_p50")),
    "p99": Metric("p99 (ms)", _plain("latency_p99", scale=1e3)),  # its runs do not tell how well it repeats
    "cpu": Metric(
        "server CPU (ms a query)", _plain("server_cpu_seconds_per_query", scale=1e3), "more", "less"
    ),
    "blocks": Metric(
        "blocks (a query)",
        _plain(*(f"{of}_blocks_{how}_per_query" for of in ("index", "table") for how in ("hit", "read"))),
        "more",
        "fewer",
    ),
    "build": Metric("build (s)", _plain("build_time"), of_index=True),
    "size": Metric("index (MiB)", _plain("index_size", scale=1 / 1024), "larger", "smaller", of_index=True),
}


def is_result(path: Path) -> bool:
    """Whether a file lies where result files do, and is not one that is being written."""
    parts = path.parts
    return len(parts) >= 5 and parts[-3].isdecimal() and path.is_file() and path.stat().st_size > 0
