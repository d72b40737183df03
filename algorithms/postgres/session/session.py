"""The connections that are measured: libpq itself, binary both ways, nothing in between."""

import gc
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from psycopg import pq

from ..errors import PostgresError, refusal
from ..servers.libpq import SHARED_BACKENDS, backend_of, connect
from ..statistics.counters import CLIENT_APPLICATION, FLUSH
from .statement import (
    CUSTOM_FIRST,
    QueryStatement,
    blocks,
    load_libraries,
    plan_names,
    rows_removed,
    set_and_check,
)

STATEMENT = b"ann_query"
_RUN_SECONDS = 0.2  # for queries that are run once more, to see what they read
# Also those that PostgreSQL takes on its fast path; but not what this question locks itself.
_LOCKS = """
    SELECT count(DISTINCT relation) FROM pg_locks
    WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation <> 'pg_locks'::regclass"""
_OF_THE_PLACE = "'application_name', 'client_encoding', 'primary_conninfo', 'unix_socket_directories'"
_CHANGED = "SELECT count(*) FROM pg_settings WHERE name = ANY(%s) AND setting IS DISTINCT FROM boot_val"


@dataclass(frozen=True)
class SessionFacts:
    """A session that is ready: its process here, that of its backend, and its settings and plan."""

    process: int
    backend: int
    settings: dict[str, str]  # those that are not the server's built-in defaults
    plan: str  # JSON


@dataclass
class PayloadSize:
    """The bytes of what answers have beside their ids, and the number of these answers."""

    total: int = 0
    answers: int = 0

    def facts(self) -> dict[str, float]:
        """Return what is stored: the mean."""
        return {"payload_bytes": self.total / self.answers} if self.answers else {}


class PreparedSession:
    """One connection with the libraries that its settings need, for statements that libpq executes."""

    doing = "the statement"  # what the server refuses, in its errors

    def __init__(self, parameters: Mapping[str, Any], application: str, extensions: Iterable[str]) -> None:
        """Connect under the application's name, and load the extensions' libraries."""
        self._connection = connect({**parameters, "application_name": application})
        self.backend = backend_of(self._connection)
        self.libpq: Any = self._connection.pgconn
        self.execute: Callable[..., pq.abc.PGresult] = self.libpq.exec_prepared
        load_libraries(self._connection, extensions)

    def prepare(self, name: bytes, sql: str) -> None:
        """Prepare a statement."""
        self.check(self.libpq.prepare(name, sql.encode()))

    def check(self, result: pq.abc.PGresult) -> None:
        """Raise what the server reports, if it is an error."""
        if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            error = psycopg.errors.error_from_result(result)
            if error.sqlstate is None or self.libpq.status == pq.ConnStatus.BAD:
                raise PostgresError(f"the connection was lost: {' '.join(str(error).split())}")
            raise refusal(f"the server refuses {self.doing}", error)

    def facts(self) -> SessionFacts:
        """Describe it."""
        return SessionFacts(os.getpid(), self.backend, {}, "")

    def check_settings(self) -> None:
        """Raise PostgresError where another backend executes the statements, which lacks their settings."""
        if backend_of(self._connection) != self.backend:
            raise PostgresError(SHARED_BACKENDS)

    def flush_statistics(self) -> None:
        """Have the server count what this session has done, which it would do some seconds later."""
        self._connection.execute(FLUSH)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class QuerySession(PreparedSession):
    """A session with one prepared statement that takes a query's parameters and returns ids.

    `encode` makes a query these parameters, valid until the next call.
    """

    doing = "the query"
    _executed = STATEMENT.decode()  # what EXECUTE calls the statement

    def __init__(self, statement: QueryStatement) -> None:
        super().__init__(statement.parameters, CLIENT_APPLICATION, statement.extensions)
        self._statement, self.has_filter = statement, statement.has_filter
        self.encode, self.formats = statement.encoder(), statement.formats
        self.payload = PayloadSize()  # of the answers that were decoded
        self.prepare(STATEMENT, statement.sql)
        self._set(statement.settings)
        plan = self.plan(statement.example, statement.example_values)
        self.plan_text = json.dumps(plan)
        statement.check(self._connection, plan)

    def check(self, result: pq.abc.PGresult) -> None:
        """Raise what the server reports, if it is an error."""
        try:
            super().check(result)
        except PostgresError as error:
            raise self._statement.attributed(error) from None

    def explained(self, error: Exception) -> Exception:
        """Return an error of a query that was sent, with what it is due to where the connection was lost."""
        if not isinstance(error, psycopg.OperationalError):
            return error
        return self._statement.attributed(
            PostgresError(f"the connection was lost: {' '.join(str(error).split())}")
        )

    def flush_statistics(self) -> None:
        """Have the servers count what this session has done."""
        super().flush_statistics()
        self._statement.flush(self._connection)

    def takes(self, query: Any) -> bool:
        """Whether the statement has the columns and operators that the query compares."""
        conditions = self._statement.conditions
        return conditions is None or conditions.shape == query.filter.shape

    def run(self, parameters: tuple[Any, ...]) -> pq.abc.PGresult:
        """Run the statement with an encoded query and wait for the answer."""
        try:
            return self.execute(STATEMENT, parameters, self.formats, 1)
        except psycopg.OperationalError as error:
            raise self.explained(error) from None

    def time_queries(self, queries: Sequence[Any]) -> tuple[np.ndarray[Any, Any], list[list[int]]]:
        """Run one query after the other; return the seconds of each and its ids.

        Nothing but sending, waiting and two readings of the clock happens between two queries: they are
        encoded before, answers decoded after, and the garbage collector waits.
        """
        self.payload = PayloadSize()  # what is stored is of the last queries, and of no warm-up
        execute, clock, formats = self.execute, time.perf_counter, self.formats
        encoded = [tuple(map(bytes, self.encode(query))) for query in queries]
        results: list[pq.abc.PGresult] = []
        stamps: list[float] = []
        keep, note = results.append, stamps.append
        collects = gc.isenabled()
        gc.disable()
        try:
            for parameters in encoded:
                note(clock())
                keep(execute(STATEMENT, parameters, formats, 1))
                note(clock())
        except psycopg.OperationalError as error:
            raise self.explained(error) from None
        finally:
            if collects:
                gc.enable()
        return np.diff(np.array(stamps).reshape(-1, 2)).ravel(), [self.ids(result) for result in results]

    def ids(self, result: pq.abc.PGresult) -> list[int]:
        """Decode an answer; the server's error, if it is one, is raised here."""
        if result.status != pq.ExecStatus.TUPLES_OK:
            self.check(result)
        self._statement.check_rows(result.ntuples)
        if self._statement.has_payload:
            value = result.get_value
            self.payload.total += sum(len(value(row, 1) or b"") for row in range(result.ntuples))
            self.payload.answers += 1
        values = [result.get_value(row, 0) for row in range(result.ntuples)]
        if not all(values):
            raise PostgresError("an answer has NULL in place of an id: each row needs one")
        return [int.from_bytes(value, "big") for value in values if value]

    def plan(self, example: str, values: Sequence[str] = ()) -> dict[str, Any]:
        """Return the plan that the statement has for a query: its vector's literal, its filter's values."""
        plan: dict[str, Any] = self._explained([f"'{example}'", *values], "VERBOSE")["Plan"]
        return plan

    def explain(self, query: Any, *options: str) -> dict[str, Any]:
        """Return what EXPLAIN says of a query with a filter: its "Plan", and more with further options."""
        statement = self._statement
        assert statement.conditions is not None
        vector = f"'{statement.column.literal(query.vector)}'"
        return self._explained([vector, *statement.conditions.literals(query.filter)], "VERBOSE", *options)

    def plan_facts(self, queries: Sequence[Any]) -> dict[str, Any]:
        """Return what is stored of the plans of queries with a filter, in a session that does nothing else.

        `plans` is the share of queries that has each, as JSON, the most frequent first. As in a session that
        queries, the first executions are planned anew, and do not count there: their mean is `planning_time`
        in s. `locks` is the most relations that a query's transaction locks. `rows_removed` and `blocks` are
        means of the queries that are run in 0.2 s.
        """
        first = (queries[place % len(queries)] for place in range(CUSTOM_FIRST))
        anew = [self._explain_and_lock(query, "SUMMARY") for query in first]
        planned = [self._explain_and_lock(query) for query in queries]
        done: list[Mapping[str, Any]] = []
        ends = time.monotonic() + _RUN_SECONDS
        for query in queries:
            done.append(self.explain(query, "ANALYZE", "TIMING OFF", "BUFFERS")["Plan"])
            if time.monotonic() > ends:
                break
        counts = Counter(plan_names(self._connection, [found["Plan"] for found, _ in planned]))
        shares = {name: round(count / len(queries), 4) for name, count in counts.most_common()}
        return {
            "plans": json.dumps(shares),
            "planning_time": sum(found["Planning Time"] for found, _ in anew) / len(anew) / 1000,
            "locks": max(locks for _, locks in [*anew, *planned]),
            "rows_removed": sum(map(rows_removed, done)) / len(done),
            "blocks": sum(map(blocks, done)) / len(done),
        }

    def _explain_and_lock(self, query: Any, *options: str) -> tuple[dict[str, Any], int]:
        """Return what EXPLAIN says, and how many relations the query's transaction has locked at its end."""
        with self._connection.transaction():
            found = self.explain(query, *options)
            row = self._connection.execute(_LOCKS).fetchone()
        assert row is not None
        return found, row[0]

    def has_defaults(self, names: Iterable[str]) -> bool:
        """Whether each of these settings has the value that the server, or its extension, is built with."""
        row = self._connection.execute(_CHANGED, [list(names)]).fetchone()
        assert row is not None
        return not row[0]

    def _set(self, settings: Mapping[str, str]) -> None:
        """Have the statement run with these settings; PostgresError where the server refuses one."""
        set_and_check(self._connection, settings)

    def _explained(self, arguments: Sequence[str], *options: str) -> dict[str, Any]:
        try:
            row = self._connection.execute(
                f"EXPLAIN ({', '.join(['FORMAT JSON', *options])})"
                f" EXECUTE {self._executed}({', '.join(arguments)})"
            ).fetchone()
        except psycopg.DatabaseError as error:
            doing = "run" if "ANALYZE" in options else "plan"
            raise refusal(f"the server cannot {doing} the query", error) from None
        assert row is not None
        found: dict[str, Any] = row[0][0]
        return found

    def facts(self) -> SessionFacts:
        """Describe it, with every setting that is not the server's built-in default."""
        self.check_settings()
        rows = self._connection.execute(
            "SELECT name, current_setting(name) FROM pg_settings"
            " WHERE source NOT IN ('default', 'override') AND setting IS DISTINCT FROM boot_val"
            f" AND name NOT IN ({_OF_THE_PLACE}) ORDER BY name"
        ).fetchall()
        return SessionFacts(os.getpid(), self.backend, dict(rows), self.plan_text)


def open_session(statement: QueryStatement) -> QuerySession:
    """Open what sends a statement: one session, or what the statement has in its place."""
    session: QuerySession = (statement.session_class() or QuerySession)(statement)
    return session
