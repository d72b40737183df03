"""Settings that the user has in new sessions of a database, for a while: what the user had is put back.

That is kept in a table on the server, so that the next run can do it where one was killed.
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from .errors import refusal
from .statement import load_libraries

# What the user has set for the role in this database, as "name=value".
_NOW = (
    "SELECT substr(setting, length(%(name)s) + 2) FROM pg_db_role_setting, unnest(setconfig) AS setting"
    " WHERE setrole = session_user::regrole AND starts_with(setting, %(name)s || '=')"
    " AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


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
