"""One writer: connects, and makes the changes that it finds in the stream."""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import pq

from ..clients.book import Book
from ..clients.member import become_members, serve
from ..clients.work import Member
from ..errors import PostgresError, refusal
from ..servers.base import connect
from ..settings import apply_settings
from ..watching import flush_statement
from .records import DELETE, END, HEAD, ID_BYTES, INSERT, UPDATE, record_layout

STATEMENTS = {
    INSERT: "INSERT INTO {} (id, embedding) VALUES ($1, $2)",
    UPDATE: "UPDATE {} SET embedding = $2 WHERE id = $1",
    DELETE: "DELETE FROM {} WHERE id = $1",
}
_NAMES = {INSERT: b"ann_insert", UPDATE: b"ann_update", DELETE: b"ann_delete"}
_TOKEN = b"."


@dataclass(frozen=True)
class Writing:
    """All that it takes to write to a table, also from another process."""

    parameters: Mapping[str, Any]  # of libpq
    application: str  # the session's application_name
    table: str
    column_type: str
    dimension: int
    settings: Mapping[str, str]  # of the session


@dataclass(frozen=True)
class Until:
    """What one writer is told of a run: its end in s from the start, and the most changes there can be."""

    seconds: float
    most: int


@dataclass(frozen=True)
class Report:
    """What a writer says beside what is in its book; `missed` are the numbers that changed no row."""

    changes: int
    missed: list[int]
    cpu_seconds: float


def become_writers(sockets: list[int], books: list[int], stream: int, turns: tuple[int, int]) -> None:
    """Become a writer for each socket, with its book, and wait until all have ended.

    All read the records from one socket, `stream`; whoever has the one byte out of the pipe `turns` reads
    one. All of these are given as file descriptors.
    """

    def be_writer(pipe: Any, book: Book) -> None:
        records = socket.socket(fileno=stream)

        def connect(writing: Writing) -> tuple[WritingSession, Member]:
            session = WritingSession(writing)
            return session, Member(os.getpid(), session.backend, {}, "")

        def writer(session: WritingSession, until: Until) -> _Writer:
            return _Writer(session, book.writer(until.most), records, turns, until)

        serve(pipe, connect, writer)

    become_members(sockets, books, [stream, *turns], be_writer)


class WritingSession:
    """One connection with a prepared statement for each kind of change, each committed by itself."""

    def __init__(self, writing: Writing) -> None:
        """Connect and prepare."""
        self.layout = record_layout(writing.dimension, writing.column_type)
        self._connection = connect({**writing.parameters, "application_name": writing.application})
        self.backend = self._connection.info.backend_pid
        self._libpq = self._connection.pgconn
        self.execute = self._libpq.exec_prepared
        self._connection.execute("SELECT '[1]'::vector")  # loads pgvector's library, and so its settings
        apply_settings(self._connection, writing.settings)
        for kind, sql in STATEMENTS.items():
            self.check(self._libpq.prepare(_NAMES[kind], sql.format(writing.table).encode()))

    def check(self, result: pq.abc.PGresult) -> None:
        """Raise what the server says, if it is an error."""
        if result.status != pq.ExecStatus.COMMAND_OK:
            error = psycopg.errors.error_from_result(result)
            if error.sqlstate is None:
                raise PostgresError(f"the connection was lost: {' '.join(str(error).split())}")
            raise refusal("the server refuses to write", error)

    def flush_statistics(self) -> None:
        """Have the server count what this session has done, which it would do some seconds later."""
        self._connection.execute(flush_statement(self._connection.info.server_version))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class _Writer:
    """The loop. A change is taken out of the stream before its time is read; nothing is encoded here."""

    def __init__(
        self,
        session: WritingSession,
        book: "memoryview[float]",
        stream: socket.socket,
        turns: tuple[int, int],
        until: Until,
    ) -> None:
        self.session, self.book, self.stream, self.turns, self.until = session, book, stream, turns, until
        self.changes = 0
        self.missed: list[int] = []

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
        end = start + self.until.seconds
        book, behind, at = self.book, 2 * self.until.most, 0
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
        self.changes = at // 2

    def report(self, cpu_seconds: float) -> Report:
        self.session.flush_statistics()
        self.book.release()
        return Report(self.changes, self.missed, cpu_seconds)
