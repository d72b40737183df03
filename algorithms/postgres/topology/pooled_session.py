"""A client's connection to a pooler: what it sends, and how it is known with which settings that runs.

Where clients share server connections, what is read on one says nothing of the others, and a client cannot
choose one. But a transaction holds its server connection, and the next query goes to another.
"""

import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import pq, sql

from ..errors import PostgresError
from ..servers.libpq import connect
from ..session.session import STATEMENT, QuerySession, SessionFacts
from ..session.statement import QueryStatement, set_and_check
from ..statistics import CLIENT_APPLICATION, flush_statement
from ..statistics.counters import SHARED_MEMORY_VERSION
from .pgbouncer import NAME

ADMIN = NAME  # the database that is the console of the pooler itself
_READING, _BEGIN, _COMMIT = b"ann_settings", b"ann_begin", b"ann_commit"
_NAME_THERE = "SELECT name FROM pg_prepared_statements WHERE statement = %s"
_FINE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


@dataclass(frozen=True)
class PooledStatement(QueryStatement):
    """A statement whose parameters lead to a pooler."""

    is_shared: bool = False  # clients share server connections
    expected: Mapping[str, str] = field(default_factory=dict)  # all settings, as the server writes them
    local: Mapping[str, str] | None = None  # each query sets them in its transaction; None: it has none

    @property
    def reading(self) -> str:
        """SQL that returns the backend's process id, and the value of each setting, in their order."""
        values = [sql.SQL("current_setting({}, true)").format(name).as_string() for name in self.expected]
        return f"SELECT {', '.join(['pg_backend_pid()', *values])}"

    def session_class(self) -> type[Any]:
        """Return the class of its sessions."""
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
    """A session whose statements run on a server connection of its own, or on whichever is free."""

    def __init__(self, statement: PooledStatement) -> None:
        """Connect, prepare the statement, and check its plan and settings."""
        self._pooled = statement
        try:
            super().__init__(statement)
        except PostgresError as error:
            raise statement.attributed(error) from None
        try:
            self.prepare(_READING, statement.reading)
            if statement.local is not None:  # also where a point sets nothing itself
                before, after = statements_around(statement.local)
                for name, text in {**before, **after}.items():
                    self.prepare(name, text)
                self.libpq = TransactionConnection(self.libpq, before, after)
                self.execute = self.libpq.exec_prepared
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

    def facts(self) -> SessionFacts:
        """Describe it, with the settings that its queries have."""
        found = super().facts()
        own = {name: self._pooled.expected[name] for name in self._pooled.local or ()}
        settings = dict(sorted({**found.settings, **own}.items()))
        return SessionFacts(found.process, found.backend, settings, found.plan)

    def _set(self, settings: Mapping[str, str]) -> None:
        # Where clients share a connection, what one of them sets is set for the others, too.
        if not self._pooled.is_shared:
            set_and_check(self._connection, settings)

    def _explained(self, arguments: Sequence[str], *options: str) -> dict[str, Any]:
        if not self._pooled.is_shared:
            return super()._explained(arguments, *options)
        with self._connection.transaction():  # so that all of it is on one server connection
            for name, value in (self._pooled.local or {}).items():
                self._connection.execute("SELECT set_config(%s, %s, true)", [name, value])
            # The pooler prepares it there, by a name of its own, when it is described. Executed, it would
            # warm what a cold run has to read.
            self.check(self._connection.pgconn.describe_prepared(STATEMENT))
            row = self._connection.execute(_NAME_THERE, [self._pooled.sql]).fetchone()
            assert row is not None
            self._executed = sql.Identifier(row[0]).as_string()
            return super()._explained(arguments, *options)


def statements_around(settings: Mapping[str, str]) -> tuple[dict[bytes, str], dict[bytes, str]]:
    """Return what is to be prepared, name to SQL: what comes before a statement, and what after it."""
    sets = {
        f"ann_set_{number}".encode(): sql.SQL("SET LOCAL {} = {}")
        .format(sql.Identifier(*name.split(".")), value)
        .as_string()
        for number, (name, value) in enumerate(settings.items())
    }
    return {_BEGIN: "BEGIN", **sets}, {_COMMIT: "COMMIT"}


class TransactionConnection:
    """A connection that puts prepared statements around each that is sent, behind what clients use of it.

    BEGIN, SET LOCAL, the statement and COMMIT are one pipeline: it takes one round trip, and holds a server
    connection of a pooler no longer.
    """

    def __init__(self, connection: Any, before: Mapping[bytes, str], after: Mapping[bytes, str]) -> None:
        """Take libpq's connection, on which all of them are prepared."""
        self._connection, self._before, self._after = connection, [*before], [*after]
        self.socket = connection.socket
        self._results: list[Any] = []
        self._is_whole = self._is_read = True

    @property
    def status(self) -> int:
        """Whether the connection is fine."""
        return int(self._connection.status)

    def send_query_prepared(self, *arguments: Any) -> None:
        """Send a statement with its parameters."""
        connection = self._connection
        connection.enter_pipeline_mode()
        self._results, self._is_whole, self._is_read = [], False, False
        for name in self._before:
            connection.send_query_prepared(name, None)
        connection.send_query_prepared(*arguments)
        for name in self._after:
            connection.send_query_prepared(name, None)
        connection.pipeline_sync()

    def consume_input(self) -> None:
        """Read what has come."""
        self._connection.consume_input()

    def is_busy(self) -> bool:
        """Whether an answer is still on its way."""
        while not self._is_whole and not self._connection.is_busy():
            self._take()
        return not self._is_whole

    def get_result(self) -> Any:
        """Return the statement's answer, or the first error; then None, which ends the query."""
        if self._is_read:
            return None
        # libpq would wait with Python's lock. Another thread needs it that holds the server connection in a
        # transaction.
        readable = select.poll()
        readable.register(self.socket, select.POLLIN)
        while self.is_busy():
            readable.poll()
            self._connection.consume_input()
        self._is_read = True
        failed = [result for result in self._results if result.status not in _FINE]
        return failed[0] if failed else self._results[len(self._before)]

    def exec_prepared(self, *arguments: Any) -> Any:
        """Send a statement with its parameters, and wait for the answer."""
        self.send_query_prepared(*arguments)
        answer = self.get_result()
        self.get_result()
        return answer

    def _take(self) -> None:
        """Take the next result; the mark that ends all of them makes the answer whole."""
        result = self._connection.get_result()
        if result is None:  # between two statements, or lost
            if self._connection.status == pq.ConnStatus.BAD:
                self._is_whole = True
                if all(one.status in _FINE for one in self._results):
                    raise psycopg.OperationalError("the server closed the connection")
        elif result.status == pq.ExecStatus.PIPELINE_SYNC:
            self._connection.exit_pipeline_mode()
            self._is_whole = True
        else:
            self._results.append(result)


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
    """Have each of a pool's server connections count what it has done.

    Before version 15, PostgreSQL counts half a second later: all connections are held for as long, at once.
    """
    count, held = _count(parameters), 0

    def flush(connection: psycopg.Connection[Any]) -> None:
        nonlocal held
        held += 1
        version = connection.info.server_version
        is_time = version >= SHARED_MEMORY_VERSION or held == count
        connection.execute(flush_statement(version) if is_time else "SELECT")

    _hold_each(parameters, count, then=flush)


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
    then: Callable[[psycopg.Connection[Any]], object] = lambda held: held.execute("SELECT"),
) -> None:
    """Hold one server connection after the other, until all are held.

    `before` is called before each, while all earlier ones are held, and `then` with a connection that holds
    it. The pooler gives out the one that was used last, so that `then` has the one that `before` had.
    """
    with ExitStack() as stack:
        for _ in range(count):
            before()
            holding = stack.enter_context(connect({**parameters, "application_name": CLIENT_APPLICATION}))
            stack.enter_context(holding.transaction())
            then(holding)
