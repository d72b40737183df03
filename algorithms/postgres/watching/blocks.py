"""Blocks of a table and an index that the server found in its buffers, or had to ask the system for."""

import time
from typing import Any

import psycopg

_TABLE = (
    "SELECT heap_blks_hit + coalesce(toast_blks_hit, 0) + coalesce(tidx_blks_hit, 0),"
    " heap_blks_read + coalesce(toast_blks_read, 0) + coalesce(tidx_blks_read, 0)"
    " FROM pg_statio_all_tables WHERE relid = %s::regclass"
)
_INDEX = "SELECT idx_blks_hit, idx_blks_read FROM pg_statio_all_indexes WHERE indexrelid = %s::regclass"
# Until PostgreSQL 14, backends report and are reported at most every half second, in files.
_SHARED_MEMORY_VERSION = 150000
_REPORT_SECONDS = 0.5


def flush_statement(server_version: int) -> str:
    """Return what a session has to run so that all that it has done before is in the statistics then."""
    if server_version >= _SHARED_MEMORY_VERSION:
        return "SELECT pg_stat_force_next_flush()"
    return f"SELECT pg_sleep({_REPORT_SECONDS})"


def block_counters(connection: psycopg.Connection[Any], table: str, index: str | None) -> dict[str, int]:
    """Count the blocks since the statistics began; empty where the server keeps none.

    The connection has to be in autocommit mode: within a transaction, statistics stay as first seen.
    """
    if connection.execute("SHOW track_counts").fetchone() != ("on",):
        return {}
    if connection.info.server_version < _SHARED_MEMORY_VERSION:
        time.sleep(_REPORT_SECONDS + 0.1)
    counters: dict[str, int] = {}
    for kind, sql, name in (("table", _TABLE, table), ("index", _INDEX, index)):
        row = connection.execute(sql, [name]).fetchone()
        if row is not None:
            counters |= {f"{kind}_blocks_hit": int(row[0]), f"{kind}_blocks_read": int(row[1])}
    return counters
