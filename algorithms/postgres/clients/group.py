"""Members of a group do the same at the same time: started together, run together, and ended together."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from multiprocessing.connection import Connection, wait
from typing import Any

from ..errors import PostgresError
from ..session.session import SessionFacts
from .work import Book, MemberFailure, MemberReport

CONNECT_SECONDS = 60
END_SECONDS = 2
LEAD_SECONDS = 0.002  # from the signal to the start: enough for it to reach every member
LEAD_A_MEMBER = 0.0005
MOST_A_SECOND = 100_000  # operations of one member, for which there is room in its book


class ProcessGroup:
    """A number of members, each with a connection to the server and a book, dealt to processes.

    Each process has a pipe to here. It is sent what to connect with, and answers when its members are ready.
    Then, for each run, it is sent their work, and answers when they are ready; the time to start, and answers
    when they are done; and sends their reports. A failure comes in place of an answer, and ends all of them.
    Between two sessions the processes may rest: to start one takes longer than a short run.
    """

    noun = "client"
    members: list[SessionFacts]

    def __init__(
        self,
        shares: Sequence[int],
        become: Callable[..., None],
        arguments: Sequence[Any],
        files: Sequence[int],
        identity: Any,
    ) -> None:
        """Start a process for each share, the number of its members, and return when all are ready.

        `become` is called in a new process with the processes' sockets, the books of the members of each, and
        the arguments, written as Python writes them; `files` are the file descriptors among these. `identity`
        is what each member connects with.
        """
        self._work: Sequence[Any] = []
        self._bounds = list(pairwise(accumulate(shares, initial=0)))  # the first and the end of each process
        pairs = [socket.socketpair() for _ in shares]
        self._pipes: list[Connection[Any, Any]] = [Connection(ours.detach()) for ours, _ in pairs]
        self._books = [Book.new() for _ in range(sum(shares))]
        sockets, books = [theirs.fileno() for _, theirs in pairs], [book.file for book in self._books]
        self._spawner = _spawn(become, [sockets, self._dealt(books), *arguments], [*sockets, *books, *files])
        for _, theirs in pairs:
            theirs.close()
        self.connect(identity)

    def __len__(self) -> int:
        return len(self._books)

    def connect(self, identity: Any) -> None:
        """Have each connect with `identity`, and return when all are ready."""
        with self._all_or_none():
            self._send(self._dealt(self._identities(identity)))
            self.members = _flat(self._receive(CONNECT_SECONDS, "connect"))

    def disconnect(self) -> None:
        """End their sessions, and return when that is done; they may connect anew."""
        with self._all_or_none():
            self._send([None] * len(self._pipes))
            if any(answer is not None for answer in self._receive(END_SECONDS, "disconnect")):
                raise PostgresError(f"the {self.noun}s have more to report")  # of a run that was broken off
            self.members = []

    def run(self, start: float | None = None) -> None:
        """Start the run, and wait until all have their last answer; `start`: at that time of perf_counter.

        Raises PostgresError if one fails or ends; the others are ended, too, and the group is of no more use.
        """
        start = start or time.perf_counter() + LEAD_SECONDS + LEAD_A_MEMBER * len(self)
        with self._all_or_none():
            self._send([start] * len(self._pipes))
            self._receive(None)

    def close(self) -> None:
        """End it, called by its user."""
        self.end()

    def end(self) -> None:
        """End all of them: each ends when its pipe does."""
        for pipe in self._pipes:
            pipe.close()
        for book in self._books:
            book.close()
        self._pipes, self._books = [], []
        try:
            self._spawner.wait(END_SECONDS)
        except subprocess.TimeoutExpired:  # one may be frozen
            self.abort()
            self._spawner.wait()

    def abort(self) -> None:
        """End their processes now, from whichever thread; a thread that waits for them gets an error."""
        if self._spawner.poll() is None:
            os.killpg(self._spawner.pid, signal.SIGKILL)

    def _identities(self, identity: Any) -> Sequence[Any]:
        """Return what each member connects with: all with the same."""
        return [identity] * len(self)

    def _place_of(self, member: int) -> str:
        """Say for an error where a member, from 0 on, is connected, if not all are to the same server."""
        return ""

    def _prepare(self, work: Sequence[Any]) -> None:
        """Give each member its work, with room for it in its book, and return when all are ready."""
        self._work = work
        with self._all_or_none():
            for book, part in zip(self._books, work, strict=True):
                book.make_room(part.room)
            self._send(self._dealt(work))
            self._receive(None)

    def _reports(self) -> list[tuple[Book, Any, MemberReport]]:
        """Return the book, the work and the report of each after a run; to be called once."""
        with self._all_or_none():
            return list(zip(self._books, self._work, _flat(self._receive(None)), strict=True))

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.end()
            raise

    def _dealt(self, parts: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the members' parts by their processes."""
        return [parts[first:end] for first, end in self._bounds]

    def _send(self, messages: Sequence[Any]) -> None:
        """Send each process its own message."""
        for pipe, message in zip(self._pipes, messages, strict=True):
            with suppress(BrokenPipeError):  # _receive reports that it has ended
                pipe.send(message)

    def _receive(self, seconds: float | None, deed: str = "answer") -> list[Any]:
        """Return what each process sends, in their order; PostgresError if it takes longer than `seconds`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        received: dict[int, Any] = {}
        while len(received) < len(self._pipes):
            waiting = {pipe: i for i, pipe in enumerate(self._pipes) if i not in received}
            ready = wait(list(waiting), None if deadline is None else max(deadline - time.monotonic(), 0))
            if not ready:
                missing = sum(end - first for first, end in map(self._bounds.__getitem__, waiting.values()))
                raise PostgresError(f"{missing} of {len(self)} {self.noun}s did not {deed} in {seconds} s")
            for pipe, number in waiting.items():
                if pipe not in ready:
                    continue
                try:
                    answer = pipe.recv()
                except (EOFError, ConnectionError):
                    raise PostgresError(f"{self._name(number)} ended before it answered") from None
                if isinstance(answer, MemberFailure):
                    raise PostgresError(f"{self._name(number, answer.member)}: {answer.reason}")
                received[number] = answer
        return [received[i] for i in range(len(self._pipes))]

    def _name(self, process: int, member: int | None = None) -> str:
        """Name a process, or one of its members, by the numbers of the members, from 1."""
        first, end = self._bounds[process]
        if member is not None:
            first, end = first + member, first + member + 1
        if end - first == 1:
            return f"{self.noun} {end} of {len(self)}{self._place_of(first)}"
        return f"the process of {self.noun}s {first + 1} to {end} of {len(self)}"


def _flat(parts: Sequence[Sequence[Any]]) -> list[Any]:
    return [one for part in parts for one in part]


def _spawn(
    become: Callable[..., None], arguments: Sequence[Any], files: Sequence[int]
) -> "subprocess.Popen[bytes]":
    """Start a process that imports what a member needs, once, and becomes a member for each socket.

    (multiprocessing would import the main script again, which need not be made for that.)
    """
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from {become.__module__} import {become.__name__}; "
        f"{become.__name__}({', '.join(map(repr, arguments))})"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], pass_fds=files,
        stdin=subprocess.DEVNULL, start_new_session=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
