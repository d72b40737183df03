"""What asks shards: the client itself, or a coordinator, whose sessions send a statement on to them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import psycopg

from ..errors import PostgresError, refusal
from ..forms import Form, RowSource, query_sql
from ..servers import Server
from ..servers.extension import RequiredExtension
from ..servers.libpq import connect
from ..session.session import QuerySession
from ..session.statement import QueryStatement, changed
from ..statistics.watch import ServerWatch
from ..table import METRICS, Column

if TYPE_CHECKING:
    from .shard import Shard

_VALUES = "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name"


@dataclass(frozen=True)
class Neighbors:
    """What a statement is to find: so many rows, by the plug-in's own form."""

    count: int
    form: Form
    metric: str
    column: Column
    rerank: int | None  # candidates to sort by their exact distances

    @property
    def distance(self) -> str:
        """The expression that answers are sorted by in the end."""
        if self.rerank is None:
            return self.form.comparison
        return f"embedding {METRICS[self.metric].operator} {self.column.parameter}"

    def query(self, table: str) -> str:
        """Return the plug-in's own query on a table."""
        return query_sql(RowSource(table), self.form, self.count, self.metric, self.column, self.rerank)


class Engine:
    """One way to ask the shards for the rows that are nearest to a query; nothing is started at first."""

    facts: Mapping[str, Any] = MappingProxyType({})  # of the shards, for the last statement

    def __init__(self, extension: RequiredExtension) -> None:
        self._extension = extension

    def statement(
        self, shards: Sequence["Shard"], each: Sequence[QueryStatement], neighbors: Neighbors
    ) -> QueryStatement:
        """Return what clients send; `each` is the statement of every shard by itself."""
        raise NotImplementedError

    def prepare(self, server: Server) -> tuple[str, ...]:
        """Make sure that a server has the extensions that the engine takes; return their names."""
        return ()

    def open(self, shards: Sequence["Shard"], column: Column) -> None:
        """Be ready to ask these shards."""

    def watch(self, flush: Callable[[], None]) -> ServerWatch | None:
        """Return what observes the coordinator, where there is one."""
        return None

    def revive(self) -> None:
        """Have the coordinator answer."""

    def forget(self) -> None:
        """Begin anew, with other tables."""

    def close(self) -> None:
        """Leave nothing on a coordinator."""


class CoordinatorEngine(Engine):
    """An engine of a coordinator; it is checked once for each statement how the shards answer it."""

    server: Server
    table = ""  # the name of all rows on the coordinator
    sends_cursors = True  # and no plain queries
    own_settings: Mapping[str, str] = MappingProxyType({})  # of the coordinator's sessions alone
    _parts: Sequence[str] = ()  # the table's, as plans name them, one a shard
    _readings: Sequence[str] = ()  # SQL: shard, name and value of settings that a session has there
    _flushes: Sequence[str] = ()  # SQL that has a session's connections there flush their statistics
    _explained: Any = None  # the last statement and its settings

    @classmethod
    def sent(cls, plan: Mapping[str, Any], parts: Sequence[str]) -> list[str]:
        """Return what a plan sends to each shard; PostgresError where not all of them sort their rows."""
        raise NotImplementedError

    def use(self, shards: Sequence["Shard"], settings: Mapping[str, str], rows: int) -> None:
        """Have new sessions on the shards run with these settings, and fetch this many rows at once."""
        raise NotImplementedError

    def query(self, neighbors: Neighbors) -> str:
        """Return what clients send to the coordinator."""
        return neighbors.query(self.table)

    def statement(
        self, shards: Sequence["Shard"], each: Sequence[QueryStatement], neighbors: Neighbors
    ) -> QueryStatement:
        """Return what clients send, once it is known how each shard answers what it is sent."""
        settings = each[0].settings
        self.use(shards, settings, neighbors.rerank or neighbors.count)
        statement: CoordinatorStatement = changed(
            each[0],
            CoordinatorStatement,
            parameters=self.server.connection_parameters(),
            sql=self.query(neighbors),
            index=None,
            settings={**settings, **self.own_settings},
            engine=type(self),
            parts=tuple(self._parts),
            shards=tuple(one.parameters for one in each),
            shard_settings=settings,
            readings=tuple(self._readings),
            flushes=tuple(self._flushes),
        )
        if self._explained != (statement.sql, statement.settings):
            self._explain(shards, statement)
        return statement

    def watch(self, flush: Callable[[], None]) -> ServerWatch:
        return ServerWatch(self.server, self.table, None, flush)

    def revive(self) -> None:
        self.server.revive()

    def forget(self) -> None:
        self.facts, self._explained = {}, None

    def _explain(self, shards: Sequence["Shard"], statement: "CoordinatorStatement") -> None:
        session = QuerySession(statement)
        try:
            sent = self.sent(json.loads(session.plan_text), statement.parts)
        finally:
            session.close()
        settings, example = dict(statement.shard_settings), statement.example
        plans = [
            shard.remote_plan(query, example, settings, self.sends_cursors)
            for shard, query in zip(shards, sent, strict=True)
        ]
        self.facts = {"shard_plans": json.dumps(plans), "shard_settings": json.dumps(settings)}
        self._explained = (statement.sql, statement.settings)


@dataclass(frozen=True, kw_only=True)
class CoordinatorStatement(QueryStatement):
    """A statement whose session sends it on to shards."""

    engine: type[CoordinatorEngine]
    parts: Sequence[str]
    shards: Sequence[Mapping[str, Any]]  # libpq's parameters of each
    shard_settings: Mapping[str, str]  # what every shard is to have
    readings: Sequence[str]
    flushes: Sequence[str]

    def check(self, connection: psycopg.Connection[Any], plan: Mapping[str, Any]) -> None:
        """Check the plan, have all shards answer, and check the settings that each of them has there."""
        self.engine.sent(plan, self.parts)
        with self._attributing():
            connection.execute(f"EXECUTE ann_query('{self.example}')")
            expected = dict(connection.execute(_VALUES, [[*self.shard_settings]]).fetchall())
            # What the session itself has otherwise cannot be read as the server would write it.
            expected |= {
                name: value for name, value in self.shard_settings.items() if self.settings.get(name) != value
            }
            found: dict[int, dict[str, str]] = {}
            for sql in self.readings:
                for number, name, value in connection.execute(sql, [[*self.shard_settings]]):
                    found.setdefault(number, {})[name] = value
        for number in range(1, len(self.shards) + 1):
            check_settings(number, expected, found.get(number, {}))

    def flush(self, connection: psycopg.Connection[Any]) -> None:
        with self._attributing():
            for sql in self.flushes:
                connection.execute(sql)

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


def check_settings(shard: int, expected: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Make sure that the session of a shard has these settings: a value that it refuses is not reported."""
    for name, value in expected.items():
        if found.get(name) != value:
            has = found.get(name, "no such setting")
            raise PostgresError(
                f"shard {shard} runs with {name} = {has} where {value} is expected: give a value that it"
                " takes, or leave the setting out if the engine sets it"
            )
