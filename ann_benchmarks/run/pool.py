"""A number of workers: given the jobs of a plan, watched, replaced, stopped."""

import multiprocessing.connection
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Built, Event, Failure, Finished, PointDone, PointFailed, WorkloadDone
from ann_benchmarks.jobs.found_before import found_before
from ann_benchmarks.jobs.job import Job, JobRequest

from .process import ProcessWorker
from .worker import PluginCheck, Worker

POLL_SECONDS = 0.5
AT_ONCE = 1000  # messages of one worker, before the others and the time are looked at
LOG_FOLDER = "logs"


@dataclass
class JobOutcome:
    """What became of a job."""

    job: Job
    done: int = 0
    build_time: float | None = None
    built: Built | None = None
    seconds: float = 0.0
    failure: str | None = None
    failed_points: int = 0
    points: list[PointDone] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)


class Observer(Protocol):
    """Takes note of how the jobs go."""

    def started(self, job: Job) -> None:
        """A job has been given to a worker."""

    def event(self, job: Job, event: Event) -> None:
        """The worker has reported something."""

    def failed(self, outcome: JobOutcome) -> None:
        """The job has ended early."""

    def ended(self) -> None:
        """All jobs have ended, or the user has ended them."""


def start_process(job: Job) -> Worker:
    """Start a process of this machine, in which plug-ins use the version that the user has named."""
    return ProcessWorker(version=job.definition.version or None)


class WorkerPool:
    """Up to `parallelism` workers, each kept for the next request until one fails in it."""

    def __init__(
        self,
        parallelism: int = 1,
        timeout: float | None = None,
        start: Callable[[Job], Worker] = start_process,
    ):
        """Take the seconds that a job may take, and what starts a worker for one."""
        self.parallelism = parallelism
        self.timeout = timeout
        self.start = start
        self.idle: list[Worker] = []
        self.idle_under: Any = None  # what the idle ones were started for
        self.busy: dict[Worker, JobOutcome] = {}

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

    def check(
        self, definition: Definition, takes_turns: bool = False, takes_filters: bool = False
    ) -> Failure | None:
        """Return why the plug-in cannot be imported or lacks the constructor; None if all is well.

        With `takes_turns`, also why its indexes cannot; with `takes_filters`, why its queries cannot.
        """
        job = Job(definition, [], "", 0)
        worker = self._worker(job)
        self.busy[worker] = JobOutcome(job)
        answer: Any = None
        try:
            worker.send(PluginCheck(definition, takes_turns, takes_filters))
            while not isinstance(answer, Failure | Finished):
                multiprocessing.connection.wait([worker.pipe], POLL_SECONDS)
                answer = worker.next_message()
        except (EOFError, OSError):
            answer = worker.death()
        self._release(worker, answer)
        return answer if isinstance(answer, Failure) else None

    def run(self, jobs: Sequence[Job], observer: Observer) -> list[JobOutcome]:
        """Run all jobs, whatever becomes of each; the outcomes are in the order of the jobs."""
        pending = deque(jobs)
        outcomes: dict[int, JobOutcome] = {}
        while pending or self.busy:
            while pending and len(self.busy) < self.parallelism:
                job = pending.popleft()
                observer.started(job)
                worker = self._worker(job)
                self.busy[worker] = outcomes[id(job)] = JobOutcome(job)
                with suppress(OSError):  # it has just died: seen below
                    worker.send(request_of(job))
            multiprocessing.connection.wait([worker.pipe for worker in self.busy], POLL_SECONDS)
            for worker, outcome in list(self.busy.items()):
                self._attend(worker, outcome, observer)
        return [outcomes[id(job)] for job in jobs]

    def _worker(self, job: Job) -> Worker:
        """Return an idle worker or a new one; one that was started under other conditions is ended before."""
        under = _started_for(job)
        if under != self.idle_under:
            while self.idle:
                self.idle.pop().end()
            self.idle_under = under
        return self.idle.pop() if self.idle else self.start(job)

    def _attend(self, worker: Worker, outcome: JobOutcome, observer: Observer) -> None:
        answer: Any = None
        try:
            for message in islice(iter(worker.next_message, None), AT_ONCE):
                if isinstance(message, Failure | Finished):
                    answer = message
                    break
                observer.event(outcome.job, noted(outcome, message, worker))
        except EOFError:
            answer = worker.death()
        outcome.seconds = time.perf_counter() - outcome.started
        if answer is None and self.timeout is not None and outcome.seconds > self.timeout:
            worker.stop()
            answer = Failure(f"not finished after {self.timeout:g} s (--timeout)")
        if isinstance(answer, Failure):
            failed(outcome, answer, worker, observer)
        if answer is not None:
            self._release(worker, answer)

    def _release(self, worker: Worker, answer: Finished | Failure) -> None:
        """Keep a worker for more, unless it failed: who knows what that left behind in it.

        Nor is one kept that was started for something else than is needed now, as next to another.
        """
        is_needed = _started_for(self.busy.pop(worker).job) == self.idle_under
        if isinstance(answer, Finished) and worker.is_reusable and is_needed:
            self.idle.append(worker)
        else:
            worker.end()


def _started_for(job: Job) -> tuple[Any, ...]:
    """Return what a worker has to be started for, to carry out this job."""
    conditions = job.procedure.conditions
    return job.definition.version, conditions and (str(job.definition), conditions)


def log_path(job: Job) -> Path:
    """Return where the log of a definition lies: logs/DATASET/COUNT/SERIES/ARGS.log."""
    place = job.path([])
    name = place.name.partition(".")[0] or "no_arguments"
    return Path(LOG_FOLDER, *place.parts[1:-1], f"{name}.log")


def request_of(job: Job) -> JobRequest:
    """Return what a worker is given of a job, with what is known by now."""
    found = found_before(job) if job.procedure.target_recall is not None else ()
    places = job.folders.environments(job.truth)
    return JobRequest(job, environments=places, found_before=found, conditions=job.procedure.conditions)


def noted(outcome: JobOutcome, message: Event, worker: Worker) -> Event:
    """Take account of an event; return it, with the place of its traceback where a point has failed."""
    if isinstance(message, Built | PointDone):
        outcome.build_time = message.build_time
    if isinstance(message, Built):
        outcome.built = message
    if isinstance(message, PointDone):
        outcome.points.append(message)
    outcome.done += isinstance(message, PointDone | WorkloadDone)
    if not isinstance(message, PointFailed):
        return message
    outcome.failed_points += 1
    is_first = outcome.failed_points == 1 and not worker.keeps_log
    log = _kept(outcome.job, Failure(message.reason, message.details), "w" if is_first else "a")
    return replace(message, reason=message.reason + log)


def failed(outcome: JobOutcome, failure: Failure, worker: Worker, observer: Observer) -> None:
    """Take account of the end of a job that has failed."""
    outcome.failure = failure.text + _kept(outcome.job, failure, "a" if worker.keeps_log else "w")
    observer.failed(outcome)


def _kept(job: Job, failure: Failure, mode: str) -> str:
    """Keep a traceback where the user can find it; return the end of the line that says where."""
    if not failure.details:
        return ""
    path = log_path(job)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, errors="replace") as file:
            file.write(f"{job.definition}: {failure.text}\n\n{failure.details}\n")
    except OSError:
        return ""
    return f" (see {path})"
