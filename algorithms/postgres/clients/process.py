"""One client: connects, and asks what it is told to, until there is nothing more."""

import math
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from psycopg import pq

from ..session import STATEMENT, Asking, QuerySession
from .book import Book
from .member import become_members, serve
from .work import ARRIVAL, Done, InOrder, Member, WhenDue

_BINARY = (1,)


def become_clients(sockets: list[int], books: list[int], arrivals: int, parameters: int) -> None:
    """Become a client for each socket, with its book, and wait until all have ended.

    All read the arrivals of an open loop from one file at one offset, which the kernel moves on. The
    statement's parameters, one a query, are an NPY file. All of these are given as file descriptors.
    """
    rows = np.load(f"/dev/fd/{parameters}", mmap_mode="r")  # shared by all

    def be_client(pipe: Any, book: Book) -> None:
        queries = [(row.data,) for row in rows]

        def connect(asking: Asking) -> tuple[QuerySession, Member]:
            session = QuerySession(asking, np.frombuffer(rows[0], dtype=">f4", offset=4))
            said = Member(os.getpid(), session.backend, session.changed_settings(), session.plan_text)
            return session, said

        def client(session: QuerySession, asked: InOrder | WhenDue) -> _Client:
            return _Client(session, queries, book.writer(asked.most), asked, arrivals)

        serve(pipe, connect, client)

    become_members(sockets, books, [arrivals, parameters], be_client)


class _Client:
    """The loops. Between two queries nothing is encoded, decoded, printed or collected.

    Two readings of the clock are written for each query. Of the raw answers the first to each query is kept,
    if wanted; of the others it is seen that they are no errors.
    """

    def __init__(
        self,
        session: QuerySession,
        queries: Sequence[tuple[Any]],
        book: "memoryview[float]",
        asked: InOrder | WhenDue,
        arrivals: int,
    ) -> None:
        self.session, self.queries, self.book, self.asked = session, queries, book, asked
        self.arrivals = arrivals
        self.kept: dict[int, Any] = {}
        self.done = 0

    def carry_out(self, start: float) -> None:
        if isinstance(self.asked, InOrder):
            self.ask_in_order(self.asked, start)
        else:
            self.ask_when_due(self.asked, start)

    def ask_in_order(self, asked: InOrder, start: float) -> None:
        execute, clock, fine = self.session.execute, time.perf_counter, pq.ExecStatus.TUPLES_OK
        queries, book, kept, keeps = self.queries, self.book, self.kept, asked.keeps_ids
        order = asked.order.tolist()
        end = math.inf if asked.seconds is None else start + asked.seconds
        at, last = 0, 2 * asked.most
        now = start
        while now < end and at < last:
            for number in order:
                book[at] = clock()
                result = execute(STATEMENT, queries[number], _BINARY, 1)
                book[at + 1] = now = clock()
                at += 2
                if result.status != fine:
                    self.session.ids(result)  # raises what the server says
                if keeps and number not in kept:
                    kept[number] = result
                if now >= end or at >= last:
                    break
        self.done = at // 2

    def ask_when_due(self, asked: WhenDue, start: float) -> None:
        execute, clock, fine = self.session.execute, time.perf_counter, pq.ExecStatus.TUPLES_OK
        queries, book, kept, keeps = self.queries, self.book, self.kept, asked.keeps_ids
        sleep, read, unpack, size = time.sleep, os.read, ARRIVAL.unpack, ARRIVAL.size
        arrivals = self.arrivals
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
            result = execute(STATEMENT, queries[number], _BINARY, 1)
            book[at + 1] = clock()
            book[behind + at] = due
            book[behind + at + 1] = number
            at += 2
            if result.status != fine:
                self.session.ids(result)  # raises what the server says
            if keeps and number not in kept:
                kept[number] = result
        self.done = at // 2

    def report(self, cpu_seconds: float) -> Done:
        self.session.flush_statistics()
        ids = {number: self.session.ids(result) for number, result in self.kept.items()}
        self.book.release()
        return Done(self.done, ids, cpu_seconds)
