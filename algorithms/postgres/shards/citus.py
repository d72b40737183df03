"""The server that asks the shards by Citus: by a distributed table with a part on each shard.

The parts are views of the shards' tables, so that Citus asks the same tables and indexes as other engines do.
All that it needs, its extension included, is there while the engine is used. What a run that was killed has
left is dropped by the next one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from .. import catalog
from ..catalog import SCHEMA
from ..citus import CITUS, DISTRIBUTED, check_citus, drop_citus
from ..columns import Column
from ..errors import PostgresError, naming_shard, refusal
from ..extension import RequiredExtension
from ..servers import Server
from ..statement import load_libraries
from .shard import FLUSH_VIEW, SETTINGS_VIEW, Shard
from .statement import CoordinatorStatement, check_settings, values_of

TABLE = f"{SCHEMA}.{DISTRIBUTED}"
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
        self._guard: psycopg.Connection[Any] | None = None
        self._shards: Sequence[Shard] = ()
        self._settings: Mapping[str, str] = {}  # that the user has on the shards now
        self._parts: list[str] = []  # the names of the distributed table's parts, one a shard

    def open(self, shards: Sequence[Shard], column: Column) -> None:
        """Start the server and make the distributed tables."""
        self.close()
        self._shards = shards
        self.server = self._extension.start_server()
        check_citus(self.server)
        self.server.preload(CITUS)
        with self.server.explaining("preparing the coordinator"), self.server.connect() as connection:
            drop_citus(connection)  # while a shard did not answer, it was kept, and sends on what follows
            catalog.prepare(connection)
            self._reserve()
            self._extension.create(self.server, connection)
            try:
                self._make(connection, column)
            except psycopg.errors.InsufficientPrivilege as error:
                raise refusal("this user may not use Citus", error) from None

    def use(self, settings: Mapping[str, str]) -> None:
        """Have new sessions on the shards run with these settings, which their user gets."""
        if settings == self._settings:
            return
        self._settings = {}
        for shard, connection in self._on_shards():
            load_libraries(connection, self._extension.all_names)
            row = connection.execute("SELECT current_user, current_database()").fetchone()
            assert row is not None
            role, database = map(sql.Identifier, row)
            alter = sql.SQL("ALTER ROLE {} IN DATABASE {} ").format(role, database)
            connection.execute(alter + sql.SQL("RESET ALL"))
            for name, value in settings.items():
                setting = sql.SQL(".").join(map(sql.Identifier, name.split(".")))
                try:
                    connection.execute(alter + sql.SQL("SET {} = {}").format(setting, value))
                except psycopg.Error as error:
                    raise refusal(f"shard {shard.number} refuses {name} = {value}", error) from None
        self._settings = dict(settings)

    def sent(self, plan: Mapping[str, Any]) -> list[str]:
        """Return what a plan sends to each shard."""
        queries = sent_to_shards(plan, len(self._parts))
        return [next(query for query in queries if f" {part} " in query) for part in self._parts]

    def close(self) -> None:
        """Drop what open() has made; a server that does not answer keeps it until the next one is made."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        self._settings = {}
        with suppress(psycopg.Error, PostgresError):
            self._drop(guard)
        guard.close()

    def _reserve(self) -> None:
        guard = self.server.connect()
        if not catalog.lock_soon(guard, TABLE):
            guard.close()
            raise PostgresError("another run asks its shards by this server: wait for it")
        self._guard = guard

    def _make(self, connection: psycopg.Connection[Any], column: Column) -> None:
        self._drop(connection)
        for server in (self.server, *(shard.server for shard in self._shards)):
            with server.connect() as other:
                other.execute(f"CREATE EXTENSION IF NOT EXISTS {CITUS}")
        connection.execute(_SETUP)
        for shard in self._shards:
            connection.execute("SELECT citus_add_node(%s, %s)", _node(shard))
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
        self._parts = [_place_of(connection, TABLE, shard) for shard in self._shards]
        for shard, other in self._on_shards():
            views = {
                TABLE: f"SELECT * FROM {shard.names()[0]}",
                SETTINGS_TABLE: f"SELECT {shard.number} AS shard, name, value FROM {SETTINGS_VIEW}",
                FLUSH_TABLE: f"SELECT {shard.number} AS shard, done FROM {FLUSH_VIEW}",
            }
            other.execute("SET citus.enable_manual_changes_to_shards = on")
            for table, query in views.items():
                place = _place_of(connection, table, shard)
                other.execute(f"DROP TABLE {place}")
                other.execute(f"CREATE VIEW {place} AS {query}")

    def _drop(self, connection: psycopg.Connection[Any]) -> None:
        """Drop the extension on all servers, and what was made with it."""
        drop_citus(connection)
        for table in (TABLE, SETTINGS_TABLE, FLUSH_TABLE):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        for _, other in self._on_shards():
            drop_citus(other)

    def _on_shards(self) -> Iterator[tuple[Shard, psycopg.Connection[Any]]]:
        for shard in self._shards:
            with naming_shard(shard.number, len(self._shards)), shard.server.connect() as connection:
                yield shard, connection


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


def _node(shard: Shard) -> list[Any]:
    parameters = shard.server.connection_parameters()
    return [str(parameters["host"]), int(parameters["port"])]


def _place_of(connection: psycopg.Connection[Any], table: str, shard: Shard) -> str:
    """Return the name that a shard's part of a distributed table has there."""
    row = connection.execute(
        "SELECT shard_name FROM citus_shards"
        " WHERE table_name = %s::regclass AND (nodename, nodeport) = (%s, %s)",
        [table, *_node(shard)],
    ).fetchone()
    assert row is not None
    return str(row[0])
