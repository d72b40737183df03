"""What each client does in a run: it sends queries on its connection, and reads their answers.

A client is a generator, which goes on when its connection has something to read. So one process can serve
several of them (serving.py). Between two queries nothing is encoded, decoded, printed or collected: two
readings of the clock are written for each query, and the rows of its answer. If requested, a sample of the
answers is kept.
"""

import math
import time
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from psycopg import pq

from ..means import AnswerMeans
from ..session import STATEMENT, QuerySession
from .member import MemberRun
from .sample import RawSample
from .work import InOrder, WhenDue

Arrival = tuple[float, int, bool]  # when a query is due, its number, and whether its answer is to be kept
_NONE = np.empty(0, np.int64)


class QueryRun(MemberRun[QuerySession, InOrder | WhenDue]):
    """The run of one client. Its book has the moments at which answers could be read."""

    def __init__(
        self,
        session: QuerySession,
        work: InOrder | WhenDue,
        book: "memoryview[float]",
        queries: Sequence[tuple[Any, ...]],
    ) -> None:
        """Take the parameters of the queries, too."""
        super().__init__(session, work, book)
        self.queries = queries
        own = work.own if isinstance(work, InOrder) else _NONE
        self.sample = RawSample(own, work.slots, work.expected, work.room)

    def client(self, start: float) -> Generator[Any, Any, None]:
        """Return what goes on with each answer, to begin at `start` of perf_counter."""
        return self.in_order(self.work, start) if isinstance(self.work, InOrder) else self.when_due(self.work)

    def in_order(self, work: InOrder, start: float) -> Generator[None, float, None]:
        """Send one query after the other; it is sent the moment at which it goes on."""
        libpq, session = self.session.libpq, self.session
        send, consume, is_busy = libpq.send_query_prepared, libpq.consume_input, libpq.is_busy
        receive, clock, fine = libpq.get_result, time.perf_counter, pq.ExecStatus.TUPLES_OK
        queries, book, keep, turn = self.queries, self.book, self.sample.keep, self.sample.turn
        formats = session.formats
        order = work.order.tolist()
        end = math.inf if work.seconds is None else start + work.seconds
        place, at, last, rows_from = 0, 0, 2 * work.room, 4 * work.room
        now = start
        while now < end and at < last:
            for number in order:
                book[at] = clock()
                send(STATEMENT, queries[number], formats, 1)
                now = yield
                consume()
                if is_busy():
                    now = yield from self._rest(now)
                result: Any = receive()
                receive()  # None, which ends the query
                book[at + 1] = now
                book[rows_from + place] = rows = result.ntuples
                if not rows and result.status != fine:
                    session.check(result)  # raises what the server reports
                if place == turn:
                    turn = keep(result)
                at += 2
                place += 1
                if now >= end or at >= last:
                    break
        self.count = place

    def when_due(self, work: WhenDue) -> Generator[bool, Any, None]:
        """Send one arrival after the other, as they are handed over; it yields whether it is free.

        While it is free, it is sent an Arrival, or None where there is something to read. While it is not, it
        is sent the moment at which it goes on.
        """
        libpq, session = self.session.libpq, self.session
        send, consume, is_busy = libpq.send_query_prepared, libpq.consume_input, libpq.is_busy
        receive, clock, fine = libpq.get_result, time.perf_counter, pq.ExecStatus.TUPLES_OK
        queries, book, keep, turn = self.queries, self.book, self.sample.keep, self.sample.turn
        formats = session.formats
        keep_first = self.sample.keep_first
        at, behind, rows_from = 0, 2 * work.room, 4 * work.room
        for place in range(work.room):
            while (arrival := (yield True)) is None:
                consume()  # raises where the connection was lost
            due, number, is_first = arrival
            book[at] = clock()
            send(STATEMENT, queries[number], formats, 1)
            now = yield False
            consume()
            if is_busy():
                now = yield from self._rest(now)
            result: Any = receive()
            receive()  # None, which ends the query
            book[at + 1] = now
            book[behind + at] = due
            book[behind + at + 1] = number
            book[rows_from + place] = rows = result.ntuples
            if not rows and result.status != fine:
                session.check(result)  # raises what the server reports
            if is_first:
                keep_first(place, result)
            if place == turn:
                turn = keep(result)
            at += 2
            self.count = place + 1
        yield True

    def result(self) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], AnswerMeans]:
        """Return the sample (numbers of queries, ids, for how many answers each stands) and its means."""
        self.session.counted.taken()
        sample = self.sample.arrays(self.count, self._number, self.session.ids)
        return sample, self.session.counted.taken()

    def _number(self, place: int) -> int:
        """Which query was sent there."""
        if isinstance(self.work, InOrder):
            return int(self.work.order[place % len(self.work.order)])
        return int(self.book[2 * (self.work.room + place) + 1])

    def _rest(self, now: float) -> Generator[Any, float, float]:
        """Read the rest of an answer that comes in parts; return when that could be read."""
        libpq = self.session.libpq
        libpq.consume_input()  # what TLS has decrypted no longer shows as readable
        while libpq.is_busy():
            now = yield False
            libpq.consume_input()
            libpq.consume_input()
        return now
