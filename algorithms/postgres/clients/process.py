"""One client: connects, says that it is ready, and asks what it is told to, until there is nothing more."""

import ctypes
import gc
import math
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import psycopg
from psycopg import pq

from ..errors import PostgresError
from ..session import STATEMENT, QuerySession
from .book import Book
from .work import ARRIVAL, Done, InOrder, Member, WhenDue

_BINARY = (1,)
_SET_TIMER_SLACK = 29  # of Linux' prctl


def become_clients(sockets: list[int], books: list[int], arrivals: int, parameters: int) -> None:
    """Become a client for each socket, with its book, and wait until all have ended.

    All read the arrivals of an open loop from one file at one offset, which the kernel moves on. The
    statement's parameters, one a query, are an NPY file. All of these are given as file descriptors.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked for them decides what Ctrl-C ends
    rows = np.load(f"/dev/fd/{parameters}", mmap_mode="r")  # shared by all
    gc.collect()
    gc.freeze()  # what they share is not looked at again, and so not copied, in each of them
    for number, book in zip(sockets, books, strict=True):
        try:
            is_client = os.fork() == 0
        except OSError as error:  # there may be so many processes and no more
            Connection(os.dup(number)).send(PostgresError(f"cannot be started: {error.strerror}"))
            break
        if is_client:
            for other in [*sockets, *books]:
                if other not in (number, book):
                    os.close(other)
            try:
                serve(Connection(number), Book(book), arrivals, rows)
            finally:
                os._exit(0)
    for number in [*sockets, *books, arrivals, parameters]:
        os.close(number)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def serve(pipe: "Connection[Any, Any]", book: Book, arrivals: int, rows: np.ndarray) -> None:
    """Be a client until the pipe closes. An error is sent, and ends it."""
    threading.Thread(target=end_with, args=(pipe.fileno(),), daemon=True).start()
    wake_on_time()
    try:
        asking = pipe.recv()
        parameters = [(row.data,) for row in rows]
        session = QuerySession(asking, np.frombuffer(rows[0], dtype=">f4", offset=4))
        pipe.send(Member(os.getpid(), session.backend, session.changed_settings(), session.plan_text))
        while True:
            asked = pipe.recv()
            client = _Client(session, parameters, book.writer(asked.most), asked)
            gc.collect()
            pipe.send(True)
            start = pipe.recv()
            gc.disable()
            client.ask(arrivals, start)
            gc.enable()
            pipe.send(True)  # what follows is nobody's time
            pipe.send(client.report())
            client.close()
    except (EOFError, ConnectionError):
        return  # nobody wants to know any more
    except Exception as error:
        is_plain = isinstance(error, PostgresError | psycopg.Error)
        said = str(error) if is_plain else f"{type(error).__name__}: {error}"
        with suppress(OSError):  # nobody wants to know any more
            pipe.send(PostgresError(" ".join(said.split())))


class _Client:
    """The loops. Between two queries nothing is encoded, decoded, printed or collected.

    Two readings of the clock are written for each query. Of the raw answers the first to each query is kept,
    if wanted; of the others it is seen that they are no errors.
    """

    def __init__(
        self,
        session: QuerySession,
        parameters: Sequence[tuple[Any]],
        book: "memoryview[float]",
        asked: InOrder | WhenDue,
    ) -> None:
        self.session, self.parameters, self.book, self.asked = session, parameters, book, asked
        self.kept: dict[int, Any] = {}
        self.queries = 0
        self.cpu_seconds = 0.0

    def ask(self, arrivals: int, start: float) -> None:
        while (early := start - time.perf_counter()) > 0:
            time.sleep(early)
        before = cpu_seconds()
        if isinstance(self.asked, InOrder):
            self.ask_in_order(self.asked, start)
        else:
            self.ask_when_due(self.asked, arrivals, start)
        self.cpu_seconds = cpu_seconds() - before

    def ask_in_order(self, asked: InOrder, start: float) -> None:
        execute, clock, fine = self.session.execute, time.perf_counter, pq.ExecStatus.TUPLES_OK
        parameters, book, kept, keeps = self.parameters, self.book, self.kept, asked.keeps_ids
        order = asked.order.tolist()
        end = math.inf if asked.seconds is None else start + asked.seconds
        at, last = 0, 2 * asked.most
        now = start
        while now < end and at < last:
            for number in order:
                book[at] = clock()
                result = execute(STATEMENT, parameters[number], _BINARY, 1)
                book[at + 1] = now = clock()
                at += 2
                if result.status != fine:
                    self.session.ids(result)  # raises what the server says
                if keeps and number not in kept:
                    kept[number] = result
                if now >= end or at >= last:
                    break
        self.queries = at // 2

    def ask_when_due(self, asked: WhenDue, arrivals: int, start: float) -> None:
        execute, clock, fine = self.session.execute, time.perf_counter, pq.ExecStatus.TUPLES_OK
        parameters, book, kept, keeps = self.parameters, self.book, self.kept, asked.keeps_ids
        sleep, read, unpack, size = time.sleep, os.read, ARRIVAL.unpack, ARRIVAL.size
        at, last, behind = 0, 2 * asked.most, 2 * asked.most
        end = start + asked.until
        while at < last and (record := read(arrivals, size)):
            due, number = unpack(record)
            due += start
            now = clock()
            if now >= end:
                break
            if due > now:
                sleep(due - now)
            book[at] = clock()
            result = execute(STATEMENT, parameters[number], _BINARY, 1)
            book[at + 1] = clock()
            book[behind + at] = due
            book[behind + at + 1] = number
            at += 2
            if result.status != fine:
                self.session.ids(result)  # raises what the server says
            if keeps and number not in kept:
                kept[number] = result
        self.queries = at // 2

    def report(self) -> Done:
        self.session.flush_statistics()
        ids = {number: self.session.ids(result) for number, result in self.kept.items()}
        return Done(self.queries, ids, self.cpu_seconds)

    def close(self) -> None:
        self.book.release()


def cpu_seconds() -> float:
    """CPU that this process has used, of user and system."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def wake_on_time() -> None:
    """Have sleeps end when they should: Linux lets them be 50 us late by default."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)


def end_with(pipe: int) -> None:
    """End when the other side of the pipe does, even within a query; to wait for that costs nothing."""
    ended = select.poll()
    ended.register(pipe, 0)  # that it is closed is always told
    ended.poll()
    os._exit(1)
