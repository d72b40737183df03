"""A table of vectors: what identifies it, what it takes on disk, and rows into it by COPY over libpq."""

import hashlib
import math
import select
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psycopg
from psycopg import pq

from ..errors import PostgresError
from ..settings import current_setting
from . import Column, row_of_an_array

PAGE = 8192
# Rows are frozen when about this much has been added to the table: as long as it is in memory, and before a
# checkpoint has passed, after which each page that is changed goes to the log once more, whole.
FREEZE_BYTES = 4 << 30
_HASHED_BYTES = 2 << 30
_BLOCK_ROWS = 4096
_SAMPLES = 4096  # enough for each of hundreds of files to have some
_SAMPLE_ROWS = 64

COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
COPY_TRAILER = struct.pack(">h", -1)
# One message of the COPY protocol holds about this much: enough that what each costs does not count, little
# enough to stay in the processor's cache between reading, encoding and sending.
_MESSAGE_BYTES = 256 << 10
_READ_BYTES = 1 << 20  # what is read of the source at once
# What we request a Unix socket to hold; the system may allow less. TCP sizes its buffers itself.
_SOCKET_BYTES = 2 << 20
_REPORT_MS = 500  # how often a connection that waits for the server calls `advanced`


def fingerprint(train: Any) -> str:
    """Hash shape, type and rows: all of them up to 2 GiB, else 4,096 blocks of 64 evenly spaced.

    `train` has a shape, a dtype and rows by range, and may be larger than memory. A method `fingerprint` of
    its own takes precedence.
    """
    if callable(own := getattr(train, "fingerprint", None)) and (mark := own()):
        return str(mark)
    rows, dimension = train.shape
    kind = np.dtype(train.dtype)
    digest = hashlib.blake2b(f"{rows} {dimension} {kind.str}".encode(), digest_size=16)
    starts, size = range(0, rows, _BLOCK_ROWS), _BLOCK_ROWS
    if rows * dimension * kind.itemsize > _HASHED_BYTES:
        spaced = np.linspace(0, max(rows - _SAMPLE_ROWS, 0), _SAMPLES, dtype=np.int64)
        starts, size = spaced.tolist(), _SAMPLE_ROWS
    for start in starts:
        digest.update(np.ascontiguousarray(train[start : start + size]).data)
    return digest.hexdigest()


def table_bytes(rows: int, column: Column) -> int:
    """About what a table of vectors takes on disk: 8,160 bytes a page for whole rows of 36 bytes and more."""
    row = 36 + column.value_bytes
    a_page = 8160 // row
    return math.ceil(rows / a_page) * PAGE if a_page else rows * row


def create_table(connection: psycopg.Connection[Any], name: str, column: Column) -> None:
    """Make an empty one."""
    connection.execute(f"CREATE TABLE {name} {column.table_definition}")
    if column.is_plain:
        connection.execute(f"ALTER TABLE {name} ALTER embedding SET STORAGE PLAIN")
    for statement in column.partition_definitions(name):  # they inherit the storage of the table
        connection.execute(statement)


def check_encoding(connection: psycopg.Connection[Any]) -> None:
    """Raise PostgresError where text would be converted on its way: attributes are sent in UTF-8."""
    for name in ("server_encoding", "client_encoding"):
        encoding = current_setting(connection, name)
        if encoding not in ("UTF8", "SQL_ASCII"):
            raise PostgresError(
                f"{name} is {encoding}, and attributes are in UTF8: use a database that is, and leave"
                " PGCLIENTENCODING out"
            )


def check_type(connection: psycopg.Connection[Any], column: Column, version: str) -> None:
    """Raise PostgresError where this version of pgvector has no such type."""
    if connection.execute("SELECT to_regtype(%s)", [column.type_name]).fetchone() == (None,):
        raise PostgresError(f"pgvector {version} has no type {column.type_name}: use a later release")


def analyze(connection: psycopg.Connection[Any], name: str, column: Column) -> None:
    """Let the planner know what the attributes are like, where there are any: nothing else will."""
    if names := column.analyzed_names:
        connection.execute(f"ANALYZE {name} ({', '.join(names)})")


def copy_vectors(
    connection: psycopg.Connection[Any],
    table: str,
    train: Any,
    column: Column,
    numbers: range | None = None,
    *,
    frozen: bool = True,
    advanced: Callable[[int], object] = lambda rows: None,
) -> None:
    """COPY rows of `train` (shape (rows, dimension), read by range) into `table`; ids are the row numbers.

    Runs in the connection's transaction. `frozen`: the same transaction has created the table, and no later
    reader will have to rewrite the rows. `advanced` is called with the number of further rows sent,
    now and then 0; an exception that it raises ends the COPY. While it waits for the server, the thread
    leaves the interpreter to others.
    """
    numbers = range(train.shape[0]) if numbers is None else numbers
    block_rows = max(1, _MESSAGE_BYTES // column.row_bytes)
    encoder = column.row_encoder(block_rows, getattr(train, "row_name", row_of_an_array))
    encoder.id_of = getattr(train, "id_of", encoder.id_of)  # those of a shard are of the whole training set
    libpq = connection.pgconn
    # A notice would be taken for the server's refusal below.
    libpq.exec_(b"SET LOCAL client_min_messages = error")
    freeze = ", FREEZE" if frozen else ""
    names = ", ".join(["id", "embedding", *column.attribute_names])
    result = libpq.exec_(f"COPY {table} ({names}) FROM STDIN WITH (FORMAT binary{freeze})".encode())
    if result.status != pq.ExecStatus.COPY_IN:
        raise psycopg.errors.error_from_result(result)
    libpq.nonblocking = 1
    _widen_socket(libpq.socket)
    server = select.poll()
    server.register(libpq.socket, select.POLLIN | select.POLLOUT)

    def is_refused(patience_ms: int = 0) -> bool:
        """Whether the server sends anything, which during a COPY it does only to refuse the rest."""
        while not (events := server.poll(patience_ms)) and patience_ms:
            advanced(0)
        return bool(events and events[0][1] & ~select.POLLOUT)

    try:
        libpq.put_copy_data(COPY_HEADER)
        for start, block in _blocks(train, numbers, block_rows):
            libpq.put_copy_data(encoder.encode(start, block))
            while libpq.flush() and not is_refused(_REPORT_MS):
                pass
            if is_refused():
                break
            advanced(len(block))
        libpq.put_copy_data(COPY_TRAILER)
        libpq.put_copy_end()
    except psycopg.OperationalError:
        pass  # the server is gone, or refused the rest: the result below has the reason
    except BaseException:
        libpq.put_copy_end(b"interrupted")
        while libpq.get_result() is not None:
            pass
        raise
    loaded = _finish(libpq)
    if loaded != len(numbers):
        raise PostgresError(
            f"rows {numbers.start} to {numbers.stop}: expected {len(numbers)}, the server has got {loaded}"
        )


def _blocks(train: Any, numbers: range, block_rows: int) -> Iterator[tuple[int, Any]]:
    block_bytes = train.shape[1] * np.dtype(train.dtype).itemsize * block_rows
    at_once = max(1, _READ_BYTES // block_bytes) * block_rows
    for first in range(numbers.start, numbers.stop, at_once):
        rows = train[first : min(first + at_once, numbers.stop)]
        for start in range(0, len(rows), block_rows):
            yield first + start, rows[start : start + block_rows]


def _widen_socket(descriptor: int) -> None:
    connection = socket.socket(fileno=descriptor)
    try:
        if connection.family == socket.AF_UNIX:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
    finally:
        connection.detach()  # libpq's, not ours to close


def _finish(libpq: pq.abc.PGconn) -> int:
    """Take the COPY's result, and all that follows it; return its number of rows."""
    error, rows = None, 0
    while (result := libpq.get_result()) is not None:
        if result.status == pq.ExecStatus.COMMAND_OK:
            rows = result.command_tuples or 0
        elif error is None:
            error = psycopg.errors.error_from_result(result)
    if error is not None:
        raise error
    return rows
