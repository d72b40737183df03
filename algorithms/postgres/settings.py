"""The benchmark profile: settings that keep background work out of the numbers and fit the machine.

The first group is that of the 5M/100M/1B report of HNSW and VectorChord (docs/postgres.md has the reasons).
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from .errors import PostgresError

GIB = 1 << 30
MIB = 1 << 20
MOST_CONNECTIONS = 500  # of clients that send queries at the same time, to a server of our own
MOST_REPLICAS = 16  # of a server of our own
SHARED_MEMORY_SHARE = 45  # percent of the memory that a build may take; /dev/shm commonly offers 50

# Any session can set these, so they hold on a server that is not ours, too.
SESSION = {
    "jit": "off",
    "random_page_cost": "1.1",
    "effective_io_concurrency": "200",
}

if sys.platform == "darwin":
    del SESSION["effective_io_concurrency"]  # before version 18, PostgreSQL refuses it there

# Sources of a setting that our server was started with: its arguments, or what it computes of -1 or 0 there.
_STARTED_WITH = ("command line", "override")
_OFF = ("off", "false", "no", "0")
_contenders: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}  # by their values in sessions

# For the sessions that are measured. A plan is made once, and the planner's estimate of what an index scan
# costs does not turn it into a sequential scan at high search depths; EXPLAIN proves that the index is used.
QUERY_SESSION = SESSION | {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
}

# With a filter there are several plans to choose from, and the choice is measured: as applications do, with
# plans for the values of a query, until PostgreSQL prefers one that was made without them.
FILTERED_SESSION = SESSION


def server_profile(memory: int, cores: int, free_disk: int, shared_memory: int | None) -> dict[str, str]:
    """Settings for a server of our own.

    Args are in bytes, but `cores`: memory of the machine or container, free space of the data folder's
    disk, free space in /dev/shm (None: not Linux).
    """
    profile = SESSION | {
        "shared_buffers": megabytes(max(memory // 4, 128 * MIB)),
        "huge_pages": "off",  # those there are may be held back from servers, for a tier
        "autovacuum": "off",
        "max_connections": str(MOST_CONNECTIONS),
        "max_parallel_maintenance_workers": str(max(cores - 1, 0)),  # the leader builds, too
        "max_parallel_workers": str(cores),
        "max_worker_processes": str(cores + 8),
        # Large enough that no checkpoint falls into a build, small enough to fit the disk.
        "max_wal_size": megabytes(min(max(free_disk // 4, GIB), 500 * GIB)),
        "checkpoint_timeout": "1d",
        # No standby follows: loads and builds in the transaction that creates their relation skip the log.
        "wal_level": "minimal",
        "max_wal_senders": "0",
    }
    if shared_memory is not None and shared_memory < memory * SHARED_MEMORY_SHARE // 100:
        # Containers often have 64 MB there, less than the graph of a parallel build; System V segments
        # are not limited by it.
        profile["dynamic_shared_memory_type"] = "sysv"
    return profile


def standby_profile() -> dict[str, str]:
    """Settings over the profile of a server that standbys follow, and of these: they need as much of each.

    While a standby is connected, a temporary slot keeps what it lacks (wal_receiver_create_temp_slot). The
    slot ends with the connection, so that nothing fills the primary's disk afterwards. For a standby that was
    away, some of the log is kept.
    """
    return {
        "wal_level": "replica",
        "max_wal_senders": str(2 * MOST_REPLICAS),
        "max_replication_slots": str(2 * MOST_REPLICAS),
        "wal_keep_size": "1GB",
    }


def megabytes(size: int) -> str:
    """Write a size in bytes as PostgreSQL reads it, rounded up to whole megabytes."""
    return f"{-(-size // MIB)}MB"


def size_text(size: int) -> str:
    """Write a size in bytes for people, as the framework does: with three digits, and GB from one on."""
    number, unit = (size / GIB, "GB") if size >= GIB else (size / MIB, "MB")
    return f"{number:,.0f} {unit}" if number >= 99.95 else f"{number:.3g} {unit}"


def aligned(size: int) -> int:
    """Round bytes up to whole eight, in which PostgreSQL places what it stores."""
    return -(-size // 8) * 8


def apply_settings(connection: psycopg.Connection[Any], settings: Mapping[str, str]) -> None:
    """Set them for the rest of a session."""
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, false)", [name, value])


def current_setting(connection: psycopg.Connection[Any], name: str) -> str:
    """Return a setting's value as SHOW writes it."""
    row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row is not None
    return str(row[0])


def shared_buffers(connection: psycopg.Connection[Any]) -> int:
    """Return the size of the server's own buffers in bytes."""
    row = connection.execute("SELECT pg_size_bytes(current_setting('shared_buffers'))").fetchone()
    assert row is not None
    return int(row[0])


def fixed_settings(connection: psycopg.Connection[Any], names: Sequence[str]) -> list[str]:
    """Return those of the settings that no session can change, sorted."""
    rows = connection.execute(
        "SELECT name FROM pg_settings WHERE name = ANY(%s) AND context NOT IN ('user', 'superuser')"
        " ORDER BY name",
        [list(names)],
    ).fetchall()
    return [name for (name,) in rows]


def settable(
    connection: psycopg.Connection[Any], settings: Mapping[str, str], is_ours: bool
) -> dict[str, str]:
    """Return those of the user's settings that a session can change; one that the server lacks is an error.

    Those of the whole server were given to ours when it started; somebody else's cannot take them.
    """
    chosen = {}
    for name, value in settings.items():
        row = connection.execute(
            "SELECT context IN ('user', 'superuser'), source, pg_jit_available()"
            " FROM pg_settings WHERE name = lower(%s) OR name = %s",
            [name, name],
        ).fetchone()
        if row is None:
            raise PostgresError(
                f"the server has no setting {name}, which --setting or ANN_BENCHMARKS_PG_SETTINGS names"
            )
        is_of_session, source, has_jit = row
        if name.startswith("jit") and not has_jit and not (name == "jit" and value.lower() in _OFF):
            raise PostgresError(
                f"{name} = {value} is not in force: this server has no JIT (pg_jit_available() is false);"
                " leave it out, or name a server that has it"
            )
        if is_of_session:
            chosen[name] = value
        elif not is_ours:
            raise PostgresError(f"{name} = {value} cannot be set in a session: set it on the server itself")
        elif source not in _STARTED_WITH:
            raise PostgresError(f"{name} = {value} is not in force: leave it out")
    return chosen


def check_contender(connection: psycopg.Connection[Any], settings: Mapping[str, str]) -> None:
    """Raise PostgresError where another contender of this process has the same values in its sessions."""
    values = {name: current_setting(connection, name) for name in settings}
    other = _contenders.setdefault(tuple(sorted(values.items())), dict(settings))
    if other != settings:
        one, two = (" ".join(f"{name}={value}" for name, value in each.items()) for each in (other, settings))
        raise PostgresError(f"'{one}' and '{two}' are the same on this server: leave one of them out")
