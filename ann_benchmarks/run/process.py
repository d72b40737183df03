"""The process that plug-ins run in, from both ends of a pipe.

`ProcessWorker` starts it, hands it requests and ends it. `serve` runs in it, or in a container, takes one
request at a time and answers with events.
"""

import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, NoReturn, Protocol

from tqdm import tqdm

from ann_benchmarks.common.command import ENDING_SIGNALS, open_streams, repeat_unraised, signals_wait
from ann_benchmarks.common.host import allow_files, host_facts
from ann_benchmarks.definitions.definition import plugin_class
from ann_benchmarks.jobs.events import Failure, Finished, Located
from ann_benchmarks.jobs.job import JobRequest
from ann_benchmarks.measure.job import carry_out, measure_sample
from ann_benchmarks.measure.rounds import Contenders, Enter, RoundsRequest

from .variables import plugin_environment
from .worker import LOCATION, VERSIONS, Question, SampleRequest, death_of, failure_of

GRACE_SECONDS = 15  # between SIGTERM and SIGKILL
END_SECONDS = 120  # for an idle worker's plug-ins to put away what they hold, such as a server


class ProcessWorker:
    """One process, which takes one request at a time."""

    is_reusable = True
    keeps_log = False

    def __init__(self, environment: Mapping[str, str] | None = None, version: str | None = None) -> None:
        """Start it, with `environment` beside what every plug-in may have.

        `version` is the one that plug-ins in it are to use, None: the one that they have.
        """
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.crash_report = tempfile.TemporaryFile()  # noqa: SIM115
        report = Connection(os.dup(self.crash_report.fileno()))  # a file is handed on as a connection
        # Not a daemon: those may not have child processes, which plug-ins may want.
        self.process = context.Process(target=_begin, args=(theirs, report, version))
        try:
            resource_tracker.ensure_running()  # else start() would unblock the signals half-way
            variables = plugin_environment() | dict(environment or {})
            with signals_wait(), _environment(variables), _main_left_out():  # until it has its handlers
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
        return death_of(status, details)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have these variables and no others in the environment for a process that is just being started."""
    before = dict(os.environ)
    try:
        _replace_environment(variables)
        yield
    finally:
        _replace_environment(before)


@contextmanager
def _main_left_out() -> Iterator[None]:
    """Have a process that is just being started not import the program again: it needs a part of that."""
    main = vars(sys.modules["__main__"])
    file = main.pop("__file__", None)
    try:
        yield
    finally:
        if file is not None:
            main["__file__"] = file


def _replace_environment(variables: Mapping[str, str]) -> None:
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)


class Stopped(KeyboardInterrupt):
    """The process is to end. Libraries take it for Ctrl-C, on which database clients cancel a query."""

    number = signal.SIGTERM


class Pipe(Protocol):
    """The way to whoever requests: a Connection, or what is one in a container."""

    def recv(self) -> Any:
        """Wait for the next request; EOFError when there will be none."""

    def send(self, message: Any) -> None:
        """Report something."""


def _begin(pipe: Connection, crash_report: Connection, version: str | None) -> None:
    """Serve in a process that was started with signals blocked.

    The file of `crash_report` is given the stack of a crash in native code.
    """
    open_streams()
    faulthandler.enable(crash_report.fileno())
    serve(pipe, version)
    faulthandler.disable()


def serve(pipe: Pipe, version: str | None = None) -> None:
    """Carry out requests until the pipe closes, None comes or the process gets SIGTERM.

    `version` is the one that all plug-ins here are to use, None: the one that they have. It always ends by
    returning, and thereby as Python processes end: finalizers of plug-ins run.
    """
    contenders = Contenders()
    try:
        try:
            _take_signals()
            allow_files()
            if multiprocessing.parent_process() is not None:  # a container has its own first process
                threading.Thread(target=_end_with_parent, daemon=True).start()
            # Its own lock is one between processes, which a crash would leave behind.
            tqdm.set_lock(threading.RLock())
            while (request := pipe.recv()) is not None:
                pipe.send(_answer(request, pipe, version, contenders))
        finally:
            contenders.close()
            signal.signal(signal.SIGTERM, _do_nothing)
    except (EOFError, ConnectionError, Stopped):
        pass  # the parent has gone or wants this process gone; either way nobody listens
    except Exception as error:  # for lack of threads or files
        with suppress(OSError):
            pipe.send(failure_of(error))


def _take_signals() -> None:
    """Have SIGTERM end this process.

    Ctrl-C reaches every process of a terminal; the parent decides what becomes of this one. A handler that
    does nothing, unlike SIG_IGN, is not handed on to the programs that plug-ins start.
    """
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _do_nothing)
    repeat_unraised(Stopped, _take_sigterm)
    _take_sigterm()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def _answer(
    request: Question | SampleRequest | JobRequest | RoundsRequest,
    pipe: Pipe,
    version: str | None,
    contenders: Contenders,
) -> Finished | Located | Failure:
    begun = request.request if isinstance(request, Enter | SampleRequest) else request
    try:
        if version is not None and isinstance(begun, Question | JobRequest):  # its plug-in may be new here
            definition = begun.definition if isinstance(begun, Question) else begun.job.definition
            plugin_class(definition).use_version(version)
        if isinstance(request, Question):
            return _answer_question(request)
        if isinstance(request, SampleRequest):
            return Located(measure_sample(request.request))
        if isinstance(request, JobRequest):
            carry_out(request, pipe.send)
        else:
            contenders.carry_out(request, pipe.send)
    except BaseException as error:  # a plug-in may raise what ends programs
        if signal.getsignal(signal.SIGTERM) == _do_nothing:
            raise Stopped from None  # whatever a library has made of it
        return failure_of(error)
    return Finished()


def _answer_question(question: Question) -> Finished | Located:
    """Answer by what a plug-in says of itself."""
    plugin, servers = plugin_class(question.definition), question.definition.servers
    if question.about == LOCATION:
        return Located({**host_facts(), **plugin.server_environment(servers.kind, servers.arguments)})
    if question.about == VERSIONS:
        return Located(plugin.installed_versions())
    plugin.check(question.needs)
    return Finished()


def _do_nothing(number: int, frame: Any) -> None:
    pass


def _take_sigterm() -> None:
    signal.signal(signal.SIGTERM, _raise_stopped)


def _raise_stopped(number: int, frame: Any) -> NoReturn:
    signal.signal(signal.SIGTERM, _do_nothing)  # once: what it cleans up now is not interrupted
    raise Stopped


def _end_with_parent() -> None:
    """When the parent has gone, however that came, nothing goes on measuring unseen."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    with suppress(ProcessLookupError):
        os.kill(os.getpid(), signal.SIGKILL)
