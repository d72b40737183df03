"""A worker seen from the parent: a process that is started, given requests, listened to, and stopped."""

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import IO, Any, Protocol

from ann_benchmarks.common.command import signals_wait
from ann_benchmarks.jobs.events import Failure

from .process import GRACE_SECONDS, serve

END_SECONDS = 120  # for an idle worker's plug-ins to put away what they hold, such as a server
LIKELY_CAUSES = {
    "SIGKILL": ": killed from outside, most likely because memory ran out",
    "SIGSEGV": ": a memory access error in native code",
    "SIGBUS": ": a memory access error, or a mapped file that became shorter",
    "SIGABRT": ": native code gave up",
    "SIGILL": ": native code for another processor",
}


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


class ProcessWorker:
    """One process, which takes one request at a time."""

    is_reusable = True
    keeps_log = False

    def __init__(self, environment: Mapping[str, str] | None = None, version: str | None = None) -> None:
        """Start it; `version` is the one that plug-ins in it are to use, None: the one that they have."""
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.crash_report = _nameless_file()
        report = Connection(os.dup(self.crash_report.fileno()))  # as which a file is handed on
        # Not a daemon: those may not have child processes, which plug-ins may want.
        self.process = context.Process(target=serve, args=(theirs, report, version))
        try:
            resource_tracker.ensure_running()  # else start() would unblock the signals half-way
            with signals_wait(), _environment(environment or {}):  # until the worker has its handlers
                self.process.start()
        except BaseException:
            if self.process.pid is not None:
                self.process.kill()  # it has not begun anything
            self.stop()
            raise
        finally:
            theirs.close()
            report.close()

    def send(self, request: Any) -> None:
        """Hand over a request; OSError when the process has just died."""
        self.pipe.send(request)

    def ask_to_end(self) -> None:
        """Have it end soon."""
        if self.process.is_alive():
            self.process.terminate()

    def next_message(self) -> Any:
        """Return what the worker says next, None when there is nothing now; EOFError when it has died."""
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
        """Have it end; kill it when it does not. Interrupted while waiting, kill it at once."""
        try:
            if self.process.is_alive():
                self.process.terminate()
                self.process.join(GRACE_SECONDS)
        finally:
            if self.process.is_alive():
                self.process.kill()
            if self.process.pid is not None:  # else it could not be started
                self.process.join()
            self.pipe.close()
            self.crash_report.close()

    def death(self) -> Failure:
        """Say how the process came to its end."""
        self.process.join(GRACE_SECONDS)
        status = self.process.exitcode
        self.crash_report.seek(0)
        details = self.crash_report.read().decode(errors="replace")
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


def _nameless_file() -> IO[bytes]:
    """Open a file that leaves nothing behind, however the processes end that have it open."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("ann-crash-report"), "r+b")
    return tempfile.TemporaryFile()


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
