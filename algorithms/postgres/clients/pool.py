"""Several clients of one server, started together, told together, and gone together."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from ..encoding import VectorEncoder
from ..errors import PostgresError
from ..session import Asking
from . import process
from .book import Book
from .work import ARRIVAL, Answers, Done, InOrder, Member, WhenDue

CONNECT_SECONDS = 60
END_SECONDS = 2
LEAD_SECONDS = 0.002  # from the word to the start: enough for it to reach every client
LEAD_A_CLIENT = 0.0005
MOST_A_SECOND = 100_000  # queries of one client, for which there is room in its book


class ClientPool:
    """So many processes, each with a connection that has the statement prepared and its plan checked."""

    def __init__(self, asking: Asking, queries: np.ndarray, clients: int) -> None:
        """Start them, and return when all are ready; `queries` is (count, dimension) of any real type."""
        pairs = [socket.socketpair() for _ in range(clients)]
        self._pipes: list[Connection[Any, Any]] = [Connection(ours.detach()) for ours, _ in pairs]
        self._books = [Book.new() for _ in pairs]
        self._arrivals = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        parameters = tempfile.TemporaryFile()  # noqa: SIM115
        np.save(parameters, encoded(queries, asking.dimension))
        parameters.seek(0)
        self._spawner = _spawn(
            [theirs.fileno() for _, theirs in pairs],
            [book.file for book in self._books],
            self._arrivals.fileno(),
            parameters.fileno(),
        )
        parameters.close()
        self._work: Sequence[InOrder | WhenDue] = []
        for _, theirs in pairs:
            theirs.close()
        with self._all_or_none():
            for pipe in self._pipes:
                _tell(pipe, asking)
            self.members: list[Member] = self._receive(CONNECT_SECONDS)

    def __len__(self) -> int:
        return len(self._pipes)

    def prepare(
        self, orders: Sequence[np.ndarray], seconds: float | None = None, keeps_ids: bool = True
    ) -> None:
        """Closed loop: client i is to send the queries numbered in orders[i]; returns when all wait for it.

        With `seconds`, each goes through its order again and again for so long.
        """
        room = None if seconds is None else round(seconds * MOST_A_SECOND) + 1
        self._tell_work(
            [InOrder(np.asarray(order), seconds, keeps_ids, room or len(order)) for order in orders]
        )

    def prepare_arrivals(
        self, due: np.ndarray, numbers: np.ndarray, patience: float, keeps_ids: bool = True
    ) -> None:
        """Open loop: query numbers[i] is to be sent due[i] s after the word, by whichever client is free.

        What is not sent `patience` s after the last was due, is not sent any more.
        """
        arrivals = np.empty(len(due), dtype=[("due", "f8"), ("number", "i8")])
        assert arrivals.itemsize == ARRIVAL.size
        arrivals["due"], arrivals["number"] = due, numbers
        os.ftruncate(self._arrivals.fileno(), 0)
        os.lseek(self._arrivals.fileno(), 0, os.SEEK_SET)
        write_all(self._arrivals.fileno(), arrivals.tobytes())
        os.lseek(self._arrivals.fileno(), 0, os.SEEK_SET)
        work = WhenDue(float(due[-1]) + patience, keeps_ids, len(due))
        self._tell_work([work] * len(self))

    def run(self, start: float | None = None) -> None:
        """Give the word, and wait until all have their last answer; `start`: at that time of perf_counter.

        Raises PostgresError if a client fails or ends; the others are ended, too, and the pool is of no more
        use.
        """
        start = start or time.perf_counter() + LEAD_SECONDS + LEAD_A_CLIENT * len(self)
        with self._all_or_none():
            for pipe in self._pipes:
                _tell(pipe, start)
            self._receive(None)

    def answers(self) -> list[Answers]:
        """Return what each client measured in the last run; to be called once after each."""
        with self._all_or_none():
            reports: list[Done] = self._receive(None)
        of_each = zip(self._books, self._work, reports, strict=True)
        return [self._answers(book, work, report) for book, work, report in of_each]

    def _answers(self, book: Book, work: InOrder | WhenDue, report: Done) -> Answers:
        sent, answered, due, numbers = book.read(work.most, report.queries)
        if isinstance(work, InOrder):
            numbers = np.resize(work.order, report.queries)
            return Answers(numbers, None, sent, answered, report.ids, report.cpu_seconds)
        return Answers(numbers, due, sent, answered, report.ids, report.cpu_seconds)

    def _tell_work(self, work: Sequence[InOrder | WhenDue]) -> None:
        self._work = work
        with self._all_or_none():
            for pipe, book, part in zip(self._pipes, self._books, work, strict=True):
                book.make_room(part.most)
                _tell(pipe, part)
            self._receive(None)

    def _name(self, number: int) -> str:
        return f"client {number + 1} of {len(self._pipes)}"

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all of them: a client ends when its pipe does."""
        for pipe in self._pipes:
            pipe.close()
        for book in self._books:
            book.close()
        self._pipes, self._books = [], []
        self._arrivals.close()
        try:
            self._spawner.wait(END_SECONDS)
        except subprocess.TimeoutExpired:  # one is frozen, say
            self.abort()
            self._spawner.wait()

    def abort(self) -> None:
        """End their processes now, from whichever thread; who waits for them is told as an error."""
        if self._spawner.poll() is None:
            os.killpg(self._spawner.pid, signal.SIGKILL)

    def _receive(self, seconds: float | None) -> list[Any]:
        """Return what each client says, in their order."""
        deadline = None if seconds is None else time.monotonic() + seconds
        said: dict[int, Any] = {}
        while len(said) < len(self._pipes):
            waiting = {pipe: i for i, pipe in enumerate(self._pipes) if i not in said}
            ready = wait(list(waiting), None if deadline is None else max(deadline - time.monotonic(), 0))
            if not ready:
                raise PostgresError(f"{len(waiting)} of {len(self)} clients did not connect in {seconds} s")
            for pipe, number in waiting.items():
                if pipe not in ready:
                    continue
                try:
                    answer = pipe.recv()
                except (EOFError, ConnectionError):
                    raise PostgresError(f"{self._name(number)} ended before it answered") from None
                if isinstance(answer, Exception):
                    raise PostgresError(f"{self._name(number)}: {answer}")
                said[number] = answer
        return [said[i] for i in range(len(self._pipes))]


def _spawn(sockets: list[int], books: list[int], arrivals: int, parameters: int) -> "subprocess.Popen[bytes]":
    """Start a process that imports what a client needs, once, and becomes a client for each socket.

    (multiprocessing would import the main script again, which need not be made for that.)
    """
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from {process.__name__} import become_clients; "
        f"become_clients({sockets!r}, {books!r}, {arrivals}, {parameters})"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], pass_fds=[*sockets, *books, arrivals, parameters],
        stdin=subprocess.DEVNULL, start_new_session=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def write_all(file: int, content: bytes) -> None:
    """Write the whole of it, however many calls that takes."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _tell(pipe: "Connection[Any, Any]", what: Any) -> None:
    with suppress(BrokenPipeError):  # that the client has ended is told when it is listened to
        pipe.send(what)


def encoded(queries: np.ndarray, dimension: int) -> np.ndarray:
    """The queries as parameters of a statement, (count, bytes), uint8."""
    encoder = VectorEncoder(dimension)
    rows = np.empty((len(queries), 4 + 4 * dimension), dtype=np.uint8)
    for row, query in zip(rows, queries, strict=True):
        row[:] = np.frombuffer(encoder.encode(query), dtype=np.uint8)
    return rows
