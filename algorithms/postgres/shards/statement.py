"""A query of a coordinator: the plan that it has to have, and what each shard really runs with."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from ..errors import PostgresError, refusal
from ..servers.libpq import connect
from ..statement import QueryStatement

_VALUES = "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name"


@dataclass(frozen=True)
class CoordinatorStatement(QueryStatement):
    """A statement whose session sends it on to shards; `settings` are those of all servers."""

    views: tuple[str, ...] = ()  # foreign tables, one a shard, of the settings that its session has
    flushes: tuple[str, ...] = ()  # foreign tables, one a shard, which flush its session's statistics
    shards: tuple[Mapping[str, Any], ...] = ()  # libpq's parameters of each
    is_concurrent: bool = False  # all shards are asked at the same time, for no more rows than needed

    @property
    def settings_of_shards(self) -> Mapping[str, str]:
        """What every shard is to have."""
        return self.settings

    def check(self, connection: psycopg.Connection[Any], plan: Mapping[str, Any]) -> None:
        """Check the plan, connect to all shards, and check the settings that each of them has there."""
        check_remote_plan(plan, len(self.views), self.is_concurrent)
        with self._attributing():
            connection.execute(f"EXECUTE ann_query('{self.example}')")
            expected = values_of(connection, self.settings)
            for number, view in enumerate(self.views, 1):
                sql = f"SELECT name, value FROM {view} WHERE name = ANY (%s)"
                found = dict(connection.execute(sql, [list(self.settings)]).fetchall())
                check_settings(number, expected, found)

    def attributed(self, error: PostgresError) -> PostgresError:
        """Return the error with the first shard that does not answer: the coordinator's does not name it."""
        for number, parameters in enumerate(self.shards, 1):
            try:
                connect(parameters).close()
            except PostgresError:
                return PostgresError(f"shard {number} of {len(self.shards)} does not answer: {error}")
        return error

    def flush(self, connection: psycopg.Connection[Any]) -> None:
        """Have the sessions on the shards flush their statistics, too."""
        with self._attributing():
            for flush in self.flushes:
                connection.execute(f"SELECT done FROM {flush}")

    @contextmanager
    def _attributing(self) -> Iterator[None]:
        try:
            yield
        except psycopg.DatabaseError as error:
            raise self.attributed(refusal("the coordinator cannot ask the shards", error)) from None


def values_of(connection: psycopg.Connection[Any], names: Iterable[str]) -> dict[str, str]:
    """Return the values that settings have in a session."""
    return dict(connection.execute(_VALUES, [list(names)]).fetchall())


def check_remote_plan(plan: Mapping[str, Any], shards: int, is_concurrent: bool) -> None:
    """Make sure that a coordinator's plan has each shard sort its rows.

    With `is_concurrent`, also that it asks all of them at the same time, for a limited number of rows.
    """
    scans = list(remote_scans(plan))
    if len(scans) != shards:
        raise PostgresError(f"the coordinator's plan asks {len(scans)} of {shards} shards")
    for number, scan in enumerate(scans, 1):
        if " ORDER BY " not in scan["Remote SQL"]:
            raise PostgresError(
                f"the coordinator does not send the order to shard {number} of {shards}, which would return"
                " all of its rows: the index compares by what postgres_fdw does not send"
            )
        if is_concurrent and " LIMIT " not in scan["Remote SQL"]:
            raise PostgresError(f"the coordinator does not send the LIMIT to shard {number} of {shards}")
        if is_concurrent and shards > 1 and not scan.get("Async Capable"):
            raise PostgresError(
                "the coordinator asks one shard after the other: it needs PostgreSQL 14 or newer, and"
                " enable_async_append on"
            )


def remote_scans(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes of a plan in JSON that ask a shard."""
    if "Remote SQL" in plan:
        yield plan
    for child in plan.get("Plans", []):
        yield from remote_scans(child)


def check_settings(shard: int, expected: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Make sure that the session of a shard has these settings: a value that it refuses is not reported."""
    for name, value in expected.items():
        if found.get(name) != value:
            has = found.get(name, "no such setting")
            raise PostgresError(
                f"shard {shard} runs with {name} = {has} where {value} is expected: give a value that it"
                " takes, or leave the setting out if the engine sets it"
            )


def startup_options(settings: Mapping[str, str]) -> str:
    """Write settings as libpq's `options` have them."""
    return " ".join(f"-c {name}={_escaped(value)}" for name, value in settings.items())


def _escaped(value: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\ \t\n\v\f\r" else letter for letter in value)


def remote_plan(
    connection: psycopg.Connection[Any], sql: str, literal: str, is_cursor: bool = True
) -> dict[str, Any]:
    """Return the plan that a shard has for what a coordinator sends it, as the cursor that it may be."""
    cursor = "DECLARE ann_query CURSOR FOR " * is_cursor
    row = connection.execute(
        f"EXPLAIN (FORMAT JSON, VERBOSE) {cursor}" + sql.replace("$1", f"'{literal}'")
    ).fetchone()
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan
