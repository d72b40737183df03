"""One client: connects, says that it is ready, and asks what it is told to, until there is nothing more."""

import gc
import math
import os
import resource
import select
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import psycopg
from psycopg import pq

from ..errors import PostgresError
from ..session import STATEMENT, QuerySession
from .work import Answers, Asked, Member

_BINARY = (1,)


def become_clients(sockets: list[int]) -> None:
    """Become a client for each of these sockets, and wait until all have ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked for them decides what Ctrl-C ends
    for number in sockets:
        if os.fork() == 0:
            for other in sockets:
                if other != number:
                    os.close(other)
            try:
                serve(Connection(number))
            finally:
                os._exit(0)
    for number in sockets:
        os.close(number)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def serve(pipe: "Connection[Any, Any]") -> None:
    """Be a client until the pipe closes. An error is sent, and ends it."""
    threading.Thread(target=_end_with, args=(pipe.fileno(),), daemon=True).start()
    try:
        asking, queries = pipe.recv()
        rows = np.load(queries, mmap_mode="r")  # shared by all clients
        parameters = [(row.data,) for row in rows]
        session = QuerySession(asking, np.frombuffer(rows[0], dtype=">f4", offset=4))
        pipe.send(Member(os.getpid(), session.backend, session.changed_settings()))
        while True:
            asked = pipe.recv()
            gc.collect()
            pipe.send(True)
            raw = ask(session, parameters, asked, pipe.recv())
            pipe.send(True)  # what follows is nobody's time
            pipe.send(raw.decoded(session))
    except (EOFError, ConnectionError):
        return  # nobody wants to know any more
    except Exception as error:
        is_plain = isinstance(error, PostgresError | psycopg.Error)
        said = str(error) if is_plain else f"{type(error).__name__}: {error}"
        with suppress(OSError):  # nobody wants to know any more
            pipe.send(PostgresError(" ".join(said.split())))


@dataclass(frozen=True)
class RawAnswers:
    """What is kept while queries are asked."""

    numbers: np.ndarray
    stamps: list[float]  # two for each query
    first: dict[int, Any]
    cpu_seconds: float

    def decoded(self, session: QuerySession) -> Answers:
        """Return what others understand; the server's error, if it gave one to a query, is raised."""
        times = np.array(self.stamps).reshape(-1, 2)
        ids = {number: session.ids(result) for number, result in self.first.items()}
        return Answers(self.numbers, times[:, 0], times[:, 1], ids, self.cpu_seconds)


def ask(session: QuerySession, parameters: Sequence[tuple[Any]], asked: Asked, start: float) -> RawAnswers:
    """Send one query after the other, from `start` on, and keep two readings of the clock for each.

    Between two queries nothing is encoded, decoded, printed or collected. Of the raw answers the first to
    each query is kept; of the others it is seen that they are no errors.
    """
    execute, clock, fine = session.execute, time.perf_counter, pq.ExecStatus.TUPLES_OK
    order = asked.order.tolist()
    end = math.inf if asked.seconds is None else start + asked.seconds
    first: dict[int, Any] = {}
    stamps: list[float] = []
    note = stamps.append
    gc.disable()
    while (early := start - clock()) > 0:
        time.sleep(early if early < 0.001 else early - 0.0005)
    before = _cpu_seconds()
    now = start
    while now < end:
        for number in order:
            note(clock())
            result = execute(STATEMENT, parameters[number], _BINARY, 1)
            now = clock()
            note(now)
            if number not in first:
                first[number] = result
            elif result.status != fine:
                session.ids(result)  # raises what the server says
            if now >= end:
                break
        if asked.seconds is None:
            break
    cpu_seconds = _cpu_seconds() - before
    gc.enable()
    return RawAnswers(np.resize(asked.order, len(stamps) // 2), stamps, first, cpu_seconds)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _end_with(pipe: int) -> None:
    """End when the other side of the pipe does, even within a query; to wait for that costs nothing."""
    ended = select.poll()
    ended.register(pipe, 0)  # that it is closed is always told
    ended.poll()
    os._exit(1)
