"""Worker processes seen from the parent: started, given jobs, watched, replaced, stopped."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.found_before import with_found_before
from ann_benchmarks.jobs.job import Built, Event, Failure, Finished, Job, PointDone, PointFailed, WorkloadDone

from .logs import write_log
from .worker_process import GRACE_SECONDS, STOP_SIGNALS, PluginCheck, serve

POLL_SECONDS = 0.5
AT_ONCE = 1000  # messages of one worker, before the others and the time are looked at
END_SECONDS = 120  # for an idle worker's plug-ins to put away what they hold, such as a server
LIKELY_CAUSES = {
    "SIGKILL": ": killed from outside, most likely because memory ran out",
    "SIGSEGV": ": a memory access error in native code",
    "SIGBUS": ": a memory access error, or a mapped file that became shorter",
    "SIGABRT": ": native code gave up",
    "SIGILL": ": native code for another processor",
}


@dataclass
class Outcome:
    """What became of a job."""

    job: Job
    done: int = 0
    build_time: float | None = None
    built: Built | None = None
    seconds: float = 0.0
    failure: str | None = None
    failed_points: int = 0
    started: float = field(default_factory=time.perf_counter)


class Observer(Protocol):
    """Whoever wants to know how the jobs go."""

    def started(self, job: Job) -> None:
        """A job has been given to a worker."""

    def event(self, job: Job, event: Event) -> None:
        """The worker has told something."""

    def failed(self, outcome: Outcome) -> None:
        """The job has ended early."""


class AnyWorker(Protocol):
    """Something that carries out a job elsewhere, and can be ended: a process, or a container."""

    pipe: Connection  # something to read is there when next_message() has something
    is_reusable: bool  # for another job
    keeps_log: bool  # itself; what is added to it goes to its end

    def send(self, request: Any) -> None:
        """Hand over a request; OSError when it has just ended."""

    def next_message(self) -> Any:
        """What it says next, None when there is nothing now; EOFError when it has ended."""

    def end(self) -> None:
        """Let it end by itself after its last answer."""

    def ask_to_end(self) -> None:
        """Have it end soon, without waiting for that."""

    def stop(self) -> None:
        """End it, whatever it does."""

    def death(self) -> Failure:
        """Say how it came to its end."""


class Worker:
    """One process, which takes one request at a time."""

    is_reusable = True
    keeps_log = False

    def __init__(self, environment: Mapping[str, str] | None = None, version: str | None = None) -> None:
        """Start it; `version` is the one that plug-ins in it are to use, None: the one that they have."""
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.crash_report = tempfile.NamedTemporaryFile("r", delete=False)  # noqa: SIM115
        # Not a daemon: those may not have child processes, which plug-ins may want.
        self.process = context.Process(target=serve, args=(theirs, self.crash_report.name, version))
        resource_tracker.ensure_running()  # else start() would unblock the signals half-way
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # until the worker has its handlers
        try:
            with _environment(environment or {}):
                self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        theirs.close()

    def send(self, request: Any) -> None:
        """Hand over a request; OSError when the process has just died."""
        self.pipe.send(request)

    def ask_to_end(self) -> None:
        """Ask it to end."""
        if self.process.is_alive():
            self.process.terminate()

    def next_message(self) -> Any:
        """What the worker says next, None when there is nothing now; EOFError when it has died."""
        is_alive = self.process.is_alive()
        try:
            if self.pipe.poll():
                return self.pipe.recv()
        except OSError:
            raise EOFError from None
        if not is_alive:
            raise EOFError
        return None

    def end(self) -> None:
        """Let an idle worker end by itself."""
        with suppress(OSError):
            self.pipe.send(None)
        self.process.join(END_SECONDS)
        self.stop()

    def stop(self) -> None:
        """Ask it to end; kill it when it does not. Interrupted while waiting, kill it at once."""
        try:
            if self.process.is_alive():
                self.process.terminate()
                self.process.join(GRACE_SECONDS)
        finally:
            if self.process.is_alive():
                self.process.kill()
            self.process.join()
            self.pipe.close()
            self.crash_report.close()
            Path(self.crash_report.name).unlink(missing_ok=True)

    def death(self) -> Failure:
        """Say how the process came to its end."""
        self.process.join(GRACE_SECONDS)
        status = self.process.exitcode
        details = self.crash_report.read()
        if status is None or status >= 0:
            return Failure(f"the process ended by itself with status {status}", details)
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return Failure(f"the process was ended by {name}{LIKELY_CAUSES.get(name, '')}", details)


class NoWorker:
    """In place of a worker that could not be had: its job fails, and the next one is begun."""

    is_reusable = False
    keeps_log = False

    def __init__(self, problem: str) -> None:
        """Take what is wrong."""
        self._problem = problem
        self.pipe, theirs = multiprocessing.Pipe(duplex=False)
        theirs.close()

    def send(self, request: Any) -> None:
        """There is nobody to hear it."""

    def next_message(self) -> Any:
        """It has ended."""
        raise EOFError

    def death(self) -> Failure:
        """Say what is wrong."""
        return Failure(self._problem)

    def end(self) -> None:
        """Close the pipe."""
        self.pipe.close()

    ask_to_end = stop = end


class Workers:
    """Up to `parallelism` workers, each kept for the next request until one fails in it."""

    def __init__(
        self,
        parallelism: int = 1,
        timeout: float | None = None,
        start: Callable[[Job], AnyWorker] = lambda job: Worker(version=version_of(job)),
    ):
        self.parallelism = parallelism
        self.timeout = timeout  # s a job
        self.start = start
        self.idle: list[AnyWorker] = []
        self.idle_under: Any = None  # what the idle ones were started for
        self.busy: dict[AnyWorker, Outcome] = {}

    def __enter__(self) -> "Workers":
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

    def check(self, definition: Definition) -> Failure | None:
        """Whether the plug-in can be imported and has the constructor: None if so."""
        job = Job(definition, [], "", 0, 0, False)
        worker = self._worker(job)
        self.busy[worker] = Outcome(job)
        answer: Any = None
        try:
            worker.send(PluginCheck(definition))
            while not isinstance(answer, Failure | Finished):
                multiprocessing.connection.wait([worker.pipe], POLL_SECONDS)
                answer = worker.next_message()
        except (EOFError, OSError):
            answer = worker.death()
        self._release(worker, answer)
        return answer if isinstance(answer, Failure) else None

    def run(self, jobs: Sequence[Job], observer: Observer) -> list[Outcome]:
        """Run all jobs, whatever becomes of each; the outcomes are in the order of the jobs."""
        pending = deque(jobs)
        outcomes: dict[int, Outcome] = {}
        while pending or self.busy:
            while pending and len(self.busy) < self.parallelism:
                job = pending.popleft()
                observer.started(job)
                worker = self._worker(job)
                self.busy[worker] = outcomes[id(job)] = Outcome(job)
                with suppress(OSError):  # it has just died: seen below
                    worker.send(with_found_before(job))
            multiprocessing.connection.wait([worker.pipe for worker in self.busy], POLL_SECONDS)
            for worker, outcome in list(self.busy.items()):
                self._attend(worker, outcome, observer)
        return [outcomes[id(job)] for job in jobs]

    def _worker(self, job: Job) -> AnyWorker:
        """Return an idle worker or a new one; one that was started under other conditions is ended before."""
        under = started_for(job)
        if under != self.idle_under:
            while self.idle:
                self.idle.pop().end()
            self.idle_under = under
        return self.idle.pop() if self.idle else self.start(job)

    def _attend(self, worker: AnyWorker, outcome: Outcome, observer: Observer) -> None:
        answer: Any = None
        try:
            for message in islice(iter(worker.next_message, None), AT_ONCE):
                if isinstance(message, Failure | Finished):
                    answer = message
                    break
                if isinstance(message, Built | PointDone):
                    outcome.build_time = message.build_time
                if isinstance(message, Built):
                    outcome.built = message
                outcome.done += isinstance(message, PointDone | WorkloadDone)
                if isinstance(message, PointFailed):
                    outcome.failed_points += 1
                    failure = Failure(message.reason, message.details)
                    is_first = outcome.failed_points == 1 and not worker.keeps_log
                    log = _noted(outcome.job, failure, "w" if is_first else "a")
                    message = replace(message, reason=message.reason + log)
                observer.event(outcome.job, message)
        except EOFError:
            answer = worker.death()
        outcome.seconds = time.perf_counter() - outcome.started
        if answer is None and self.timeout is not None and outcome.seconds > self.timeout:
            worker.stop()
            answer = Failure(f"not finished after {self.timeout:g} s (--timeout)")
        if isinstance(answer, Failure):
            outcome.failure = answer.text + _noted(outcome.job, answer, "a" if worker.keeps_log else "w")
            observer.failed(outcome)
        if answer is not None:
            self._release(worker, answer)

    def _release(self, worker: AnyWorker, answer: Finished | Failure) -> None:
        """Keep a worker for more, unless it failed: who knows what that left behind in it.

        Nor is one kept that was started for something else than what is wanted now, as beside another.
        """
        is_wanted = started_for(self.busy.pop(worker).job) == self.idle_under
        if isinstance(answer, Finished) and worker.is_reusable and is_wanted:
            self.idle.append(worker)
        else:
            worker.end()


def started_for(job: Job) -> tuple[Any, ...]:
    """Return what a worker has to be started for, to carry out this job."""
    return version_of(job), job.conditions and (str(job.definition), job.conditions)


def version_of(job: Job) -> str | None:
    """Return the version that the user has named by a tag, None without one."""
    return job.definition.version or None


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have these variables in the environment for a process that is just being started."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _noted(job: Job, failure: Failure, mode: str) -> str:
    """Keep a traceback where the user can find it; the end of the line that says where."""
    if not failure.details:
        return ""
    return write_log(job, f"{job.definition}: {failure.text}\n\n{failure.details}\n", mode)
