"""Carrying out a plan: the plug-ins checked, the jobs run, and how each ended said."""

import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.output import counted, say, warn
from ann_benchmarks.constants import INDEX_DIR
from ann_benchmarks.definitions.definition import DEFINITIONS_FOLDER, Definition
from ann_benchmarks.jobs.events import Failure
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.jobs.plan import Plan, Scope

from .console import Console, summary
from .containers.containers import Containers, Wishes
from .pool import JobOutcome, Observer, WorkerPool, start_process
from .rounds import Conductor
from .simulation import Simulation
from .worker import Worker


@dataclass(frozen=True)
class Workplace:
    """Where and under whose eyes jobs run: processes of this machine, or containers."""

    engine: Any = None  # a Docker client; None: processes of this machine
    wishes: Wishes = field(default_factory=Wishes)
    files: Sequence[Path] = ()  # of the dataset, for containers
    definitions: Path = DEFINITIONS_FOLDER
    parallelism: int = 1
    timeout: float | None = None  # s a definition
    simulation: Simulation | None = None


@dataclass(frozen=True)
class Limits:
    """Which of the planned definitions are run."""

    is_named: bool = False  # algorithms were named: one that is not available is an error
    most: int = -1  # definitions, -1 for all
    most_of_each: bool = False  # algorithm


def execute(plan: Plan, workplace: Workplace, limits: Limits | None = None) -> int:
    """Run the jobs and say how each ended; return the exit status."""
    # Plug-ins of ann-benchmarks keep indexes here whose names do not say the dataset.
    shutil.rmtree(INDEX_DIR, ignore_errors=True)
    executor = Executor(workplace, limits or Limits())
    jobs, simulation = plan.jobs, workplace.simulation
    if simulation is None:
        outcomes = executor.run(jobs, plan.finished)
    else:
        failed: list[JobOutcome] = []
        if jobs and jobs[0].procedure.workload is None:  # which has a table of its own
            jobs, failed = build_first(jobs, executor, simulation)
        with ExitStack() as stack:
            outcomes = list(failed)
            if jobs:
                start = stack.enter_context(simulation.begun())
                outcomes += executor.run(jobs, plan.finished, start, simulation.observer)
    for line in summary(outcomes):
        print(line)
    return 1 if any(outcome.failure or outcome.failed_points for outcome in outcomes) else 0


def build_first(
    jobs: Sequence[Job], executor: "Executor", simulation: Simulation
) -> tuple[list[Job], list[JobOutcome]]:
    """Build, or find, the index of every job with all that the machine has.

    Returns the jobs whose index is there, now without --rebuild, and the outcomes of failed builds.
    """
    definitions = list({str(job.definition): job.definition for job in jobs}.values())
    scope = Scope(definitions, jobs[0].dataset, jobs[0].count, execution=jobs[0].execution)
    outcomes = executor.run(scope.builds(), 0, simulation.builder)
    built = {str(outcome.job.definition) for outcome in outcomes if not outcome.failure}
    left = [
        replace(job, execution=replace(job.execution, rebuild=False))
        for job in jobs
        if str(job.definition) in built
    ]
    return left, [outcome for outcome in outcomes if outcome.failure]


class Executor:
    """Runs jobs at a workplace."""

    def __init__(self, workplace: Workplace, limits: Limits) -> None:
        """Nothing is started yet."""
        self._workplace, self._limits = workplace, limits

    def run(
        self,
        jobs: Sequence[Job],
        finished: int,
        start: Callable[[Job], Worker] | None = None,
        observer: Callable[[Sequence[Job]], Observer] = lambda jobs: Console(),
    ) -> list[JobOutcome]:
        """Run jobs; `finished` points were done before; `start` begins a worker in its own way."""
        place, limits = self._workplace, self._limits
        with ExitStack() as stack:
            containers: Containers | None = None
            if place.engine is not None:
                containers = stack.enter_context(Containers(place.engine, place.wishes, place.parallelism,
                    place.definitions, place.files, place.simulation))  # fmt: skip
                start = containers.start
            pool = WorkerPool(place.parallelism, place.timeout, start or start_process)
            stack.enter_context(pool)
            has_filters = any(job.execution.filters for job in jobs)
            check = partial(pool.check, takes_filters=has_filters) if containers is None else containers.check
            jobs, failed = available_jobs(jobs, check, limits.is_named)
            if limits.most >= 0:
                jobs = first_definitions(jobs, limits.most, limits.most_of_each)
            if not jobs and not failed:
                raise UserError("nothing to run: no algorithm is available here; see the lines above")
            if were_in_turn(jobs):
                say(
                    f"nothing to do: {counted(sum(len(job.points) for job in jobs), 'point')} finished before"
                )
                return failed
            if containers is None:
                check_turns(jobs, pool)
            else:
                containers.prepare(jobs)
                if not any(job.procedure.conditions for job in jobs):  # else each has its own limits
                    say(str(containers))
            say_what_is_to_do(jobs, finished)
            rounds = jobs[0].procedure.rounds if jobs else None
            shown = observer(jobs)
            stack.callback(shown.ended)
            if rounds is None or jobs[0].execution.build_only:
                return failed + pool.run(jobs, shown)
            home = version_of if containers is None else image_of
            conductor = Conductor(start or start_process, home, place.timeout, rounds, shown)
            return failed + conductor.run(jobs)


def version_of(job: Job) -> str:
    """Return what contenders share that are in one process, and on its server."""
    return job.definition.version


def image_of(job: Job) -> str:
    """Return what contenders share that are in one container."""
    return job.definition.docker_tag


def were_in_turn(jobs: Sequence[Job]) -> bool:
    """Whether the same rounds have measured all of these; the plan had more, which cannot be measured."""
    groups = (list(group) for _, group in groupby(jobs, lambda job: job.procedure.conditions))
    return bool(jobs) and all(group[0].race and len({job.race for job in group}) == 1 for group in groups)


def check_turns(jobs: Sequence[Job], pool: WorkerPool) -> None:
    """Raise UserError where several indexes are to be measured in turn, and cannot be; none is built yet."""
    plain = [job.definition.plain for job in jobs if job.procedure.rounds]
    definitions = {str(definition): definition for definition in plain}
    plugins = {(one.module, one.constructor): one for one in definitions.values()}
    for definition in plugins.values() if len(definitions) > 1 else ():
        if problem := pool.check(definition, takes_turns=True):
            raise UserError(problem.text)


def say_what_is_to_do(jobs: Sequence[Job], finished: int) -> None:
    """Print how many definitions are to be built, or points to be measured."""
    builds = [job for job in jobs if job.execution.build_only]
    if builds:
        say(f"to build: {counted(len(builds), 'definition')}")
        return
    definitions = counted(len({str(job.definition) for job in jobs}), "definition")
    points = counted(sum(len(job.points) for job in jobs), "point")
    measured = [job.procedure for job in jobs if job.procedure.workload is None]
    runs = f", best of {counted(measured[0].runs, 'run')}" if measured else ""
    if measured and measured[0].rounds:
        runs = f", in turn: {measured[0].rounds}"
    say(f"to do: {definitions} with {points}{runs}; {finished} finished before")


def command_line() -> str:
    """Write the command that runs, as one types it."""
    path = Path(sys.argv[0])
    program = ["-m", path.parent.name] if path.name == "__main__.py" else [path.name]
    return shlex.join(["python", *program, *sys.argv[1:]])


def first_definitions(jobs: Sequence[Job], number: int, of_each: bool) -> list[Job]:
    """Return the jobs of the first definitions, of all or of each algorithm, under every load."""
    plain = [job.definition.plain for job in jobs]
    definitions = {str(definition): definition.family if of_each else "" for definition in plain}
    names = list(definitions.values())
    places = {name: names[:place].count(names[place]) for place, name in enumerate(definitions)}
    return [job for job, definition in zip(jobs, plain, strict=True) if places[str(definition)] < number]


def available_jobs(
    jobs: Sequence[Job], check: Callable[[Definition], Failure | None], is_named: bool
) -> tuple[list[Job], list[JobOutcome]]:
    """Sort out the jobs whose plug-in cannot be imported, or has no image; the outcomes are failures.

    What is not installed is a failure only if it was named.
    """
    usable: dict[tuple[str, ...], bool] = {}
    failed: list[JobOutcome] = []
    for job in jobs:
        definition = job.definition
        key = (definition.module, definition.constructor, definition.docker_tag)
        if key in usable:
            continue
        problem = check(definition)
        usable[key] = problem is None
        if problem is None:
            continue
        if problem.is_unavailable and is_named:
            raise UserError(f"algorithm '{definition.family}' cannot run here: {problem.text}")
        if problem.is_unavailable:
            warn(f"algorithm '{definition.family}' is skipped: {problem.text}")
        elif is_named:
            raise UserError(problem.text)
        else:
            outcome = JobOutcome(job, failure=problem.text)
            Console().failed(outcome)
            failed.append(outcome)
    return [
        job
        for job in jobs
        if usable[job.definition.module, job.definition.constructor, job.definition.docker_tag]
    ], failed
