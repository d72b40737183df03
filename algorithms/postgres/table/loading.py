"""A table that is loaded in chunks over several connections, and resumed after an interruption."""

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from .. import catalog
from ..catalog import LoadedTable, relation_bytes
from ..errors import PostgresError
from ..servers import Server
from ..servers.progress import progress_bar
from . import Column
from .tables import FREEZE_BYTES, analyze, copy_vectors, create_table, table_bytes

# A load of this size takes two to five minutes. Cutting it up, which makes the server write every row to its
# log, too, costs more than losing that much to an interruption now and then.
_WHOLE_BYTES = 32 << 30
# Some seconds each: an interruption costs little, and so do one commit and one COPY for each.
_CHUNK_BYTES = 256 << 20
MOST_ROWS = 1 << 31  # ids are int4


@dataclass(frozen=True)
class LoadOptions:
    """What the user chose for loads; None: no choice."""

    threads: int | None = None  # connections
    chunk_rows: int | None = None  # rows of a transaction

    def completed(self, rows: int, row_bytes: int) -> tuple[int, int]:
        """Return connections and rows of a transaction; `row_bytes` are those of a row on its way."""
        threads, chunk_rows = self.threads or 1, self.chunk_rows
        if chunk_rows is None:
            is_whole = threads == 1 and rows * row_bytes <= _WHOLE_BYTES
            share = -(-rows // threads)  # so that each connection has something to do
            chunk_rows = rows if is_whole else min(_CHUNK_BYTES // row_bytes, share)
        return threads, max(chunk_rows, 1)


def missing_chunks(rows: int, loaded: Iterable[range], chunk_rows: int) -> list[range]:
    """Cut what `loaded`, in order, leaves of the rows into chunks of up to `chunk_rows`."""
    chunks, start = [], 0
    for done in [*loaded, range(rows, rows)]:
        chunks += [range(i, min(i + chunk_rows, done.start)) for i in range(start, done.start, chunk_rows)]
        start = done.stop
    return chunks


class ChunkedLoad:
    """A table's load over several connections, each chunk with the row that records it in one transaction.

    Connections are threads: while libpq is not blocking, a thread that waits for its backend leaves the
    interpreter to the others, and what it does between costs a tenth of what the backend does with it.
    """

    def __init__(self, server: Server, name: str, column: Column, train: Any) -> None:
        self._server, self._name, self._column, self._train = server, name, column, train
        self._lock = threading.Lock()
        self._connections: list[psycopg.Connection[Any]] = []
        self._is_stopping = False
        self._unfrozen_bytes = 0

    def run(
        self, connection: psycopg.Connection[Any], fingerprint: str, threads: int, chunk_rows: int
    ) -> float:
        """Load the missing chunks; return the seconds of all, in this run and in earlier ones."""
        self._clock = time.perf_counter()
        rows = self._train.shape[0]
        loaded = self._open_table(connection)
        self._todo = missing_chunks(rows, loaded, chunk_rows)[::-1]
        with progress_bar(rows, "loading", sum(map(len, loaded))) as self._bar:
            self._load_all(min(threads, len(self._todo)))
        self._freeze(connection)
        with connection.transaction():
            loaded, seconds = catalog.loaded_chunks(connection, self._name)
            if missing_chunks(rows, loaded, rows) or sum(map(len, loaded)) != rows:
                raise PostgresError(
                    f"{self._name} is not what was loaded into it: drop it, and load it again"
                )
            analyze(connection, self._name, self._column)
            seconds += self._lap()
            catalog.forget_table(connection, self._name)
            kind = self._column.type_name
            catalog.remember_table(connection, self._name, fingerprint, kind, rows, seconds)
        return seconds

    def _open_table(self, connection: psycopg.Connection[Any]) -> list[range]:
        """Make the table, or find what an interrupted run has left in it."""
        with connection.transaction():
            if not catalog.has_unfinished(connection, self._name):
                catalog.forget_table(connection, self._name)
                create_table(connection, self._name, self._column)
                return []
            # The commit of a run that was killed may still be on its way, and counts.
            connection.execute(f"LOCK TABLE {self._name} IN SHARE ROW EXCLUSIVE MODE")
            loaded, _ = catalog.loaded_chunks(connection, self._name)
        rows = sum(map(len, loaded))
        print(f"continuing an interrupted load: {rows:,} of {len(self._train):,} rows are there", flush=True)
        self._freeze(connection)  # the space of rows that were rolled back is used again
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
                        connection, self._name, self._train, self._column, numbers,
                        frozen=False, advanced=self._advanced,
                    )  # fmt: skip
                    catalog.remember_chunk(connection, self._name, numbers, self._lap())
                if self._is_due(len(numbers)):
                    self._freeze(connection, "SKIP_LOCKED, TRUNCATE off")

    def _next(self) -> range | None:
        with self._lock:
            return self._todo.pop() if self._todo and not self._is_stopping else None

    def _advanced(self, rows: int) -> None:
        if self._is_stopping:
            raise PostgresError("another connection has failed")
        with self._lock:
            self._bar.update(rows)

    def _lap(self) -> float:
        """Return the seconds since any thread's last call: all calls add up to the whole."""
        with self._lock:
            last, self._clock = self._clock, time.perf_counter()
            return self._clock - last

    def _is_due(self, rows: int) -> bool:
        with self._lock:
            self._unfrozen_bytes += table_bytes(rows, self._column)
            if self._unfrozen_bytes < FREEZE_BYTES:
                return False
            self._unfrozen_bytes = 0
            return True

    def _freeze(self, connection: psycopg.Connection[Any], *options: str) -> None:
        """Freeze what is committed, so that no query or build has to rewrite a page.

        On a server of ours, a checkpoint bounds its log, which it reads as a whole after a crash.
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


def load_whole(
    connection: psycopg.Connection[Any], name: str, column: Column, train: Any, fingerprint: str
) -> float:
    """Make the table and load it in one transaction, where possible without the log; return the seconds."""
    rows = train.shape[0]
    started = time.perf_counter()
    with connection.transaction(), progress_bar(rows, "loading") as bar:
        create_table(connection, name, column)
        copy_vectors(connection, name, train, column, advanced=bar.update)
        analyze(connection, name, column)
        seconds = time.perf_counter() - started
        catalog.remember_table(connection, name, fingerprint, column.type_name, rows, seconds)
    # The commit waits for the disk, which is a part of loading.
    seconds = time.perf_counter() - started
    catalog.remember_table(connection, name, fingerprint, column.type_name, rows, seconds)
    return seconds


def load_table(
    server: Server,
    connection: psycopg.Connection[Any],
    name: str,
    column: Column,
    train: Any,
    fingerprint: str,
    options: LoadOptions,
) -> LoadedTable:
    """Load a table, whole or in chunks; PostgresError where it does not fit or the server gives up."""
    rows = train.shape[0]
    if not rows:
        create_table(connection, name, column)
        return LoadedTable(name, 0.0)
    if rows > MOST_ROWS:
        raise PostgresError(f"{rows:,} rows: ids are int4, which number up to {MOST_ROWS:,}")
    threads, chunk_rows = options.completed(rows, column.row_bytes)
    # COPY cannot freeze the rows of partitions, a load in chunks does so afterwards.
    is_whole = threads == 1 and chunk_rows >= rows and not column.partition_definitions(name)
    is_whole = is_whole and not catalog.has_unfinished(connection, name)
    needed = table_bytes(rows, column)
    if not is_whole:  # the server's log takes room, too
        needed += min(needed, 2 * FREEZE_BYTES) - relation_bytes(connection, name)
    server.check_disk(needed, "the vectors")
    began = datetime.now().astimezone()
    if is_whole:
        with server.explaining("loading"):
            seconds = load_whole(connection, name, column, train, fingerprint)
    else:
        with server.explaining("loading", "the chunks that were finished are kept"):
            seconds = ChunkedLoad(server, name, column, train).run(
                connection, fingerprint, threads, chunk_rows
            )
    ended = datetime.now().astimezone()
    times = f"{began:%Y-%m-%d %H:%M:%S} to {ended:%H:%M:%S %Z}"
    print(f"loaded {rows:,} rows in {seconds:.1f} s ({rows / seconds:,.0f} rows/s), {times}", flush=True)
    return LoadedTable(name, seconds)
