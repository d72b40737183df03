"""A whole table of vectors: in one transaction, or in chunks over several connections, and resumed."""

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from typing import Any

import psycopg

from . import catalog
from .chunks import LoadPlan, missing_chunks
from .encoding import ELEMENTS, row_layout
from .errors import PostgresError
from .loading import copy_vectors
from .loading_bar import LoadingBar
from .servers import Server

PAGE = 8192
_LONGEST_PLAIN_BYTES = 8000  # of a vector's values, that fit a page beside the headers
# Rows are frozen when about this much has been added to the table: as long as it is in memory, and before a
# checkpoint has passed, after which each page that is changed goes to the log once more, whole.
SETTLE_BYTES = 4 << 30


def table_bytes(rows: int, dimension: int, column_type: str = "vector") -> int:
    """About what a table of vectors takes on disk: 8,160 bytes a page for whole rows of 44 bytes and more."""
    row = 44 + ELEMENTS[column_type].itemsize * dimension
    a_page = 8160 // row
    return math.ceil(rows / a_page) * PAGE if a_page else rows * row


def log_bytes(rows: int, dimension: int, column_type: str = "vector") -> int:
    """About what the server's log takes beside it when the table is loaded in chunks."""
    return min(table_bytes(rows, dimension, column_type), 2 * SETTLE_BYTES)


def create_table(connection: psycopg.Connection[Any], name: str, column_type: str, dimension: int) -> None:
    """Make an empty one."""
    connection.execute(f"CREATE TABLE {name} (id int4 NOT NULL, embedding {column_type}({dimension}))")
    if ELEMENTS[column_type].itemsize * dimension <= _LONGEST_PLAIN_BYTES:
        # In the row itself: fetching a vector to compare it is one page, not a detour.
        connection.execute(f"ALTER TABLE {name} ALTER embedding SET STORAGE PLAIN")


def load_whole(
    connection: psycopg.Connection[Any], name: str, column_type: str, train: Any, fingerprint: str
) -> float:
    """Make the table and load it in one transaction, where possible without the log; return the seconds."""
    rows, dimension = train.shape
    started = time.perf_counter()
    with connection.transaction(), _bar(train, column_type) as bar:
        create_table(connection, name, column_type, dimension)
        copy_vectors(connection, name, train, column_type=column_type, advanced=bar.update)
        seconds = time.perf_counter() - started
        catalog.remember_table(connection, name, fingerprint, column_type, rows, seconds)
    # The commit had to wait for the disk, which is a part of loading.
    seconds = time.perf_counter() - started
    catalog.remember_table(connection, name, fingerprint, column_type, rows, seconds)
    return seconds


class ChunkedLoad:
    """A table's load over several connections, each chunk with the row that remembers it in one transaction.

    Connections are threads: while libpq is not blocking, a thread that waits for its backend leaves the
    interpreter to the others, and what it does between costs a tenth of what the backend does with it.
    """

    def __init__(self, server: Server, name: str, column_type: str, train: Any) -> None:
        """Take the table's name and what goes into it."""
        self._server, self._name, self._column_type, self._train = server, name, column_type, train
        self._lock = threading.Lock()
        self._connections: list[psycopg.Connection[Any]] = []
        self._is_stopping = False
        self._unsettled_bytes = 0

    def run(self, connection: psycopg.Connection[Any], fingerprint: str, plan: LoadPlan) -> float:
        """Load the chunks that are missing; return the seconds of all, in this run and in earlier ones."""
        self._clock = time.perf_counter()
        rows = self._train.shape[0]
        loaded = self._open_table(connection)
        self._todo = missing_chunks(rows, loaded, plan.chunk_rows)[::-1]
        with _bar(self._train, self._column_type, sum(map(len, loaded))) as self._bar:
            self._load_all(min(plan.threads, len(self._todo)))
        self._settle(connection)
        with connection.transaction():
            loaded, seconds = catalog.loaded_chunks(connection, self._name)
            if missing_chunks(rows, loaded, rows) or sum(map(len, loaded)) != rows:
                raise PostgresError(
                    f"{self._name} is not what was loaded into it: drop it, and load it again"
                )
            seconds += self._lap()
            catalog.forget_table(connection, self._name)
            catalog.remember_table(connection, self._name, fingerprint, self._column_type, rows, seconds)
        return seconds

    def _open_table(self, connection: psycopg.Connection[Any]) -> list[range]:
        """Make the table, or see what an interrupted run has left in it."""
        with connection.transaction():
            if not catalog.has_unfinished(connection, self._name):
                catalog.forget_table(connection, self._name)
                create_table(connection, self._name, self._column_type, self._train.shape[1])
                return []
            # The commit of a run that was killed may still be on its way, and counts.
            connection.execute(f"LOCK TABLE {self._name} IN SHARE ROW EXCLUSIVE MODE")
            loaded, _ = catalog.loaded_chunks(connection, self._name)
        there = sum(map(len, loaded))
        print(f"an interrupted load goes on: {there:,} of {len(self._train):,} rows are there", flush=True)
        self._settle(connection)  # the space of rows that were rolled back is used again
        return loaded

    def _load_all(self, threads: int) -> None:
        with ThreadPoolExecutor(max(threads, 1)) as pool:
            connections = [pool.submit(self._work) for _ in range(threads)]
            try:
                for connection in as_completed(connections):
                    connection.result()
            except BaseException:
                self._stop()
                raise

    def _work(self) -> None:
        with self._server.connect() as connection:
            self._connections.append(connection)
            while (numbers := self._next()) is not None:
                with connection.transaction():
                    copy_vectors(
                        connection, self._name, self._train, numbers,
                        column_type=self._column_type, frozen=False, advanced=self._advanced,
                    )  # fmt: skip
                    catalog.remember_chunk(connection, self._name, numbers, self._lap())
                if self._is_due(len(numbers)):
                    self._settle(connection, "SKIP_LOCKED, TRUNCATE off")

    def _next(self) -> range | None:
        with self._lock:
            return self._todo.pop() if self._todo and not self._is_stopping else None

    def _advanced(self, rows: int) -> None:
        if self._is_stopping:
            raise PostgresError("another connection has failed")
        with self._lock:
            self._bar.update(rows)

    def _lap(self) -> float:
        """Return the seconds since any thread last asked: the answers to all add up to the whole."""
        with self._lock:
            last, self._clock = self._clock, time.perf_counter()
            return self._clock - last

    def _is_due(self, rows: int) -> bool:
        with self._lock:
            self._unsettled_bytes += table_bytes(rows, self._train.shape[1], self._column_type)
            if self._unsettled_bytes < SETTLE_BYTES:
                return False
            self._unsettled_bytes = 0
            return True

    def _settle(self, connection: psycopg.Connection[Any], *options: str) -> None:
        """Freeze what is committed, so that no query or build has to rewrite a page.

        On a server of ours, a checkpoint bounds its log, all of which it would have to read after a crash.
        """
        if connection.info.server_version >= 160000:
            connection.execute("SET vacuum_buffer_usage_limit = 0")
        connection.execute(f"VACUUM ({', '.join(['FREEZE', *options])}) {self._name}")
        if self._server.is_ours:
            connection.execute("CHECKPOINT")

    def _stop(self) -> None:
        """Have all connections give up, whatever they are waiting for."""
        self._is_stopping = True
        for connection in self._connections:
            with suppress(psycopg.Error):
                connection.cancel()


def _bar(train: Any, column_type: str, there: int = 0) -> LoadingBar:
    rows, dimension = train.shape
    return LoadingBar(rows, there, row_layout(dimension, column_type).itemsize)
