"""One client of a group: sends the queries that are its work, in a closed loop or when they are due."""

import math
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from psycopg import pq

from ..session import STATEMENT, QuerySession
from ..statement import QueryStatement
from .member import MemberRun, become_members
from .work import ARRIVAL, InOrder, WhenDue

_BINARY = (1,)


def become_clients(sockets: list[int], books: list[int], arrivals: int, parameters: int) -> None:
    """Become a client for each socket, with its book, and wait until all have ended.

    All read the arrivals of an open loop from one file at one offset, which the kernel moves on. The
    statement's parameters, one a query, are an NPY file. All of these are given as file descriptors.
    """
    rows = np.load(f"/dev/fd/{parameters}", mmap_mode="r")  # shared by all
    queries = [(row.data,) for row in rows]

    def connect(statement: QueryStatement) -> QuerySession:
        return QuerySession(statement, np.frombuffer(rows[0], dtype=">f4", offset=4))

    def run(session: QuerySession, work: InOrder | WhenDue, book: "memoryview[float]") -> _Queries:
        return _Queries(session, work, book, queries, arrivals)

    become_members(sockets, books, [arrivals, parameters], connect, run)


class _Queries(MemberRun[QuerySession, InOrder | WhenDue]):
    """The loops. Between two queries nothing is encoded, decoded, printed or collected.

    Two readings of the clock are written for each query. Of the raw answers the first to each query is kept,
    if requested; the others are only checked for errors.
    """

    def __init__(
        self,
        session: QuerySession,
        work: InOrder | WhenDue,
        book: "memoryview[float]",
        queries: Sequence[tuple[Any]],
        arrivals: int,
    ) -> None:
        super().__init__(session, work, book)
        self.queries, self.arrivals = queries, arrivals
        self.kept: dict[int, Any] = {}

    def carry_out(self, start: float) -> None:
        if isinstance(self.work, InOrder):
            self.send_in_order(self.work, start)
        else:
            self.send_when_due(self.work, start)

    def send_in_order(self, work: InOrder, start: float) -> None:
        execute, clock, fine = self.session.execute, time.perf_counter, pq.ExecStatus.TUPLES_OK
        queries, book, kept, keeps = self.queries, self.book, self.kept, work.keeps_ids
        order = work.order.tolist()
        end = math.inf if work.seconds is None else start + work.seconds
        at, last = 0, 2 * work.room
        now = start
        while now < end and at < last:
            for number in order:
                book[at] = clock()
                result = execute(STATEMENT, queries[number], _BINARY, 1)
                book[at + 1] = now = clock()
                at += 2
                if result.status != fine:
                    self.session.ids(result)  # raises what the server reports
                if keeps and number not in kept:
                    kept[number] = result
                if now >= end or at >= last:
                    break
        self.count = at // 2

    def send_when_due(self, work: WhenDue, start: float) -> None:
        execute, clock, fine = self.session.execute, time.perf_counter, pq.ExecStatus.TUPLES_OK
        queries, book, kept, keeps = self.queries, self.book, self.kept, work.keeps_ids
        sleep, read, unpack, size = time.sleep, os.read, ARRIVAL.unpack, ARRIVAL.size
        arrivals = self.arrivals
        at, last, behind = 0, 2 * work.room, 2 * work.room
        end = start + work.until
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
                self.session.ids(result)  # raises what the server reports
            if keeps and number not in kept:
                kept[number] = result
        self.count = at // 2

    def result(self) -> dict[int, list[int]]:
        return {number: self.session.ids(result) for number, result in self.kept.items()}
