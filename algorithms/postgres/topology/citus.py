"""The engine of Citus: a coordinator asks by a distributed table with a part on each shard.

The parts are views of the shards' tables, so that Citus asks the same tables and indexes as other engines do.
All that it needs is there while the engine is used. The next run drops what one that was killed has left.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

import psycopg

from .. import catalog
from ..errors import PostgresError, naming, refusal
from ..servers import Server
from ..servers.libpq import settings_elsewhere
from ..session.statement import load_libraries
from ..table import Column
from .citus_cluster import (
    CITUS,
    TABLE,
    add_nodes,
    check_citus,
    check_nodes,
    create_citus,
    drop_citus,
    give,
    place_of,
)
from .engines import CoordinatorEngine
from .shard import FLUSH_VIEW, SETTINGS_VIEW, Shard

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
    _guards: Sequence[tuple[Server, psycopg.Connection[Any]]] = ()  # the coordinator's first
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
        """Make sure that a server has Citus."""
        check_citus(server)
        server.preload(CITUS)
        return (CITUS,)

    def check(self, servers: Sequence[Server]) -> None:
        """Raise PostgresError where Citus cannot ask these servers, which run already, by the coordinator."""
        self._start()
        check_nodes(self.server, servers)

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
            except psycopg.errors.InsufficientPrivilege as error:
                raise refusal("this user may not use Citus", error) from None
            except psycopg.Error as error:
                raise refusal("Citus refuses what the engine needs", error) from None

    def close(self) -> None:
        """Drop what open() has made; a server that does not answer keeps it until it is used again."""
        guards, self._guards, self._settings = self._guards, (), {}
        for server, guard in guards:
            with suppress(psycopg.Error, PostgresError):
                drop_citus(server, guard)
            guard.close()

    def use(self, shards: Sequence[Shard], settings: Mapping[str, str], rows: int) -> None:
        """Have new sessions on the shards run with these settings, which their user gets."""
        if settings == self._settings:
            return
        self._settings = {}
        for shard in shards:
            with _connected(shard) as connection:
                load_libraries(connection, self._extension.all_names)
                give(connection, {**settings_elsewhere(connection), **settings})
        self._settings = dict(settings)

    def _start(self) -> None:
        with naming("the coordinator"):
            self.server = self._extension.start_server()
            self.prepare(self.server)

    def _hold(self, server: Server) -> None:
        """Hold a server for this run, and drop what another that was killed has left there."""
        problem = "another run asks its shards by Citus here: wait for it"
        guard = catalog.held(server.connect(), TABLE, problem)
        self._guards = [*self._guards, (server, guard)]
        drop_citus(server, guard)

    def _make(self, connection: psycopg.Connection[Any], shards: Sequence[Shard], column: Column) -> None:
        for server, guard in self._guards:
            create_citus(server, guard)
        connection.execute(_SETUP)
        if self.server.is_ours:
            add_nodes(connection, [shard.server for shard in shards])
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
        try:
            other.execute(f"DROP TABLE {part}")
        except psycopg.errors.UndefinedTable:
            host, port = place_of(shard.server)
            raise PostgresError(
                f"the coordinator finds another server at {host}:{port}: name hosts as it reaches them"
            ) from None
        other.execute(f"CREATE VIEW {part} AS {query}")


def _part_of(connection: psycopg.Connection[Any], table: str, shard: Shard) -> str:
    """Return the name that a shard's part of a distributed table has there."""
    row = connection.execute(
        "SELECT shard_name(logicalrelid, shardid) FROM pg_dist_shard JOIN pg_dist_placement USING (shardid)"
        " JOIN pg_dist_node USING (groupid)"
        " WHERE logicalrelid = %s::regclass AND (nodename, nodeport) = (%s, %s)",
        [table, *place_of(shard.server)],
    ).fetchone()
    assert row is not None
    return str(row[0])
