"""The plan: the jobs with the points that earlier runs have not finished."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.results.environment import Facts, environment_of
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE, damage, read_attributes
from ann_benchmarks.results.records import read_record

from .job import Job, Procedure, Scope
from .places import Environments, folder_for, may_be_of, other_server


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
            cut = _race_of(job, facts, environments, is_cut=True) if starts_anew else ""
            jobs.append(replace(job, points=points, finished=finished, race=race, cut=cut))
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


def _race_of(job: Job, facts: Facts, environments: Environments, is_cut: bool = False) -> str:
    """Return the mark of the rounds that all points of a job were measured in, "" without such rounds.

    With `is_cut`, these are rounds that were interrupted.
    """
    marks = {
        mark_of_rounds(path, job.procedure, is_cut)
        for arguments in job.points
        for path in _results(job, arguments, facts, environments) or [job.path(arguments)]
    }
    return marks.pop() or "" if len(marks) == 1 else ""


def mark_of_rounds(path: Path, procedure: Procedure, is_cut: bool = False) -> str | None:
    """Return the mark of the rounds that a point was measured in, None where there were none.

    They have their end or, with `is_cut`, were interrupted.
    """
    try:
        attrs = read_attributes(path)
    except UserError:
        return None
    is_such = attrs.get("rounds_requested") == str(procedure.rounds) and ("rounds_ended" in attrs) != is_cut
    return str(attrs.get("rounds")) if is_such else None


def unfinished(path: Path, procedure: Procedure, truth: str) -> str | None:
    """Say why a file is not a finished point of this procedure on this data, None if it is."""
    if procedure.workload is not None:
        return _other_workload(path, procedure.workload, truth)
    return damage(path, truth) or _cut_race(path) or _other_load(path, procedure.load)


def _cut_race(path: Path) -> str | None:
    attrs = read_attributes(path)
    is_cut = "rounds" in attrs and "rounds_ended" not in attrs
    return f"{path} is of rounds that were interrupted" if is_cut else None


def _other_load(path: Path, load: Load | None) -> str | None:
    """Say how a finished point was measured, if that is not what is requested now.

    How long, and with how many queries, are not fields of a series.
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
