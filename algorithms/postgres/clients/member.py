"""What each process of a group does: connects, says that it is ready, and does what it is told."""

import ctypes
import gc
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Protocol

import psycopg

from ..errors import PostgresError
from .book import Book
from .work import Member

_SET_TIMER_SLACK = 29  # of Linux' prctl


class Task(Protocol):
    """What a member does in one run."""

    def carry_out(self, start: float) -> None:
        """Do it; what is due, is so from `start` on, of perf_counter."""
        ...

    def report(self, cpu_seconds: float) -> Any:
        """Say what was done, which took so much CPU of this process; what was taken for it is given back."""
        ...


def become_members(
    sockets: Sequence[int], books: Sequence[int], files: Sequence[int], be: Callable[[Any, Book], None]
) -> None:
    """Fork a member for each socket, with its book, to `be` it, and wait until all have ended.

    `files` are what all of them share. All of these are given as file descriptors.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked for them decides what Ctrl-C ends
    gc.collect()
    gc.freeze()  # what they share is not looked at again, and so not copied, in each of them
    for number, book in zip(sockets, books, strict=True):
        try:
            is_member = os.fork() == 0
        except OSError as error:  # there may be so many processes and no more
            Connection(os.dup(number)).send(PostgresError(f"cannot be started: {error.strerror}"))
            break
        if is_member:
            for other in [*sockets, *books]:
                if other not in (number, book):
                    os.close(other)
            try:
                be(Connection(number), Book(book))
            finally:
                os._exit(0)
    for number in [*sockets, *books, *files]:
        os.close(number)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def serve(
    pipe: "Connection[Any, Any]",
    connect: Callable[[Any], tuple[Any, Member]],
    task_of: Callable[[Any, Any], Task],
) -> None:
    """Be a member until the pipe closes. An error is sent, and ends it.

    What it hears first is how to connect; then its tasks, each followed by the time to start; then None,
    after which it may connect anew. `connect` returns a session, to be closed, and what is said of it.
    """
    threading.Thread(target=_end_with, args=(pipe.fileno(),), daemon=True).start()
    _wake_on_time()
    try:
        while True:
            session, said = connect(pipe.recv())
            pipe.send(said)
            while (told := pipe.recv()) is not None:
                task = task_of(session, told)
                gc.collect()
                pipe.send(True)
                start = pipe.recv()
                gc.disable()
                while (early := start - time.perf_counter()) > 0:
                    time.sleep(early)
                before = cpu_seconds()
                task.carry_out(start)
                used = cpu_seconds() - before
                gc.enable()
                pipe.send(True)  # what follows is nobody's time
                pipe.send(task.report(used))
            session.close()
            pipe.send(None)
    except (EOFError, ConnectionError):
        return  # nobody wants to know any more
    except Exception as error:
        is_plain = isinstance(error, PostgresError | psycopg.Error)
        text = str(error) if is_plain else f"{type(error).__name__}: {error}"
        with suppress(OSError):  # nobody wants to know any more
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
    ended.register(pipe, 0)  # that it is closed is always told
    ended.poll()
    os._exit(1)
