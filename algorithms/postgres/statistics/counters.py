"""What PostgreSQL counts, and what sessions wait for.

Each statistic that is sampled, or stored with a point, is one line of VIEWS.

Names of views and columns: PostgreSQL's manual, "The Cumulative Statistics System", of versions 15 to 18.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import pq

from ..errors import PostgresError

FLUSH = "SELECT pg_stat_force_next_flush()"  # what a session has done so far is counted then, not later
_STATEMENT = b"ann_statistics"
_DATABASE = "pg_stat_database WHERE datname = current_database()"
_IO = "pg_stat_io WHERE object <> 'wal'"
# The functions behind the views of tables and indexes, with fewer joins; null for no relation. $1 is the
# table's name and $2 the index's. A server that does not count names no relation.
_COUNTS = "current_setting('track_counts')::bool"
_RELATION = f"CAST(CASE WHEN {_COUNTS} THEN to_regclass(nullif({{}}, '')) END AS oid)"
# The sum of a table's partitions is its own. Of several indexes of vectors, none is named: all that are live.
_TABLES = (
    f"SELECT {_RELATION.format('$1')} AS t"
    f" UNION SELECT relid FROM pg_partition_tree({_RELATION.format('$1')}::regclass)"
)
_TABLE = (
    f"({_TABLES}) AS tables LEFT JOIN pg_class ON pg_class.oid = t"
    " LEFT JOIN pg_index ON indrelid = nullif(reltoastrelid, 0) AND indisvalid"
)
_INDEX = (
    f"(SELECT {_RELATION.format('$2')} AS i UNION ALL SELECT indexrelid FROM ({_TABLES}) AS tables"
    " JOIN pg_index ON indrelid = t JOIN pg_class ON pg_class.oid = indexrelid"
    " JOIN pg_am ON pg_am.oid = relam"
    " WHERE $2 = '' AND indislive AND amname NOT IN ('btree', 'gin')) AS indexes"
)
# Of sessions that this user may not see, the state is null.
_SESSIONS = (
    "pg_stat_activity WHERE backend_type IN ('client backend', 'parallel worker')"
    " AND application_name NOT IN ('ann_benchmarks_monitor', 'ann_benchmarks_watch')"
)


@dataclass(frozen=True)
class StatisticsView:
    """Statistics of one relation, of versions from `first` to below `before`.

    Each line of `text` has a name and an expression. They are totals since the statistics began, or `levels`.
    With `is_stored`, each point has what a query added to them.
    """

    relation: str
    text: str
    first: int = 0
    before: int = 10**9
    levels: bool = False
    is_stored: bool = False

    @property
    def statistics(self) -> dict[str, str]:
        """The expressions by their names."""
        return dict(line.split(maxsplit=1) for line in self.text.strip().splitlines())


def _active(name: str, waiting: str) -> str:
    return f"{name}_sessions count(*) FILTER (WHERE state = 'active' AND {waiting})\n"


# Of a table and of what is kept apart from its rows (TOAST).
_TABLE_HIT, _TABLE_FETCHED = (
    f"({blocks}(t) + coalesce({blocks}(reltoastrelid), 0) + coalesce({blocks}(indexrelid), 0))"
    for blocks in ("pg_stat_get_blocks_hit", "pg_stat_get_blocks_fetched")
)
VIEWS = (
    StatisticsView(_DATABASE, "connections numbackends", levels=True),
    StatisticsView(_DATABASE, """
        commits              xact_commit
        rollbacks            xact_rollback
        blocks_hit           blks_hit
        blocks_read          blks_read
        rows_returned        tup_returned
        rows_fetched         tup_fetched
        rows_inserted        tup_inserted
        rows_updated         tup_updated
        rows_deleted         tup_deleted
        temp_bytes           temp_bytes
        deadlocks            deadlocks
        block_read_seconds   blk_read_time / 1000
        block_write_seconds  blk_write_time / 1000"""),
    StatisticsView(_IO, """
        io_reads          sum(reads)
        io_hits           sum(hits)
        io_writes         sum(writes)
        io_extends        sum(extends)
        io_evictions      sum(evictions)
        io_fsyncs         sum(fsyncs)
        io_read_seconds   sum(read_time) / 1000
        io_write_seconds  sum(write_time) / 1000
        io_client_writes  sum(writes) FILTER (WHERE backend_type = 'client backend')""", first=160000),
    StatisticsView(_IO, """
        io_read_bytes   sum(reads * op_bytes)
        io_write_bytes  sum(writes * op_bytes)""", first=160000, before=180000),
    StatisticsView(_IO, """
        io_read_bytes   sum(read_bytes)
        io_write_bytes  sum(write_bytes)""", first=180000),
    StatisticsView("pg_stat_wal", """
        wal_records       wal_records
        wal_full_pages    wal_fpi
        wal_bytes         wal_bytes
        wal_buffers_full  wal_buffers_full"""),
    StatisticsView("pg_stat_wal", """
        wal_writes  wal_write
        wal_syncs   wal_sync""", before=180000),
    StatisticsView("pg_stat_bgwriter", """
        checkpoints_timed         checkpoints_timed
        checkpoints_requested     checkpoints_req
        checkpoint_write_seconds  checkpoint_write_time / 1000
        checkpoint_sync_seconds   checkpoint_sync_time / 1000
        checkpoint_bytes          buffers_checkpoint * current_setting('block_size')::int8
        backend_buffers           buffers_backend""", before=170000),
    StatisticsView("pg_stat_checkpointer", """
        checkpoints_timed         num_timed
        checkpoints_requested     num_requested
        checkpoint_write_seconds  write_time / 1000
        checkpoint_sync_seconds   sync_time / 1000
        checkpoint_bytes          buffers_written * current_setting('block_size')::int8""", first=170000),
    StatisticsView("pg_stat_bgwriter", """
        bgwriter_buffers   buffers_clean
        buffers_allocated  buffers_alloc"""),
    StatisticsView(_TABLE, f"""
        table_blocks_hit   sum({_TABLE_HIT})
        table_blocks_read  sum({_TABLE_FETCHED} - {_TABLE_HIT})""", is_stored=True),
    StatisticsView(_TABLE, """
        table_scans          sum(pg_stat_get_numscans(t))
        table_rows_inserted  sum(pg_stat_get_tuples_inserted(t))
        table_rows_updated   sum(pg_stat_get_tuples_updated(t))
        table_rows_deleted   sum(pg_stat_get_tuples_deleted(t))"""),
    StatisticsView(_TABLE, """
        table_rows_live  sum(pg_stat_get_live_tuples(t))
        table_rows_dead  sum(pg_stat_get_dead_tuples(t))""", levels=True),
    StatisticsView(_INDEX, """
        index_blocks_hit   sum(pg_stat_get_blocks_hit(i))
        index_blocks_read  sum(pg_stat_get_blocks_fetched(i) - pg_stat_get_blocks_hit(i))""", is_stored=True),
    StatisticsView(_INDEX, """
        index_scans      sum(pg_stat_get_numscans(i))
        index_rows_read  sum(pg_stat_get_tuples_returned(i))"""),
    StatisticsView(
        _SESSIONS,
        _active("cpu", "wait_event IS NULL")
        + _active("io", "wait_event_type = 'IO'")
        + _active("lwlock", "wait_event_type = 'LWLock'")
        + _active("lock", "wait_event_type = 'Lock'")
        + _active("client", "wait_event_type = 'Client'")
        + _active("other", "wait_event_type NOT IN ('IO', 'LWLock', 'Lock', 'Client')")
        + "idle_sessions count(*) FILTER (WHERE state LIKE 'idle%')",
        levels=True,
    ),
)  # fmt: skip


class CounterReader:
    """Reads statistics over one connection, in one round trip each time.

    The connection has to be in autocommit mode: within a transaction, statistics stay as first read.
    """

    def __init__(self, connection: psycopg.Connection[Any], only_stored: bool = False) -> None:
        """Prepare one statement of all views that this server has; a service may lack some of its version."""
        self._connection = connection
        version = connection.info.server_version
        views = [view for view in VIEWS if view.is_stored or not only_stored]
        chosen = [view for view in views if view.first <= version < view.before]
        if not self._prepares(chosen):
            chosen = [view for view in chosen if self._prepares([view])]
            if not chosen or not self._prepares(chosen):
                raise PostgresError("the server offers no statistics")

    def read(self, table: str | None, index: str | None) -> dict[str, float]:
        """Return the statistics by name, without those that are null; empty where the server refuses."""
        relations = [(name or "").encode() for name in (table, index)]
        result = self._connection.pgconn.exec_prepared(_STATEMENT, relations)
        if result.status != pq.ExecStatus.TUPLES_OK or not result.ntuples:
            return {}
        value = result.get_value
        return {name: float(text) for i, name in enumerate(self._names) if (text := value(0, i)) is not None}

    def _prepares(self, views: Iterable[StatisticsView]) -> bool:
        """Whether a statement of these views runs; it stays prepared."""
        columns: dict[str, dict[str, str]] = {}  # of one relation: it is read once
        for view in views:
            columns.setdefault(view.relation, {}).update(view.statistics)
        parts: list[str] = []
        for relation, chosen in columns.items():
            selected = ", ".join(f"{sql} AS {name}" for name, sql in chosen.items())
            parts.append(f"(SELECT {selected} FROM {relation}) AS part{len(parts)}")
        self._names = [name for chosen in columns.values() for name in chosen]
        # Both parameters are named in any case.
        sql = (
            f"SELECT {', '.join(self._names)}"
            f" FROM (SELECT $1::text, $2::text) AS names(table_name, index_name), {', '.join(parts)}"
        )
        libpq = self._connection.pgconn
        libpq.exec_(b"DEALLOCATE ALL")
        return (
            libpq.prepare(_STATEMENT, sql.encode()).status == pq.ExecStatus.COMMAND_OK
            and libpq.exec_prepared(_STATEMENT, (b"", b"")).status == pq.ExecStatus.TUPLES_OK
        )


CLIENT_APPLICATION = "ann_benchmarks_client"
_INTERVAL_SECONDS = 0.05
_PAUSES_A_SAMPLE = 20  # fewer if samples take long, such as on a loaded machine
_STOP_SECONDS = 5.0
# A session that this user may not see has no state.
_SAMPLED_SESSIONS = f"""
    SELECT CASE WHEN state LIKE 'idle%' THEN 'idle'
                WHEN wait_event IS NULL THEN 'CPU'
                ELSE wait_event_type || ':' || wait_event END,
           count(*)
    FROM pg_stat_activity
    WHERE application_name = '{CLIENT_APPLICATION}' AND backend_type = 'client backend' AND state IS NOT NULL
    GROUP BY 1
"""


class WaitSampler:
    """A thread that counts, every 50 ms or so, how many sessions are on a CPU, idle, or in which wait.

    Nothing else may use the connection until it is stopped. An error ends it silently; earlier samples stay.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._seen: Counter[str] = Counter()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> Counter[str]:
        """End it; return how many sessions were in each state."""
        self._done.set()
        self._thread.join(_STOP_SECONDS)
        return self._seen.copy()

    def _sample(self) -> None:
        libpq = self._connection.pgconn  # itself: half of what a sample costs here
        with suppress(psycopg.Error):
            libpq.prepare(b"", _SAMPLED_SESSIONS.encode())  # without a name: the next run replaces it
            pause = _INTERVAL_SECONDS
            # At irregular moments: what happens regularly would be seen always, or never.
            while not self._done.wait(pause * random.uniform(0.5, 1.5)):
                started = time.perf_counter()
                result = libpq.exec_prepared(b"", None)
                if result.status != pq.ExecStatus.TUPLES_OK:
                    return
                for row in range(result.ntuples):
                    doing, sessions = (result.get_value(row, column) or b"" for column in (0, 1))
                    self._seen[doing.decode()] += int(sessions)
                pause = max(_INTERVAL_SECONDS, _PAUSES_A_SAMPLE * (time.perf_counter() - started))


def shares(seen: Counter[str]) -> dict[str, float]:
    """Share of each in all samples, the largest first."""
    return {doing: round(sessions / seen.total(), 4) for doing, sessions in seen.most_common()}
