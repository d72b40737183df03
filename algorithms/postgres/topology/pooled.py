"""A table whose queries go through a pooler: all else that IndexedTable does goes to the server itself.

Clients share server connections, which have the settings from when they were opened. What is read on one says
nothing of the others, and a client cannot choose one. But a transaction holds its server connection, and the
next query goes to another.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil
from psycopg import sql

from ..environment import PREFIX
from ..errors import PostgresError
from ..index.building import IndexHooks
from ..index.fitting import IndexedTable
from ..servers import chosen_programs, machine
from ..servers.account import server_account
from ..servers.extension import RequiredExtension
from ..servers.libpq import connect
from ..servers.local import LocalServer
from ..servers.whereabouts import most_connections
from ..session.session import STATEMENT, QuerySession
from ..session.statement import QueryStatement, changed, load_libraries, set_and_check
from ..settings import current_setting
from ..statistics.counters import CLIENT_APPLICATION, FLUSH
from . import Facts, SeveralWatch
from .pgbouncer import NAME, PgBouncer, find_program, most_clients

_READING = b"ann_settings"
_NAME_THERE = "SELECT name FROM pg_prepared_statements WHERE statement = %s"
_OTHER_CONNECTIONS = 20  # of those that watch, and those that PostgreSQL reserves
_VALUES = "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name"


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
            connect({**self.parameters, "dbname": NAME}).close()
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


def _count(parameters: Mapping[str, Any]) -> int:
    """Ask the pooler how many server connections it has."""
    with connect({**parameters, "dbname": NAME}) as console:  # the pooler's own database
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


class PooledTable(IndexedTable):
    """The table, and the pooler, which runs from the first query on until others have their turn."""

    def __init__(
        self,
        extension: RequiredExtension,
        metric: str,
        hooks: IndexHooks,
        pooler: str,
        size: int | None = None,
    ) -> None:
        """Take what the plug-in describes, the pooler, and the number of the pool's server connections.

        None: one for each core. PostgresError where the pooler cannot be had here.
        """
        super().__init__(extension, metric, hooks)
        if chosen_programs() is None:
            raise PostgresError(
                f"a pooler is started in front of a server of our own, and {PREFIX}HOST or the like names"
                " another's: unset these, or leave --pooler out"
            )
        self._size = size or machine.cores()
        program = find_program(server_account())
        self._version, self._pooler = program.version, PgBouncer(program)
        self._statement: PooledStatement | None = None  # the last one
        self._known: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})  # settings, as they are written

    @classmethod
    def known_facts(cls, extensions: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what would be stored, with the version of the pooler, if one is here."""
        facts = super().known_facts(extensions, arguments)
        with suppress(PostgresError):
            facts["pooler_version"] = find_program(server_account()).version
        return facts

    def most_clients(self) -> int | None:
        """Return how many clients can be connected: those that share connections are not limited by them."""
        return most_connections(most_clients())

    def statement(self, q: Any, n: int, settings: Mapping[str, str], rerank: int | None) -> QueryStatement:
        """Return the query for the n nearest rows, through a pooler that runs with these settings."""
        plain = super().statement(q, n, settings, rerank)
        expected = self._expected(plain.settings)
        assert isinstance(self.server, LocalServer)
        self._pooler.use(self.server, self._size, expected)
        parameters = self._pooler.parameters()
        statement = changed(plain, PooledStatement, parameters=parameters, expected=expected)
        self._statement = statement
        return statement

    def watch(self, flush: Callable[[], None]) -> SeveralWatch:
        def flush_all() -> None:
            flush()
            self._flush_shared()

        def processes() -> list[int] | None:
            process = self._pooler.process
            return None if process is None else [process.pid]

        server = super().watch(flush_all)
        return SeveralWatch([server], observing=lambda: pooler_cpu(self._pooler), processes=processes)

    def facts(self) -> dict[str, Any]:
        """Return what is stored; PostgresError where a server connection of the pool has other settings."""
        facts = super().facts() | {"pooler_version": self._version, "pooler_pool_size": self._size}
        if self._statement is not None and self._pooler.is_started:
            facts["pooler_connections"] = check_backends(self._statement)
        return facts

    def cool(self) -> None:
        self._pooler.stop()
        super().cool()

    def recover(self) -> None:
        """Stop the pooler, and have the server answer."""
        self._pooler.stop()
        super().recover()

    def release(self) -> None:
        """Stop the pooler, and let other runs use the table; the server runs on."""
        self._pooler.stop()
        super().release()

    def _expected(self, settings: Mapping[str, str]) -> Mapping[str, str]:
        """Return the settings as the server writes them; PostgresError where it refuses one."""
        if settings != self._known[0]:
            with self.server.connect() as connection:
                self._check_size(int(current_setting(connection, "max_connections")))
                load_libraries(connection, self._extension.all_names)
                set_and_check(connection, settings)
                self._known = settings, dict(connection.execute(_VALUES, [list(settings)]).fetchall())
        return self._known[1]

    def _check_size(self, most: int) -> None:
        """Raise PostgresError where the server has too few connections: the pool would be a smaller one."""
        if self._size > most - _OTHER_CONNECTIONS:
            raise PostgresError(
                f"a pool of {self._size} connections is too large: the server takes {most} (max_connections),"
                f" and {_OTHER_CONNECTIONS} are for others: give a smaller --pool-size"
            )

    def _flush_shared(self) -> None:
        """Have the shared server connections flush their statistics: a client reaches one of them."""
        if self._statement is not None and self._pooler.is_started:
            parameters = self._statement.parameters
            _hold_each(parameters, _count(parameters), holding=FLUSH)


@contextmanager
def pooler_cpu(pooler: PgBouncer) -> Iterator[Facts]:
    """Observe what CPU the pooler takes within; give the facts of it, which are not the server's."""
    used, passed = 0.0, 0.0

    def facts(queries: int) -> dict[str, float]:
        if not (passed and queries):
            return {}
        # Its share is that of one core: it has one thread.
        share = min(used / passed, 1.0)
        return {"pooler_cpu_seconds_per_query": used / queries, "pooler_busy_share": share}

    process, started = pooler.process, time.perf_counter()
    before = _cpu_seconds(process)
    yield facts
    after, seconds = _cpu_seconds(process), time.perf_counter() - started
    # Of one that has ended meanwhile, nothing is known, and of another one in its place neither.
    if before is not None and after is not None and process == pooler.process:
        used, passed = after - before, seconds


def _cpu_seconds(process: psutil.Process | None) -> float | None:
    with suppress(psutil.Error):
        if process is not None:
            return float(sum(process.cpu_times()[:2]))
    return None
