"""The table in which pgbench finds the queries, and the statement that looks them up."""

import re
import secrets
from contextlib import suppress
from typing import Any

import psycopg

from ..catalog import SCHEMA, try_lock
from ..columns import SparseColumn, is_sparse
from ..errors import PostgresError, refusal
from ..loading import copy_vectors
from ..servers.libpq import connect
from ..statement import QueryStatement, check_plan, load_libraries, set_and_check
from ..tables import create_table

_PREFIX = "pgbench_queries_"
_DROP_SECONDS = 10  # to wait for what the clients' backends still do


class QueryTable:
    """An unlogged table (id, embedding), of a name of its own, with the query that takes an id for a vector.

    A connection holds a lock on the name. A table whose name is not locked was left by a process that was
    killed, and is dropped by the next one.
    """

    def __init__(self, statement: QueryStatement, queries: Any, options: str) -> None:
        """Make it, and check the plan in a session that has `options` of libpq, as pgbench's will."""
        if statement.conditions is not None:
            raise PostgresError(
                "pgbench would take a filter's values out of a table, where the planner does not see them:"
                " leave --driver pgbench out"
            )
        self._statement = statement
        self.name = f"{SCHEMA}.{_PREFIX}{secrets.token_hex(8)}"
        self._connection = connect({**statement.parameters, "options": options})
        try:
            self._fill(queries)
            self._check_settings()
            self._check_index()
        except psycopg.Error as error:
            self.drop()
            raise refusal("the server cannot hold the queries for pgbench", error) from None
        except BaseException:
            self.drop()
            raise

    def sql(self, number: str) -> str:
        """The query with the vector of that number in the place of $1."""
        vector = f"(SELECT embedding FROM {self.name} WHERE id = {number})"
        return re.sub(r"\$1\b", lambda _: vector, self._statement.sql)

    def drop(self) -> None:
        """Drop it; where the server does not answer any more, the next one that is made does."""
        with suppress(psycopg.Error):
            self._connection.close()
        with suppress(psycopg.Error, PostgresError), connect(self._statement.parameters) as connection:
            connection.execute(f"SET lock_timeout = '{_DROP_SECONDS}s'")
            connection.execute(f"DROP TABLE IF EXISTS {self.name}")

    def _fill(self, queries: Any) -> None:
        connection = self._connection
        try_lock(connection, self.name)
        for (left,) in connection.execute(
            "SELECT schemaname || '.' || tablename FROM pg_tables"
            " WHERE schemaname = %s AND starts_with(tablename, %s)",
            [SCHEMA, _PREFIX],
        ).fetchall():
            if try_lock(connection, left):
                connection.execute(f"DROP TABLE IF EXISTS {left}")
        with connection.transaction():
            column = self._statement.column
            rows = column.rows(queries)
            if is_sparse(rows):  # queries may have more values than any row
                column = SparseColumn.of(rows)
            create_table(connection, self.name, column)
            connection.execute(f"ALTER TABLE {self.name} SET UNLOGGED")
            copy_vectors(connection, self.name, rows, column)
            connection.execute(f"ALTER TABLE {self.name} ADD PRIMARY KEY (id)")
        connection.execute(f"ANALYZE {self.name}")

    def _check_settings(self) -> None:
        """Make sure that they hold: a pooler may drop them, an extension's library refuse one late."""
        load_libraries(self._connection, self._statement.extensions)
        changed = set_and_check(self._connection, self._statement.settings)
        for name, (before, after) in changed.items():
            raise PostgresError(
                f"pgbench's sessions would have {name} = {before}, not {after}: is there a connection "
                "pooler? Name the server itself"
            )

    def _check_index(self) -> None:
        """Make sure that pgbench's query uses the index, or none."""
        self._connection.execute(f"PREPARE pgbench_query (int) AS {self.sql('$1')}")
        row = self._connection.execute("EXPLAIN (FORMAT JSON, VERBOSE) EXECUTE pgbench_query(0)").fetchone()
        assert row is not None
        check_plan(row[0][0]["Plan"], self._statement.index, "pgbench's query")
