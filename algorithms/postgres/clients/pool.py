"""Several clients of one server, started together, told together, and gone together."""

import os
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
from .work import Answers, Asked, Member

CONNECT_SECONDS = 60
END_SECONDS = 5
LEAD_SECONDS = 0.002  # from the word to the start: enough for it to reach every client
LEAD_A_CLIENT = 0.0005


class ClientPool:
    """So many processes, each with a connection that has the statement prepared and its plan checked."""

    def __init__(self, asking: Asking, queries: np.ndarray, clients: int) -> None:
        """Start them, and return when all are ready; `queries` is (count, dimension) of any real type."""
        pairs = [socket.socketpair() for _ in range(clients)]
        self._pipes: list[Connection[Any, Any]] = [Connection(ours.detach()) for ours, _ in pairs]
        self._spawner = _spawn([theirs.fileno() for _, theirs in pairs])
        for _, theirs in pairs:
            theirs.close()
        with tempfile.NamedTemporaryFile(prefix="ann-queries-", suffix=".npy") as file, self._all_or_none():
            np.save(file, encoded(queries, asking.dimension))
            file.flush()
            for pipe in self._pipes:
                _tell(pipe, (asking, file.name))
            self.members: list[Member] = self._receive(CONNECT_SECONDS)

    def __len__(self) -> int:
        return len(self._pipes)

    def prepare(self, orders: Sequence[np.ndarray], seconds: float | None = None) -> None:
        """Tell client i to send the queries numbered in orders[i]; return when all wait for the word.

        With `seconds`, each goes through its order again and again for so long.
        """
        with self._all_or_none():
            for pipe, order in zip(self._pipes, orders, strict=True):
                _tell(pipe, Asked(np.asarray(order), seconds))
            self._receive(None)

    def run(self) -> None:
        """Give the word, and wait until all have their last answer.

        Raises PostgresError if a client fails or ends; the others are ended, too, and the pool is of no more
        use.
        """
        start = time.perf_counter() + LEAD_SECONDS + LEAD_A_CLIENT * len(self)
        with self._all_or_none():
            for pipe in self._pipes:
                _tell(pipe, start)
            self._receive(None)

    def answers(self) -> list[Answers]:
        """Return what each client measured in the last run; to be called once after each."""
        with self._all_or_none():
            return self._receive(None)

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
        self._pipes = []
        try:
            self._spawner.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._spawner.kill()
            self._spawner.wait()

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


def _spawn(sockets: list[int]) -> "subprocess.Popen[bytes]":
    """Start a process that imports what a client needs, once, and becomes a client for each socket.

    (multiprocessing would import the main script again, which need not be made for that.)
    """
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from {process.__name__} import become_clients; become_clients({sockets!r})"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], pass_fds=sockets, stdin=subprocess.DEVNULL, start_new_session=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


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
