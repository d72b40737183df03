"""The engine of Citus: a coordinator asks by a distributed table with a part on each shard.

The parts are views of the shards' tables, so that Citus asks the same tables and indexes as the client does.
A run creates the extension, makes the shards nodes of the coordinator, and drops all of it. The next run
drops what one that was killed has left.

Citus' event trigger needs its library, which only loads when the server starts. A server without the library
cannot drop anything while the extension is there.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import sql

from .. import catalog
from ..errors import PostgresError, naming, refusal
from ..servers import Server
from ..servers.extension import LEFTOVERS as CITUS_SCHEMA
from ..session.session import QuerySession
from ..session.statement import QueryStatement, changed, check_plan, load_libraries, set_and_check
from ..statistics.counters import FLUSH
from ..statistics.watch import ServerWatch
from ..table import Column
from .citus_statement import FLUSH_TABLE, SETTINGS_TABLE, TABLE, CitusStatement, sent_queries
from .shard import Engine, Neighbors, Shard

CITUS = "citus"  # the extension and its library
# A shard learns of nothing but its own parts, and nothing of a server changes for other sessions.
_SETUP = (
    "SET citus.enable_metadata_sync = off; SET citus.enable_ddl_propagation = off;"
    " SET citus.enable_alter_role_set_propagation = off; SET citus.shard_replication_factor = 1"
)
# Citus plans each query anew, and refuses a plan that was made without its values.
_OWN_SETTINGS = {"plan_cache_mode": "force_custom_plan", "citus.explain_all_tasks": "on"}


class CitusEngine(Engine):
    """Queries of a coordinator on a distributed table; once for each, how the shards answer it is checked."""

    server: Server
    _guards: Sequence[psycopg.Connection[Any]] = ()  # on each server, the coordinator's first
    _settings: Mapping[str, str] = MappingProxyType({})  # of the user on the shards now
    _parts: Sequence[str] = ()
    _explained: Any = None  # the last statement and its settings

    def statement(
        self, shards: Sequence[Shard], each: Sequence[QueryStatement], neighbors: Neighbors
    ) -> QueryStatement:
        """Return what clients send, once it is known how each shard answers what it is sent."""
        settings = each[0].settings
        self.use(shards, settings)
        statement: CitusStatement = changed(
            each[0],
            CitusStatement,
            parameters=self.server.connection_parameters(),
            sql=neighbors.query(TABLE),
            index=None,
            settings={**settings, **_OWN_SETTINGS},
            parts=tuple(self._parts),
            shards=tuple(one.parameters for one in each),
            shard_settings=settings,
        )
        if self._explained != (statement.sql, statement.settings):
            self._explain(shards, statement)
        return statement

    def prepare(self, server: Server) -> None:
        """Make sure that a server has Citus; PostgresError where it lacks it."""
        with server.connect() as connection:
            offered = connection.execute("SELECT FROM pg_available_extensions WHERE name = %s", [CITUS])
        if not offered.rowcount:
            raise PostgresError(
                f"the server does not have the extension '{CITUS}': build it with the server's pg_config"
                " (docs/servers.md#citus), or use another --shard-engine"
            )
        server.preload(CITUS)

    def open(self, shards: Sequence[Shard], column: Column) -> None:
        """Start the coordinator and make the distributed tables."""
        self.close()
        self._start()
        with self.server.explaining("preparing the coordinator"), self.server.connect() as connection:
            try:
                with naming("the coordinator"):
                    self._hold(self.server)
                for shard in shards:
                    with shard.naming():
                        self._hold(shard.server)
                catalog.prepare(connection)
                self._extension.create(self.server, connection)
                self._make(connection, shards, column)
            except psycopg.OperationalError:
                raise
            except psycopg.Error as error:
                raise refusal("Citus refuses what the engine needs", error) from None

    def close(self) -> None:
        """Drop what open() has made; a server that does not answer keeps it until it is used again."""
        guards, self._guards, self._settings = self._guards, (), {}
        for guard in guards:
            with suppress(psycopg.Error, PostgresError):
                drop_citus(guard)
            guard.close()

    def watch(self, flush: Callable[[], None]) -> ServerWatch:
        return ServerWatch(self.server, TABLE, None, flush)

    def revive(self) -> None:
        self.server.revive()

    def forget(self) -> None:
        self.facts, self._explained = {}, None

    def use(self, shards: Sequence[Shard], settings: Mapping[str, str]) -> None:
        """Have new sessions on the shards run with these settings, which their user gets."""
        if settings == self._settings:
            return
        self._settings = {}
        for shard in shards:
            with _connected(shard) as connection:
                load_libraries(connection, self._extension.all_names)
                _give(connection, settings)
        self._settings = dict(settings)

    def _explain(self, shards: Sequence[Shard], statement: CitusStatement) -> None:
        session = QuerySession(statement)
        try:
            sent = sent_queries(json.loads(session.plan_text), statement.parts)
        finally:
            session.close()
        settings = dict(statement.shard_settings)
        plans = [
            _plan_there(shard, query.replace("$1", f"'{statement.example}'"), settings)
            for shard, query in zip(shards, sent, strict=True)
        ]
        self.facts = {"shard_plans": json.dumps(plans), "shard_settings": json.dumps(settings)}
        self._explained = (statement.sql, statement.settings)

    def _start(self) -> None:
        with naming("the coordinator"):
            self.server = self._extension.start_server()
            self.prepare(self.server)

    def _hold(self, server: Server) -> None:
        """Hold a server for this run, and drop what another that was killed has left there."""
        problem = "another run asks its shards by Citus here: wait for it"
        guard = catalog.held(server.connect(), TABLE, problem)
        self._guards = [*self._guards, guard]
        drop_citus(guard)

    def _make(self, connection: psycopg.Connection[Any], shards: Sequence[Shard], column: Column) -> None:
        for guard in self._guards:
            with guard.transaction():
                guard.execute(f"CREATE EXTENSION {CITUS}")
                guard.execute(f"CREATE SCHEMA {CITUS_SCHEMA}")
        connection.execute(_SETUP)
        for shard in shards:
            with shard.naming():
                try:
                    connection.execute("SELECT citus_add_node(%s, %s)", _place_of(shard.server))
                except psycopg.DatabaseError as error:
                    raise refusal("the coordinator cannot have the server as a node", error) from None
        for table, definition, key in (
            (TABLE, column.table_definition, "id"),
            (SETTINGS_TABLE, "(shard int, name text, value text)", "shard"),
            (FLUSH_TABLE, "(shard int, done text)", "shard"),
        ):
            connection.execute(f"CREATE TABLE {table} {definition}")
            connection.execute(
                "SELECT create_distributed_table(%s, %s, shard_count => %s, colocate_with => 'none')",
                [table, key, len(shards)],
            )
        self._parts = [_part_of(connection, TABLE, shard) for shard in shards]
        for shard in shards:
            with _connected(shard) as other:
                _make_views(connection, shard, other)


@contextmanager
def _connected(shard: Shard) -> Iterator[psycopg.Connection[Any]]:
    with shard.naming(), shard.server.connect() as connection:
        yield connection


def _plan_there(shard: Shard, query: str, settings: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the plan of what Citus sends to a shard; PostgresError where it does not use the index."""
    with _connected(shard) as connection:
        load_libraries(connection, shard.extension_names)
        set_and_check(connection, settings)
        row = connection.execute(f"EXPLAIN (FORMAT JSON, VERBOSE) {query}").fetchone()
        assert row is not None
        plan: Mapping[str, Any] = row[0][0]["Plan"]
        check_plan(plan, shard.names()[1], "what the coordinator sends")
    return plan


def _make_views(connection: psycopg.Connection[Any], shard: Shard, other: psycopg.Connection[Any]) -> None:
    """Put views in the place of the parts that Citus has made on a shard, which `other` is connected to."""
    other.execute("SET citus.enable_manual_changes_to_shards = on")
    value = "current_setting(name, true) AS value"
    for table, query in (
        (TABLE, f"SELECT * FROM {shard.table_name}"),
        (SETTINGS_TABLE, f"SELECT {shard.number} AS shard, name, {value} FROM pg_settings"),
        (FLUSH_TABLE, FLUSH.replace("SELECT", f"SELECT {shard.number} AS shard,") + "::text AS done"),
    ):
        part = _part_of(connection, table, shard)
        other.execute(f"DROP TABLE {part}")
        other.execute(f"CREATE VIEW {part} AS {query}")


def _part_of(connection: psycopg.Connection[Any], table: str, shard: Shard) -> str:
    """Return the name that a shard's part of a distributed table has there."""
    row = connection.execute(
        "SELECT shard_name(logicalrelid, shardid) FROM pg_dist_shard JOIN pg_dist_placement USING (shardid)"
        " JOIN pg_dist_node USING (groupid)"
        " WHERE logicalrelid = %s::regclass AND (nodename, nodeport) = (%s, %s)",
        [table, *_place_of(shard.server)],
    ).fetchone()
    assert row is not None
    return str(row[0])


def _place_of(server: Server) -> tuple[str, int]:
    """Return host and port of a server, as Citus has them of a node."""
    with server.connect() as connection:
        return connection.info.host, connection.info.port


def drop_abandoned(connection: psycopg.Connection[Any]) -> None:
    """Drop what a run that was killed has left on a server, where no other run uses it."""
    if catalog.lock_soon(connection, TABLE):
        try:
            drop_citus(connection)
        except psycopg.Error as error:
            raise refusal("what an earlier run has left of Citus cannot be dropped", error) from None


def drop_citus(connection: psycopg.Connection[Any]) -> None:
    """Drop Citus and all that was made with it, and the settings that its user got; all or nothing of it."""
    with connection.transaction():
        connection.execute(f"DROP EXTENSION IF EXISTS {CITUS} CASCADE")
        connection.execute(f"DROP SCHEMA IF EXISTS {CITUS_SCHEMA} CASCADE")
        _alter(connection, sql.SQL("RESET ALL"))  # Citus would have its other nodes do so, too


def _give(connection: psycopg.Connection[Any], settings: Mapping[str, str]) -> None:
    """Give new sessions of the user these settings, and no others."""
    with connection.transaction():
        _alter(connection, sql.SQL("RESET ALL"))
        for name, value in settings.items():
            setting = sql.SQL(".").join(map(sql.Identifier, name.split(".")))
            try:
                _alter(connection, sql.SQL("SET {} = {}").format(setting, value))
            except psycopg.Error as error:
                raise refusal(f"the server refuses {name} = {value}", error) from None


def _alter(connection: psycopg.Connection[Any], change: sql.Composable) -> None:
    place = map(sql.Identifier, (connection.info.user, connection.info.dbname))
    connection.execute(sql.SQL("ALTER ROLE {} IN DATABASE {} ").format(*place) + change)
