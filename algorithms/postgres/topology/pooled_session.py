"""A client's connection to a pooler: what it sends, and how it is known with which settings that runs.

Clients share server connections: what is read on one says nothing of the others, and a client cannot choose
one. But a transaction holds its server connection, and the next query goes to another.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from psycopg import sql

from ..errors import PostgresError
from ..servers.libpq import connect
from ..session.session import STATEMENT, QuerySession
from ..session.statement import QueryStatement
from ..statistics.counters import CLIENT_APPLICATION, FLUSH
from .pgbouncer import NAME

ADMIN = NAME  # the database that is the console of the pooler itself
_READING = b"ann_settings"
_NAME_THERE = "SELECT name FROM pg_prepared_statements WHERE statement = %s"


@dataclass(frozen=True)
class PooledStatement(QueryStatement):
    """A statement whose parameters lead to a pooler."""

    expected: Mapping[str, str] = field(default_factory=dict)  # all settings, as the server writes them

    @property
    def reading(self) -> str:
        """SQL that returns the backend's process id, and the value of each setting, in their order."""
        values = [sql.SQL("current_setting({}, true)").format(name).as_string() for name in self.expected]
        return f"SELECT {', '.join(['pg_backend_pid()', *values])}"

    def session_class(self) -> type[Any]:
        return PooledSession

    def check_values(self, values: Sequence[str | None]) -> None:
        """Raise PostgresError where a query has read other values than are expected."""
        for (name, expected), found in zip(self.expected.items(), values, strict=True):
            if found != expected:
                has = "no value" if found is None else found
                raise PostgresError(
                    f"queries run with {name} = {has} on a connection of the pooler, where {expected} is"
                    " requested: it was not set there, or another client has changed it"
                )

    def attributed(self, error: PostgresError) -> PostgresError:
        """Return the error, which names the pooler where that does not answer."""
        try:
            connect({**self.parameters, "dbname": ADMIN}).close()
        except PostgresError:
            return PostgresError(f"{NAME} does not answer: {error}")
        return error


class PooledSession(QuerySession):
    """A session whose statements run on whichever server connection is free."""

    def __init__(self, statement: PooledStatement) -> None:
        self._pooled = statement
        try:
            super().__init__(statement)
        except PostgresError as error:
            raise statement.attributed(error) from None
        try:
            self.prepare(_READING, statement.reading)
            self.check_settings()
        except BaseException:
            self.close()
            raise

    def check_settings(self) -> None:
        """Raise PostgresError where a statement, sent as queries are, does not run with the settings."""
        self.read_settings()

    def read_settings(self) -> int:
        """Do the same; return the process id of the backend that has executed it."""
        result = self.execute(_READING, None)
        self.check(result)
        backend, *values = (result.get_value(0, column) for column in range(result.nfields))
        self._pooled.check_values([None if value is None else value.decode() for value in values])
        assert backend is not None
        return int(backend)

    def _set(self, settings: Mapping[str, str]) -> None:
        """Set nothing: it would be set for the other clients, too."""

    def _explained(self, arguments: Sequence[str], *options: str) -> dict[str, Any]:
        with self._connection.transaction():  # so that all of it is on one server connection
            # The pooler prepares it there, by a name of its own, when it is described. Executed, it would
            # warm what a cold run has to read.
            self.check(self._connection.pgconn.describe_prepared(STATEMENT))
            row = self._connection.execute(_NAME_THERE, [self._pooled.sql]).fetchone()
            assert row is not None
            self._executed = sql.Identifier(row[0]).as_string()
            return super()._explained(arguments, *options)


def check_backends(statement: PooledStatement) -> int:
    """Check what queries run with on each of a pool's server connections; return how many there are.

    Each is read by a statement that is sent as queries are. PostgresError where one has other settings.
    """
    count = _count(statement.parameters)
    session, seen = PooledSession(statement), set[int]()
    try:
        _hold_each(statement.parameters, count, lambda: seen.add(session.read_settings()))
    finally:
        session.close()
    if len(seen) != count:
        raise PostgresError(
            f"{len(seen)} of {count} server connections of the pool could be checked: what queries run with"
            " on the others is not known"
        )
    return count


def flush_backends(parameters: Mapping[str, Any]) -> None:
    """Have each of a pool's server connections count what it has done."""
    _hold_each(parameters, _count(parameters), holding=FLUSH)


def _count(parameters: Mapping[str, Any]) -> int:
    """Ask the pooler how many server connections it has."""
    with connect({**parameters, "dbname": ADMIN}) as console:
        servers = console.execute("SHOW SERVERS")
        assert servers.description is not None
        place = [column.name for column in servers.description].index("database")
        return sum(row[place] == parameters["dbname"] for row in servers)


def _hold_each(
    parameters: Mapping[str, Any],
    count: int,
    before: Callable[[], object] = lambda: None,
    holding: str = "SELECT",
) -> None:
    """Hold one server connection after the other, until all are held.

    `before` is called before each, while all earlier ones are held, and `holding` is what then holds it. The
    pooler gives out the one that was used last, so that this has the one that `before` had.
    """
    with ExitStack() as stack:
        for _ in range(count):
            before()
            client = stack.enter_context(connect({**parameters, "application_name": CLIENT_APPLICATION}))
            stack.enter_context(client.transaction())
            client.execute(holding)
