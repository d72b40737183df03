"""What there is to do: a job is a definition with its points, and how they are measured."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Protocol

from ann_benchmarks.definitions.definition import Definition, label
from ann_benchmarks.definitions.selection import joined
from ann_benchmarks.fields.rows import GROUPS
from ann_benchmarks.fields.series import Series
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.plugin import Watch
from ann_benchmarks.results.environment import MEMORY_DIVIDED, Facts
from ann_benchmarks.results.file import result_path
from ann_benchmarks.results.records import record_path

from .places import Folders, found_before
from .rounds import Rounds


class Conditions(Protocol):
    """One set of conditions: comparable, and picklable for the process that measures."""

    @property
    def series(self) -> Mapping[str, Any]:
        """The fields of the series that is measured under them."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Attributes of every point that is measured under them."""

    def watch(self) -> Watch:
        """Observe in a run that they hold."""

    def kills(self) -> int:
        """Return how many processes the system has ended so far because the memory was used up."""

    def shortage(self) -> str:
        """Say which memory that was, and what to do."""

    def check(self, facts: Mapping[str, Any]) -> None:
        """Raise UserError where what was observed in a run, also by others, shows that they did not hold."""


@dataclass(frozen=True)
class Procedure:
    """How points are measured."""

    own_fields: ClassVar = ("batch", "is_cold", "filter", "payload")  # of a series, as named here

    runs: int = 1
    batch: bool = False
    load: Load | None = None  # None: one query after the other, from the algorithm's own process
    workload: Workload | None = None  # it writes, and has one point
    warmup: Warmup | None = None  # None: as the algorithm is used to
    target_recall: float | None = None  # each point is searched for, and its arguments are unknown before
    conditions: Conditions | None = None  # None: the machine as it is
    rounds: Rounds | None = None  # None: one point after the other
    filter: str = ""  # the filter set of its queries, "" for none
    payload: str = ""  # what comes back beside the ids: text or vector, "" for nothing

    @property
    def is_cold(self) -> bool:
        """Whether every run begins with cold caches."""
        return self.warmup is not None and self.warmup.is_off

    @property
    def _own(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.own_fields}

    @property
    def series(self) -> dict[str, Any]:
        """The fields of a series that follow from it."""
        load = self.workload or self.load
        return {
            **self._own,
            **(load.series if load is not None else {}),
            **(self.conditions.series if self.conditions is not None else {}),
        }

    def __str__(self) -> str:
        """Write the end of a line that says who sends the queries; "" for one after the other."""
        text = "" if self.load is None else f" {self.load}"
        if self.workload is not None:
            text = f", {self.workload}"
        text += "".join(f", {words}" for words in Series("", **self._own).words(*GROUPS))
        return text if self.conditions is None else f"{text} on {self.conditions}"


@dataclass(frozen=True)
class Execution:
    """How a job is carried out, whatever it measures."""

    load_threads: int | None = None  # of a database plug-in; None leaves it the choice
    chunk_size: int | None = None  # rows
    rebuild: bool = False  # although an index is there from an earlier run
    build_only: bool = False
    clients: int = 0  # the most that there are at the same time, those that write included
    monitoring: bool = True  # of the machine and the server, all the time
    show_progress: bool = True
    filters: tuple[str, ...] = ()  # of the run, for whose attributes every table has columns
    payload: str = ""  # of the run, for which tables may have a column
    facts: Mapping[str, Any] = field(default_factory=dict)  # stored with each point

    @property
    def quiet(self) -> bool | None:
        """What progress bars take as `disable`; None: shown on a terminal only."""
        return None if self.show_progress else True


@dataclass(frozen=True)
class Job:
    """A definition on a dataset, with the query arguments of the points that are to be measured."""

    definition: Definition
    points: list[list[Any]]
    dataset: str
    count: int
    procedure: Procedure = field(default_factory=Procedure)
    execution: Execution = field(default_factory=Execution)
    finished: int = 0  # points that were measured before
    truth: str = ""  # the mark of the dataset, "" for any
    race: str = ""  # the mark of the rounds that have measured all of its points, "" where none have
    environment: str = ""  # in the name of its folder, where the plain one is another environment's

    @property
    def series(self) -> Series:
        """The series that the points belong to."""
        definition = self.definition
        own = self.procedure.series | {"environment": self.environment, "settings": definition.variant}
        return Series(definition.algorithm, definition.version, **own, **definition.servers.fields)

    @property
    def facts_of_servers(self) -> dict[str, Any]:
        """What is stored of several servers on one machine: by how many its memory is divided.

        That is the largest number of those that are compared. A tier with shared_buffers divides nothing.
        """
        shares, tier = self.definition.servers.memory_shares, self.procedure.conditions
        return (
            {MEMORY_DIVIDED: shares}
            if shares and "tier_shared_buffers" not in (tier.facts if tier else {})
            else {}
        )

    def path(self, query_arguments: list[Any]) -> Path:
        """Where the result of one of its points lies."""
        arguments = self.definition.arguments + query_arguments
        path = result_path(self.dataset, self.count, self.series.folder, arguments)
        return path if self.procedure.workload is None else record_path(path)

    @property
    def folders(self) -> Folders:
        """The folders of its series, of any environment."""
        return Folders(replace(self, environment="").path([]).parent)

    def everywhere(self, query_arguments: list[Any], marks: Iterable[str]) -> list[Path]:
        """Where there is a result of one of its points, among the folders of these marks."""
        paths = (replace(self, environment=mark).path(query_arguments) for mark in marks)
        return [path for path in paths if path.exists()]

    def is_result(self, path: Path) -> bool:
        """Whether the result of one of its points lies there, of whatever environment."""
        names = {self.path(query_arguments).name for query_arguments in self.points}
        return self.folders.mark_of(path.parent) is not None and path.name in names

    def paths(self) -> list[tuple[Path, list[Any]]]:
        """Where the results of all its points lie, of any environment, with the arguments of each."""
        marks = [mark for mark, _ in self.folders.there()]
        return [
            (path, query_arguments)
            for query_arguments in self.points
            for path in self.everywhere(query_arguments, marks) or [self.path(query_arguments)]
        ]

    def request(self) -> "JobRequest":
        """Return what a worker is given of it, with what is known by now."""
        target, places = self.procedure.target_recall, self.folders.environments(self.truth)
        built = self.series, self.definition.arguments
        found = () if target is None else found_before(*built, self.dataset, self.count, target, self.points)
        return JobRequest(self, environments=places, found_before=found, conditions=self.procedure.conditions)

    def label(self, query_arguments: Sequence[Any] = ()) -> str:
        """Name a point, or without arguments the definition, and how it is measured."""
        definition = self.definition
        return label(definition.family, [*definition.arguments, *query_arguments]) + str(self.procedure)


@dataclass(frozen=True)
class JobRequest:
    """A job on its way to the process that carries it out, with what is known only then."""

    job: Job
    facts: Mapping[str, Any] = field(default_factory=dict)  # of where it runs, stored with each point
    environments: Mapping[str, Sequence[Facts]] = field(default_factory=dict)  # by the name in the folder
    found_before: Sequence[Mapping[str, Any]] = ()  # what other curves found for the target recall
    conditions: Conditions | None = None  # those of the job, brought about

    @property
    def all_facts(self) -> dict[str, Any]:
        """What is stored with each point, of the job and of where it runs."""
        return {**self.job.execution.facts, **self.facts}


@dataclass(frozen=True)
class Scope:
    """What a run is to cover: every definition by every procedure, those of the same conditions together."""

    definitions: Sequence[Definition]
    dataset: str
    count: int
    procedures: Sequence[Procedure] = field(default_factory=lambda: [Procedure()])
    execution: Execution = field(default_factory=Execution)
    narrow: Callable[[list[Job]], list[Job]] = list  # leaves out what earlier results make needless

    def jobs(self) -> Iterator[Job]:
        """Yield those that are to be carried out."""
        yield from self.narrow([*self._every_job()])

    def _every_job(self) -> Iterator[Job]:
        """Yield each definition by each procedure, with all of its points.

        A definition has one point where a recall is searched for, and under a workload that writes.
        """
        definitions = joined(self.definitions)
        for _, group in groupby(self.procedures, lambda procedure: procedure.conditions):
            procedures = list(group)
            for definition in definitions:
                for procedure in procedures:
                    target = procedure.target_recall
                    points = definition.points() if target is None else [[f"target_recall={target:g}"]]
                    if procedure.workload is not None:
                        points = [points[len(points) // 2]]
                    yield Job(
                        definition, points, self.dataset, self.count, procedure, execution=self.execution
                    )

    def builds(self) -> list[Job]:
        """Return each definition, to be built and not measured."""
        execution = replace(self.execution, build_only=True)
        return [Job(d, [], self.dataset, self.count, execution=execution) for d in joined(self.definitions)]
