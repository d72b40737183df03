"""What clients do in a run, and what a process does for its clients.

A client sends queries on its connection, and reads their answers. It is a generator, which goes on when its
connection has something to read, so that one process can serve several of them. Between two queries nothing
is encoded, decoded, printed or collected: two readings of the clock are written for each query, and the rows
of its answer. If requested, a sample of the answers is kept.

The moment at which a process wakes up is the time of all the answers that are there: while it handles one of
them, the others have come already. A process that has more to do than it can shows in the time between
answers and the next queries.
"""

import math
import os
import select
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from psycopg import pq

from ..session.session import STATEMENT, PayloadSize, QuerySession, open_session
from ..session.statement import QueryStatement
from .member import MemberError, MemberProcess, MemberRun, RawSample, become_members
from .work import ARRIVAL, InOrder, WhenDue, read_parameters

HAS_EPOLL = hasattr(select, "epoll")  # without it, each process serves one connection
_READABLE = 1  # of poll and of epoll

_Clients = Mapping[int, Generator[Any, Any, None]]  # by the sockets of their connections
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
        super().__init__(session, work, book)
        self.queries = queries
        own = work.own if isinstance(work, InOrder) else _NONE
        self.sample = RawSample(own, work.slots)

    def client(self, start: float) -> Generator[Any, Any, None]:
        """Return what goes on with each answer, to begin at `start` of perf_counter."""
        work = self.work
        return self.run_in_order(work, start) if isinstance(work, InOrder) else self.run_when_due(work)

    def run_in_order(self, work: InOrder, start: float) -> Generator[None, float, None]:
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
                    turn = keep(place, result)
                at += 2
                place += 1
                if now >= end or at >= last:
                    break
        self.count = place

    def run_when_due(self, work: WhenDue) -> Generator[bool, Any, None]:
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
                turn = keep(place, result)
            at += 2
            self.count = place + 1
        yield True

    def result(self) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], PayloadSize]:
        """Return the sample (numbers of queries, ids, for how many answers each stands) and its payload."""
        self.session.payload = PayloadSize()
        sample = self.sample.arrays(self.count, self._number, self.session.ids)
        return sample, self.session.payload

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


def become_clients(sockets: list[int], books: list[list[int]], arrivals: int, parameters: int) -> None:
    """Become a process for each socket, with the books of its clients, and wait until all have ended.

    All read the arrivals of an open loop from one file at one offset, which the kernel moves on. The
    statement's parameters, one a query, are a file, too. All of these are given as file descriptors.
    """
    queries = read_parameters(parameters)
    become_members(sockets, books, [arrivals, parameters], lambda: _ClientProcess(queries, arrivals))


class _ClientProcess(MemberProcess):
    """Some clients of one process, and what it waits with."""

    def __init__(self, queries: Sequence[tuple[Any, ...]], arrivals: int) -> None:
        self.queries, self.arrivals = queries, arrivals
        # It comes before the connections: select() takes no large file descriptor.
        self.poller: Any = select.epoll() if HAS_EPOLL else select.poll()

    def connect(self, identity: QueryStatement) -> QuerySession:
        return open_session(identity)

    def begin(self, session: QuerySession, work: InOrder | WhenDue, book: "memoryview[float]") -> QueryRun:
        return QueryRun(session, work, book, self.queries)

    def carry_out(self, runs: Sequence[QueryRun], start: float) -> None:
        clients = {run.session.libpq.socket: run.client(start) for run in runs}
        for socket in clients:
            self.poller.register(socket, _READABLE)
        work = runs[0].work
        try:
            if isinstance(work, InOrder):
                _serve_in_order(self.poller, clients)
            else:
                _serve_when_due(self.poller, clients, _upcoming(self.arrivals, start, work.until))
        except MemberError as error:
            cause = runs[error.place].session.explained(error.error)
            raise MemberError(error.place, cause) from error


def _serve_in_order(poller: Any, clients: _Clients) -> None:
    """Have the clients go on until the last has ended."""
    resume = {socket: client.send for socket, client in clients.items()}
    wait, clock = poller.poll, time.perf_counter
    ready, now, left = [(socket, _READABLE) for socket in clients], None, len(clients)
    while True:
        for socket, _ in ready:
            try:
                resume[socket](now)
            except StopIteration:
                left -= 1
                poller.unregister(socket)
            except Exception as error:
                raise _error_of(clients, socket, error) from error
        if not left:
            return
        ready = wait()
        now = clock()


def _serve_when_due(poller: Any, clients: _Clients, arrivals: Iterator[Arrival]) -> None:
    """Hand each arrival to the client that has been free for longest, until the last has its answer.

    An arrival is taken when a client is free, and sent when it is due. Until then, other processes take those
    that follow.
    """

    def go_on(socket: int, with_what: Any) -> bool:
        try:
            return clients[socket].send(with_what)
        except Exception as error:
            raise _error_of(clients, socket, error) from error

    free, waiting, clock = deque(clients), set[int](), time.perf_counter
    arrival: Arrival | None = None
    for socket in clients:
        go_on(socket, None)
    while True:
        if arrival is None and free:
            arrival = next(arrivals, None)
        early = math.inf if arrival is None else arrival[0] - clock()
        if early <= 0:
            waiting.add(free[0])
            go_on(free.popleft(), arrival)
            arrival = None
            continue
        if not waiting:
            if arrival is None:
                break
            time.sleep(early)
            continue
        if arrival is not None:  # then there are several, and poller is an epoll, which waits in whole ms
            select.select([poller], (), (), early)
        ready = poller.poll(0 if arrival is not None else None)
        now = clock()
        for socket, _ in ready:
            if socket not in waiting:
                go_on(socket, None)
            elif go_on(socket, now):
                waiting.remove(socket)
                free.append(socket)
    for socket in clients:
        poller.unregister(socket)


def _upcoming(file: int, start: float, until: float) -> Iterator[Arrival]:
    """Take one arrival after the other out of the file, until `until` s from the start."""
    while (record := os.read(file, ARRIVAL.size)) and time.perf_counter() < start + until:
        due, number = ARRIVAL.unpack(record)
        yield start + due, number if number >= 0 else ~number, number < 0


def _error_of(clients: _Clients, socket: int, error: Exception) -> MemberError:
    return MemberError([*clients].index(socket), error)
