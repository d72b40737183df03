"""What there is to do: a job is a definition with its points; the plan has those that are not finished."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from ann_benchmarks.definitions.definition import Definition, label
from ann_benchmarks.definitions.selection import joined
from ann_benchmarks.fields.series import Series
from ann_benchmarks.results.environment import MEMORY_DIVIDED, Facts, environment_of
from ann_benchmarks.results.file import result_path
from ann_benchmarks.results.records import record_path

from .earlier import found_before, mark_of_rounds, unfinished
from .places import Environments, Folders, folder_for, may_be_of, other_server
from .procedure import Conditions, Execution, Procedure


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
    def finds_all(self) -> bool:
        """Whether an exact search of its algorithm gives the true answers: nothing else leaves rows out."""
        return self.definition.servers.searches_all_rows and self.procedure.post_filter is None

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

    def jobs(self) -> Iterator[Job]:
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


@dataclass(frozen=True)
class Plan:
    """Jobs with the points to do; `finished` counts the points of all definitions that are done already."""

    jobs: list[Job]
    finished: int = 0
    warnings: Sequence[str] = ()


_Located = tuple[Job, Facts, Environments]
Whereabouts = Callable[[Job], Mapping[str, Any]]  # attributes that all results of a job would have here


def make_plan(
    scope: Scope,
    truth: str | Mapping[str, str],
    force: bool = False,
    where: Whereabouts = lambda job: {},
) -> Plan:
    """Leave out the points that are finished, and definitions that have none left.

    `truth` is the mark of the dataset, or those under each filter: a point on other vectors of the same name
    is not finished. `where` returns what is known of where a job would run: a point of another server, or
    machine, is not finished.
    """
    marks = {"": truth} if isinstance(truth, str) else truth
    located = [_located(job, marks[job.procedure.filter], where) for job in scope.jobs()]
    is_race = not force and any(procedure.rounds for procedure in scope.procedures)
    anew = _are_anew(located) if is_race else [False] * len(located)
    jobs: list[Job] = []
    finished_in_all = 0
    warnings = []
    owners: dict[Path, str] = {}
    for (job, facts, environments), starts_anew in zip(located, anew, strict=True):
        points = []
        finished = whole = 0
        if job.environment:
            why = other_server(facts, environments)
            warnings.append(f"{why}: what is measured now is a series of its own, {job.series.folder}")
        for query_arguments in job.points:
            path, name = job.path(query_arguments), job.label(query_arguments)
            if path in owners:
                if owners[path] != name:
                    warnings.append(f"{name} is left out: its result file would be that of {owners[path]}")
                continue
            owners[path] = name
            if not force:
                measured = _results(job, query_arguments, facts, environments)
                problems = [unfinished(there, job.procedure, job.truth) for there in measured]
                whole += None in problems
                if None in problems and not starts_anew:
                    finished += 1
                    continue
                if not starts_anew:
                    warnings += [f"{problem}; it is measured again" for problem in problems]
            points.append(query_arguments)
        if points:
            race = _race_of(job, facts, environments) if starts_anew and whole == len(job.points) else ""
            jobs.append(replace(job, points=points, finished=finished, race=race))
        finished_in_all += finished
    return Plan(jobs, finished_in_all, warnings)


def _located(job: Job, truth: str, where: Whereabouts) -> _Located:
    """Return a job with the folder of its results, where it would run, and where others were measured."""
    environments = job.folders.environments(truth)
    facts = environment_of(where(job)) if any(environments.values()) else {}
    return replace(job, truth=truth, environment=folder_for(facts, environments)), facts, environments


def _results(job: Job, arguments: list[Any], facts: Facts, environments: Environments) -> list[Path]:
    """Return where there are results of a point that nothing known says were measured elsewhere."""
    return [path for path in job.everywhere(arguments, environments) if may_be_of(path, facts)]


def _are_anew(located: Sequence[_Located]) -> list[bool]:
    """Return of each job whether its rounds begin anew.

    They do if not all points under its conditions were measured in the same ones, in which they are compared.
    """
    anew: list[bool] = []
    for _, group in groupby(located, lambda there: there[0].procedure.conditions):
        races = [_race_of(*there) for there in group]
        anew += [len(set(races)) > 1 or "" in races] * len(races)
    return anew


def _race_of(job: Job, facts: Facts, environments: Environments) -> str:
    """Return the mark of the rounds that all points of a job were measured in, "" where there is none."""
    marks = {
        mark_of_rounds(path, job.procedure)
        for arguments in job.points
        for path in _results(job, arguments, facts, environments) or [job.path(arguments)]
    }
    return marks.pop() or "" if len(marks) == 1 else ""
