"""The server that asks the shards by Citus: by a distributed table with a part on each shard.

The parts are views of the shards' tables, so that Citus asks the same tables and indexes as other engines do.
All that it needs, its extension included where its users have not created it, is there while the engine is
used. What a run that was killed has left is dropped by the next one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg

from .. import catalog
from ..citus import CITUS, SAVED, TABLE, check_citus, create_citus, drop_citus
from ..columns import Column
from ..errors import PostgresError, naming_coordinator, naming_shard, refusal
from ..extension import RequiredExtension
from ..role_settings import give
from ..servers import Server
from ..servers.libpq import settings_elsewhere
from ..statement import load_libraries
from .nodes import add_nodes, check_nodes, place_of
from .shard import FLUSH_VIEW, SETTINGS_VIEW, Shard
from .statement import CoordinatorStatement, check_settings, values_of

SETTINGS_TABLE, FLUSH_TABLE = f"{TABLE}_settings", f"{TABLE}_flushes"
# Citus plans each query anew, and refuses a plan that was made without its values.
OWN_SETTINGS = {"plan_cache_mode": "force_custom_plan", "citus.explain_all_tasks": "on"}
# A shard learns of nothing but its own parts.
_SETUP = (
    "SET citus.enable_metadata_sync = off; SET citus.enable_ddl_propagation = off;"
    " SET citus.shard_replication_factor = 1"
)


@dataclass(frozen=True)
class CitusStatement(CoordinatorStatement):
    """A statement that Citus sends on to the shards; `settings` are those of its session."""

    of_shards: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings_of_shards(self) -> Mapping[str, str]:
        """What every shard is to have."""
        return self.of_shards

    def check(self, connection: psycopg.Connection[Any], plan: Mapping[str, Any]) -> None:
        """Check the plan, have all shards answer, and check the settings that each of them has there."""
        sent_to_shards(plan, len(self.shards))
        with self._attributing():
            connection.execute(f"EXECUTE ann_query('{self.example}')")
            expected = values_of(connection, self.of_shards)
            expected |= {name: value for name, value in self.of_shards.items() if name in OWN_SETTINGS}
            found: dict[int, dict[str, str]] = {}
            for number, name, value in connection.execute(
                f"SELECT shard, name, value FROM {SETTINGS_TABLE} WHERE name = ANY (%s)", [[*self.of_shards]]
            ):
                found.setdefault(number, {})[name] = value
            for number in range(1, len(self.shards) + 1):
                check_settings(number, expected, found.get(number, {}))

    def flush(self, connection: psycopg.Connection[Any]) -> None:
        """Have the sessions on the shards flush their statistics, too."""
        with self._attributing():
            connection.execute(f"SELECT done FROM {FLUSH_TABLE}")


class CitusCoordinator:
    """What makes several shards one distributed table."""

    server: Server

    def __init__(self, extension: RequiredExtension) -> None:
        """Take the extension of the plug-in."""
        self._extension = extension
        self._guards: list[tuple[Server, psycopg.Connection[Any]]] = []  # the coordinator's first
        self._shards: Sequence[Shard] = ()
        self._settings: Mapping[str, str] = {}  # that the user has on the shards now
        self._parts: list[str] = []  # the names of the distributed table's parts, one a shard

    def check(self, servers: Sequence[Server]) -> None:
        """Raise PostgresError where Citus cannot ask these servers, which run already, by the coordinator."""
        self._start()
        check_nodes(self.server, servers)

    def open(self, shards: Sequence[Shard], column: Column) -> None:
        """Start the server and make the distributed tables."""
        self.close()
        self._shards = shards
        self._start()
        with self.server.explaining("preparing the coordinator"), self.server.connect() as connection:
            try:
                self._reserve()
                catalog.prepare(connection)
                self._extension.create(self.server, connection)
                self._make(connection, column)
            except psycopg.OperationalError:
                raise
            except psycopg.errors.InsufficientPrivilege as error:
                raise refusal("this user may not use Citus", error) from None
            except psycopg.Error as error:
                raise refusal("Citus refuses what the engine needs", error) from None

    def use(self, settings: Mapping[str, str]) -> None:
        """Have new sessions on the shards run with these settings, which their user gets."""
        if settings == self._settings:
            return
        self._settings = {}
        for shard in self._shards:
            with self._on(shard) as connection:
                load_libraries(connection, self._extension.all_names)
                give(connection, SAVED, {**settings_elsewhere(connection), **settings})
        self._settings = dict(settings)

    def sent(self, plan: Mapping[str, Any]) -> list[str]:
        """Return what a plan sends to each shard."""
        queries = sent_to_shards(plan, len(self._parts))
        return [next(query for query in queries if f" {part} " in query) for part in self._parts]

    def close(self) -> None:
        """Drop what open() has made; a server that does not answer keeps it until it is used again."""
        guards, self._guards = self._guards, []
        self._settings = {}
        for server, guard in guards:
            with suppress(psycopg.Error, PostgresError):
                drop_citus(server, guard)
            guard.close()

    def _start(self) -> None:
        with naming_coordinator():
            self.server = self._extension.start_server()
            check_citus(self.server)
            self.server.preload(CITUS)

    def _reserve(self) -> None:
        """Hold all servers for this run, and drop what another that was killed has left there."""
        with naming_coordinator():
            self._hold(self.server)
        for shard in self._shards:
            with naming_shard(shard.number, len(self._shards)):
                self._hold(shard.server)

    def _hold(self, server: Server) -> None:
        guard = server.connect()
        if not catalog.lock_soon(guard, TABLE):
            guard.close()
            raise PostgresError("another run asks its shards by Citus here: wait for it")
        self._guards.append((server, guard))
        drop_citus(server, guard)

    def _make(self, connection: psycopg.Connection[Any], column: Column) -> None:
        for _, guard in self._guards:
            create_citus(guard)
        add_nodes(self.server, connection, [shard.server for shard in self._shards])
        connection.execute(_SETUP)
        tables = {
            TABLE: (column.table_definition, "id"),
            SETTINGS_TABLE: ("(shard int, name text, value text)", "shard"),
            FLUSH_TABLE: ("(shard int, done text)", "shard"),
        }
        for table, (definition, key) in tables.items():
            connection.execute(f"CREATE TABLE {table} {definition}")
            connection.execute(
                "SELECT create_distributed_table(%s, %s, shard_count => %s, colocate_with => 'none')",
                [table, key, len(self._shards)],
            )
        self._parts = [_part_of(connection, TABLE, shard) for shard in self._shards]
        for shard in self._shards:
            with self._on(shard) as other:
                self._make_views(connection, shard, other)

    def _make_views(
        self, connection: psycopg.Connection[Any], shard: Shard, other: psycopg.Connection[Any]
    ) -> None:
        """Put views in the place of the parts that Citus has made on a shard."""
        views = {
            TABLE: f"SELECT * FROM {shard.names()[0]}",
            SETTINGS_TABLE: f"SELECT {shard.number} AS shard, name, value FROM {SETTINGS_VIEW}",
            FLUSH_TABLE: f"SELECT {shard.number} AS shard, done FROM {FLUSH_VIEW}",
        }
        other.execute("SET citus.enable_manual_changes_to_shards = on")
        for table, query in views.items():
            part = _part_of(connection, table, shard)
            try:
                other.execute(f"DROP TABLE {part}")
            except psycopg.errors.UndefinedTable:
                host, port = place_of(shard.server)
                raise PostgresError(
                    f"the coordinator finds another server at {host}:{port}: name hosts as it reaches them"
                ) from None
            other.execute(f"CREATE VIEW {part} AS {query}")

    @contextmanager
    def _on(self, shard: Shard) -> Iterator[psycopg.Connection[Any]]:
        with naming_shard(shard.number, len(self._shards)), shard.server.connect() as connection:
            yield connection


def sent_to_shards(plan: Mapping[str, Any], shards: int) -> list[str]:
    """Return what Citus sends to the shards, in its own order.

    PostgresError where it does not send order and limit to all of them.
    """
    sent = [str(task["Query"]) for job in _jobs(plan) for task in job["Tasks"]]
    if len(sent) != shards:
        raise PostgresError(f"Citus asks {len(sent)} of {shards} shards")
    for query in sent:
        if " ORDER BY " not in query or " LIMIT " not in query:
            raise PostgresError("Citus does not send order and limit, so that shards return all rows")
    return sent


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
