"""One client of a group: sends the queries that are its work, in a closed loop or when they are due."""

import math
import os
import random
import time
from array import array
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

    Two readings of the clock are written for each query, and the rows of its answer. If requested, one answer
    to each query is kept, drawn evenly from all: the n-th replaces the one before with probability 1 / n
    (reservoir sampling, Vitter 1985).
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
        self.draw = random.Random().random  # seeded anew: else all forks would draw the same
        self.kept: dict[int, array[int]] = {}  # ids

    def carry_out(self, start: float) -> None:
        if isinstance(self.work, InOrder):
            self.send_in_order(self.work, start)
        else:
            self.send_when_due(self.work, start)

    def send_in_order(self, work: InOrder, start: float) -> None:
        execute, clock, fine = self.session.execute, time.perf_counter, pq.ExecStatus.TUPLES_OK
        queries, book, kept, keeps = self.queries, self.book, self.kept, work.keeps_ids
        decode, draw, times_sent = self.session.id_array, self.draw, [0] * len(self.queries)
        order = work.order.tolist()
        end = math.inf if work.seconds is None else start + work.seconds
        at, last, rows_at = 0, 2 * work.room, 4 * work.room
        now = start
        while now < end and at < last:
            for number in order:
                book[at] = clock()
                result = execute(STATEMENT, queries[number], _BINARY, 1)
                book[at + 1] = now = clock()
                book[rows_at] = rows = result.ntuples
                at += 2
                rows_at += 1
                if not rows and result.status != fine:
                    self.session.check(result)  # raises what the server reports
                if keeps:
                    times_sent[number] = times = times_sent[number] + 1
                    if draw() * times < 1:
                        kept[number] = decode(result)
                if now >= end or at >= last:
                    break
        self.count = at // 2

    def send_when_due(self, work: WhenDue, start: float) -> None:
        execute, clock, fine = self.session.execute, time.perf_counter, pq.ExecStatus.TUPLES_OK
        queries, book, kept, keeps = self.queries, self.book, self.kept, work.keeps_ids
        decode, draw, times_sent = self.session.id_array, self.draw, [0] * len(self.queries)
        sleep, read, unpack, size = time.sleep, os.read, ARRIVAL.unpack, ARRIVAL.size
        arrivals = self.arrivals
        at, last, behind, rows_at = 0, 2 * work.room, 2 * work.room, 4 * work.room
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
            book[rows_at] = rows = result.ntuples
            at += 2
            rows_at += 1
            if not rows and result.status != fine:
                self.session.check(result)  # raises what the server reports
            if keeps:
                times_sent[number] = times = times_sent[number] + 1
                if draw() * times < 1:
                    kept[number] = decode(result)
        self.count = at // 2

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the queries, (kept,), and the ids that answer them, (kept, most rows)."""
        numbers = np.fromiter(self.kept, np.int64, len(self.kept))
        lengths = np.fromiter(map(len, self.kept.values()), np.int64, len(self.kept))
        ids = np.full((len(numbers), lengths.max(initial=0)), -1, np.int64)
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.frombuffer(
            b"".join(self.kept.values()), np.int64
        )
        return numbers, ids
