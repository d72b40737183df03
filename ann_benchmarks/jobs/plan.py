"""The plan of a run: its jobs, without the points that are finished."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.definitions.selection import joined
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE, damage, read_attributes
from ann_benchmarks.results.records import read_record

from .job import Execution, Job, Procedure


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


def make_plan(scope: Scope, truth: str, force: bool = False) -> Plan:
    """Leave out the points that are finished, and definitions that have none left.

    `truth` is the mark of the dataset: a point on other vectors of the same name is not finished.
    """
    jobs: list[Job] = []
    finished_in_all = 0
    warnings = []
    owners: dict[Path, str] = {}
    for job in scope.jobs():
        points = []
        finished = 0
        for query_arguments in job.points:
            path, name = job.path(query_arguments), job.label(query_arguments)
            if path in owners:
                if owners[path] != name:
                    warnings.append(f"{name} is left out: its result file would be that of {owners[path]}")
                continue
            owners[path] = name
            if not force and path.exists():
                if (problem := _unfinished(path, job.procedure, truth)) is None:
                    finished += 1
                    continue
                warnings.append(f"{problem}; it is measured again")
            points.append(query_arguments)
        if points:
            jobs.append(replace(job, points=points, finished=finished))
        finished_in_all += finished
    return Plan(jobs, finished_in_all, warnings)


def _unfinished(path: Path, procedure: Procedure, truth: str) -> str | None:
    """Say why a file is no finished point of this procedure on this data, None if it is one."""
    if procedure.workload is not None:
        return _other_workload(path, procedure.workload, truth)
    return damage(path, truth) or _other_load(path, procedure.load)


def _other_load(path: Path, load: Load | None) -> str | None:
    """Say how a finished point was measured, if that is not what is requested now.

    How long, and with how many queries, is no field of a series.
    """
    if load is None:
        return None
    attrs = read_attributes(path)
    for option, name in (("--duration", "asked_duration"), ("--max-queries", "asked_queries")):
        before, now = attrs.get(name, 0), load.facts[name] or 0
        if "driver" in attrs and before != now:
            return f"{path} was measured {f'with {option} {before:.12g}' if before else f'without {option}'}"
    return None


def _other_workload(path: Path, workload: Workload, truth: str) -> str | None:
    try:
        attrs = read_record(path).attrs
    except UserError as error:
        return str(error)
    if attrs.get(TRUTH_ATTRIBUTE) != truth:
        return f"{path} was measured on other vectors of the same name"
    before = attrs.get("asked_duration", 0)
    if before != workload.seconds:
        return f"{path} was measured with --duration {before:.12g}"
    return None
