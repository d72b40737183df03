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
from .sample import RawSample
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

    Two readings of the clock are written for each query, and the rows of its answer. If requested, a sample
    of the answers is kept.
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
        self.sample = RawSample(work.own.tolist() if isinstance(work, InOrder) else (), work.slots)

    def carry_out(self, start: float) -> None:
        if isinstance(self.work, InOrder):
            self.send_in_order(self.work, start)
        else:
            self.send_when_due(self.work, start)

    def send_in_order(self, work: InOrder, start: float) -> None:
        execute, clock, fine = self.session.execute, time.perf_counter, pq.ExecStatus.TUPLES_OK
        queries, book, keep, turn = self.queries, self.book, self.sample.keep, self.sample.turn
        order = work.order.tolist()
        end = math.inf if work.seconds is None else start + work.seconds
        place, at, last, rows_from = 0, 0, 2 * work.room, 4 * work.room
        now = start
        while now < end and at < last:
            for number in order:
                book[at] = clock()
                result = execute(STATEMENT, queries[number], _BINARY, 1)
                book[at + 1] = now = clock()
                book[rows_from + place] = rows = result.ntuples
                if not rows and result.status != fine:
                    self.session.check(result)  # raises what the server reports
                if place == turn:
                    turn = keep(place, number, result)
                at += 2
                place += 1
                if now >= end or at >= last:
                    break
        self.count = place

    def send_when_due(self, work: WhenDue, start: float) -> None:
        execute, clock, fine = self.session.execute, time.perf_counter, pq.ExecStatus.TUPLES_OK
        queries, book, keep, turn = self.queries, self.book, self.sample.keep, self.sample.turn
        sleep, read, unpack, size = time.sleep, os.read, ARRIVAL.unpack, ARRIVAL.size
        arrivals = self.arrivals
        place, at, last, behind, rows_from = 0, 0, 2 * work.room, 2 * work.room, 4 * work.room
        end = start + work.until
        while at < last and (record := read(arrivals, size)):
            due, number = unpack(record)
            if is_first := number < 0:
                number = ~number
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
            book[rows_from + place] = rows = result.ntuples
            if not rows and result.status != fine:
                self.session.check(result)  # raises what the server reports
            if is_first or place == turn:
                turn = keep(place, number, result, is_first)
            at += 2
            place += 1
        self.count = place

    def result(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the sample: numbers of queries, ids, and for how many answers each stands."""
        return self.sample.arrays(self.count, self.session.ids)
