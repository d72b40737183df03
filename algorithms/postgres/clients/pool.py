"""Several clients of one server that send queries at the same time: how they are run, and what each does."""

import math
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from psycopg import pq

from ..encoding import VectorEncoder
from ..errors import PostgresError
from ..session import STATEMENT, QuerySession
from ..statement import QueryStatement
from .group import MOST_A_SECOND, ProcessGroup
from .member import MemberRun, become_members
from .sample import EVEN, RawSample, own_places
from .work import ARRIVAL, ClientRun, InOrder, WhenDue

_BINARY = (1,)


class ClientPool(ProcessGroup):
    """A number of processes, each with a connection that has the statement prepared and its plan checked."""

    def __init__(
        self, statement: QueryStatement, queries: np.ndarray, clients: int, rests: bool = False
    ) -> None:
        """Start them, and return when all are ready; `queries` is (count, dimension) of any real type.

        With `rests`, close() ends the sessions only, and connect() begins the next ones.
        """
        self._queries, self._rests = queries, rests
        self._arrivals = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        with tempfile.TemporaryFile() as parameters:
            np.save(parameters, encoded(queries, statement.dimension))
            parameters.seek(0)
            files = [self._arrivals.fileno(), parameters.fileno()]
            super().__init__(clients, become_clients, files, files, statement)

    def prepare(
        self, orders: Sequence[np.ndarray], seconds: float | None = None, keeps_ids: bool = True
    ) -> None:
        """Closed loop: client i is to send the queries numbered in orders[i]; returns when all are ready.

        With `seconds`, each goes through its order again and again for that time.
        """
        room = None if seconds is None else round(seconds * MOST_A_SECOND) + 1
        slots = self._slots() if keeps_ids else 0
        own = own_places(orders) if keeps_ids else [np.empty(0, np.int64)] * len(orders)
        self._prepare(
            [
                InOrder(np.asarray(order), seconds, places, slots, room or len(order))
                for order, places in zip(orders, own, strict=True)
            ]
        )

    def prepare_arrivals(
        self, due: np.ndarray, numbers: np.ndarray, patience: float, keeps_ids: bool = True
    ) -> None:
        """Open loop: query numbers[i] is to be sent due[i] s after the start, by whichever client is free.

        What is not sent `patience` s after the last was due, is not sent any more.
        """
        arrivals = np.empty(len(due), dtype=[("due", "f8"), ("number", "i8")])
        assert arrivals.itemsize == ARRIVAL.size
        arrivals["due"], arrivals["number"] = due, numbers
        if keeps_ids:
            _, first = np.unique(numbers, return_index=True)
            arrivals["number"][first] = ~arrivals["number"][first]
        os.ftruncate(self._arrivals.fileno(), 0)
        os.lseek(self._arrivals.fileno(), 0, os.SEEK_SET)
        write_all(self._arrivals.fileno(), arrivals.tobytes())
        os.lseek(self._arrivals.fileno(), 0, os.SEEK_SET)
        slots = self._slots() if keeps_ids else 0
        self._prepare([WhenDue(float(due[-1]) + patience, slots, len(due))] * len(self))

    def answers(self) -> list[ClientRun]:
        """Return what each client measured in the last run; to be called once after each."""
        runs = []
        for book, work, report in self._reports():
            read = book.read(work.room, report.count)
            is_closed = isinstance(work, InOrder)
            numbers, ids, weights = report.result
            runs.append(
                ClientRun(
                    np.resize(work.order, report.count) if is_closed else read.numbers,
                    None if is_closed else read.due,
                    read.sent,
                    read.answered,
                    read.rows,
                    numbers,
                    ids,
                    weights,
                    report.cpu_seconds,
                )
            )
        return runs

    def _slots(self) -> int:
        return math.ceil(EVEN * len(self._queries) / len(self))

    def has_rested(self, queries: np.ndarray, clients: int) -> bool:
        """Whether this number of processes is at rest and has these very queries."""
        return not self.members and len(self) == clients and self._queries is queries

    def close(self) -> None:
        """End the sessions; the processes, too, unless they rest."""
        if self._rests and len(self):
            with suppress(PostgresError):  # then they have ended
                self.disconnect()
        else:
            self.end()

    def end(self) -> None:
        """End all of them: a client ends when its pipe does."""
        super().end()
        self._arrivals.close()


class RestingClients:
    """The processes of the last point's clients, which the next point uses if it has as many."""

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._pool: ClientPool | None = None

    def open(self, statement: QueryStatement, queries: np.ndarray, clients: int) -> ClientPool:
        """Return this number of clients for the statement; close() has them rest."""
        if self._pool is not None and self._pool.has_rested(queries, clients):
            self._pool.connect(statement)
        else:
            self.end()
            self._pool = ClientPool(statement, queries, clients, rests=True)
        return self._pool

    def end(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.end()
        self._pool = None


def write_all(file: int, content: bytes) -> None:
    """Write the whole of it, however many calls that takes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def encoded(queries: np.ndarray, dimension: int) -> np.ndarray:
    """The queries as parameters of a statement, (count, bytes), uint8."""
    encoder = VectorEncoder(dimension)
    rows = np.empty((len(queries), 4 + 4 * dimension), dtype=np.uint8)
    for row, query in zip(rows, queries, strict=True):
        row[:] = np.frombuffer(encoder.encode(query), dtype=np.uint8)
    return rows


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
