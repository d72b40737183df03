"""Several writers of one table: how they are run, and what each does with the changes in the stream."""

import mmap
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from psycopg import pq

from ..clients.group import MOST_A_SECOND, ProcessGroup
from ..clients.member import MemberProcess, MemberRun, become_members
from ..clients.work import NO_SAMPLE, WriterRun
from ..columns import FixedColumn
from ..session import PreparedSession
from ..settings import apply_settings
from .stream import DELETE, END, HEAD, ID_BYTES, INSERT, UPDATE, Feed, record_layout

READINGS_BYTES = 40  # of a change, in a book
STATEMENTS = {
    INSERT: "INSERT INTO {} (id, embedding) VALUES ($1, $2)",
    UPDATE: "UPDATE {} SET embedding = $2 WHERE id = $1",
    DELETE: "DELETE FROM {} WHERE id = $1",
}
_NAMES = {INSERT: b"ann_insert", UPDATE: b"ann_update", DELETE: b"ann_delete"}


@dataclass(frozen=True)
class WriteAccess:
    """All that it takes to write to a table, also from another process."""

    parameters: Mapping[str, Any]  # of libpq
    application: str  # the session's application_name
    table: str
    column: FixedColumn
    settings: Mapping[str, str]  # of the session
    extensions: tuple[str, ...]  # their libraries define settings, besides pgvector's


@dataclass(frozen=True)
class UntilEnd:
    """One writer's work: to take changes until `seconds` s after the start, or until its book is full."""

    seconds: float
    room: int  # changes that the book has room for


def become_writers(sockets: list[int], books: list[list[int]], stream: int, turns: tuple[int, int]) -> None:
    """Become a writer for each socket, with its book, and wait until all have ended.

    All read the records from one socket, `stream`; the one that has the byte of the pipe `turns` reads
    one. All of these are given as file descriptors.
    """
    become_members(sockets, books, [stream, *turns], lambda: _WriterProcess(stream, turns))


class WriteSession(PreparedSession):
    """A session with a prepared statement for each kind of change, each committed by itself."""

    doing = "to write"

    def __init__(self, access: WriteAccess) -> None:
        """Connect and prepare."""
        super().__init__(access.parameters, access.application, access.extensions)
        self.layout = record_layout(access.column)
        apply_settings(self._connection, access.settings)
        for kind, sql in STATEMENTS.items():
            self.prepare(_NAMES[kind], sql.format(access.table))


class _Changes(MemberRun[WriteSession, UntilEnd]):
    """The loop. A change is taken out of the stream before its time is read; nothing is encoded here."""

    def __init__(
        self,
        session: WriteSession,
        work: UntilEnd,
        book: "memoryview[float]",
        stream: int,
        turns: tuple[int, int],
    ) -> None:
        super().__init__(session, work, book)
        self.stream, self.turns = socket.socket(fileno=os.dup(stream)), turns
        self.missed: list[int] = []  # the numbers of changes that found no row

    def carry_out(self, start: float) -> None:
        record = bytearray(self.session.layout.itemsize)
        content = memoryview(record)[HEAD.size :]
        both = (content[:ID_BYTES], content[ID_BYTES:])
        calls = {
            INSERT: (_NAMES[INSERT], both, (1, 1)),
            UPDATE: (_NAMES[UPDATE], both, (1, 1)),
            DELETE: (_NAMES[DELETE], both[:1], (1,)),
        }
        execute, clock, fine = self.session.execute, time.perf_counter, pq.ExecStatus.COMMAND_OK
        read, size, unpack = self.stream.recv_into, len(record), HEAD.unpack_from
        mine, yours = self.turns
        end = start + self.work.seconds
        book, behind, at = self.book, 2 * self.work.room, 0
        while at < behind:
            token = os.read(mine, 1)
            taken = read(record, size, socket.MSG_WAITALL)
            os.write(yours, token)
            due, number, kind = unpack(record)
            now = clock()
            if taken < size or kind == END or now >= end:
                break
            due += start  # no number where it is due at once
            if due > now:
                time.sleep(due - now)
            call = calls[kind]
            book[behind + at], book[behind + at + 1] = due, number
            book[at] = clock()
            result = execute(*call)
            book[at + 1] = clock()
            at += 2
            if result.status != fine:
                self.session.check(result)
            if result.command_tuples != 1:
                self.missed.append(number)
        self.count = at // 2

    def result(self) -> list[int]:
        self.stream.close()
        return self.missed


class _WriterProcess(MemberProcess):
    """One writer."""

    def __init__(self, stream: int, turns: tuple[int, int]) -> None:
        self.stream, self.turns = stream, turns

    def connect(self, identity: WriteAccess) -> WriteSession:
        return WriteSession(identity)

    def begin(self, session: WriteSession, work: UntilEnd, book: "memoryview[float]") -> _Changes:
        return _Changes(session, work, book, self.stream, self.turns)

    def carry_out(self, runs: Sequence[_Changes], start: float) -> None:
        (run,) = runs
        run.carry_out(start)


class WriterPool(ProcessGroup):
    """A number of processes, each with a connection that has the statements prepared."""

    noun = "writer"

    def __init__(self, access: WriteAccess, writers: int) -> None:
        """Start them, and return when all are ready."""
        self._open_books: list[tuple[mmap.mmap, memoryview[float]]] = []
        self._counts: list[int] = []
        self._has_due = False
        self._room = 0
        ours, stream = socket.socketpair()
        self._turns: tuple[int, ...] = os.pipe()
        os.write(self._turns[1], b".")
        self._feed = Feed(ours, stream, access.column, writers)
        files = [stream.fileno(), *self._turns]
        super().__init__([1] * writers, become_writers, [files[0], self._turns], files, access)

    def prepare_changes(self, changes: Iterable[Any], most: int, seconds: float, has_due: bool) -> None:
        """Have them make the changes, each by whichever writer is free; returns when all are ready.

        `changes` gives blocks with arrays of one length: `due` (s from the start, ascending; None: at once),
        `kinds` (0 inserts, 1 updates, 2 deletes), `ids` and `vectors`, (n, dimension). They are encoded by a
        thread of this process, ahead of the writers. `most` is how many there are at most; none is begun
        `seconds` s after the start.
        """
        self._has_due = has_due
        self._room = max(min(most, round(seconds * MOST_A_SECOND) + 1), 1)
        self._close_books()
        self._prepare([UntilEnd(seconds, self._room)] * len(self))
        for book in self._books:
            memory = mmap.mmap(book.file, self._room * READINGS_BYTES)
            self._open_books.append((memory, memoryview(memory).cast("d")))
        self._counts = [0] * len(self)
        self._feed.start(changes)

    def run(self, start: float | None = None) -> None:
        """Start the run, and wait until all have come to an end."""
        super().run(start)
        with self._all_or_none():
            self._feed.stop()

    def count(self) -> int:
        """How many changes are made so far in this run; from any one thread."""
        for place, (_, book) in enumerate(self._open_books):
            at = self._counts[place]
            while at < self._room and book[2 * at + 1]:
                at += 1
            self._counts[place] = at
        return sum(self._counts)

    def written(self) -> list[WriterRun]:
        """Return what each writer did in the last run; to be called once after each."""
        self._close_books()
        runs = []
        for book, work, report in self._reports():
            read = book.read(work.room, report.count)
            done = ~np.isin(read.numbers, report.result)
            times = read.due if self._has_due else None, read.sent, read.answered
            runs.append(WriterRun(read.numbers, *times, None, *NO_SAMPLE, report.cpu_seconds, done))
        return runs

    def end(self) -> None:
        """End all of them: a writer ends when its pipe does."""
        self._close_books()
        self._feed.close()
        turns, self._turns = self._turns, ()
        for end in turns:
            os.close(end)
        super().end()

    def _close_books(self) -> None:
        open_books, self._open_books = self._open_books, []
        for memory, book in open_books:
            book.release()
            memory.close()
