"""Carrying out a plan: the plug-ins checked, the jobs run, and how each ended said."""

import argparse
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.output import counted, say, warn
from ann_benchmarks.constants import INDEX_DIR
from ann_benchmarks.data.datasets import files_of
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.job import Failure, Job
from ann_benchmarks.jobs.plan import Plan, make_build_plan

from .console import Console, summary
from .containers.containers import Containers, Wishes
from .simulation import Simulation
from .workers import AnyWorker, Observer, Outcome, Worker, Workers, version_of


def run_plan(plan: Plan, args: argparse.Namespace, engine: Any, simulation: Simulation | None = None) -> int:
    """Run the jobs and say how each ended; in containers, if there is an engine. Returns the exit status."""
    # Plug-ins of ann-benchmarks keep indexes here whose names do not tell the dataset.
    shutil.rmtree(INDEX_DIR, ignore_errors=True)
    runner = Runner(args, engine, simulation)
    jobs = plan.jobs
    failed: list[Outcome] = []
    if simulation is not None and args.workload is None:  # which has a table of its own
        jobs, failed = build_first(jobs, runner, simulation)
    with ExitStack() as stack:
        if simulation is None:
            outcomes = runner.run(jobs, plan.finished)
        elif jobs:
            start = stack.enter_context(simulation.begun())
            outcomes = runner.run(jobs, plan.finished, start, simulation.observer)
        else:
            outcomes = []
    outcomes = failed + outcomes
    for line in summary(outcomes):
        print(line)
    return 1 if any(outcome.failure or outcome.failed_points for outcome in outcomes) else 0


def build_first(
    jobs: Sequence[Job], runner: "Runner", simulation: Simulation
) -> tuple[list[Job], list[Outcome]]:
    """Build, or find, the index of every job with all that the machine has.

    Returns the jobs whose index is there, and the outcomes of builds that failed.
    """
    definitions = list({str(job.definition): job.definition for job in jobs}.values())
    builds = make_build_plan(definitions, jobs[0].dataset, jobs[0].count).jobs
    outcomes = runner.run(builds, 0, simulation.builder)
    built = {str(outcome.job.definition) for outcome in outcomes if not outcome.failure}
    runner.rebuilds = False
    return [job for job in jobs if str(job.definition) in built], [o for o in outcomes if o.failure]


class Runner:
    """Runs jobs as the command line asks for."""

    def __init__(self, args: argparse.Namespace, engine: Any, simulation: Simulation | None = None) -> None:
        """Take the options; `engine` is that of the containers, None for processes of this machine."""
        self._args, self._engine, self._simulation = args, engine, simulation
        self._timeout = None if args.timeout == -1 else args.timeout
        self.rebuilds: bool = args.rebuild

    def run(
        self,
        jobs: Sequence[Job],
        finished: int,
        start: Callable[[Job], AnyWorker] | None = None,
        observer: Callable[[Sequence[Job]], Observer] = lambda jobs: Console(),
    ) -> list[Outcome]:
        """Run jobs, of which so many points were finished before; `start` begins a worker in its own way."""
        args = self._args
        with ExitStack() as stack:
            containers: Containers | None = None
            if self._engine is not None:
                wishes = Wishes(args.memory, args.cpuset, args.storage or Path("storage"))
                files = files_of(args.dataset)
                containers = stack.enter_context(
                    Containers(
                        self._engine, wishes, args.parallelism, args.definitions, files, self._simulation
                    )
                )
                start = containers.start
            workers = stack.enter_context(
                Workers(
                    args.parallelism, self._timeout, start or (lambda job: Worker(version=version_of(job)))
                )
            )
            check = workers.check if containers is None else containers.check
            jobs, failed = available_jobs(jobs, check, bool(args.algorithm) and not args.skips_unavailable)
            if args.max_n_algorithms >= 0:
                jobs = of_the_first_definitions(jobs, args.max_n_algorithms, len(args.algorithm) > 1)
            if not jobs and not failed:
                raise UserError("nothing to run: no algorithm is available here; see the lines above")
            options = {
                "load_threads": args.load_threads,
                "chunk_size": args.chunk_size,
                "rebuild": self.rebuilds,
                "monitoring": not args.no_monitoring,
            }
            command = {"command_line": command_line()}
            jobs = [
                replace(job, show_progress=args.parallelism == 1, place={**job.place, **command}, **options)
                for job in jobs
            ]
            if containers is not None:
                jobs = containers.prepare(jobs)
                if not any(job.conditions for job in jobs):  # else each has its own limits
                    say(str(containers))
            builds = [job for job in jobs if job.build_only]
            if builds:
                say(f"to build: {counted(len(builds), 'definition')}")
            else:
                definitions = counted(len({str(job.definition) for job in jobs}), "definition")
                points = counted(sum(len(job.points) for job in jobs), "point")
                runs = f", best of {counted(args.runs, 'run')}" if args.workload is None else ""
                say(f"to do: {definitions} with {points}{runs}; {finished} finished before")
            return failed + workers.run(jobs, observer(jobs))


def command_line() -> str:
    """Write the command that runs, as one types it."""
    path = Path(sys.argv[0])
    program = ["-m", path.parent.name] if path.name == "__main__.py" else [path.name]
    return shlex.join(["python", *program, *sys.argv[1:]])


def of_the_first_definitions(jobs: Sequence[Job], number: int, of_each: bool) -> list[Job]:
    """Return the jobs of the first so many definitions, of all or of each algorithm, under every load."""
    definitions = {str(job.definition): job.definition.family if of_each else "" for job in jobs}
    names = list(definitions.values())
    places = {name: names[:place].count(names[place]) for place, name in enumerate(definitions)}
    return [job for job in jobs if places[str(job.definition)] < number]


def available_jobs(
    jobs: Sequence[Job], check: Callable[[Definition], Failure | None], is_asked_for: bool
) -> tuple[list[Job], list[Outcome]]:
    """Sort out the jobs whose plug-in cannot be imported, or has no image; the outcomes are failures.

    What is not installed is a failure only if it was asked for by name.
    """
    usable: dict[tuple[str, ...], bool] = {}
    failed: list[Outcome] = []
    for job in jobs:
        definition: Definition = job.definition
        key = (definition.module, definition.constructor, definition.docker_tag)
        if key in usable:
            continue
        problem = check(definition)
        usable[key] = problem is None
        if problem is None:
            continue
        if problem.is_unavailable and is_asked_for:
            raise UserError(f"algorithm '{definition.family}' cannot run here: {problem.text}")
        if problem.is_unavailable:
            warn(f"algorithm '{definition.family}' is skipped: {problem.text}")
        elif is_asked_for:
            raise UserError(problem.text)
        else:
            outcome = Outcome(job, failure=problem.text)
            Console().failed(outcome)
            failed.append(outcome)
    return [
        job
        for job in jobs
        if usable[job.definition.module, job.definition.constructor, job.definition.docker_tag]
    ], failed
