"""The plan: jobs with the points that are not finished, and about how long they take (--dry-run)."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import KIB, UNKNOWN, counted, duration_text, size_text
from ann_benchmarks.common.text import warn
from ann_benchmarks.definitions.definition import Data
from ann_benchmarks.jobs.events import Located
from ann_benchmarks.jobs.job import Job, Procedure, Scope
from ann_benchmarks.jobs.places import Environments, folder_for, may_be_of, other_server
from ann_benchmarks.jobs.rounds import FEWEST_OF_A_WIDTH
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.workload import Workload
from ann_benchmarks.results.environment import Facts, environment_of
from ann_benchmarks.results.file import TRUTH_ATTRIBUTE, damage, read_attributes
from ann_benchmarks.results.records import read_record
from ann_benchmarks.statistics.contests import FEWEST_ROUNDS

from .console import table_lines
from .worker import SampleRequest, Worker, ask

TURN_SECONDS = 0.8  # of a warm-up and of switching, beside the run
WARMUP_SECONDS = 3.0  # of a point that is measured at once
TIER_SECONDS = 10.0  # of a server's start with another memory
TRIALS = 8  # of a search for a recall, each with all queries
LARGEST = 3  # parts that are named


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
    """Return the mark of the rounds that all points of a job were measured in, "" without such rounds."""
    marks = {
        mark_of_rounds(path, job.procedure)
        for arguments in job.points
        for path in _results(job, arguments, facts, environments) or [job.path(arguments)]
    }
    return marks.pop() or "" if len(marks) == 1 else ""


def mark_of_rounds(path: Path, procedure: Procedure) -> str | None:
    """Return the mark of the rounds that a point was measured in, None where there were none."""
    try:
        attrs = read_attributes(path)
    except UserError:
        return None
    is_such = attrs.get("rounds_requested") == str(procedure.rounds) and "rounds_ended" in attrs
    return str(attrs.get("rounds")) if is_such else None


def unfinished(path: Path, procedure: Procedure, truth: str) -> str | None:
    """Say why a file is not a finished point of this procedure on this data, None if it is."""
    if procedure.workload is not None:
        return _other_workload(path, procedure.workload, truth)
    return damage(path, truth) or _cut_race(path) or _other_load(path, procedure.load)


def _cut_race(path: Path) -> str | None:
    """Say that a race was interrupted that an earlier version stored results of."""
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


def forecast(
    jobs: Sequence[Job], data: Data, queries: int, start: Callable[[Job], Worker] | None
) -> Iterator[str]:
    """Yield lines on what is loaded, built and measured, what it needs, and about how long it takes.

    `start` begins a worker, in which a sample of the rows is loaded and indexed; None: rates are not known.
    """
    samples = measured_samples(jobs, start) if start else {}
    jobs = [job for job in jobs if not start or str(job.definition.plain) in samples]
    if not jobs:
        raise UserError("nothing to run: no algorithm is available here; see the lines above")
    rows = [("definition", "build", "index", "memory of the build")]
    seconds: dict[str, float] = {}
    for name, sample in samples.items():
        build = extrapolated(sample, data.rows) if sample else math.nan
        seconds[f"building {name}"] = build
        text = duration_text(build) if sample else UNKNOWN
        rows.append((name, text, size_text(sample.get("index_kib"), KIB), sample.get("memory", UNKNOWN)))
    yield "dry run: nothing of this is kept, and an index that is there already takes no time"
    if len(rows) > 1:
        yield from table_lines(rows)
    known = [sample for sample in samples.values() if sample]
    if known:
        table = max(sample["table_kib"] for sample in known)
        load = max(sample["load_seconds"] / sample["rows"] for sample in known) * data.rows
        seconds[f"loading {data.rows:,} rows"] = load
        indexes = math.fsum(sample["index_kib"] for sample in known)
        yield f"table {size_text(table, KIB)}; on disk in all about {size_text(table + indexes, KIB)}"
    if any(not job.execution.build_only for job in jobs):
        means = [sample["query_seconds"] for sample in known] or [0.001]
        seconds[f"measuring {measured_text(jobs)}"] = measuring_seconds(jobs, queries * max(means))
    certain = {name: value for name, value in seconds.items() if math.isfinite(value)}
    largest = sorted(certain, key=lambda name: -certain[name])[:LARGEST]
    parts = "; ".join(f"{name} {duration_text(certain[name])}" for name in largest)
    missing = "" if len(known) == len(samples) and samples else ", builds that are not known aside"
    yield f"about {duration_text(math.fsum(certain.values()))} in all{missing}; the largest parts: {parts}"


def measured_samples(jobs: Sequence[Job], start: Callable[[Job], Worker]) -> Mapping[str, Mapping[str, Any]]:
    """Return what a sample of each definition that can be built here has taken; warn of the others."""
    found: dict[str, Mapping[str, Any]] = {}
    workers: dict[str, Worker] = {}
    said: set[str] = set()
    try:
        for job in {str(job.definition.plain): job for job in jobs}.values():
            plain = replace(job, definition=job.definition.plain)
            plain = replace(plain, execution=replace(job.execution, monitoring=False))
            version = job.definition.version
            if version not in workers:
                workers[version] = start(plain)
            answer = ask(workers[version], SampleRequest(plain.request()))
            if isinstance(answer, Located):
                found[str(plain.definition)] = answer.facts
                continue
            if (problem := str(getattr(answer, "text", answer))) not in said:
                warn(f"{job.definition.family} is skipped: {problem}")
            said.add(problem)
            if getattr(answer, "ends_worker", False):
                workers.pop(version).stop()
    finally:
        for worker in workers.values():
            worker.end()
    return found


def extrapolated(sample: Mapping[str, Any], rows: int) -> float:
    """Return the seconds of a build of all rows: those of the sample, by n log n, as a graph's grow."""
    growth = rows * math.log(rows + 1) / (sample["rows"] * math.log(sample["rows"] + 1))
    return float(sample["build_seconds"]) * growth


def measured_text(jobs: Sequence[Job]) -> str:
    """Say how many points are measured, and on how many servers."""
    tiers = len({str(job.procedure.conditions) for job in jobs if job.procedure.conditions})
    text = counted(sum(len(job.points) for job in jobs), "point")
    return f"{text} on {counted(tiers, 'tier')}" if tiers else text


def measuring_seconds(jobs: Sequence[Job], all_queries: float) -> float:
    """Return the seconds of measuring; those of sending all queries once are `all_queries`."""
    turns = points = 0.0
    for job in jobs:
        how = job.procedure
        if how.workload is not None:
            points += how.workload.seconds * len(job.points)
            continue
        run = (how.load.seconds if how.load else None) or all_queries
        turns += (run + TURN_SECONDS) * len(job.points)
        points += (run * how.runs + WARMUP_SECONDS) * len(job.points)
    first = jobs[0].procedure
    conditions = {str(job.procedure.conditions) for job in jobs if job.procedure.conditions}
    definitions = len({str(job.definition) for job in jobs})
    searches = TRIALS * all_queries * definitions if first.target_recall is not None else 0.0
    others = searches + TIER_SECONDS * len(conditions)
    if (rounds := first.rounds) is None:
        return others + points
    number = rounds.number or (FEWEST_OF_A_WIDTH if rounds.until or not rounds.budget else FEWEST_ROUNDS)
    if rounds.budget is None:
        return others + number * turns
    return others + max(
        FEWEST_ROUNDS * turns, min(rounds.budget, number * turns if rounds.number else math.inf)
    )
