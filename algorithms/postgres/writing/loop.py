"""One writer of a group: makes the changes that it finds in the stream."""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import pq

from ..clients.member import MemberRun, become_members
from ..session import PreparedSession
from ..settings import apply_settings
from .stream import DELETE, END, HEAD, ID_BYTES, INSERT, UPDATE, record_layout

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
    column_type: str
    dimension: int
    settings: Mapping[str, str]  # of the session
    extensions: tuple[str, ...]  # whose libraries define settings, besides pgvector


@dataclass(frozen=True)
class UntilEnd:
    """One writer's work: to take changes until `seconds` s after the start, or until its book is full."""

    seconds: float
    room: int  # changes that the book has room for


def become_writers(sockets: list[int], books: list[int], stream: int, turns: tuple[int, int]) -> None:
    """Become a writer for each socket, with its book, and wait until all have ended.

    All read the records from one socket, `stream`; the one that has the byte of the pipe `turns` reads
    one. All of these are given as file descriptors.
    """

    def run(session: WriteSession, work: UntilEnd, book: "memoryview[float]") -> _Changes:
        return _Changes(session, work, book, stream, turns)

    become_members(sockets, books, [stream, *turns], WriteSession, run)


class WriteSession(PreparedSession):
    """A session with a prepared statement for each kind of change, each committed by itself."""

    doing = "to write"

    def __init__(self, access: WriteAccess) -> None:
        """Connect and prepare."""
        super().__init__(access.parameters, access.application, access.extensions)
        self.layout = record_layout(access.dimension, access.column_type)
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
