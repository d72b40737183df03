"""What a process does for its clients: it has each go on as soon as its connection can be read.

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

from ..session import QuerySession, open_session
from ..statement import QueryStatement
from .member import MemberError, MemberProcess, become_members
from .parameters import read_parameters
from .sending import Arrival, QueryRun
from .work import ARRIVAL, InOrder, WhenDue

HAS_EPOLL = hasattr(select, "epoll")  # without it, each process serves one connection
_READABLE = 1  # of poll and of epoll

_Clients = Mapping[int, Generator[Any, Any, None]]  # by the sockets of their connections


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
