"""What there is to do, and what is told of it while it is done."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.results.file import result_path
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.records import record_path
from ann_benchmarks.results.series import Series

from .conditions import Conditions


@dataclass(frozen=True)
class Job:
    """A definition on a dataset, with the query arguments of the points that are to be measured."""

    definition: Definition
    points: list[list[Any]]
    dataset: str
    count: int
    runs: int
    batch: bool
    load: Load | None = None  # None: one query after the other, from the algorithm's own process
    warmup: Warmup | None = None  # None: as the algorithm is used to
    target_recall: float | None = None  # each point is searched for, and its arguments are unknown before
    finished: int = 0  # points that were measured before
    show_progress: bool = True
    load_threads: int | None = None  # of a database plug-in; None leaves it the choice
    chunk_size: int | None = None  # rows
    monitoring: bool = True  # of the machine and the server, all the time
    rebuild: bool = False  # although an index is there from an earlier run
    build_only: bool = False
    place: Mapping[str, Any] = field(default_factory=dict)  # facts of where it runs, stored with each point
    conditions: Conditions | None = None  # None: the machine as it is
    found_before: Sequence[Mapping[str, Any]] = ()  # what other curves found for the target recall
    workload: Workload | None = None  # that writes, of which the one point is

    def path(self, query_arguments: list[Any]) -> Path:
        """Where the result of one of its points lies."""
        arguments = self.definition.arguments + query_arguments
        path = result_path(self.dataset, self.count, self.series.folder, arguments)
        return path if self.workload is None else record_path(path)

    def paths(self) -> list[tuple[Path, list[Any]]]:
        """Where the results of all its points lie, with the arguments of each."""
        return [(self.path(query_arguments), query_arguments) for query_arguments in self.points]

    @property
    def is_cold(self) -> bool:
        """Whether every run begins with cold caches."""
        return self.warmup is not None and self.warmup.is_off

    @property
    def series(self) -> Series:
        """The series that the points belong to."""
        load = self.workload or self.load
        return Series(
            self.definition.algorithm,
            self.definition.version,
            self.batch,
            is_cold=self.is_cold,
            **(load.series if load is not None else {}),
            **(self.conditions.series if self.conditions is not None else {}),
        )

    @property
    def by_clients(self) -> str:
        """The end of a line that says who asks, empty for one query after the other."""
        text = "" if self.load is None else f" {self.load}"
        if self.workload is not None:
            text = f", {self.workload}"
        text = f"{text}, cold" if self.is_cold else text
        return text if self.conditions is None else f"{text} on {self.conditions}"


@dataclass(frozen=True)
class Built:
    """The index is there: seconds that it took, KiB or None, and whether it is one of an earlier run."""

    build_time: float
    index_size: float | None
    is_reused: bool = False


@dataclass(frozen=True)
class PointDone:
    """A point is stored: share of true neighbours found, queries per second, latencies and build in s."""

    label: str
    path: Path
    recall: float
    recall_interval: Interval
    queries_per_second: float
    slowest_run: float | None  # queries per second, where the runs differ by more than noise
    p50: float
    p99: float
    build_time: float
    main_wait: str = ""  # what the server's sessions mostly waited for, with its share of the time


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
    """Something that the user should know and that stops nothing."""

    text: str


Event = Built | PointDone | PhaseDone | WorkloadDone | PointFailed | Note


@dataclass(frozen=True)
class Finished:
    """The request has been carried out."""


@dataclass(frozen=True)
class Failure:
    """The request has failed: one line for the user, a traceback for whoever mends it."""

    text: str
    details: str = ""
    is_unavailable: bool = False  # something that the plug-in needs is not installed
