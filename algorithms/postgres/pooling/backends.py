"""The server connections of a pool, one after the other: what is read on one says nothing of the others.

A client cannot choose one. But a transaction holds its server connection, and the next query goes to another.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import psycopg

from ..errors import PostgresError
from ..servers.libpq import connect
from ..watching import CLIENT_APPLICATION, flush_statement
from ..watching.counters import SHARED_MEMORY_VERSION
from .session import PooledSession
from .statement import ADMIN, PooledStatement


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
