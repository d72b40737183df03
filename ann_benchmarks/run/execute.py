"""Carrying out jobs: those that can run at a workplace, and the workers that they are given to."""

import json
import multiprocessing.connection
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any

from ann_benchmarks.common.errors import NoDefinitionRuns, UserError
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.common.text import say, warn
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Failure, Finished, Located
from ann_benchmarks.jobs.job import Job
from ann_benchmarks.results.measurement import NOT_INSTALLED

from . import worker as workers
from .console import Console, JobOutcome, describe_work
from .containers.containers import Containers
from .process import ProcessWorker
from .request import Request
from .rounds import Conductor


class Executor:
    """Runs jobs in processes of this machine, or in containers."""

    def __init__(
        self,
        request: Request,
        pool: "WorkerPool",
        simulation: workers.Simulation | None,
        engine: Any = None,
        files: Sequence[Path] = (),
    ) -> None:
        """Take the processes of this machine, or a Docker client and the files of the dataset."""
        self._request, self._pool, self.simulation = request, pool, simulation
        self._engine, self._files = engine, files
        self._missing: dict[str, str] = {}  # algorithms that are not installed, with their folders

    def run(
        self,
        jobs: Sequence[Job],
        finished: int,
        start: Callable[[Job], workers.Worker] | None = None,
    ) -> list[JobOutcome]:
        """Run jobs; `finished` points were done before; `start` begins a worker in its own way."""
        request, simulation, pool = self._request, self.simulation, self._pool
        # Algorithms were named: one that is not available is an error.
        is_named = bool(request.algorithm) and not request.skips_unavailable
        with ExitStack() as stack:
            containers: Containers | None = None
            if self._engine is not None:
                containers = Containers(self._engine, request, self._files, simulation)
                start = stack.enter_context(containers).start
            if start is not None:
                pool.end_idle()
                pool = stack.enter_context(WorkerPool(request.parallelism, request.time_limit, start))
            requested = {"filters": request.filters, "payload": request.columns}
            needs = tuple(need for need, value in requested.items() if value)
            check = partial(pool.check, needs=needs) if containers is None else containers.check
            jobs, failed = available_jobs(jobs, check, is_named, self._missing)
            jobs = self._note_missing(jobs)
            if request.max_n_algorithms >= 0:
                jobs = first_definitions(jobs, request.max_n_algorithms, len(request.algorithm) > 1)
            if not jobs and not failed:
                raise UserError("nothing to run: no algorithm is available here; see the lines above")
            if share_rounds(jobs):
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
            say(describe_work(jobs, finished))
            rounds = jobs[0].procedure.rounds if jobs else None
            shown = Console(jobs, simulation.trouble if simulation else lambda: None)
            stack.callback(shown.ended)
            if rounds is None or jobs[0].execution.build_only:
                return failed + pool.run(jobs, shown)
            # Contenders share a process and its server, or a container.
            home = attrgetter("definition.version" if containers is None else "definition.docker_tag")
            resumes = containers is None and not (request.force or request.rebuild)
            conductor = Conductor(pool.take, home, request.time_limit, rounds, shown, resumes)
            return failed + conductor.run(jobs)

    def _note_missing(self, jobs: Sequence[Job]) -> list[Job]:
        """Return jobs whose points say which algorithms are not installed here, and what installs them."""
        command = f"install.py {'--local ' if self._request.local else ''}--algorithm "
        missing = {name: command + folder for name, folder in self._missing.items()}
        facts = {NOT_INSTALLED: json.dumps(missing)} if missing else {}
        return [
            replace(job, execution=replace(job.execution, facts={**job.execution.facts, **facts}))
            for job in jobs
        ]


class WorkerPool:
    """Up to `parallelism` workers, each kept for the next request until one fails in it."""

    def __init__(
        self,
        parallelism: int = 1,
        timeout: float | None = None,
        start: Callable[[Job], workers.Worker] | None = None,
    ):
        """Take the seconds that a job may take, and what starts a worker for one; None: processes here."""
        self.parallelism = parallelism
        self.timeout = timeout
        self.start = start or (lambda job: ProcessWorker(version=job.definition.version or None))
        self.idle: list[workers.Worker] = []
        self.idle_under: Any = None  # what the idle ones were started for
        self.busy: dict[workers.Worker, JobOutcome] = {}

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        workers = [*self.idle, *self.busy]
        for worker in workers:
            if error is None:
                worker.end()
            else:
                worker.ask_to_end()  # all of them first, so that they end side by side
        for worker in workers:
            worker.stop()

    def ask(self, question: workers.Question) -> Any:
        """Have a plug-in answer a question, in a worker that is then there for its jobs."""
        job = Job(question.definition, [], "", 0)
        worker = self.take(job)
        self.busy[worker] = JobOutcome(job)
        answer = workers.ask(worker, question)
        self._release(worker, answer)
        return answer

    def locate(self, definition: Definition) -> Located | Failure:
        """Return where a plug-in would measure."""
        answer: Located | Failure = self.ask(workers.Question(definition, workers.LOCATION))
        return answer

    def check(self, definition: Definition, needs: tuple[str, ...]) -> Failure | None:
        """Return why the plug-in cannot be imported or lacks something that it needs; None if all is well."""
        needs += (definition.servers.kind or "server",)
        answer = self.ask(workers.Question(definition, workers.CHECK, needs))
        return answer if isinstance(answer, Failure) else None

    def run(self, jobs: Sequence[Job], observer: Console) -> list[JobOutcome]:
        """Run all jobs, whatever becomes of each; the outcomes are in the order of the jobs."""
        pending = deque(jobs)
        outcomes: dict[int, JobOutcome] = {}
        while pending or self.busy:
            while pending and len(self.busy) < self.parallelism:
                job = pending.popleft()
                observer.started(job)
                outcome = outcomes[id(job)] = JobOutcome(job)
                try:
                    worker = self.take(job)
                except UserError as error:
                    workers.note_failure(outcome, Failure(str(error)), observer)
                    continue
                self.busy[worker] = outcome
                with suppress(OSError):  # it has just died: seen below
                    worker.send(job.request())
            multiprocessing.connection.wait([worker.pipe for worker in self.busy], workers.POLL_SECONDS)
            for worker, outcome in list(self.busy.items()):
                self._attend(worker, outcome, observer)
        return [outcomes[id(job)] for job in jobs]

    def take(self, job: Job) -> workers.Worker:
        """Return an idle worker or a new one, the caller's from now on; UserError where none can be had.

        Idle ones that were started under other conditions are ended before.
        """
        under = _started_for(job)
        if under != self.idle_under:
            self.end_idle()
            self.idle_under = under
        return self.idle.pop() if self.idle else self.start(job)

    def end_idle(self) -> None:
        """End those that nothing is carried out in."""
        while self.idle:
            self.idle.pop().end()

    def _attend(self, worker: workers.Worker, outcome: JobOutcome, observer: Console) -> None:
        _, answer = workers.hear(worker, outcome, observer, outcome.started, self.timeout)
        outcome.seconds = time.perf_counter() - outcome.started
        if isinstance(answer, Failure):
            if len(self.busy) > 1:  # what it lacks may be what another one of ours has
                answer = replace(answer, ends_run=False)
            workers.note_failure(outcome, answer, observer, worker)
        if answer is not None:
            self._release(worker, answer)

    def _release(self, worker: workers.Worker, answer: Finished | Located | Failure) -> None:
        """Keep a worker for more, unless it failed: who knows what that left behind in it.

        Nor is one kept that was started for something else than is needed now, as next to another.
        """
        is_needed = _started_for(self.busy.pop(worker).job) == self.idle_under
        if not isinstance(answer, Failure) and worker.is_reusable and is_needed:
            self.idle.append(worker)
        else:
            worker.end()


def _started_for(job: Job) -> tuple[Any, ...]:
    """Return what a worker has to be started for, to carry out this job."""
    conditions = job.procedure.conditions
    return job.definition.version, conditions and (str(job.definition), conditions)


def share_rounds(jobs: Sequence[Job]) -> bool:
    """Whether the same rounds have measured all of these; the plan had more, which cannot be measured."""
    groups = (list(group) for _, group in groupby(jobs, lambda job: job.procedure.conditions))
    return bool(jobs) and all(group[0].race and len({job.race for job in group}) == 1 for group in groups)


def check_turns(jobs: Sequence[Job], pool: WorkerPool) -> None:
    """Raise UserError where several indexes are to be measured in turn, and cannot be; none is built yet."""
    plain = [job.definition.plain for job in jobs if job.procedure.rounds]
    definitions = {str(definition): definition for definition in plain}
    plugins = {(one.module, one.constructor): one for one in definitions.values()}
    for definition in plugins.values() if len(definitions) > 1 else ():
        if problem := pool.check(definition, ("turns",)):
            raise UserError(problem.text)


def first_definitions(jobs: Sequence[Job], number: int, of_each: bool) -> list[Job]:
    """Return the jobs of the first definitions, of all or of each algorithm, under every load."""
    plain = [job.definition.plain for job in jobs]
    definitions = {str(definition): definition.family if of_each else "" for definition in plain}
    names = list(definitions.values())
    places = {name: names[:place].count(names[place]) for place, name in enumerate(definitions)}
    return [job for job, definition in zip(jobs, plain, strict=True) if places[str(definition)] < number]


def available_jobs(
    jobs: Sequence[Job],
    check: Callable[[Definition], Failure | None],
    is_named: bool,
    missing: dict[str, str],
) -> tuple[list[Job], list[JobOutcome]]:
    """Sort out the jobs whose plug-in cannot be imported, or has no image; the outcomes are failures.

    What is not installed is a failure only if it was named; `missing` is given the others.
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
        if problem.ends_run:
            raise NoDefinitionRuns(problem.text)
        if problem.is_unavailable and is_named:
            raise UserError(f"algorithm '{definition.family}' cannot run here: {problem.text}")
        if problem.is_unavailable:
            warn(f"algorithm '{definition.family}' is skipped: {problem.text}")
            missing[definition.family] = definition.module.rpartition(".")[2]
        elif is_named:
            raise UserError(problem.text)
        else:
            outcome = JobOutcome(job, failure=problem.text)
            if problem.text not in [one.failure for one in failed]:  # one server may be that of all
                Console().failed(outcome)
            failed.append(outcome)
    return [
        job
        for job in jobs
        if usable[job.definition.module, job.definition.constructor, job.definition.docker_tag]
    ], failed
