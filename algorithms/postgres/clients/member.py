"""What each process of a group does: connects, reports that it is ready, and carries out runs."""

import ctypes
import gc
import os
import resource
import select
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

import psycopg

from ..errors import PostgresError
from ..session import PreparedSession
from .work import Book, MemberReport

_SET_TIMER_SLACK = 29  # of Linux' prctl
_Session = TypeVar("_Session", bound=PreparedSession)
_Work = TypeVar("_Work")


class MemberRun(ABC, Generic[_Session, _Work]):
    """What a member does in one run, and what it reports afterwards."""

    def __init__(self, session: _Session, work: _Work, book: "memoryview[float]") -> None:
        """Take the session, what is to be done, and the readings of the clock that it writes."""
        self.session, self.work, self.book = session, work, book
        self.count = 0  # of what was done

    @abstractmethod
    def carry_out(self, start: float) -> None:
        """Do the work; what is due, is so from `start` on, of perf_counter."""

    @abstractmethod
    def result(self) -> Any:
        """Return what is not in the book."""

    def report(self, cpu_seconds: float) -> MemberReport:
        """Report what was done, which took this much CPU of this process; the book is given back."""
        self.session.flush_statistics()
        result = self.result()
        self.book.release()
        return MemberReport(self.count, result, cpu_seconds)


def become_members(
    sockets: Sequence[int],
    books: Sequence[int],
    files: Sequence[int],
    connect: Callable[[Any], PreparedSession],
    run: Callable[[Any, Any, "memoryview[float]"], MemberRun[Any, Any]],
) -> None:
    """Fork a member for each socket, with its book, and wait until all have ended.

    `connect` opens a session with what the group connects with; `run` is called with the session, the work of
    a run, and the opened book. `files` are what all members share. Sockets, books and files are given as file
    descriptors.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C ends
    gc.collect()
    gc.freeze()  # what they share is not visited again, and so not copied, in each of them
    for number, file in zip(sockets, books, strict=True):
        try:
            is_member = os.fork() == 0
        except OSError as error:  # the number of processes may be limited
            Connection(os.dup(number)).send(PostgresError(f"cannot be started: {error.strerror}"))
            break
        if is_member:
            for other in [*sockets, *books]:
                if other not in (number, file):
                    os.close(other)
            try:
                _serve(Connection(number), Book(file), connect, run)
            finally:
                os._exit(0)
    for number in [*sockets, *books, *files]:
        os.close(number)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _serve(
    pipe: "Connection[Any, Any]",
    book: Book,
    connect: Callable[[Any], PreparedSession],
    make_run: Callable[[Any, Any, "memoryview[float]"], MemberRun[Any, Any]],
) -> None:
    """Be a member until the pipe closes. An error is sent, and ends it.

    What it receives first is how to connect; then the work of each run, followed by the time to start; then
    None, after which it may connect anew.
    """
    threading.Thread(target=_end_with, args=(pipe.fileno(),), daemon=True).start()
    _wake_on_time()
    try:
        while True:
            session = connect(pipe.recv())
            pipe.send(session.facts())
            while (work := pipe.recv()) is not None:
                run = make_run(session, work, book.writer(work.room))
                gc.collect()
                pipe.send(True)
                start = pipe.recv()
                gc.disable()
                while (early := start - time.perf_counter()) > 0:
                    time.sleep(early)
                before = cpu_seconds()
                run.carry_out(start)
                used = cpu_seconds() - before
                gc.enable()
                pipe.send(True)  # what follows is nobody's time
                pipe.send(run.report(used))
            session.close()
            pipe.send(None)
    except (EOFError, ConnectionError):
        return  # the parent has closed the pipe
    except Exception as error:
        is_plain = isinstance(error, PostgresError | psycopg.Error)
        text = str(error) if is_plain else f"{type(error).__name__}: {error}"
        with suppress(OSError):  # the parent has closed the pipe
            pipe.send(PostgresError(" ".join(text.split())))


def cpu_seconds() -> float:
    """CPU that this process has used, of user and system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _wake_on_time() -> None:
    """Have sleeps end when they should: Linux lets them be 50 us late by default."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)


def _end_with(pipe: int) -> None:
    """End when the other side of the pipe does, even within a query; to wait for that costs nothing."""
    ended = select.poll()
    ended.register(pipe, 0)  # poll always reports that it is closed
    ended.poll()
    os._exit(1)
