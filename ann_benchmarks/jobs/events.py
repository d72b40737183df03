"""What the process that carries out a job reports."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ann_benchmarks.results.remarks import Remark
from ann_benchmarks.statistics.intervals import Interval


@dataclass(frozen=True)
class BuildBegun:
    """A job that only builds has something to load or to build, and has not found all of it."""


@dataclass(frozen=True)
class Built:
    """The index is there: seconds that it took, KiB or None, and whether it is one of an earlier run."""

    build_time: float
    index_size: float | None
    is_reused: bool = False


@dataclass(frozen=True)
class PointDone:
    """A point is stored: share of true neighbours found, queries per second, latencies and build in s.

    The queries per second are the mean of the runs. A percentile is None where it has too few queries.
    """

    label: str
    path: Path
    recall: float
    recall_interval: Interval
    runs: int
    queries_per_second: float
    qps_interval: Interval | None
    slowest_run: float | None  # queries per second, where the runs differ by more than noise
    p50: float | None
    p99: float | None
    build_time: float
    completeness: float | None = None  # rows returned over those that there were; None without a filter
    main_wait: str = ""  # what the server's sessions mostly waited for, with its share of the time


@dataclass(frozen=True)
class TurnDone:
    """A point of a job, by its place, has been measured for one run of a round; seconds a query.

    With `is_short`, it does not reach the target recall.
    """

    job: str  # its label
    point: int
    round: int
    seconds_per_query: float
    is_short: bool = False


@dataclass(frozen=True)
class PhaseDone:
    """A phase of a workload has been measured: one line of what and how much."""

    text: str


@dataclass(frozen=True)
class WorkloadDone:
    """A workload has been measured, and its record is stored."""

    label: str
    path: Path


@dataclass(frozen=True)
class PointFailed:
    """A point could not be measured, and nothing is stored of it; the next one is begun."""

    label: str
    reason: str
    details: str = ""  # a traceback for whoever mends it


@dataclass(frozen=True)
class Note:
    """Something that the user should know and that stops nothing.

    A remark about a measured `point`, by its label, may be the same for many: it is said once, in the end, as
    it is of the one with the highest `severity`; None: of the one with the largest figures.
    """

    text: str
    point: str = ""
    severity: float | None = None

    @classmethod
    def about(cls, point: str, text: str) -> "Note":
        """Return the note of a remark about a point."""
        severity = text.severity if isinstance(text, Remark) else None
        return cls(str(text), point, None if severity is None else float(severity))

    @property
    def remark(self) -> str:
        """The text, with its severity where that is known."""
        return self.text if self.severity is None else Remark(self.text, self.severity)


@dataclass(frozen=True)
class Finished:
    """The request has been carried out."""


@dataclass(frozen=True)
class Failure:
    """The request has failed: one line for the user, a traceback for whoever mends it."""

    text: str
    details: str = ""
    is_unavailable: bool = False  # something that the plug-in needs is not installed
    ends_run: bool = False  # no other definition can run either
    ends_worker: bool = False  # the process has ended, with all that it held


@dataclass(frozen=True)
class Located:
    """What is known of a plug-in: attributes that all of its results would have here, or versions by name."""

    facts: dict[str, Any]


Event = BuildBegun | Built | TurnDone | PointDone | PhaseDone | WorkloadDone | PointFailed | Note
