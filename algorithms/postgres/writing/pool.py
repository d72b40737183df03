"""Several writers of one table: how they are run, and what each does with changes, from one stream.

These are records of one size. A record has when it is due (s from the start, NaN: at once), its number, its
kind, and then the parameters of the statement in PostgreSQL's binary formats: an int4 and a vector.
"""

import os
import select
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from psycopg import pq

from ..clients.group import MOST_A_SECOND, ProcessGroup
from ..clients.member import MemberProcess, MemberRun, become_members
from ..clients.work import NO_SAMPLE, UntilEnd, WriterRun
from ..session.session import PreparedSession
from ..settings import apply_settings
from ..table import Column

INSERT, UPDATE, DELETE, END = 0, 1, 2, -1
HEAD = struct.Struct("<dqq")
ID_BYTES = 4
_BUFFER_BYTES = 1 << 20  # what we request the socket to hold; the system may allow less
_CHECK_SECONDS = 0.1  # how often the end is noticed while no writer reads
_PIECE = 1 << 16
STATEMENTS = {
    INSERT: "INSERT INTO {} (id, embedding) VALUES ($1, $2)",
    UPDATE: "UPDATE {} SET embedding = $2 WHERE id = $1",
    DELETE: "DELETE FROM {} WHERE id = $1",
}
_NAMES = {INSERT: b"ann_insert", UPDATE: b"ann_update", DELETE: b"ann_delete"}


def record_layout(column: Column) -> np.dtype[Any]:
    """One record as a NumPy type."""
    return np.dtype(
        [("due", "<f8"), ("number", "<i8"), ("kind", "<i8"), ("id", ">i4"), ("value", column.layout)]
    )


def encoded(changes: Any, first: int, column: Column) -> memoryview:
    """Return changes as records, numbered from `first` on.

    `changes` has arrays of one length: `due` or None, `kinds`, `ids`, and `vectors`, (n, dimension).
    """
    records = np.zeros(len(changes.ids), dtype=record_layout(column))
    records["due"] = np.nan if changes.due is None else changes.due
    records["number"] = np.arange(first, first + len(records))
    records["kind"] = changes.kinds
    records["id"] = changes.ids
    column.begin(records["value"])
    records["value"]["values"] = column.values_of(changes.vectors)
    return records.view(np.uint8).data


class Feed:
    """One end of the stream that all writers read, and a thread that fills it, a run at a time."""

    def __init__(self, ours: socket.socket, theirs: socket.socket, column: Column, writers: int) -> None:
        """Take both ends: what is left after a run is read here."""
        self._ours, self._theirs, self._column, self._writers = ours, theirs, column, writers
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self._is_ending = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self, changes: Iterable[Any]) -> None:
        """Begin to hand them over."""
        self._is_ending, self._error = False, None
        self._thread = threading.Thread(target=self._fill, args=(changes,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Hand nothing over any more, take back what nobody has taken, and raise what went wrong."""
        if self._thread is None:
            return
        self._is_ending = True
        self._thread.join()
        self._thread = None
        with suppress(BlockingIOError):
            while self._theirs.recv(_PIECE, socket.MSG_DONTWAIT):
                pass
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End it."""
        self._is_ending = True
        if self._thread is not None:
            self._thread.join()
        self._ours.close()
        self._theirs.close()

    def _fill(self, changes: Iterable[Any]) -> None:
        number = 0
        try:
            for block in changes:
                if not self._send(encoded(block, number, self._column)):
                    return
                number += len(block.ids)
        except BaseException as error:
            self._error = error
        # Each writer stops on a record of its own.
        marks = np.zeros(self._writers, dtype=record_layout(self._column))
        marks["kind"] = END
        self._send(marks.view(np.uint8).data)

    def _send(self, content: memoryview) -> bool:
        """Send it as fast as it is read; whether that came to an end."""
        while content and not self._is_ending:
            if select.select([], [self._ours], [], _CHECK_SECONDS)[1]:
                with suppress(BlockingIOError):
                    content = content[self._ours.send(content, socket.MSG_DONTWAIT) :]
        return not content


@dataclass(frozen=True)
class WriteAccess:
    """All that it takes to write to a table, also from another process."""

    parameters: Mapping[str, Any]  # of libpq
    application: str  # the session's application_name
    table: str
    column: Column
    settings: Mapping[str, str]  # of the session
    extensions: tuple[str, ...]  # their libraries define settings, besides pgvector's


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
        super().__init__(access.parameters, access.application, access.extensions)
        self.layout = record_layout(access.column)
        apply_settings(self._connection, access.settings)
        for kind, sql in STATEMENTS.items():
            self.prepare(_NAMES[kind], sql.format(access.table))


class _Changes(MemberRun[WriteSession, UntilEnd]):
    """A run of one writer, with the numbers of the changes that found no row."""

    def __init__(self, session: WriteSession, work: UntilEnd, book: "memoryview[float]") -> None:
        super().__init__(session, work, book)
        self.missed: list[int] = []

    def result(self) -> list[int]:
        return self.missed


class _WriterProcess(MemberProcess):
    """One writer. It takes a change out of the stream before its time is read, and encodes nothing."""

    def __init__(self, stream: int, turns: tuple[int, int]) -> None:
        self.stream, self.turns = socket.socket(fileno=stream), turns

    def connect(self, identity: WriteAccess) -> WriteSession:
        return WriteSession(identity)

    def begin(self, session: WriteSession, work: UntilEnd, book: "memoryview[float]") -> _Changes:
        return _Changes(session, work, book)

    def carry_out(self, runs: Sequence[_Changes], start: float) -> None:
        (run,) = runs
        record = bytearray(run.session.layout.itemsize)
        content = memoryview(record)[HEAD.size :]
        both = (content[:ID_BYTES], content[ID_BYTES:])
        calls = {
            INSERT: (_NAMES[INSERT], both, (1, 1)),
            UPDATE: (_NAMES[UPDATE], both, (1, 1)),
            DELETE: (_NAMES[DELETE], both[:1], (1,)),
        }
        execute, clock, fine = run.session.execute, time.perf_counter, pq.ExecStatus.COMMAND_OK
        read, size, unpack = self.stream.recv_into, len(record), HEAD.unpack_from
        mine, yours = self.turns
        end = start + run.work.seconds
        book, behind, at = run.book, 2 * run.work.room, 0
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
                run.session.check(result)
            if result.command_tuples != 1:
                run.missed.append(number)
        run.count = at // 2


class WriterPool(ProcessGroup):
    """A number of processes, each with a connection that has the statements prepared."""

    noun = "writer"

    def __init__(self, access: WriteAccess, writers: int) -> None:
        self._open_books: list[memoryview[float]] = []
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
        self._open_books = []
        self._prepare([UntilEnd(seconds, self._room)] * len(self))
        self._open_books = [book.writer(self._room) for book in self._books]
        self._counts = [0] * len(self)
        self._feed.start(changes)

    def run(self, start: float | None = None) -> None:
        """Start the run, and wait until all have come to an end."""
        super().run(start)
        with self._all_or_none():
            self._feed.stop()

    def count(self) -> int:
        """How many changes are made so far in this run; from any one thread."""
        for place, book in enumerate(self._open_books):
            at = self._counts[place]
            while at < self._room and book[2 * at + 1]:
                at += 1
            self._counts[place] = at
        return sum(self._counts)

    def written(self) -> list[WriterRun]:
        """Return what each writer did in the last run; to be called once after each."""
        self._open_books = []
        runs = []
        for book, work, report in self._reports():
            read = book.read(work.room, report.count)
            done = ~np.isin(read.numbers, report.result)
            times = read.due if self._has_due else None, read.sent, read.answered
            runs.append(WriterRun(read.numbers, *times, None, *NO_SAMPLE, report.cpu_seconds, done))
        return runs

    def end(self) -> None:
        """End all of them: a writer ends when its pipe does."""
        self._open_books = []
        self._feed.close()
        turns, self._turns = self._turns, ()
        for end in turns:
            os.close(end)
        super().end()
