"""Citus, the extension that a shard engine takes: whether it is there, and how nothing is left of it.

Its event trigger needs its library, which only loads when the server starts. A server without the library
cannot drop anything while the extension is there.
"""

from typing import Any

import psycopg

from .catalog import SCHEMA
from .errors import PostgresError
from .servers import Server
from .servers.base import library_list

CITUS = "citus"  # the extension and its library
DISTRIBUTED = "distributed"  # begins the names of the distributed tables, and of their parts on the shards


def check_citus(server: Server) -> None:
    """Raise PostgresError where a server lacks Citus, or is not ours to give it to."""
    if not server.is_ours:
        raise PostgresError(
            "the shard engine 'citus' makes and drops Citus' nodes, on servers of our own alone: use another"
            " --shard-engine"
        )
    with server.connect() as connection:
        offered = connection.execute("SELECT FROM pg_available_extensions WHERE name = %s", [CITUS])
    if offered.rowcount == 0:
        raise PostgresError(
            f"the server does not have the extension '{CITUS}': build it with the server's pg_config"
            " (docs/shards.md), or use another --shard-engine"
        )


def drop_unless_loaded(connection: psycopg.Connection[Any]) -> None:
    """Drop what a run that was killed has left, where the server has started without the library."""
    row = connection.execute("SELECT current_setting('shared_preload_libraries')").fetchone()
    assert row is not None
    if CITUS not in library_list(row[0]):
        drop_citus(connection)


def drop_citus(connection: psycopg.Connection[Any]) -> None:
    """Drop Citus with all that it knows, its parts of a shard, and the settings of its sessions there.

    All or nothing of it goes, so that what a kill has left is seen.
    """
    parts = connection.execute(
        "SELECT format('DROP %%s %%I.%%I',"
        " CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, nspname, relname)"
        " FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE nspname = %s AND relname ~ %s AND relkind IN ('v', 'r')",
        [SCHEMA, f"^{DISTRIBUTED}(_[a-z]+)?_[0-9]+$"],
    ).fetchall()
    is_there = connection.execute("SELECT FROM pg_extension WHERE extname = %s", [CITUS]).rowcount
    if not (parts or is_there):
        return
    row = connection.execute("SELECT format('%I', current_database())").fetchone()
    assert row is not None
    with connection.transaction():
        connection.execute(f"DROP EXTENSION IF EXISTS {CITUS} CASCADE")
        for (drop,) in parts:
            connection.execute(drop)
        connection.execute(f"ALTER ROLE CURRENT_USER IN DATABASE {row[0]} RESET ALL")
