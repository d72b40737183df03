"""The settings of somebody else's server that tiers change by ALTER SYSTEM, and those that it had before.

Those are kept in a table of the database, so that they are not forgotten with a run that is killed.
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from .catalog import SCHEMA
from .errors import PostgresError, refusal
from .settings import megabytes

NAMES = ("shared_buffers", "huge_pages")
_TABLE = f"{SCHEMA}.settings_before_tiers"  # setting: null where ALTER SYSTEM had set nothing

Connection = psycopg.Connection[Any]


def are_altered(connection: Connection) -> bool:
    """Whether tiers, perhaps of a run that was killed, have changed the settings."""
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [_TABLE]).fetchone()
    assert row is not None
    return bool(row[0])


def former(connection: Connection) -> dict[str, str | None]:
    """What ALTER SYSTEM has set by now, None where nothing; PostgresError where this user may not see it."""
    try:
        rows = connection.execute(
            "SELECT name, setting FROM pg_file_settings"
            " WHERE name = ANY(%s) AND sourcefile LIKE '%%/postgresql.auto.conf' ORDER BY seqno",
            [list(NAMES)],
        ).fetchall()
    except psycopg.errors.InsufficientPrivilege:
        raise _no_right(connection) from None
    return dict.fromkeys(NAMES) | dict(rows)


def remember(connection: Connection) -> dict[str, str | None]:
    """Return what was set before the first tier; written down when that is this one."""
    if not are_altered(connection):
        settings = former(connection)
        try:
            with connection.transaction():
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
                connection.execute(f"CREATE TABLE {_TABLE} (name text PRIMARY KEY, setting text)")
                connection.cursor().executemany(f"INSERT INTO {_TABLE} VALUES (%s, %s)", settings.items())
        except psycopg.errors.InsufficientPrivilege:
            raise _no_right(connection) from None
    return dict(connection.execute(f"SELECT name, setting FROM {_TABLE}").fetchall())


def forget(connection: Connection) -> None:
    """The server has its own settings again."""
    connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")


def alter(connection: Connection, settings: Mapping[str, str | None]) -> None:
    """Set them from the next start on; None: as postgresql.conf has them."""
    for name, value in settings.items():
        statement = sql.SQL("ALTER SYSTEM RESET {}").format(sql.Identifier(name))
        if value is not None:
            statement = sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), value)
        try:
            connection.execute(statement)
        except psycopg.errors.InsufficientPrivilege:
            raise _no_right(connection) from None
        except psycopg.Error as error:
            raise refusal(f"ALTER SYSTEM SET {name} was refused", error) from None


def check(connection: Connection, shared_buffers: int | None) -> None:
    """Refuse a server that has been restarted with other settings; `shared_buffers` in bytes, None: any."""
    wrong = connection.execute(
        "SELECT name, current_setting(name), source FROM pg_settings"
        " WHERE name = 'huge_pages' AND setting <> 'off'"
        " OR name = 'shared_buffers' AND pg_size_bytes(current_setting(name)) <> %s",
        [shared_buffers],
    ).fetchone()
    if wrong is not None:
        name, value, source = wrong
        target = "off" if name == "huge_pages" else megabytes(shared_buffers or 0)
        raise PostgresError(
            f"after the restart, {name} is {value} instead of {target}: its source is '{source}', "
            "which wins over ALTER SYSTEM; take it away there"
        )


def _no_right(connection: Connection) -> PostgresError:
    return PostgresError(
        f"user '{connection.info.user}' may not change the server's settings (ALTER SYSTEM): "
        "name a superuser in ANN_BENCHMARKS_PG_USER, or measure without --tiers"
    )
