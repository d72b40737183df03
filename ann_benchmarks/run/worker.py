"""Workers seen from the parent: who carries out jobs elsewhere, how, and what becomes of them."""

import math
import multiprocessing.connection
import signal
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from ann_benchmarks.common.errors import NoDefinitionRuns, UserError, describe, one_line, shortage
from ann_benchmarks.common.text import warn
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import (
    Built,
    Event,
    Failure,
    Finished,
    Located,
    PointDone,
    PointFailed,
    WorkloadDone,
)
from ann_benchmarks.jobs.job import Conditions, Job, JobRequest
from ann_benchmarks.results.environment import add_settings

from .console import Console, JobOutcome

LOG_FOLDER = "logs"
LOCATION, VERSIONS, CHECK = "location", "versions", "check"
POLL_SECONDS = 0.5
LOCATION_SECONDS = 120  # for the answer of a container
AT_ONCE = 1000  # messages of one worker, before the others and the time are looked at
LIKELY_CAUSES = {
    "SIGKILL": ": killed from outside, most likely because memory ran out",
    "SIGSEGV": ": a memory access error in native code",
    "SIGBUS": ": a memory access error, or a mapped file that became shorter",
    "SIGABRT": ": native code gave up",
    "SIGILL": ": native code for another processor",
}


@dataclass(frozen=True)
class Question:
    """A question about a plug-in, which is imported for it, and does nothing else.

    LOCATION: where it would measure. VERSIONS: those of what it uses. CHECK: whether it has its constructor,
    and what it needs (NEEDS of the plug-ins).
    """

    definition: Definition
    about: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class SampleRequest:
    """The request to build a job's index on a sample of the rows, and to drop it again."""

    request: JobRequest


class Worker(Protocol):
    """Something that carries out a job elsewhere, and can be ended: a process, or a container."""

    pipe: Connection  # something to read is there when next_message() has something
    is_reusable: bool  # for another job
    keeps_log: bool  # itself; what is added to it goes to its end

    def send(self, request: Any) -> None:
        """Hand over a request; OSError when it has just ended."""

    def next_message(self) -> Any:
        """Return what it says next, None when there is nothing now; EOFError when it has ended."""

    def end(self) -> None:
        """Let it end by itself after its last answer."""

    def ask_to_end(self) -> None:
        """Have it end soon, without waiting for that."""

    def stop(self) -> None:
        """End it, whatever it does."""

    def death(self) -> Failure:
        """Say how it came to its end."""


def ask(worker: Worker, request: Question | SampleRequest, seconds: float = math.inf) -> Any:
    """Return the one answer to a request; a Failure where it ends before, or takes longer than that."""
    deadline = time.monotonic() + seconds
    try:
        worker.send(request)
        while (answer := worker.next_message()) is None:
            if time.monotonic() > deadline:
                return Failure(f"no answer within {seconds:g} s")
            multiprocessing.connection.wait([worker.pipe], POLL_SECONDS)
    except (EOFError, OSError):
        return worker.death()
    return answer


Locate = Callable[[Definition], Located | Failure]


class Locator:
    """Returns attributes that all results of a job would have here; each plug-in is imported once for it.

    Where that cannot be found out, nothing is known, and no finished point is contradicted.
    """

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self._known: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        self._said: set[str] = set()  # failures; several plug-ins may have the same

    def __call__(self, job: Job) -> Mapping[str, Any]:
        """Return the facts, with those of the job's tier."""
        definition = job.definition
        plugin = (definition.module, definition.constructor, definition.docker_tag, definition.version)
        key = (*plugin, definition.servers)
        if key not in self._known:
            answer = self._locate(definition)
            if isinstance(answer, Failure) and not answer.is_unavailable and answer.text not in self._said:
                self._said.add(answer.text)
                warn(f"nothing is known of the server of {definition.family}: {answer.text}")
            self._known[key] = answer.facts if isinstance(answer, Located) else {}
        facts, conditions = self._known[key], job.procedure.conditions
        facts = add_settings(facts, definition.settings, definition.varied)
        return {**facts, **(conditions.facts if conditions else {}), **job.facts_of_servers} if facts else {}


def failure_of(error: BaseException) -> Failure:
    """Say what an exception means to the user."""
    text = one_line(str(error))
    details = "" if isinstance(error, UserError) else traceback.format_exc()
    if isinstance(error, ModuleNotFoundError) and error.name:
        return Failure(f"the Python module '{error.name}' is not installed", details, is_unavailable=True)
    if isinstance(error, ImportError):
        return Failure(f"cannot be imported: {text}", details, is_unavailable=True)
    if getattr(error, "is_unavailable", False):
        return Failure(text, is_unavailable=True)
    ends_run = bool(getattr(error, "ends_run", False))
    return Failure(shortage(error) or describe(error), "" if ends_run else details, ends_run=ends_run)


def death_of(status: int | None, details: str) -> Failure:
    """Say how a process has ended, by its exit status as multiprocessing gives it; `details` are kept."""
    if status is None or status >= 0:
        return Failure(f"the process ended by itself with status {status}", details, ends_worker=True)
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    cause = LIKELY_CAUSES.get(name, "")
    return Failure(f"the process was ended by {name}{cause}", details, ends_worker=True)


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


def hear(
    worker: Worker, outcome: JobOutcome, observer: Console, began: float, timeout: float | None
) -> tuple[Event | None, Failure | Finished | None]:
    """Take account of what a worker says of a job; return its last report and its answer, if they have come.

    One that has not answered `timeout` seconds after `began` is stopped.
    """
    last = None
    try:
        for message in islice(iter(worker.next_message, None), AT_ONCE):
            if isinstance(message, Failure | Finished):
                return last, message
            last = noted(outcome, message, worker)
            observer.event(outcome.job, last)
    except EOFError:
        return last, replace(worker.death(), ends_worker=True)
    if timeout is None or time.perf_counter() - began <= timeout:
        return last, None
    worker.stop()
    return last, Failure(f"not finished after {timeout:g} s (--timeout)", ends_worker=True)


def note_failure(
    outcome: JobOutcome, failure: Failure, observer: Console, worker: Worker | None = None
) -> None:
    """Take account of the end of a job that has failed; NoDefinitionRuns where all others would, too."""
    if failure.ends_run:
        raise NoDefinitionRuns(failure.text)
    mode = "a" if worker is not None and worker.keeps_log else "w"
    outcome.failure = failure.text + _kept(outcome.job, failure, mode)
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


def log_path(job: Job) -> Path:
    """Return where the log of a definition lies: logs/DATASET/COUNT/SERIES/ARGS.log."""
    place = job.path([])
    name = place.name.partition(".")[0] or "no_arguments"
    return Path(LOG_FOLDER, *place.parts[1:-1], f"{name}.log")


class Simulation(Protocol):
    """What brings conditions about, one after the other."""

    def conditions(self, rows: int, dimension: int) -> Sequence[Conditions]:
        """Return all conditions for data of a size; UserError where the machine does not allow them."""

    def obstacle_to_turns(self, definitions: Sequence[Definition]) -> str | None:
        """Say why these cannot be measured in turn under any of the conditions; None where they can."""

    @property
    def builder(self) -> Callable[[Job], Worker] | None:
        """What starts a worker that builds, which no conditions are meant for; None: as any other."""

    def begun(self) -> AbstractContextManager[Any]:
        """Return what gives all back in the end; its value starts a worker under the conditions of a job."""

    def terms(self, job: Job) -> "Terms | None":
        """Return what a job's container gets instead of what all others get."""

    def trouble(self) -> str | None:
        """Say what is wrong with the conditions that are brought about now, if something is."""


@dataclass(frozen=True)
class Terms:
    """What a job's container gets instead of what all others get, where its conditions say so."""

    memory: int | None = None  # bytes; None: as all others
    cpus: int | None = None  # how many of those that it would have; None: all
    environment: Mapping[str, str] = field(default_factory=dict)  # further variables of its processes
    # Makes its storage ready, a folder of this machine, just before it is created; returns Docker's options.
    make_ready: Callable[[Path], dict[str, Any]] = lambda storage: {}
    # Sees to the container while it runs; returns what ends that.
    keep: Callable[[Any], Callable[[], None]] = lambda container: lambda: None
