"""What an experiment's steps have left: the results of their points, found where the points lie."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.results.records import Record, read_record
from ann_benchmarks.results.runs import Run, load_runs_of, skipped

from .schema import Step


@dataclass(frozen=True)
class Measured:
    """One point or workload of a step, which a selection may mean."""

    step: str
    job: Job
    query_arguments: Sequence[Any]
    outcome: Run | Record

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attributes of the result."""
        return self.outcome.attrs


@dataclass(frozen=True)
class Results:
    """All of a step; `missing` has a line for each point that is not there."""

    step: Step
    measured: Sequence[Measured]
    missing: Sequence[str]

    @property
    def runs(self) -> list[Run]:
        """The points that are no workloads."""
        return [m.outcome for m in self.measured if isinstance(m.outcome, Run)]

    @property
    def records(self) -> list[Record]:
        """The workloads."""
        return [m.outcome for m in self.measured if isinstance(m.outcome, Record)]


def results_of(
    step: Step, args: argparse.Namespace, jobs_of: Callable[[argparse.Namespace], Iterable[Job]]
) -> Results:
    """Find the results of a step; several jobs may stand for one, of which those with results count."""
    try:
        jobs = list(jobs_of(args))
    except UserError as error:
        return Results(step, [], [str(error)])
    places = {path: (job, arguments) for job in jobs for path, arguments in job.paths()}
    there_are = [path for path in places if path.exists()]
    outcomes: dict[Path, Run | Record] = {}
    outcomes |= load_runs_of(path for path in there_are if not places[path][0].procedure.workload)
    for path in there_are:
        if places[path][0].procedure.workload:
            try:
                outcomes[path] = read_record(path)
            except UserError as error:
                skipped(path, error)
    measured = [Measured(step.name, *places[path], outcome) for path, outcome in outcomes.items()]
    there = {named(*places[path]) for path in outcomes}
    missing = [named(*place) for place in places.values() if named(*place) not in there]
    return Results(step, measured, list(dict.fromkeys(missing)))


def named(job: Job, query_arguments: Sequence[Any]) -> str:
    """Name a point for the reader, whatever held its memory back."""
    name = job.label(query_arguments)
    return name.rpartition(" by ")[0] if job.procedure.conditions else name
