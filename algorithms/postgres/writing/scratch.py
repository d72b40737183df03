"""Names of tables that are written to, by which those that a killed run has left are found and dropped."""

import secrets
from typing import Any

import psycopg

from .. import catalog
from ..catalog import SCHEMA

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


def new_name() -> str:
    """Return a name, with its schema, that no other table has."""
    return f"{SCHEMA}.{_PREFIX}{secrets.token_hex(6)}"


def drop(connection: psycopg.Connection[Any], table: str) -> None:
    """Drop a table with all that was made for it, whoever still uses it; nothing if it is not there."""
    connection.execute(_END_OTHERS, [table])
    with connection.transaction():
        for (name,) in connection.execute(_TABLES, [SCHEMA, f"{_NAME}_"]).fetchall():
            if f"{SCHEMA}.{name}".startswith(f"{table}_"):
                connection.execute(f"DROP TABLE {SCHEMA}.{name}")
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        catalog.forget_table(connection, table)
        connection.execute(f"DELETE FROM {SCHEMA}.indexes WHERE table_name = %s", [table])


def drop_leftovers(connection: psycopg.Connection[Any]) -> None:
    """Drop the tables that nobody holds any more; who uses one has its name locked (PostgresANN)."""
    for (name,) in connection.execute(_TABLES, [SCHEMA, f"{_NAME}$"]).fetchall():
        table = f"{SCHEMA}.{name}"
        lock = "hashtextextended(%s, 0)"
        if connection.execute(f"SELECT pg_try_advisory_lock({lock})", [table]).fetchone() == (True,):
            drop(connection, table)
            connection.execute(f"SELECT pg_advisory_unlock({lock})", [table])
            print(f"dropped {table}, which a run that was killed had left", flush=True)
