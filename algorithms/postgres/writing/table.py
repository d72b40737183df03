"""A table with an index that one workload writes to: vacuumed, reindexed, inspected, and dropped.

After a run that was killed, the next one finds such tables by their names and drops them.
"""

import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import psycopg

from .. import catalog
from ..catalog import SCHEMA, BuiltIndex, relation_bytes
from ..errors import PostgresError
from ..servers import Server
from ..servers.libpq import backend_of
from ..servers.progress import index_progress
from ..settings import apply_settings
from ..statistics.counters import CLIENT_APPLICATION, FLUSH
from ..table import Column
from .pool import WriteAccess, WriterPool

BUILD_SETTINGS = ("maintenance_work_mem", "max_parallel_maintenance_workers")  # of an index that was built
WRITER_APPLICATION = "ann_benchmarks_writer"
_PREFIX = "writing_"
# What was made for a table has the table's name before its own.
_TABLES = (
    "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r' AND relname ~ %s"
)
_NAME = f"^{_PREFIX}[0-9a-f]{{12}}"
# A statement whose client was killed goes on, and holds its locks.
_END_OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks"
    " WHERE relation = to_regclass(%s) AND pid <> pg_backend_pid()"
)


class WritableTable:
    """What PostgresANN.open_writable gives; its index is the one that the plug-in's queries use meanwhile."""

    def __init__(self, server: Server, column: Column, extensions: tuple[str, ...]) -> None:
        """Choose a name; the table is not there yet. `extensions`: whose libraries define settings."""
        self.name = f"{SCHEMA}.{_PREFIX}{secrets.token_hex(6)}"
        self._server, self._column, self._extensions = server, column, extensions
        self._settings: Mapping[str, str] = {}
        self._index: BuiltIndex | None = None
        self._sizing: psycopg.Connection[Any] | None = None

    def prepare(self, connection: psycopg.Connection[Any], has_key: bool) -> None:
        """Have nobody but us vacuum the table, and let rows be found by their id, if that is requested."""
        connection.execute(f"ALTER TABLE {self.name} SET (autovacuum_enabled = off)")
        if has_key:
            with self._server.explaining("adding the key"):
                connection.execute(f"ALTER TABLE {self.name} ADD PRIMARY KEY (id)")

    def finish(self, index: BuiltIndex | None, settings: Mapping[str, str]) -> None:
        """Take the index, None if the plug-in has none, and the settings of the sessions that write."""
        self._index, self._settings = index, settings

    def open_writers(self, writers: int, beside_queries: bool = False) -> WriterPool:
        """Start this number of writers, each a process with a connection.

        ServerWatch observes the waits of sessions that query or, without any, of those that write.
        """
        application = WRITER_APPLICATION if beside_queries else CLIENT_APPLICATION
        access = WriteAccess(
            self._server.connection_parameters(),
            application,
            self.name,
            self._column,
            self._settings,
            self._extensions,
        )
        return WriterPool(access, writers)

    def checkpoint(self) -> None:
        """Have a server of ours write all pages, so that what follows begins alike each time."""
        if self._server.is_ours:
            with self._server.explaining("writing all pages"), self._server.connect() as connection:
                connection.execute("CHECKPOINT")

    def vacuum(self) -> float:
        """VACUUM the table and, however little there is to do, its indexes; return the seconds."""
        with self._server.explaining("vacuuming"), self._server.connect() as connection:
            self._set_up(connection)
            started = time.perf_counter()
            connection.execute(f"VACUUM (INDEX_CLEANUP ON) {self.name}")
            return time.perf_counter() - started

    def reindex(self) -> float | None:
        """Build the index anew, from the rows that there are; return the seconds, None without an index."""
        if self._index is None:
            return None
        with self._server.explaining("reindexing"), self._server.connect() as connection:
            self._set_up(connection)
            with index_progress(self._server, backend_of(connection), self._rows(connection)):
                started = time.perf_counter()
                connection.execute(f"REINDEX INDEX {self._index.name}")
                return time.perf_counter() - started

    def sizes(self) -> dict[str, float]:
        """Return index_size and table_size in KiB, as files on the disk."""
        with self._server.explaining("reading sizes"):
            if self._sizing is None or self._sizing.closed:
                self._sizing = self._server.connect()
            index = relation_bytes(self._sizing, self._index.name) if self._index else 0
            table = relation_bytes(self._sizing, self.name)
        return {"index_size": index / 1024, "table_size": table / 1024}

    def statistics(self) -> dict[str, Any]:
        """Return what the server counts: dead_rows."""
        with suppress(psycopg.Error, PostgresError), self._server.connect() as connection:
            connection.execute(FLUSH)
            row = connection.execute(
                "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = to_regclass(%s)", [self.name]
            ).fetchone()
            if row is not None:
                return {"dead_rows": row[0]}
        return {}

    def close(self) -> None:
        """Drop it, also where the server has to recover first; what is left then goes at the next start."""
        if self._sizing is not None:
            self._sizing.close()
        try:
            self._drop()
        except (psycopg.Error, PostgresError):
            with suppress(psycopg.Error, PostgresError):
                self._server.revive()
                self._drop()

    def _drop(self) -> None:
        with self._server.connect() as connection:
            drop(connection, self.name)

    def _rows(self, connection: psycopg.Connection[Any]) -> int:
        """About how many there are: to count them would bring them all into memory."""
        row = connection.execute(
            "SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass", [self.name]
        ).fetchone()
        return max(row[0], 0) if row else 0

    def _set_up(self, connection: psycopg.Connection[Any]) -> None:
        facts = self._index.facts if self._index else {}
        apply_settings(connection, {name: facts[name] for name in BUILD_SETTINGS if name in facts})


def drop(connection: psycopg.Connection[Any], table: str) -> None:
    """Drop a table with all that was made for it, even if it is in use; nothing if it is not there."""
    connection.execute(_END_OTHERS, [table])
    with connection.transaction():
        for (name,) in connection.execute(_TABLES, [SCHEMA, f"{_NAME}_"]).fetchall():
            if f"{SCHEMA}.{name}".startswith(f"{table}_"):
                connection.execute(f"DROP TABLE {SCHEMA}.{name}")
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        catalog.forget_table(connection, table)
        connection.execute(f"DELETE FROM {SCHEMA}.indexes WHERE table_name = %s", [table])


def drop_leftovers(connection: psycopg.Connection[Any]) -> None:
    """Drop the tables of runs that were killed; a run that goes on has the name of its table locked."""
    for (name,) in connection.execute(_TABLES, [SCHEMA, f"{_NAME}$"]).fetchall():
        table = f"{SCHEMA}.{name}"
        if catalog.try_lock(connection, table):
            drop(connection, table)
            print(f"dropped {table}, left by a run that was killed", flush=True)
