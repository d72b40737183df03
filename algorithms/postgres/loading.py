"""Vectors into a table: binary COPY in whole blocks over libpq itself."""

import select
import socket
import time
from typing import Any

import psycopg
from psycopg import pq

from .encoding import COPY_HEADER, COPY_TRAILER, RowEncoder, row_layout
from .progress import progress_bar

# One message of the COPY protocol holds about this much: a few of them fit a Unix socket as it comes, so
# that the server never waits for us to fill it.
_MESSAGE_BYTES = 64 << 10
# What we ask of a Unix socket to hold; the system may allow less. TCP sizes its buffers itself.
_SOCKET_BYTES = 2 << 20


def copy_vectors(connection: psycopg.Connection[Any], table: str, train: Any) -> float:
    """COPY all rows of `train` (shape (rows, dimension), read by range) into `table`; return the seconds.

    Ids are the row numbers. Runs in the connection's transaction, which must have created the table: the
    rows are frozen, so that no later reader has to rewrite them.
    """
    rows, dimension = train.shape
    row_bytes = row_layout(dimension).itemsize
    block_rows = max(1, _MESSAGE_BYTES // row_bytes)
    encoder = RowEncoder(dimension, block_rows)
    started = time.perf_counter()
    libpq = connection.pgconn
    # A notice would look like the server's refusal below.
    libpq.exec_(b"SET LOCAL client_min_messages = error")
    result = libpq.exec_(f"COPY {table} (id, embedding) FROM STDIN WITH (FORMAT binary, FREEZE)".encode())
    if result.status != pq.ExecStatus.COPY_IN:
        raise psycopg.errors.error_from_result(result)
    libpq.nonblocking = 0  # psycopg's default would queue the whole table in memory
    _widen_socket(libpq.socket)
    answer = select.poll()
    answer.register(libpq.socket, select.POLLIN)
    try:
        libpq.put_copy_data(COPY_HEADER)
        with progress_bar(rows, "loading", "rows") as bar:
            for start in range(0, rows, block_rows):
                block = train[start : start + block_rows]
                libpq.put_copy_data(encoder.encode(start, block))
                bar.update(len(block))
                if answer.poll(0):
                    break  # the server speaks during a COPY only to refuse the rest
        libpq.put_copy_data(COPY_TRAILER)
        libpq.put_copy_end()
    except psycopg.OperationalError:
        pass  # the server is gone, or refused the rest: it said why, or the result below does
    except BaseException:
        libpq.put_copy_end(b"interrupted")
        while libpq.get_result() is not None:
            pass
        raise
    finally:
        libpq.nonblocking = 1
    loaded = _finish(libpq)
    if loaded != rows:
        raise psycopg.DataError(f"the server took {loaded} of {rows} rows")
    return time.perf_counter() - started


def _widen_socket(descriptor: int) -> None:
    connection = socket.socket(fileno=descriptor)
    try:
        if connection.family == socket.AF_UNIX:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
    finally:
        connection.detach()  # libpq's, not ours to close


def _finish(libpq: pq.abc.PGconn) -> int:
    """Take the COPY's result, and all that follows it; return how many rows it says."""
    error, rows = None, 0
    while (result := libpq.get_result()) is not None:
        if result.status == pq.ExecStatus.COMMAND_OK:
            rows = result.command_tuples or 0
        elif error is None:
            error = psycopg.errors.error_from_result(result)
    if error is not None:
        raise error
    return rows
