"""The engine of Citus: a coordinator asks by a distributed table with a part on each shard.

The parts are views of the shards' tables, so that Citus asks the same tables and indexes as other engines do.
All servers are ours: a run creates the extension, makes the shards nodes of the coordinator, and drops all of
it. The next run drops what one that was killed has left.

Citus' event trigger needs its library, which only loads when the server starts. A server without the library
cannot drop anything while the extension is there.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import sql

from .. import catalog
from ..errors import PostgresError, naming, refusal
from ..servers import Server
from ..servers.extension import LEFTOVERS as CITUS_SCHEMA
from ..session.statement import load_libraries
from ..table import Column
from .engines import CoordinatorEngine
from .shard import FLUSH_VIEW, SETTINGS_VIEW, Shard

CITUS = "citus"  # the extension and its library
TABLE = f"{CITUS_SCHEMA}.distributed"  # also the name that the run locks on each server
_SETTINGS_TABLE, _FLUSH_TABLE = f"{TABLE}_settings", f"{TABLE}_flushes"
# A shard learns of nothing but its own parts, and nothing of a server changes for other sessions.
_SETUP = (
    "SET citus.enable_metadata_sync = off; SET citus.enable_ddl_propagation = off;"
    " SET citus.enable_alter_role_set_propagation = off; SET citus.shard_replication_factor = 1"
)


class CitusEngine(CoordinatorEngine):
    """Queries of a coordinator on a distributed table."""

    table = TABLE
    sends_cursors = False
    # Citus plans each query anew, and refuses a plan that was made without its values.
    own_settings = MappingProxyType({"plan_cache_mode": "force_custom_plan", "citus.explain_all_tasks": "on"})
    _guards: Sequence[psycopg.Connection[Any]] = ()  # on each server, the coordinator's first
    _settings: Mapping[str, str] = MappingProxyType({})  # of the user on the shards now
    _readings = (f"SELECT shard, name, value FROM {_SETTINGS_TABLE} WHERE name = ANY (%s)",)
    _flushes = (f"SELECT done FROM {_FLUSH_TABLE}",)

    @classmethod
    def sent(cls, plan: Mapping[str, Any], parts: Sequence[str]) -> list[str]:
        """Return what a plan sends to each shard; PostgresError where it does not send order and limit."""
        sent = [str(task["Query"]) for job in _jobs(plan) for task in job["Tasks"]]
        if len(sent) != len(parts):
            raise PostgresError(f"Citus asks {len(sent)} of {len(parts)} shards")
        if any(" ORDER BY " not in query or " LIMIT " not in query for query in sent):
            raise PostgresError("Citus does not send order and limit, so that shards return all rows")
        return [next(query for query in sent if f" {part} " in query) for part in parts]

    def prepare(self, server: Server) -> tuple[str, ...]:
        """Make sure that a server of ours has Citus; PostgresError for any other."""
        if not server.is_ours:
            raise PostgresError("Citus is set up on servers of our own only: use another --shard-engine")
        with server.connect() as connection:
            offered = connection.execute("SELECT FROM pg_available_extensions WHERE name = %s", [CITUS])
        if not offered.rowcount:
            raise PostgresError(
                f"the server does not have the extension '{CITUS}': build it with the server's pg_config"
                " (docs/servers.md#citus), or use another --shard-engine"
            )
        server.preload(CITUS)
        return (CITUS,)

    def open(self, shards: Sequence[Shard], column: Column) -> None:
        """Start the coordinator and make the distributed tables."""
        for shard in shards:
            shard.make_views()
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

    def use(self, shards: Sequence[Shard], settings: Mapping[str, str], rows: int) -> None:
        """Have new sessions on the shards run with these settings, which their user gets."""
        if settings == self._settings:
            return
        self._settings = {}
        for shard in shards:
            with _connected(shard) as connection:
                load_libraries(connection, self._extension.all_names)
                _give(connection, settings)
        self._settings = dict(settings)

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
            (_SETTINGS_TABLE, "(shard int, name text, value text)", "shard"),
            (_FLUSH_TABLE, "(shard int, done text)", "shard"),
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


def _jobs(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of a plan in JSON that ask shards of the table."""
    if "Distributed Query" in plan:
        query = plan["Distributed Query"]
        for subplan in query.get("Subplans", ()):
            for one in subplan["PlannedStmt"]:
                yield from _jobs(one["Plan"])
        if any(f"{TABLE}_" in task.get("Query", "") for task in query["Job"]["Tasks"]):
            yield query["Job"]
    for child in plan.get("Plans", ()):
        yield from _jobs(child)


@contextmanager
def _connected(shard: Shard) -> Iterator[psycopg.Connection[Any]]:
    with shard.naming(), shard.server.connect() as connection:
        yield connection


def _make_views(connection: psycopg.Connection[Any], shard: Shard, other: psycopg.Connection[Any]) -> None:
    """Put views in the place of the parts that Citus has made on a shard, which `other` is connected to."""
    other.execute("SET citus.enable_manual_changes_to_shards = on")
    for table, query in (
        (TABLE, f"SELECT * FROM {shard.table_name}"),
        (_SETTINGS_TABLE, f"SELECT {shard.number} AS shard, name, value FROM {SETTINGS_VIEW}"),
        (_FLUSH_TABLE, f"SELECT {shard.number} AS shard, done FROM {FLUSH_VIEW}"),
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
