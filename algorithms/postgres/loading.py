"""Vectors into a table: binary COPY in whole blocks over libpq itself."""

import select
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
from psycopg import pq

from .columns import Column, row_of_an_array
from .errors import PostgresError

COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
COPY_TRAILER = struct.pack(">h", -1)
# One message of the COPY protocol holds about this much: enough that what each costs does not count, little
# enough to stay in the processor's cache between reading, encoding and sending.
_MESSAGE_BYTES = 256 << 10
_READ_BYTES = 1 << 20  # what is read of the source at once
# What we request a Unix socket to hold; the system may allow less. TCP sizes its buffers itself.
_SOCKET_BYTES = 2 << 20
_REPORT_MS = 500  # how often a connection that waits for the server calls `advanced`


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
    encoder = column.row_encoder(block_rows, getattr(train, "where", row_of_an_array))
    if (numbered := getattr(train, "numbered", None)) is not None:
        encoder = numbered(encoder)  # a shard: its ids are those of the whole training set
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
        for start, block in _blocks(train, numbers, block_rows, column.source_bytes(train)):
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


def _blocks(train: Any, numbers: range, block_rows: int, row_bytes: int) -> Iterator[tuple[int, Any]]:
    at_once = max(1, _READ_BYTES // (row_bytes * block_rows)) * block_rows
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
