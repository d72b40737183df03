"""The connection that queries are measured on: libpq itself, binary both ways, nothing in between."""

import gc
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from psycopg import pq

from .encoding import VectorEncoder, text_vector
from .errors import PostgresError, refusal
from .plan import index_of_plan
from .servers.base import connect
from .watching import CLIENT_APPLICATION, flush_statement

STATEMENT = b"ann_query"
_BINARY = (1,)


@dataclass(frozen=True)
class Asking:
    """All that it takes to ask a server, also from another process."""

    parameters: Mapping[str, Any]  # of libpq
    sql: str  # in which $1 is a vector
    dimension: int
    settings: Mapping[str, str]  # of the session
    index: str | None  # that the plan has to use; None: it has to use none


class QuerySession:
    """One connection with one prepared statement that takes a vector and returns ids."""

    def __init__(self, asking: Asking, vector: np.ndarray[Any, Any]) -> None:
        """Connect, prepare the statement, and check its plan for a vector."""
        self.encode = VectorEncoder(asking.dimension).encode
        self.plan_text = ""
        self._connection = connect({**asking.parameters, "application_name": CLIENT_APPLICATION})
        self.backend = self._connection.info.backend_pid
        self._libpq = self._connection.pgconn
        self.execute = self._libpq.exec_prepared
        self._connection.execute("SELECT '[1]'::vector")  # loads pgvector's library, and so its settings
        self._check(self._libpq.prepare(STATEMENT, asking.sql.encode()))
        self.set(asking.settings)
        self.check_index(vector, asking.index)

    def set(self, settings: Mapping[str, str]) -> None:
        """Apply settings; one that the server does not know, or a value that it refuses, is an error."""
        for name, value in settings.items():
            try:
                self._connection.execute("SELECT set_config(%s, %s, false)", [name, value])
                known = self._connection.execute("SELECT 1 FROM pg_settings WHERE name = %s", [name])
            except psycopg.Error as error:
                raise PostgresError(
                    f"the server refuses {name} = {value}: {error.diag.message_primary}"
                ) from None
            if known.rowcount == 0:
                raise PostgresError(f"the server has no setting {name}: is the extension's library loaded?")

    def run(self, parameter: bytes | bytearray) -> pq.abc.PGresult:
        """Run the statement with an encoded vector and wait for the answer."""
        return self.execute(STATEMENT, (parameter,), _BINARY, 1)

    def time_queries(self, vectors: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], list[list[int]]]:
        """Run one query after the other; return the seconds of each and its ids.

        Nothing but sending, waiting and two readings of the clock happens between two queries: vectors are
        encoded before, answers decoded after, and the garbage collector waits.
        """
        execute, clock = self.execute, time.perf_counter
        parameters = [(bytes(self.encode(vector)),) for vector in vectors]
        results: list[pq.abc.PGresult] = []
        stamps: list[float] = []
        keep, note = results.append, stamps.append
        collects = gc.isenabled()
        gc.disable()
        try:
            for parameter in parameters:
                note(clock())
                keep(execute(STATEMENT, parameter, _BINARY, 1))
                note(clock())
        finally:
            if collects:
                gc.enable()
        return np.diff(np.array(stamps).reshape(-1, 2)).ravel(), [self.ids(result) for result in results]

    def ids(self, result: pq.abc.PGresult) -> list[int]:
        """Decode an answer; the server's error, if it is one, is raised here."""
        if result.status != pq.ExecStatus.TUPLES_OK:
            self._check(result)
        value = result.get_value
        return [int.from_bytes(value(row, 0) or b"", "big") for row in range(result.ntuples)]

    def plan(self, vector: np.ndarray[Any, Any]) -> dict[str, Any]:
        """Return the plan that the statement has."""
        try:
            row = self._connection.execute(
                f"EXPLAIN (FORMAT JSON, VERBOSE) EXECUTE ann_query('{text_vector(vector)}')"
            ).fetchone()
        except psycopg.DatabaseError as error:
            raise refusal("the server cannot plan the query", error) from None
        assert row is not None
        plan: dict[str, Any] = row[0][0]["Plan"]
        return plan

    def check_index(self, vector: np.ndarray[Any, Any], index: str | None) -> None:
        """Make sure that the statement uses this index, or none: the figures are said to be its own."""
        plan = self.plan(vector)
        self.plan_text = json.dumps(plan)
        used = index_of_plan(plan)
        if used != index:
            expected = f"use the index {index}" if index else "scan the whole table"
            raise PostgresError(
                f"the query does not {expected} but {f'uses {used}' if used else 'scans the whole table'}"
            )

    def changed_settings(self) -> dict[str, str]:
        """Every setting of this session that is not the server's built-in default."""
        rows = self._connection.execute(
            "SELECT name, current_setting(name) FROM pg_settings"
            " WHERE source NOT IN ('default', 'override') AND setting IS DISTINCT FROM boot_val"
            " AND name NOT IN ('application_name', 'unix_socket_directories') ORDER BY name"
        ).fetchall()
        return dict(rows)

    def flush_statistics(self) -> None:
        """Have the server count what this session has read, which it would do some seconds later."""
        self._connection.execute(flush_statement(self._connection.info.server_version))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _check(self, result: pq.abc.PGresult) -> None:
        if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            error = psycopg.errors.error_from_result(result)
            if error.sqlstate is None:
                raise PostgresError(f"the connection was lost: {' '.join(str(error).split())}")
            raise refusal("the server refuses the query", error)
