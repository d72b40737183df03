"""What each process of a group does: connects its members, reports that they are ready, carries out runs."""

import ctypes
import gc
import math
import os
import random
import select
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from operator import methodcaller
from typing import Any, Generic, TypeVar

import numpy as np
import psycopg

from ..errors import PostgresError
from ..session.session import PreparedSession
from .work import Book, MemberFailure, MemberReport

_SET_TIMER_SLACK = 29  # of Linux' prctl
AT_ONCE = 16  # members of a process that connect at the same time
_Session = TypeVar("_Session", bound=PreparedSession)
_Work = TypeVar("_Work")


class MemberRun(ABC, Generic[_Session, _Work]):
    """What a member does in one run, and what it reports afterwards."""

    def __init__(self, session: _Session, work: _Work, book: "memoryview[float]") -> None:
        """Take the session, what is to be done, and the readings of the clock that it writes."""
        self.session, self.work, self.book = session, work, book
        self.count = 0  # of what was done

    @abstractmethod
    def result(self) -> Any:
        """Return what is not in the book."""

    def report(self, cpu_seconds: float) -> MemberReport:
        """Report what was done, which took this much CPU; the book is given back."""
        self.session.check_settings()
        self.session.flush_statistics()
        result = self.result()
        self.book.release()
        return MemberReport(self.count, result, cpu_seconds)


class MemberError(Exception):
    """An error of one member, by its place in the process."""

    def __init__(self, place: int, error: Exception) -> None:
        super().__init__(place, error)
        self.place, self.error = place, error


class MemberProcess(ABC):
    """What a process does for its members; it is made once in each process."""

    @abstractmethod
    def connect(self, identity: Any) -> PreparedSession:
        """Open a member's session with what the group connects with; several threads do."""

    @abstractmethod
    def begin(self, session: Any, work: Any, book: "memoryview[float]") -> MemberRun[Any, Any]:
        """Get a member's run ready."""

    @abstractmethod
    def carry_out(self, runs: Sequence[Any], start: float) -> None:
        """Do the members' work; what is due, is so from `start` on, of perf_counter."""


def become_members(
    sockets: Sequence[int],
    books: Sequence[Sequence[int]],
    files: Sequence[int],
    make: Callable[[], MemberProcess],
) -> None:
    """Fork a process for each socket, with the books of its members, and wait until all have ended.

    `files` are what all processes share. Sockets, books and files are given as file descriptors.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C ends
    gc.collect()
    gc.freeze()  # what they share is not visited again, and so not copied, in each of them
    every = [*sockets, *(file for own in books for file in own)]
    for number, own in zip(sockets, books, strict=True):
        try:
            is_member = os.fork() == 0
        except OSError as error:  # the number of processes may be limited
            failure = MemberFailure(None, f"cannot be started: {error.strerror}")
            Connection(os.dup(number)).send(failure)
            break
        if is_member:
            for other in {*every} - {number, *own}:
                os.close(other)
            try:
                _serve(Connection(number), [Book(file) for file in own], make)
            finally:
                os._exit(0)
    for number in [*every, *files]:
        os.close(number)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _serve(pipe: "Connection[Any, Any]", books: Sequence[Book], make: Callable[[], MemberProcess]) -> None:
    """Be a process of members until the pipe closes. An error is sent, and ends it.

    What it receives first is how each of its members is to connect; then the work of each run, followed by
    the time to start; then None, after which they may connect anew.
    """
    threading.Thread(target=_end_with, args=(pipe.fileno(),), daemon=True).start()
    _wake_on_time()
    try:
        process = make()
        while True:
            sessions = _map_at_once(process.connect, pipe.recv())
            pipe.send(_map_at_once(methodcaller("facts"), sessions))
            while (work := pipe.recv()) is not None:
                rooms = [book.writer(own.room) for book, own in zip(books, work, strict=True)]
                runs = [process.begin(*parts) for parts in zip(sessions, work, rooms, strict=True)]
                gc.collect()
                pipe.send(True)
                start = pipe.recv()
                gc.disable()
                while (early := start - time.perf_counter()) > 0:
                    time.sleep(early)
                before = time.process_time()  # of user and system
                process.carry_out(runs, start)
                used = (time.process_time() - before) / len(runs)
                gc.enable()
                pipe.send(True)  # what follows is nobody's time
                pipe.send(_map_at_once(methodcaller("report", used), runs))
                del runs, rooms  # so that the next run can use their memory
            for session in sessions:
                session.close()
            pipe.send(None)
    except (EOFError, ConnectionError):
        return  # the parent has closed the pipe
    except Exception as error:
        with suppress(OSError):  # the parent has closed the pipe
            pipe.send(_failure(error))


def _map_at_once(deed: Callable[[Any], Any], members: Sequence[Any]) -> list[Any]:
    """Do it for each member, for several at the same time: mostly, they wait for the server."""
    done = []
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for place, doing in enumerate([threads.submit(deed, member) for member in members]):
            try:
                done.append(doing.result())
            except Exception as error:
                threads.shutdown(cancel_futures=True)
                raise MemberError(place, error) from error
    return done


def _failure(error: Exception) -> MemberFailure:
    place = None
    if isinstance(error, MemberError):
        place, error = error.place, error.error
    is_plain = isinstance(error, PostgresError | psycopg.Error)
    text = str(error) if is_plain else f"{type(error).__name__}: {error}"
    return MemberFailure(place, " ".join(text.split()))


def _wake_on_time() -> None:
    """Have sleeps end when they should: Linux lets them be 50 us late by default."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1, 0, 0, 0)


def _end_with(pipe: int) -> None:
    """End when the other side of the pipe does, even within a query; to wait for that costs nothing."""
    ended = select.poll()
    ended.register(pipe, 0)  # poll always reports that it is closed
    ended.poll()
    os._exit(1)


EVEN = 4  # answers of the even samples of all clients together, at most, as a multiple of the queries


class RawSample:
    """Answers of one run as libpq returns them: those at some places, and an even sample of all.

    An answer's place is how many the client had before. `keep` takes the answer of the place `turn` and
    returns the next turn: who counts the answers compares two numbers for each, and no more.
    """

    def __init__(self, own: np.ndarray, slots: int, seed: int | None = None) -> None:
        """Keep the answers at the places `own`, ascending, and up to `slots` of all, evenly.

        One answer is drawn from each step of consecutive answers. When the slots are full, the step doubles.
        """
        self._own, self._draw = iter(own.tolist()), random.Random(seed)
        self._slots, self._step, self._begin = slots + slots % 2, 1, 0
        self._next_own, self._next_even = next(self._own, math.inf), 0 if slots else math.inf
        self._first: list[tuple[int, Any]] = []
        self._even: list[tuple[int, Any]] = []
        self.turn = min(self._next_own, self._next_even)

    def keep(self, place: int, answer: Any) -> float:
        """Keep the answer of this turn; return the next one."""
        if place == self._next_own:
            self.keep_first(place, answer)
            self._next_own = next(self._own, math.inf)
        if place == self._next_even:
            self._even.append((place, answer))
            self._begin += self._step
            if len(self._even) == self._slots:
                pairs = zip(self._even[::2], self._even[1::2], strict=True)
                self._even, self._step = [*map(self._draw.choice, pairs)], 2 * self._step
            self._next_even = self._begin + self._draw.randrange(self._step)
        return min(self._next_own, self._next_even)

    def keep_first(self, place: int, answer: Any) -> None:
        """Keep an answer that is the first of all clients' to its query."""
        self._first.append((place, answer))

    def arrays(
        self, answers: int, number: Callable[[int], int], decode: Callable[[Any], Sequence[int]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return numbers of queries, (kept,), their ids, (kept, most rows), and their weights, (kept,).

        `number` gives that of the query at a place. A weight is for how many answers one stands: for its
        share of the `answers`, or, a first one, for one.
        """
        kept = self._first + self._even
        found = [decode(answer) for _, answer in kept]
        ids = np.full((len(found), max(map(len, found), default=0)), -1, np.int64)
        for row, decoded in zip(ids, found, strict=True):
            row[: len(decoded)] = decoded
        weights = np.ones(len(found))
        weights[len(self._first) :] = answers / max(len(self._even), 1)
        return np.array([number(place) for place, _ in kept], np.int64), ids, weights


def own_places(orders: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return at which places of its order each client is the first of all to send a query, ascending."""
    numbers = np.concatenate([np.asarray(order, np.int64) for order in orders])
    places = np.concatenate([np.arange(len(order)) for order in orders])
    clients = np.repeat(np.arange(len(orders)), [len(order) for order in orders])
    by_place = np.argsort(places, kind="stable")
    _, first = np.unique(numbers[by_place], return_index=True)
    chosen = by_place[first]
    return [np.sort(places[chosen[clients[chosen] == client]]) for client in range(len(orders))]
