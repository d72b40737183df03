"""One writer: connects, says that it is ready, and makes the changes that it finds in the stream."""

import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import psycopg
from psycopg import pq

from ..clients.book import Book
from ..clients.process import cpu_seconds, end_with, wake_on_time
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked for them decides what Ctrl-C ends
    gc.collect()
    gc.freeze()
    for number, book in zip(sockets, books, strict=True):
        try:
            is_writer = os.fork() == 0
        except OSError as error:
            Connection(os.dup(number)).send(PostgresError(f"cannot be started: {error.strerror}"))
            break
        if is_writer:
            for other in [*sockets, *books]:
                if other not in (number, book):
                    os.close(other)
            try:
                serve(Connection(number), Book(book), socket.socket(fileno=stream), turns)
            finally:
                os._exit(0)
    for number in [*sockets, *books, stream, *turns]:
        os.close(number)
    with suppress(ChildProcessError):
        while True:
            os.wait()


def serve(pipe: "Connection[Any, Any]", book: Book, stream: socket.socket, turns: tuple[int, int]) -> None:
    """Be a writer until the pipe closes. An error is sent, and ends it."""
    threading.Thread(target=end_with, args=(pipe.fileno(),), daemon=True).start()
    wake_on_time()
    try:
        session = WritingSession(pipe.recv())
        pipe.send(Member(os.getpid(), session.backend, {}, ""))
        while True:
            until: Until = pipe.recv()
            writer = _Writer(session, book.writer(until.most), stream, turns)
            gc.collect()
            pipe.send(True)
            start = pipe.recv()
            gc.disable()
            writer.write(start, until)
            gc.enable()
            pipe.send(True)  # what follows is nobody's time
            session.flush_statistics()
            pipe.send(Report(writer.changes, writer.missed, writer.cpu_seconds))
            writer.book.release()
    except (EOFError, ConnectionError):
        return  # nobody wants to know any more
    except Exception as error:
        is_plain = isinstance(error, PostgresError | psycopg.Error)
        said = str(error) if is_plain else f"{type(error).__name__}: {error}"
        with suppress(OSError):  # nobody wants to know any more
            pipe.send(PostgresError(" ".join(said.split())))


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


class _Writer:
    """The loop. A change is taken out of the stream before its time is read; nothing is encoded here."""

    def __init__(
        self,
        session: WritingSession,
        book: "memoryview[float]",
        stream: socket.socket,
        turns: tuple[int, int],
    ) -> None:
        self.session, self.book, self.stream, self.turns = session, book, stream, turns
        self.changes = 0
        self.missed: list[int] = []
        self.cpu_seconds = 0.0

    def write(self, start: float, until: Until) -> None:
        while (early := start - time.perf_counter()) > 0:
            time.sleep(early)
        before = cpu_seconds()
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
        end = start + until.seconds
        book, behind, at = self.book, 2 * until.most, 0
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
        self.cpu_seconds = cpu_seconds() - before
