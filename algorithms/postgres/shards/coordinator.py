"""The server that asks the shards by postgres_fdw, with its foreign servers and tables while these are used.

They are in the schema `ann_benchmarks`, but for the foreign servers, which have no schema. Those that a run
that was killed has left are replaced by the next one.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from .. import catalog
from ..catalog import SCHEMA
from ..columns import Column
from ..errors import PostgresError, refusal
from ..extension import RequiredExtension
from ..servers import Server
from ..servers.libpq import settings_elsewhere
from ..watching import CLIENT_APPLICATION
from .shard import FLUSH_VIEW, SETTINGS_VIEW, Shard
from .statement import startup_options

TABLE = f"{SCHEMA}.sharded"
_SERVER = f"{SCHEMA}_shard_"  # before the number
_FDW = "postgres_fdw"
_PARALLEL_COMMIT = 150000  # the version that has it
_FETCH_SIZE = 100  # rows, the default of postgres_fdw


class Coordinator:
    """What makes several shards one table."""

    server: Server

    def __init__(self, extension: RequiredExtension, is_concurrent: bool) -> None:
        """Take the extension of the plug-in; `is_concurrent`: query all shards at the same time."""
        self._extension, self._is_concurrent = extension, is_concurrent
        self._guard: psycopg.Connection[Any] | None = None
        self._options: tuple[str, int] | None = None  # of the foreign servers now
        self._settings: list[dict[str, str]] = []  # of all sessions there
        self.parts: list[str] = []  # the foreign tables of the shards
        self.views: list[str] = []  # of the settings that sessions have there
        self.flushes: list[str] = []  # which have the sessions there flush their statistics

    def open(self, shards: Sequence[Shard], column: Column) -> None:
        """Start the server and make the foreign servers and tables."""
        self.server = self._extension.start_server()
        self.close()
        with self.server.explaining("preparing the coordinator"), self.server.connect() as connection:
            _check_wrapper(connection)
            self._extension.create(self.server, connection)
            catalog.prepare(connection)
            self._reserve()
            try:
                with connection.transaction():
                    connection.execute(f"CREATE EXTENSION IF NOT EXISTS {_FDW}")
                    _drop(connection)
                    self._make(connection, shards, column)
            except psycopg.errors.InsufficientPrivilege as error:
                raise refusal("this user may not make foreign servers", error) from None
        self._options = None

    def use(self, settings: Mapping[str, str], rows: int) -> None:
        """Have new sessions on the shards run with these settings; `rows` of each are fetched at once."""
        options = (startup_options(settings), max(rows, _FETCH_SIZE))
        if options == self._options:
            return
        with self.server.connect() as connection, connection.transaction():
            for number, own in enumerate(self._settings, 1):
                names = {"options": startup_options({**own, **settings}), "fetch_size": str(options[1])}
                if not self._is_concurrent:
                    del names["fetch_size"]  # as whoever writes it first has it
                for name, value in names.items():
                    # ADD is refused where there is one, SET where there is none.
                    verb = sql.SQL("ADD" if self._options is None else "SET")
                    connection.execute(
                        sql.SQL("ALTER SERVER {} OPTIONS ({} {} {})").format(
                            sql.Identifier(f"{_SERVER}{number}"), verb, sql.Identifier(name), value
                        )
                    )
        self._options = options

    def close(self) -> None:
        """Drop what open() has made; a server that does not answer keeps it until the next one is made."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        with suppress(psycopg.Error, PostgresError), guard.transaction():
            _drop(guard)
        guard.close()

    def _reserve(self) -> None:
        """Hold the table's name until close()."""
        guard = self.server.connect()
        if not catalog.lock_soon(guard, TABLE):
            guard.close()
            raise PostgresError("another run asks its shards by this server: wait for it")
        self._guard = guard

    def _make(self, connection: psycopg.Connection[Any], shards: Sequence[Shard], column: Column) -> None:
        options = {"extensions": ",".join(self._extension.all_names), "application_name": CLIENT_APPLICATION}
        if self._is_concurrent:
            options["async_capable"] = "true"
            if connection.info.server_version >= _PARALLEL_COMMIT:
                options["parallel_commit"] = "true"
        count = len(shards)
        connection.execute(
            f"CREATE TABLE {TABLE} {column.table_definition} PARTITION BY LIST ((id % {count}))"
        )
        self.parts, self.views, self.flushes, self._settings = [], [], [], []
        for shard in shards:
            with shard.server.connect() as there:
                self._settings.append(settings_elsewhere(there))
            server = f"{_SERVER}{shard.number}"
            _make_server(connection, server, shard.server.connection_parameters(), options)
            table = shard.names()[0]
            assert table is not None
            part, view = f"{TABLE}_{shard.number}", f"{SCHEMA}.settings_{shard.number}"
            flush = f"{SCHEMA}.flush_{shard.number}"
            connection.execute(
                f"CREATE FOREIGN TABLE {part} PARTITION OF {TABLE} FOR VALUES IN ({shard.number - 1})"
                f" SERVER {server} {_place(table)}"
            )
            connection.execute(
                f"CREATE FOREIGN TABLE {view} (name text, value text) SERVER {server} {_place(SETTINGS_VIEW)}"
            )
            connection.execute(
                f"CREATE FOREIGN TABLE {flush} (done text) SERVER {server} {_place(FLUSH_VIEW)}"
            )
            self.parts.append(part)
            self.views.append(view)
            self.flushes.append(flush)


def _check_wrapper(connection: psycopg.Connection[Any]) -> None:
    offered = connection.execute("SELECT FROM pg_available_extensions WHERE name = %s", [_FDW])
    if offered.rowcount == 0:
        raise PostgresError(
            f"the server does not have the extension '{_FDW}': install the contrib modules of that"
            " PostgreSQL, or use --shard-engine client"
        )


def _make_server(
    connection: psycopg.Connection[Any], name: str, parameters: Mapping[str, Any], options: Mapping[str, str]
) -> None:
    place = {key: str(parameters[key]) for key in ("host", "port", "dbname") if key in parameters}
    user = {key: str(parameters[key]) for key in ("user", "password") if key in parameters}
    connection.execute(
        sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER {} OPTIONS ({})").format(
            sql.Identifier(name), sql.Identifier(_FDW), _written({**place, **options})
        )
    )
    connection.execute(
        sql.SQL("CREATE USER MAPPING FOR CURRENT_USER SERVER {} OPTIONS ({})").format(
            sql.Identifier(name), _written(user)
        )
    )


def _written(options: Mapping[str, str]) -> sql.Composed:
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), value) for name, value in options.items()
    )


def _place(table: str) -> str:
    """Write where a foreign table is."""
    schema, _, name = table.partition(".")
    return f"OPTIONS (schema_name '{schema}', table_name '{name}')"


def _drop(connection: psycopg.Connection[Any]) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {TABLE} CASCADE")
    found = connection.execute(
        "SELECT srvname FROM pg_foreign_server WHERE starts_with(srvname, %s)", [_SERVER]
    ).fetchall()
    for (name,) in found:
        connection.execute(sql.SQL("DROP SERVER {} CASCADE").format(sql.Identifier(name)))
