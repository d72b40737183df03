"""A table of vectors: what identifies it, what it takes on disk, and its load in one transaction."""

import hashlib
import math
import time
from typing import Any

import numpy as np
import psycopg

from . import catalog
from .columns import Column, is_sparse
from .errors import PostgresError
from .loading import copy_vectors
from .progress import LoadingBar
from .settings import current_setting

PAGE = 8192
# Rows are frozen when about this much has been added to the table: as long as it is in memory, and before a
# checkpoint has passed, after which each page that is changed goes to the log once more, whole.
FREEZE_BYTES = 4 << 30
_HASHED_BYTES = 2 << 30
_BLOCK_ROWS = 4096
_SAMPLES = 4096  # enough for each of hundreds of files to have some
_SAMPLE_ROWS = 64


def fingerprint(train: Any) -> str:
    """Hash shape, type and rows: all of them up to 2 GiB, else 4,096 blocks of 64 evenly spaced.

    `train` has a shape, a dtype or the bounds of sparse rows, and rows by range, and may be larger than
    memory. A method `fingerprint` of its own takes precedence.
    """
    if callable(own := getattr(train, "fingerprint", None)) and (mark := own()):
        return str(mark)
    rows, dimension = train.shape
    kind = "sparse" if is_sparse(train) else np.dtype(train.dtype).str
    digest = hashlib.blake2b(f"{rows} {dimension} {kind}".encode(), digest_size=16)
    if is_sparse(train):
        digest.update(np.asarray(train.indptr, np.int64).data)
        size_bytes = 8 * int(train.indptr[-1])
    else:
        size_bytes = rows * dimension * np.dtype(train.dtype).itemsize
    starts, size = range(0, rows, _BLOCK_ROWS), _BLOCK_ROWS
    if size_bytes > _HASHED_BYTES:
        spaced = np.linspace(0, max(rows - _SAMPLE_ROWS, 0), _SAMPLES, dtype=np.int64)
        starts, size = spaced.tolist(), _SAMPLE_ROWS
    for start in starts:
        block = train[start : start + size]
        for part in (block.indices, block.data) if is_sparse(block) else (block,):
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def table_bytes(rows: int, column: Column) -> int:
    """About what a table of vectors takes on disk: 8,160 bytes a page for whole rows of 36 bytes and more."""
    row = 36 + column.value_bytes
    a_page = 8160 // row
    return math.ceil(rows / a_page) * PAGE if a_page else rows * row


def log_bytes(rows: int, column: Column) -> int:
    """About what the server's log takes in addition when the table is loaded in chunks."""
    return min(table_bytes(rows, column), 2 * FREEZE_BYTES)


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


def analyze(connection: psycopg.Connection[Any], name: str, column: Column) -> None:
    """Let the planner know what the attributes are like, where there are any: nothing else will."""
    if names := column.analyzed_names:
        connection.execute(f"ANALYZE {name} ({', '.join(names)})")


def load_whole(
    connection: psycopg.Connection[Any], name: str, column: Column, train: Any, fingerprint: str
) -> float:
    """Make the table and load it in one transaction, where possible without the log; return the seconds."""
    rows = train.shape[0]
    started = time.perf_counter()
    with connection.transaction(), loading_bar(train, column) as bar:
        create_table(connection, name, column)
        copy_vectors(connection, name, train, column, advanced=bar.update)
        analyze(connection, name, column)
        seconds = time.perf_counter() - started
        catalog.remember_table(connection, name, fingerprint, column.type_name, rows, seconds)
    # The commit waits for the disk, which is a part of loading.
    seconds = time.perf_counter() - started
    catalog.remember_table(connection, name, fingerprint, column.type_name, rows, seconds)
    return seconds


def loading_bar(train: Any, column: Column, loaded: int = 0) -> LoadingBar:
    """Make the progress bar of a load; `loaded` rows are there already."""
    return LoadingBar(train.shape[0], loaded, column.row_bytes)
