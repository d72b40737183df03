"""The engines of postgres_fdw: a coordinator has foreign servers and tables while they are used.

They are in the schema `ann_benchmarks`, but for the foreign servers, which have no schema. Those that a run
that was killed has left are replaced by the next one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from .. import catalog
from ..catalog import SCHEMA
from ..errors import PostgresError, refusal
from ..servers.libpq import settings_elsewhere
from ..statistics.counters import CLIENT_APPLICATION
from ..table import Column
from .engines import CoordinatorEngine, Neighbors
from .shard import FLUSH_VIEW, SETTINGS_VIEW, Shard

TABLE = f"{SCHEMA}.sharded"  # with the part of a shard, TABLE_1 and so on
_SETTINGS, _FLUSH = f"{SCHEMA}.settings_", f"{SCHEMA}.flush_"  # before the number, as of the foreign servers
_SERVER = f"{SCHEMA}_shard_"
_FDW = "postgres_fdw"
_PARALLEL_COMMIT = 150000  # the version that has it
_NO_VERB = sql.SQL("")
_FETCH_SIZE = 100  # rows, the default of postgres_fdw


class FdwEngine(CoordinatorEngine):
    """Queries of a coordinator on foreign tables, which are one partitioned table; all are asked at once."""

    table = TABLE
    is_concurrent = True  # all shards are asked at the same time, for no more rows than needed
    _guard: psycopg.Connection[Any] | None = None
    _options: tuple[str, int] | None = None  # of the foreign servers now
    _elsewhere: Sequence[Mapping[str, str]] = ()  # settings of all sessions on each shard

    @classmethod
    def sent(cls, plan: Mapping[str, Any], parts: Sequence[str]) -> list[str]:
        return sent_by_fdw(plan, parts, cls.is_concurrent)

    def open(self, shards: Sequence[Shard], column: Column) -> None:
        """Start the coordinator and make the foreign servers and tables."""
        for shard in shards:
            shard.make_views()
        self.server = self._extension.start_server()
        self.close()
        with self.server.explaining("preparing the coordinator"), self.server.connect() as connection:
            offered = connection.execute("SELECT FROM pg_available_extensions WHERE name = %s", [_FDW])
            if offered.rowcount == 0:
                raise PostgresError(
                    f"the server does not have the extension '{_FDW}': install the contrib modules of that"
                    " PostgreSQL, or use --shard-engine client"
                )
            self._extension.create(self.server, connection)
            catalog.prepare(connection)
            self._guard = catalog.held(
                self.server.connect(), TABLE, "another run asks its shards by this server: wait for it"
            )
            try:
                with connection.transaction():
                    connection.execute(f"CREATE EXTENSION IF NOT EXISTS {_FDW}")
                    _drop(connection)
                    self._make(connection, shards, column)
            except psycopg.errors.InsufficientPrivilege as error:
                raise refusal("this user may not make foreign servers", error) from None

    def query(self, neighbors: Neighbors) -> str:
        return concurrent_sql([f"{SCHEMA}.{part}" for part in self._parts], neighbors)

    def close(self) -> None:
        """Drop what open() has made; a server that does not answer keeps it until the next one is made."""
        guard, self._guard = self._guard, None
        if guard is not None:
            with suppress(psycopg.Error, PostgresError), guard.transaction():
                _drop(guard)
            guard.close()

    def use(self, shards: Sequence[Shard], settings: Mapping[str, str], rows: int) -> None:
        options = (startup_options(settings), max(rows, _FETCH_SIZE))
        if options == self._options:
            return
        with self.server.connect() as connection, connection.transaction():
            for number, own in enumerate(self._elsewhere, 1):
                changes = {"options": startup_options({**own, **settings})}
                if self.is_concurrent:
                    changes["fetch_size"] = str(options[1])
                connection.execute(
                    sql.SQL("ALTER SERVER {} OPTIONS ({})").format(
                        sql.Identifier(f"{_SERVER}{number}"), _written(changes, sql.SQL("SET "))
                    )
                )
        self._options = options

    def _make(self, connection: psycopg.Connection[Any], shards: Sequence[Shard], column: Column) -> None:
        options = {
            "extensions": ",".join(self._extension.all_names),
            "application_name": CLIENT_APPLICATION,
            "options": "",
            "fetch_size": str(_FETCH_SIZE),
        }
        if self.is_concurrent:
            options["async_capable"] = "true"
            if connection.info.server_version >= _PARALLEL_COMMIT:
                options["parallel_commit"] = "true"
        key = f"(id % {len(shards)})"
        connection.execute(f"CREATE TABLE {TABLE} {column.table_definition} PARTITION BY LIST ({key})")
        elsewhere = []
        for shard in shards:
            with shard.server.connect() as there:
                elsewhere.append(settings_elsewhere(there))
            server, number = f"{_SERVER}{shard.number}", shard.number
            _make_server(connection, server, shard.server.connection_parameters(), options)
            for definition, there_named in (
                (f"{TABLE}_{number} PARTITION OF {TABLE} FOR VALUES IN ({number - 1})", shard.table_name),
                (f"{_SETTINGS}{number} (name text, value text)", SETTINGS_VIEW),
                (f"{_FLUSH}{number} (done text)", FLUSH_VIEW),
            ):
                schema, _, name = there_named.partition(".")
                place = f"OPTIONS (schema_name '{schema}', table_name '{name}')"
                connection.execute(f"CREATE FOREIGN TABLE {definition} SERVER {server} {place}")
        numbers = [shard.number for shard in shards]
        self._options, self._elsewhere = None, elsewhere
        self._parts = [f"{TABLE}_{number}".rpartition(".")[2] for number in numbers]
        reading = "SELECT {0}, name, value FROM {1}{0} WHERE name = ANY (%s)"
        self._readings = [reading.format(number, _SETTINGS) for number in numbers]
        self._flushes = [f"SELECT done FROM {_FLUSH}{number}" for number in numbers]


class NaiveFdwEngine(FdwEngine):
    """The plug-in's own query on the partitioned table: PostgreSQL asks one shard after the other."""

    is_concurrent = False

    def query(self, neighbors: Neighbors) -> str:
        return neighbors.query(TABLE)


def concurrent_sql(tables: Sequence[str], neighbors: Neighbors) -> str:
    """Return the query for the nearest rows of all foreign tables, which are asked at the same time.

    Without MATERIALIZED, PostgreSQL would merge the answers in their order, and ask one table after the
    other. The distance is among the columns of each part, or else these would not be asked together.
    """
    comparison = neighbors.form.comparison
    columns, limit, order = "id", neighbors.count, "distance"
    if neighbors.rerank is not None:
        columns, limit, order = "id, embedding", neighbors.rerank, neighbors.distance
    parts = " UNION ALL ".join(
        f"(SELECT {columns}, {comparison} AS distance FROM {table} ORDER BY {comparison} LIMIT {limit})"
        for table in tables
    )
    nearest = f"WITH nearest AS MATERIALIZED ({parts})"
    return f"{nearest} SELECT id FROM nearest ORDER BY {order} LIMIT {neighbors.count}"


def sent_by_fdw(plan: Mapping[str, Any], parts: Sequence[str], is_concurrent: bool) -> list[str]:
    """Return what a coordinator's plan sends to each shard, which has to sort its rows.

    With `is_concurrent`, it also has to ask all of them at the same time, for a limited number of rows.
    """
    scans = {str(scan["Relation Name"]): scan for scan in _remote_scans(plan)}
    shards, sent = len(parts), []
    if set(scans) != set(parts):
        raise PostgresError(f"the coordinator's plan asks {len(scans)} of {shards} shards")
    for number, part in enumerate(parts, 1):
        query = str(scans[part]["Remote SQL"])
        if " ORDER BY " not in query:
            raise PostgresError(
                f"the coordinator does not send the order to shard {number} of {shards}, which would return"
                " all of its rows: the index compares by what postgres_fdw does not send"
            )
        if is_concurrent and " LIMIT " not in query:
            raise PostgresError(f"the coordinator does not send the LIMIT to shard {number} of {shards}")
        if is_concurrent and shards > 1 and not scans[part].get("Async Capable"):
            raise PostgresError(
                "the coordinator asks one shard after the other: it needs PostgreSQL 14 or newer, and"
                " enable_async_append on"
            )
        sent.append(query)
    return sent


def startup_options(settings: Mapping[str, str]) -> str:
    """Write settings as libpq's `options` have them."""

    def escaped(value: str) -> str:
        return "".join(f"\\{letter}" if letter in "\\ \t\n\v\f\r" else letter for letter in value)

    return " ".join(f"-c {name}={escaped(value)}" for name, value in settings.items())


def _remote_scans(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes of a plan in JSON that ask a shard."""
    if "Remote SQL" in plan:
        yield plan
    for child in plan.get("Plans", []):
        yield from _remote_scans(child)


def _make_server(
    connection: psycopg.Connection[Any], name: str, parameters: Mapping[str, Any], options: Mapping[str, str]
) -> None:
    def given(*keys: str) -> dict[str, str]:
        return {key: str(parameters[key]) for key in keys if key in parameters}

    server, wrapper = sql.Identifier(name), sql.Identifier(_FDW)
    place = _written({**given("host", "port", "dbname"), **options})
    user = _written(given("user", "password"))
    for statement in (
        sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER {} OPTIONS ({})").format(server, wrapper, place),
        sql.SQL("CREATE USER MAPPING FOR CURRENT_USER SERVER {} OPTIONS ({})").format(server, user),
    ):
        connection.execute(statement)


def _written(options: Mapping[str, str], verb: sql.SQL = _NO_VERB) -> sql.Composed:
    words = [sql.SQL("{}{} {}").format(verb, sql.Identifier(key), value) for key, value in options.items()]
    return sql.SQL(", ").join(words)


def _drop(connection: psycopg.Connection[Any]) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {TABLE} CASCADE")
    found = connection.execute(
        "SELECT srvname FROM pg_foreign_server WHERE starts_with(srvname, %s)", [_SERVER]
    ).fetchall()
    for (name,) in found:
        connection.execute(sql.SQL("DROP SERVER {} CASCADE").format(sql.Identifier(name)))
