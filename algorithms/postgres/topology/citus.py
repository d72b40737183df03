"""The engine of Citus: a coordinator asks by a distributed table with a part on each shard.

The parts are views of the shards' tables, so that Citus asks the same tables and indexes as other engines do.
All that it needs, its extension included where its users have not created it, is there while the engine is
used. What a run that was killed has left is dropped by the next one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from .. import catalog
from ..errors import PostgresError, naming, refusal
from ..servers import Server
from ..servers.extension import RequiredExtension
from ..servers.libpq import settings_elsewhere
from ..session.statement import QueryStatement, changed, load_libraries
from ..table import Column
from .citus_extension import CITUS, SAVED, TABLE, check_citus, create_citus, drop_citus, give
from .citus_nodes import add_nodes, check_nodes, place_of
from .engines import CoordinatorEngine, CoordinatorStatement, Neighbors
from .shard import FLUSH_VIEW, SETTINGS_VIEW, Shard

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
    """A statement that Citus sends on to the shards."""

    def check_sent(self, plan: Mapping[str, Any]) -> None:
        """Raise PostgresError where Citus does not have each shard sort its rows."""
        sent_to_shards(plan, len(self.shards))


class CitusEngine(CoordinatorEngine):
    """Queries of a coordinator on a distributed table."""

    table = TABLE
    sends_cursors = False

    def __init__(self, extension: RequiredExtension) -> None:
        """Take the extension of the plug-in."""
        super().__init__()
        self._extension = extension
        self._guards: list[tuple[Server, psycopg.Connection[Any]]] = []  # the coordinator's first
        self._settings: Mapping[str, str] = {}  # of the user on the shards now
        self._parts: list[str] = []  # the names of the distributed table's parts, one a shard

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

    def statement(
        self, shards: Sequence[Shard], each: Sequence[QueryStatement], wanted: Neighbors
    ) -> QueryStatement:
        """Return what clients send to the coordinator."""
        settings = each[0].settings
        self._use(shards, settings)
        statement: CitusStatement = changed(
            each[0],
            CitusStatement,
            parameters=self.server.connection_parameters(),
            sql=wanted.query(TABLE),
            index=None,
            settings={**settings, **OWN_SETTINGS},
            shards=tuple(one.parameters for one in each),
            shard_settings=settings,
            readings=(f"SELECT shard, name, value FROM {SETTINGS_TABLE} WHERE name = ANY (%s)",),
            flushes=(f"SELECT done FROM {FLUSH_TABLE}",),
        )
        return self.explained(shards, statement)

    def sent(self, shards: Sequence[Shard], plan: Mapping[str, Any]) -> list[str]:
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

    def _use(self, shards: Sequence[Shard], settings: Mapping[str, str]) -> None:
        """Have new sessions on the shards run with these settings, which their user gets."""
        if settings == self._settings:
            return
        self._settings = {}
        for shard in shards:
            with _connected(shard) as connection:
                load_libraries(connection, self._extension.all_names)
                give(connection, SAVED, {**settings_elsewhere(connection), **settings})
        self._settings = dict(settings)

    def _start(self) -> None:
        with naming("the coordinator"):
            self.server = self._extension.start_server()
            self.prepare(self.server)

    def _hold(self, server: Server) -> None:
        """Hold a server for this run, and drop what another that was killed has left there."""
        problem = "another run asks its shards by Citus here: wait for it"
        guard = catalog.held(server.connect(), TABLE, problem)
        self._guards.append((server, guard))
        drop_citus(server, guard)

    def _make(self, connection: psycopg.Connection[Any], shards: Sequence[Shard], column: Column) -> None:
        for _, guard in self._guards:
            create_citus(guard)
        add_nodes(self.server, connection, [shard.server for shard in shards])
        connection.execute(_SETUP)
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


def sent_to_shards(plan: Mapping[str, Any], shards: int) -> list[str]:
    """Return what Citus sends to the shards, in its own order.

    PostgresError where it does not send order and limit to all of them.
    """
    sent = [str(task["Query"]) for job in _jobs(plan) for task in job["Tasks"]]
    if len(sent) != shards:
        raise PostgresError(f"Citus asks {len(sent)} of {shards} shards")
    if any(" ORDER BY " not in query or " LIMIT " not in query for query in sent):
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


@contextmanager
def _connected(shard: Shard) -> Iterator[psycopg.Connection[Any]]:
    with shard.naming(), shard.server.connect() as connection:
        yield connection


def _make_views(connection: psycopg.Connection[Any], shard: Shard, other: psycopg.Connection[Any]) -> None:
    """Put views in the place of the parts that Citus has made on a shard, which `other` is connected to."""
    other.execute("SET citus.enable_manual_changes_to_shards = on")
    for table, query in (
        (TABLE, f"SELECT * FROM {shard.table_name}"),
        (SETTINGS_TABLE, f"SELECT {shard.number} AS shard, name, value FROM {SETTINGS_VIEW}"),
        (FLUSH_TABLE, f"SELECT {shard.number} AS shard, done FROM {FLUSH_VIEW}"),
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
