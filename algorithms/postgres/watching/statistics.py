"""PostgreSQL's own statistics, read now and then over a connection of its own, one round trip each time.

Names of views and columns: PostgreSQL's manual, "The Cumulative Statistics System", of versions 13 to 18.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import pq

from ..environment import server_kind
from ..errors import PostgresError
from ..servers import Server
from ..servers.base import connect
from .processes import server_processes

MONITOR_APPLICATION = "ann_benchmarks_monitor"
RETRY_SECONDS = 5.0  # after a connection was lost, unless the server is known to be there again
PREFIX = "postgresql."
_LOOK = b"ann_statistics"
_NEWEST = 10**9

_DATABASE = """
    SELECT numbackends AS connections, xact_commit AS commits, xact_rollback AS rollbacks,
           blks_hit AS blocks_hit, blks_read AS blocks_read, tup_returned AS rows_returned,
           tup_fetched AS rows_fetched, tup_inserted AS rows_inserted, tup_updated AS rows_updated,
           tup_deleted AS rows_deleted, temp_bytes, deadlocks, blk_read_time / 1000 AS block_read_seconds,
           blk_write_time / 1000 AS block_write_seconds
    FROM pg_stat_database WHERE datname = current_database()"""
_IO = """
    SELECT sum(reads) AS io_reads, sum(hits) AS io_hits, sum(writes) AS io_writes, sum(extends) AS io_extends,
           sum(evictions) AS io_evictions, sum(fsyncs) AS io_fsyncs, sum(read_time) / 1000 AS io_read_seconds,
           sum(write_time) / 1000 AS io_write_seconds, {bytes},
           sum(writes) FILTER (WHERE backend_type = 'client backend') AS io_client_writes
    FROM pg_stat_io WHERE object <> 'wal'"""
_OPERATIONS = "sum(reads * op_bytes) AS io_read_bytes, sum(writes * op_bytes) AS io_write_bytes"
_BYTES = "sum(read_bytes) AS io_read_bytes, sum(write_bytes) AS io_write_bytes"
_LOG = "SELECT wal_records, wal_fpi AS wal_full_pages, wal_bytes, wal_buffers_full{more} FROM pg_stat_wal"
_LOG_WRITES = ", wal_write AS wal_writes, wal_sync AS wal_syncs"
_LOG_POSITION = "SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_lsn() - '0/0' END AS wal_bytes"
_CHECKPOINTS_OLD = """
    SELECT checkpoints_timed, checkpoints_req AS checkpoints_requested,
           checkpoint_write_time / 1000 AS checkpoint_write_seconds,
           checkpoint_sync_time / 1000 AS checkpoint_sync_seconds,
           buffers_checkpoint * current_setting('block_size')::int8 AS checkpoint_bytes,
           buffers_clean AS bgwriter_buffers, buffers_backend AS backend_buffers,
           buffers_alloc AS buffers_allocated
    FROM pg_stat_bgwriter"""
_CHECKPOINTS = """
    SELECT num_timed AS checkpoints_timed, num_requested AS checkpoints_requested,
           write_time / 1000 AS checkpoint_write_seconds, sync_time / 1000 AS checkpoint_sync_seconds,
           buffers_written * current_setting('block_size')::int8 AS checkpoint_bytes,
           buffers_clean AS bgwriter_buffers, buffers_alloc AS buffers_allocated
    FROM pg_stat_checkpointer, pg_stat_bgwriter"""
# The functions that the views of tables and indexes are made of, without the joins; null for no relation.
_TABLE = """
    SELECT pg_stat_get_numscans(t) AS table_scans, pg_stat_get_tuples_inserted(t) AS table_rows_inserted,
           pg_stat_get_tuples_updated(t) AS table_rows_updated,
           pg_stat_get_tuples_deleted(t) AS table_rows_deleted, pg_stat_get_live_tuples(t) AS table_rows_live,
           pg_stat_get_dead_tuples(t) AS table_rows_dead, pg_stat_get_blocks_hit(t) AS table_blocks_hit,
           pg_stat_get_blocks_fetched(t) - pg_stat_get_blocks_hit(t) AS table_blocks_read
    FROM CAST(to_regclass(nullif($1, '')) AS oid) AS t"""
_INDEX = """
    SELECT pg_stat_get_numscans(i) AS index_scans, pg_stat_get_tuples_returned(i) AS index_rows_read,
           pg_stat_get_blocks_hit(i) AS index_blocks_hit,
           pg_stat_get_blocks_fetched(i) - pg_stat_get_blocks_hit(i) AS index_blocks_read
    FROM CAST(to_regclass(nullif($2, '')) AS oid) AS i"""
# Of sessions that this user may not see, the state is null.
_SESSIONS = """
    SELECT count(*) FILTER (WHERE state = 'active' AND wait_event IS NULL) AS cpu_sessions,
           count(*) FILTER (WHERE state = 'active' AND wait_event_type = 'IO') AS io_sessions,
           count(*) FILTER (WHERE state = 'active' AND wait_event_type = 'LWLock') AS lwlock_sessions,
           count(*) FILTER (WHERE state = 'active' AND wait_event_type = 'Lock') AS lock_sessions,
           count(*) FILTER (WHERE state = 'active' AND wait_event_type = 'Client') AS client_sessions,
           count(*) FILTER (WHERE state = 'active'
               AND wait_event_type NOT IN ('IO', 'LWLock', 'Lock', 'Client')) AS other_sessions,
           count(*) FILTER (WHERE state LIKE 'idle%') AS idle_sessions
    FROM pg_stat_activity
    WHERE backend_type IN ('client backend', 'parallel worker')
          AND application_name NOT IN ('ann_benchmarks_monitor', 'ann_benchmarks_watch')"""
_PARTS = (  # from which version on, and before which
    (0, _NEWEST, _DATABASE),
    (160000, 180000, _IO.format(bytes=_OPERATIONS)),
    (180000, _NEWEST, _IO.format(bytes=_BYTES)),
    (0, 140000, _LOG_POSITION),
    (140000, 180000, _LOG.format(more=_LOG_WRITES)),
    (180000, _NEWEST, _LOG.format(more="")),
    (0, 170000, _CHECKPOINTS_OLD),
    (170000, _NEWEST, _CHECKPOINTS),
    (0, _NEWEST, _TABLE),
    (0, _NEWEST, _INDEX),
    (0, _NEWEST, _SESSIONS),
)
_SESSION_COLUMNS = ("cpu", "io", "lwlock", "lock", "client", "other", "idle")
_LEVELS = ("connections", "table_rows_live", "table_rows_dead", *(f"{x}_sessions" for x in _SESSION_COLUMNS))


class PostgresStatistics:
    """What the server counts. Nothing raises: what cannot be had is left out until it can."""

    levels = frozenset(PREFIX + name for name in _LEVELS)

    def __init__(
        self, server: Callable[[], Server | None], relations: Callable[[], tuple[str | None, str | None]]
    ) -> None:
        """Take what returns the server, None before it is started, and what names its table and index."""
        self._server, self._relations = server, relations
        self._connection: psycopg.Connection[Any] | None = None
        self._has_local_processes = False
        self._retry_at = 0.0

    def sample(self) -> dict[str, float]:
        """Return all that is known now: totals since the statistics began, and the levels."""
        try:
            connection = self._connected()
            return {} if connection is None else self._read(connection)
        except (psycopg.Error, PostgresError, psutil.Error, OSError, ValueError):
            self._lose()
            return {}

    @property
    def is_local(self) -> bool:
        """Whether the server is one of ours, or its processes are on this machine; False while not known."""
        server = self._server()
        is_ours = server_kind() != "external" if server is None else server.is_ours
        return is_ours or self._has_local_processes

    def revived(self) -> None:
        """Know that the server answers again: what is lost may be connected at once."""
        self._retry_at = 0.0

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> psycopg.Connection[Any] | None:
        if self._connection is not None:
            return self._connection
        server = self._server()
        if server is None or time.monotonic() < self._retry_at:
            return None
        self._retry_at = time.monotonic() + RETRY_SECONDS
        parameters = server.connection_parameters()
        if server.is_ours and not Path(str(parameters["host"])).is_dir():
            return None  # it is stopped, and so has no socket
        connection = connect({**parameters, "application_name": MONITOR_APPLICATION})
        try:
            self._prepare(connection)
            with suppress(psutil.Error):
                self._has_local_processes = server_processes(connection) is not None
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        """Prepare one statement of all parts that this server has; services may lack some of a version."""
        connection.execute("SET statement_timeout = '5s'")
        connection.execute("SET jit = off")
        version = connection.info.server_version
        parts = [sql for first, before, sql in _PARTS if first <= version < before]
        if not self._prepared(connection, parts):
            parts = [sql for sql in parts if self._prepared(connection, [sql])]
            if not parts or not self._prepared(connection, parts):
                raise PostgresError("the server tells no statistics")

    def _prepared(self, connection: psycopg.Connection[Any], parts: list[str]) -> bool:
        """Whether a statement of these parts runs; it stays prepared."""
        libpq = connection.pgconn
        froms = ", ".join(f"({sql}) AS part{number}" for number, sql in enumerate(parts))
        # Both parameters are named in any case.
        sql = f"SELECT * FROM (SELECT $1::text, $2::text) AS names(table_name, index_name), {froms}"
        libpq.exec_(b"DEALLOCATE ALL")
        prepared = libpq.prepare(_LOOK, sql.encode())
        return (
            prepared.status == pq.ExecStatus.COMMAND_OK
            and libpq.exec_prepared(_LOOK, (b"", b"")).status == pq.ExecStatus.TUPLES_OK
        )

    def _read(self, connection: psycopg.Connection[Any]) -> dict[str, float]:
        result = connection.pgconn.exec_prepared(_LOOK, [(name or "").encode() for name in self._relations()])
        if result.status != pq.ExecStatus.TUPLES_OK:
            if connection.pgconn.status != pq.ConnStatus.OK:
                self._lose()
            return {}
        found = {}
        for column in range(2, result.nfields):
            value = result.get_value(0, column) if result.ntuples else None
            if value is not None:
                found[PREFIX + (result.fname(column) or b"").decode()] = float(value)
        return found

    def _lose(self) -> None:
        self.close()
        self._retry_at = time.monotonic() + RETRY_SECONDS
