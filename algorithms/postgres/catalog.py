"""What has been loaded and built, recorded in the same database.

Everything lives in the schema `ann_benchmarks`: drop it and all is gone. A table or index and the row that
records it are made in one transaction, so that neither is ever found without the other, or half-built. A
table that is loaded in chunks has a row for each in `chunks`, until it is whole and has one in `tables`.
"""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from .errors import PostgresError

SCHEMA = "ann_benchmarks"
LOCK_SECONDS = 10.0  # for which a session that is ending may still hold a lock
_TABLES = f"""
    CREATE SCHEMA IF NOT EXISTS {SCHEMA};
    CREATE TABLE IF NOT EXISTS {SCHEMA}.tables (
        name text PRIMARY KEY,
        fingerprint text NOT NULL,
        column_type text NOT NULL,
        rows bigint NOT NULL,
        load_seconds float8 NOT NULL,
        loaded_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE TABLE IF NOT EXISTS {SCHEMA}.chunks (
        table_name text NOT NULL,
        start bigint NOT NULL,
        stop bigint NOT NULL,
        seconds float8 NOT NULL,
        loaded_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (table_name, start)
    );
    CREATE TABLE IF NOT EXISTS {SCHEMA}.indexes (
        name text PRIMARY KEY,
        table_name text NOT NULL,
        built_from jsonb NOT NULL,
        build_seconds float8 NOT NULL,
        facts jsonb NOT NULL,
        built_at timestamptz NOT NULL DEFAULT now()
    );
"""

_TABLE_AND_PARTITIONS = (
    "SELECT %(table)s::regclass UNION SELECT relid FROM pg_partition_tree(%(table)s::regclass)"
)
# An index of a table with partitions has one of each of them.
_KEPT = (
    "SELECT unnest(%(kept)s::text[]::regclass[])"
    " UNION SELECT inhrelid FROM pg_inherits WHERE inhparent = ANY (%(kept)s::text[]::regclass[])"
)


@dataclass(frozen=True)
class LoadedTable:
    """A table that holds a whole training set."""

    name: str  # with its schema
    load_seconds: float


@dataclass(frozen=True)
class BuiltIndex:
    """An index that was built to its end."""

    name: str  # with its schema
    build_seconds: float
    facts: dict[str, Any]  # about its build, e.g. that memory did not suffice


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Make the schema and its lists if they are not there."""
    try:
        connection.execute(_TABLES)
    except psycopg.errors.InsufficientPrivilege:
        raise PostgresError(
            f"this user may not create the schema {SCHEMA}: "
            "GRANT CREATE ON DATABASE to it, or name another by ANN_BENCHMARKS_PG_USER"
        ) from None


def table_name(fingerprint: str, column_type: str) -> str:
    """Name of the table that holds one training set in a column of one type."""
    return f"{SCHEMA}.items_{_short_hash(fingerprint, column_type)}"


def find_table(connection: psycopg.Connection[Any], name: str) -> LoadedTable | None:
    """Return the table if it was loaded to its end."""
    row = connection.execute(
        f"SELECT load_seconds FROM {SCHEMA}.tables WHERE name = %s AND to_regclass(name) IS NOT NULL", [name]
    ).fetchone()
    return LoadedTable(name, row[0]) if row else None


def remember_table(
    connection: psycopg.Connection[Any],
    name: str,
    fingerprint: str,
    column_type: str,
    rows: int,
    seconds: float,
) -> None:
    """Record a table, in the transaction that loaded it."""
    connection.execute(
        f"INSERT INTO {SCHEMA}.tables (name, fingerprint, column_type, rows, load_seconds)"
        " VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT (name) DO UPDATE SET load_seconds = excluded.load_seconds, loaded_at = now()",
        [name, fingerprint, column_type, rows, seconds],
    )


def has_unfinished(connection: psycopg.Connection[Any], name: str) -> bool:
    """Whether the table is there but its load has not come to its end."""
    row = connection.execute(
        f"SELECT to_regclass(%s) IS NOT NULL AND NOT EXISTS (SELECT FROM {SCHEMA}.tables WHERE name = %s)",
        [name, name],
    ).fetchone()
    return row == (True,)


def loaded_chunks(connection: psycopg.Connection[Any], table: str) -> tuple[list[range], float]:
    """Return the rows that an unfinished table has, in order, and the seconds that they took."""
    found = connection.execute(
        f"SELECT start, stop, seconds FROM {SCHEMA}.chunks WHERE table_name = %s ORDER BY start", [table]
    ).fetchall()
    return [range(start, stop) for start, stop, _ in found], sum(seconds for *_, seconds in found)


def remember_chunk(connection: psycopg.Connection[Any], table: str, rows: range, seconds: float) -> None:
    """Record rows of a table, in the transaction that loaded them."""
    connection.execute(
        f"INSERT INTO {SCHEMA}.chunks (table_name, start, stop, seconds) VALUES (%s, %s, %s, %s)",
        [table, rows.start, rows.stop, seconds],
    )


def forget_table(connection: psycopg.Connection[Any], name: str) -> None:
    """Delete a table and its chunks from the lists, in the transaction that makes it anew or whole."""
    connection.execute(f"DELETE FROM {SCHEMA}.tables WHERE name = %s", [name])
    connection.execute(f"DELETE FROM {SCHEMA}.chunks WHERE table_name = %s", [name])


def index_name(table: str, built_from: dict[str, Any]) -> str:
    """Name of the index that these arguments, versions and build settings make of the table."""
    return f"{table}_{_short_hash(json.dumps(built_from, sort_keys=True))}_idx"


def side_table(index: str) -> str:
    """Name of the table that an index may be built from, as from centroids; it goes when the index goes."""
    return f"{index}_centroids"


def drop_index(connection: psycopg.Connection[Any], index: str) -> None:
    """Drop an index, and what it was built from, where they are there."""
    for kind, name in (("INDEX", index), ("TABLE", side_table(index))):
        # Without the notice of IF EXISTS.
        if connection.execute("SELECT to_regclass(%s)", [name]).fetchone() != (None,):
            connection.execute(f"DROP {kind} {name}")


def find_index(connection: psycopg.Connection[Any], name: str) -> BuiltIndex | None:
    """Return the index if it was built to its end."""
    row = connection.execute(
        f"SELECT build_seconds, facts FROM {SCHEMA}.indexes"
        " WHERE name = %s AND to_regclass(name) IS NOT NULL",
        [name],
    ).fetchone()
    return BuiltIndex(name, *row) if row else None


def find_index_like(
    connection: psycopg.Connection[Any], table: str, built_from: dict[str, Any]
) -> BuiltIndex | None:
    """Return the newest index of a table that was built from the same, but for the settings of its build."""
    row = connection.execute(
        f"SELECT name, build_seconds, facts FROM {SCHEMA}.indexes WHERE table_name = %s"
        " AND built_from - 'settings' = %s AND to_regclass(name) IS NOT NULL ORDER BY built_at DESC LIMIT 1",
        [table, Jsonb({key: value for key, value in built_from.items() if key != "settings"})],
    ).fetchone()
    return BuiltIndex(*row) if row else None


def remember_index(
    connection: psycopg.Connection[Any],
    index: BuiltIndex,
    table: str,
    built_from: dict[str, Any],
) -> None:
    """Record an index, in the transaction that built it."""
    connection.execute(
        f"INSERT INTO {SCHEMA}.indexes (name, table_name, built_from, build_seconds, facts)"
        " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (name) DO UPDATE"
        " SET build_seconds = excluded.build_seconds, facts = excluded.facts, built_at = now()",
        [index.name, table, Jsonb(built_from), index.build_seconds, Jsonb(index.facts)],
    )


def relation_bytes(connection: psycopg.Connection[Any], name: str) -> int:
    """Size of a table, its partitions or an index by its name with the schema; 0 where it is not there.

    Rows that are too long for a page have their vectors in a table beside it (TOAST), which counts, too.
    """
    row = connection.execute(
        "SELECT coalesce(sum(pg_relation_size(oid) + CASE reltoastrelid WHEN 0 THEN 0"
        " ELSE pg_relation_size(reltoastrelid) END), 0)"
        " FROM pg_class WHERE oid = to_regclass(%s)"
        " OR oid IN (SELECT relid FROM pg_partition_tree(to_regclass(%s)))",
        [name, name],
    ).fetchone()
    assert row is not None
    return int(row[0])


def try_lock(connection: psycopg.Connection[Any], name: str) -> bool:
    """Lock a name for this session, until it ends; return False where another session holds it."""
    lock = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
    return connection.execute(lock, [name]).fetchone() == (True,)


def lock_soon(connection: psycopg.Connection[Any], name: str) -> bool:
    """Lock a name as try_lock does, and wait a moment if another session holds the lock.

    That session may be one that we have just closed: the server may not have noticed yet.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    while not (is_locked := try_lock(connection, name)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return is_locked


def held(guard: psycopg.Connection[Any], name: str, problem: str) -> psycopg.Connection[Any]:
    """Lock a name until the connection is closed, and return that; PostgresError where another run has it."""
    if not lock_soon(guard, name):
        guard.close()
        raise PostgresError(problem)
    return guard


def exists(connection: psycopg.Connection[Any], name: str) -> bool:
    """Whether there is a relation of this name, with its schema."""
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [name]).fetchone()
    return row == (True,)


def use_only(connection: psycopg.Connection[Any], table: str, indexes: Sequence[str]) -> None:
    """Park the table's other indexes, so that the planner can choose only these, or none.

    A parked index is marked as neither valid nor live: it is kept on disk, and a query that is planned does
    not open it, nor lock it, as it does with every index that is live. That takes a superuser; an ordinary
    user has the others dropped instead.
    """
    others = (
        "SELECT indexrelid FROM pg_index"
        f" WHERE indrelid IN ({_TABLE_AND_PARTITIONS}) AND indexrelid NOT IN ({_KEPT})"
    )
    names = {"table": table, "kept": [*indexes]}
    try:
        with connection.transaction():
            connection.execute(
                "UPDATE pg_index SET indisvalid = false, indislive = false"
                f" WHERE indexrelid IN ({others}) AND (indisvalid OR indislive)",
                names,
            )
            connection.execute(
                "UPDATE pg_index SET indisvalid = true, indislive = true"
                f" WHERE indexrelid IN ({_KEPT}) AND NOT (indisvalid AND indislive)",
                names,
            )
            # Sessions that know the table read again which indexes it has.
            connection.execute(
                f"UPDATE pg_class SET relhasindex = relhasindex WHERE oid IN ({_TABLE_AND_PARTITIONS})", names
            )
    except psycopg.errors.InsufficientPrivilege:
        found = connection.execute(
            f"SELECT oid::regclass::text FROM pg_class WHERE NOT relispartition AND oid IN ({others})", names
        ).fetchall()
        with connection.transaction():
            for (name,) in found:
                print(f"this user may not park an index: {name} is dropped", flush=True)
                drop_index(connection, name)
                connection.execute(f"DELETE FROM {SCHEMA}.indexes WHERE name = %s", [name])


def _short_hash(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=6).hexdigest()
