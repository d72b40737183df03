"""A statement on a distributed table: which shards it asks, how, and with which settings they answer."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from ..errors import PostgresError, refusal
from ..servers.extension import LEFTOVERS as CITUS_SCHEMA
from ..servers.libpq import connect
from ..session.statement import QueryStatement

TABLE = f"{CITUS_SCHEMA}.distributed"  # also the name that the run locks on each server
SETTINGS_TABLE, FLUSH_TABLE = f"{TABLE}_settings", f"{TABLE}_flushes"
_VALUES = "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name"
_READING = f"SELECT shard, name, value FROM {SETTINGS_TABLE} WHERE name = ANY (%s)"


@dataclass(frozen=True, kw_only=True)
class CitusStatement(QueryStatement):
    """A statement whose session sends it on to shards."""

    parts: Sequence[str]  # the table's, as plans name them, one a shard
    shards: Sequence[Mapping[str, Any]]  # libpq's parameters of each
    shard_settings: Mapping[str, str]  # what every shard is to have

    def check(self, connection: psycopg.Connection[Any], plan: Mapping[str, Any]) -> None:
        """Check the plan, have all shards answer, and check the settings that each of them has there."""
        sent_queries(plan, self.parts)
        with self._attributing():
            connection.execute(f"EXECUTE ann_query('{self.example}')")
            expected = dict(connection.execute(_VALUES, [[*self.shard_settings]]).fetchall())
            # What the session itself has otherwise cannot be read as the server would write it.
            expected |= {
                name: value for name, value in self.shard_settings.items() if self.settings.get(name) != value
            }
            found: dict[int, dict[str, str]] = {}
            for number, name, value in connection.execute(_READING, [[*self.shard_settings]]):
                found.setdefault(number, {})[name] = value
        for number in range(1, len(self.shards) + 1):
            check_settings(number, expected, found.get(number, {}))

    def flush(self, connection: psycopg.Connection[Any]) -> None:
        with self._attributing():
            connection.execute(f"SELECT done FROM {FLUSH_TABLE}")

    def attributed(self, error: PostgresError) -> PostgresError:
        """Return the error with the first shard that does not answer: the coordinator's does not name it."""
        for number, parameters in enumerate(self.shards, 1):
            try:
                connect(parameters).close()
            except PostgresError:
                return PostgresError(f"shard {number} of {len(self.shards)} does not answer: {error}")
        return error

    @contextmanager
    def _attributing(self) -> Iterator[None]:
        try:
            yield
        except psycopg.DatabaseError as error:
            raise self.attributed(refusal("the coordinator cannot ask the shards", error)) from None


def sent_queries(plan: Mapping[str, Any], parts: Sequence[str]) -> list[str]:
    """Return what a plan sends to each shard; PostgresError where it does not send order and limit."""
    sent = [str(task["Query"]) for job in _jobs(plan) for task in job["Tasks"]]
    if len(sent) != len(parts):
        raise PostgresError(f"Citus asks {len(sent)} of {len(parts)} shards")
    if any(" ORDER BY " not in query or " LIMIT " not in query for query in sent):
        raise PostgresError("Citus does not send order and limit, so that shards return all rows")
    return [next(query for query in sent if f" {part} " in query) for part in parts]


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


def check_settings(shard: int, expected: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Make sure that the session of a shard has these settings: a value that it refuses is not reported."""
    for name, value in expected.items():
        if found.get(name) != value:
            has = found.get(name, "no such setting")
            raise PostgresError(
                f"shard {shard} runs with {name} = {has} where {value} is expected: give a value that it"
                " takes, or leave the setting out if the engine sets it"
            )
