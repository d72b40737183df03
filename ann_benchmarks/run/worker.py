"""A worker seen from the parent: what carries out requests elsewhere, and what its failures mean."""

import multiprocessing.connection
import signal
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from ann_benchmarks.common.errors import UserError, describe, one_line, shortage
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Failure
from ann_benchmarks.jobs.job import JobRequest

LOCATION, VERSIONS, CHECK = "location", "versions", "check"
POLL_SECONDS = 0.5
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


def ask(worker: Worker, request: Any) -> Any:
    """Send a request that has one answer and no reports before it; return the answer, or how it ended."""
    try:
        worker.send(request)
        while (answer := worker.next_message()) is None:
            multiprocessing.connection.wait([worker.pipe], POLL_SECONDS)
    except (EOFError, OSError):
        return worker.death()
    return answer


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
