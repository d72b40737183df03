"""The process that plug-ins run in: it takes requests from a pipe, one at a time, and answers with events."""

import faulthandler
import multiprocessing
import os
import signal
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from tqdm import tqdm

from ann_benchmarks.common.command import ENDING_SIGNALS, open_streams
from ann_benchmarks.common.errors import UserError, describe, one_line, shortage
from ann_benchmarks.common.host import host_facts
from ann_benchmarks.definitions.definition import Definition, plugin_class
from ann_benchmarks.jobs.events import Failure, Finished, Located
from ann_benchmarks.jobs.job import JobRequest
from ann_benchmarks.measure.job import carry_out
from ann_benchmarks.measure.rounds import Contenders, Enter, RoundsRequest

GRACE_SECONDS = 15  # between SIGTERM and SIGKILL


@dataclass(frozen=True)
class PluginCheck:
    """The request to import a plug-in, and to see that it has its constructor, and what turns take."""

    definition: Definition
    takes_turns: bool = False


@dataclass(frozen=True)
class LocationRequest:
    """The request to say where a plug-in would measure; nothing is started for it."""

    definition: Definition


class Stopped(KeyboardInterrupt):
    """The process is to end. Libraries take it for Ctrl-C, on which database clients cancel a query."""


def serve(pipe: Connection, crash_report: Connection, version: str | None = None) -> None:
    """Carry out requests until the pipe closes, None comes or the process gets SIGTERM.

    `version` is the one that all plug-ins here are to use, None: the one that they have.

    It is started with signals blocked. It always ends by returning, and thereby as Python processes end:
    finalizers of plug-ins run. The file of `crash_report` is given the stack of a crash in native code.
    """
    open_streams()
    contenders = Contenders()
    try:
        try:
            _take_signals()
            threading.Thread(target=_end_with_parent, daemon=True).start()
            # Its own lock is one between processes, which a crash would leave behind.
            tqdm.set_lock(threading.RLock())
            faulthandler.enable(crash_report.fileno())
            while (request := pipe.recv()) is not None:
                pipe.send(_answer(request, pipe, version, contenders))
            faulthandler.disable()
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
    signal.signal(signal.SIGTERM, _raise_stopped)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def _answer(
    request: PluginCheck | LocationRequest | JobRequest | RoundsRequest,
    pipe: Connection,
    version: str | None,
    contenders: Contenders,
) -> Finished | Located | Failure:
    try:
        if definition := _definition_of(request):
            plugin = plugin_class(definition)
            if version is not None:
                plugin.use_version(version)
        if isinstance(request, LocationRequest):
            return Located({**host_facts(), **plugin.server_environment()})
        if isinstance(request, JobRequest):
            carry_out(request, pipe.send)
        elif not isinstance(request, PluginCheck):
            contenders.carry_out(request, pipe.send)
        elif request.takes_turns:
            plugin.check_turns()
    except BaseException as error:  # a plug-in may raise what ends programs
        if signal.getsignal(signal.SIGTERM) == _do_nothing:
            raise Stopped from None  # whatever a library has made of it
        return failure_of(error)
    return Finished()


def _definition_of(
    request: PluginCheck | LocationRequest | JobRequest | RoundsRequest,
) -> Definition | None:
    """Return the definition whose plug-in is new to the process."""
    if isinstance(request, PluginCheck | LocationRequest):
        return request.definition
    begun = request.request if isinstance(request, Enter) else request
    return begun.job.definition if isinstance(begun, JobRequest) else None


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
    return Failure(shortage(error) or describe(error), details)


def _do_nothing(number: int, frame: Any) -> None:
    pass


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
