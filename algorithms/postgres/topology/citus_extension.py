"""Citus, the extension that a shard engine takes: whether a server has it, and how nothing of ours is left.

Its event trigger needs its library, which only loads when the server starts. A server without the library
cannot drop anything while the extension is there. In a database that has it already, it is its users': what
a run makes is in a schema of its own there, and the extension stays. The settings that users had before are
kept in a table on the server, so that the next run can put them back where one was killed.
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from .. import catalog
from ..environment import PREFIX
from ..errors import PostgresError, refusal
from ..servers import Server
from ..servers.base import library_list
from ..servers.extension import LEFTOVERS as CITUS_SCHEMA
from ..session.statement import load_libraries

CITUS = "citus"  # the extension and its library
TABLE = f"{CITUS_SCHEMA}.distributed"  # also the name that the run locks on each server
SAVED = f"{CITUS_SCHEMA}.settings_before"  # of users, who have others while a run asks by Citus
_MARK = "made by ann-benchmarks, which drops it after its run"  # the comment on an extension of ours
# What the user has set for the role in this database, as "name=value".
_NOW = (
    "SELECT substr(setting, length(%(name)s) + 2) FROM pg_db_role_setting, unnest(setconfig) AS setting"
    " WHERE setrole = session_user::regrole AND starts_with(setting, %(name)s || '=')"
    " AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def check_citus(server: Server) -> None:
    """Raise PostgresError where a server lacks Citus, or may not be given the extension."""
    with server.connect() as connection:
        offered = connection.execute("SELECT FROM pg_available_extensions WHERE name = %s", [CITUS])
        if offered.rowcount == 0:
            how = "build it with the server's pg_config (docs/shards.md)" if server.is_ours else "install it"
            raise PostgresError(
                f"the server does not have the extension '{CITUS}': {how}, or use another --shard-engine"
            )
        if not (server.is_ours or belongs_to_users(server, connection)):
            _check_creation(connection)


def belongs_to_users(server: Server, connection: psycopg.Connection[Any]) -> bool:
    """Whether the database has Citus that no run has created."""
    row = connection.execute(
        "SELECT obj_description(oid, 'pg_extension') FROM pg_extension WHERE extname = %s", [CITUS]
    ).fetchone()
    return row is not None and not server.is_ours and row[0] != _MARK


def create_citus(connection: psycopg.Connection[Any]) -> None:
    """Create the schema, and the extension where it is missing, marked as ours from the first moment."""
    with connection.transaction():
        if connection.execute("SELECT FROM pg_extension WHERE extname = %s", [CITUS]).rowcount == 0:
            connection.execute(f"CREATE EXTENSION {CITUS}")
            connection.execute(f"COMMENT ON EXTENSION {CITUS} IS '{_MARK}'")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {CITUS_SCHEMA}")


def drop_unless_loaded(server: Server, connection: psycopg.Connection[Any]) -> None:
    """Drop what a run that was killed has left on a server of ours that has started without the library."""
    row = connection.execute("SELECT current_setting('shared_preload_libraries')").fetchone()
    assert row is not None
    if CITUS not in library_list(row[0]):
        drop_citus(server, connection)


def drop_abandoned(server: Server, connection: psycopg.Connection[Any]) -> None:
    """Drop what a run that was killed has left on somebody else's server, where no other run uses it."""
    if _made(server, connection) != (False, False) and catalog.lock_soon(connection, TABLE):
        try:
            drop_citus(server, connection)
        except psycopg.Error as error:
            raise refusal("what an earlier run has left of Citus cannot be dropped", error) from None


def drop_citus(server: Server, connection: psycopg.Connection[Any]) -> None:
    """Drop all that was made with Citus, and Citus if it is ours; users get the settings that they had.

    All or nothing of it goes, so that what a kill has left is seen.
    """
    has_extension, has_schema = _made(server, connection)
    if not (has_extension or has_schema):
        return
    with connection.transaction():
        take_back(connection, SAVED)
        if has_extension:
            connection.execute(f"DROP EXTENSION {CITUS} CASCADE")
        elif belongs_to_users(server, connection):
            # The parts of a distributed table are views by now, which Citus would take for tables.
            connection.execute(
                "SELECT citus_drop_all_shards(logicalrelid, %s, relname, true)"
                " FROM pg_dist_partition JOIN pg_class ON pg_class.oid = logicalrelid"
                " WHERE relnamespace = to_regnamespace(%s)",
                [CITUS_SCHEMA, CITUS_SCHEMA],
            )
        connection.execute(f"DROP SCHEMA IF EXISTS {CITUS_SCHEMA} CASCADE")


def give(connection: psycopg.Connection[Any], table: str, settings: Mapping[str, str]) -> None:
    """Give the user these settings, in place of those given before; the table has what the user had."""
    with connection.transaction():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} (role name, name text, value text)")
        take_back(connection, table)
        for name, value in settings.items():
            connection.execute(
                f"INSERT INTO {table} VALUES (session_user, %(name)s, ({_NOW}))", {"name": name}
            )
            try:
                _alter(connection, connection.info.user, name, value)
            except psycopg.Error as error:
                raise refusal(f"the server refuses {name} = {value}", error) from None


def take_back(connection: psycopg.Connection[Any], table: str) -> None:
    """Put back what users had before, in the caller's transaction; nothing happens without the table."""
    if connection.execute("SELECT to_regclass(%s)", [table]).fetchone() == (None,):
        return
    before = connection.execute(f"SELECT role, name, value FROM {table}").fetchall()
    if before and connection.info.parameter_status("is_superuser") != "on":
        # Others may only change settings that the session knows, those of its libraries.
        names = connection.execute("SELECT extname FROM pg_extension").fetchall()
        load_libraries(connection, [name for (name,) in names])
    for role, name, value in before:
        _alter(connection, role, name, value)
    connection.execute(f"DELETE FROM {table}")


def _alter(connection: psycopg.Connection[Any], role: str, name: str, value: str | None) -> None:
    """Set it for new sessions of the role in this database, or with None no longer."""
    setting = sql.SQL(".").join(map(sql.Identifier, name.split(".")))
    change = sql.SQL("RESET {}").format(setting)
    if value is not None:
        change = sql.SQL("SET {} = {}").format(setting, value)
    place = map(sql.Identifier, (role, connection.info.dbname))
    connection.execute(sql.SQL("ALTER ROLE {} IN DATABASE {} ").format(*place) + change)


def _made(server: Server, connection: psycopg.Connection[Any]) -> tuple[bool, bool]:
    """Whether a run has made the extension, and the schema."""
    created = connection.execute("SELECT FROM pg_extension WHERE extname = %s", [CITUS]).rowcount
    row = connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", [CITUS_SCHEMA]).fetchone()
    return bool(created) and not belongs_to_users(server, connection), row == (True,)


def _check_creation(connection: psycopg.Connection[Any]) -> None:
    """Raise PostgresError where the user may not create Citus, or its creation would change the server."""
    if connection.info.parameter_status("is_superuser") != "on":
        raise PostgresError(
            f"user '{connection.info.user}' may not create the extension '{CITUS}': name a superuser in"
            f" {PREFIX}USER, or have Citus' nodes registered in this database"
        )
    row = connection.execute(
        "SELECT current_setting('ssl') = 'off'"
        " AND current_setting('citus.node_conninfo', true) ~ 'sslmode=require'"
    ).fetchone()
    if row == (True,):
        raise PostgresError(
            "CREATE EXTENSION citus would turn on ssl for the whole server, and leave it on: set ssl = on,"
            " or citus.node_conninfo = 'sslmode=prefer', and reload the server's configuration"
        )
