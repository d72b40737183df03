"""The table in which pgbench finds the queries, and the statement that looks them up."""

import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import psycopg

from ..catalog import SCHEMA
from ..errors import PostgresError, refusal
from ..loading import copy_vectors
from ..plan import index_of_plan
from ..servers.base import connect
from ..session import Asking
from ..tables import create_table

_PREFIX = "pgbench_queries_"
_DROP_SECONDS = 10  # to wait for what the clients' backends still do


class QueryTable:
    """An unlogged table (id, embedding), of a name of its own, with the query that takes an id for a vector.

    A connection holds a lock on the name, by which the next one tells a table in use from one that was left
    by a process that was killed, and drops the latter.
    """

    def __init__(self, asking: Asking, queries: np.ndarray[Any, Any], options: str) -> None:
        """Make it, and check the plan in a session that has `options` of libpq, as pgbench's will."""
        self._asking = asking
        self.name = f"{SCHEMA}.{_PREFIX}{secrets.token_hex(8)}"
        self._connection = connect({**asking.parameters, "options": options})
        try:
            self._fill(queries)
            self._check_settings(asking.settings)
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
        return re.sub(r"\$1\b", lambda _: vector, self._asking.sql)

    def drop(self) -> None:
        """Drop it; where the server does not answer any more, the next one that is made does."""
        with suppress(psycopg.Error):
            self._connection.close()
        with suppress(psycopg.Error, PostgresError), connect(self._asking.parameters) as connection:
            connection.execute(f"SET lock_timeout = '{_DROP_SECONDS}s'")
            connection.execute(f"DROP TABLE IF EXISTS {self.name}")

    def _fill(self, queries: np.ndarray[Any, Any]) -> None:
        connection = self._connection
        self._lock(self.name)
        for (left,) in connection.execute(
            "SELECT schemaname || '.' || tablename FROM pg_tables"
            " WHERE schemaname = %s AND starts_with(tablename, %s)",
            [SCHEMA, _PREFIX],
        ).fetchall():
            if self._lock(left):
                connection.execute(f"DROP TABLE IF EXISTS {left}")
        with connection.transaction():
            create_table(connection, self.name, "vector", self._asking.dimension)
            connection.execute(f"ALTER TABLE {self.name} SET UNLOGGED")
            copy_vectors(connection, self.name, queries)
            connection.execute(f"ALTER TABLE {self.name} ADD PRIMARY KEY (id)")
        connection.execute(f"ANALYZE {self.name}")

    def _lock(self, name: str) -> bool:
        row = self._connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [name])
        return row.fetchone() == (True,)

    def _check_settings(self, settings: Mapping[str, str]) -> None:
        """Make sure that they hold: a pooler may swallow them, an extension's library refuse one late."""
        self._connection.execute("SELECT '[1]'::vector")  # loads pgvector's library, and so its settings
        for name, value in settings.items():
            try:
                row = self._connection.execute(
                    "SELECT current_setting(%s, true), set_config(%s, %s, false)", [name, name, value]
                ).fetchone()
            except psycopg.Error as error:
                raise refusal(f"the server refuses {name} = {value}", error) from None
            assert row is not None
            if row[0] != row[1]:
                raise PostgresError(
                    f"pgbench's sessions would have {name} = {row[0]}, not {row[1]}: is there a connection "
                    "pooler? Name the server itself"
                )

    def _check_index(self) -> None:
        """Make sure that the query uses the index, or none: the figures are said to be its own."""
        self._connection.execute(f"PREPARE pgbench_query (int) AS {self.sql('$1')}")
        row = self._connection.execute("EXPLAIN (FORMAT JSON, VERBOSE) EXECUTE pgbench_query(0)").fetchone()
        assert row is not None
        used, index = index_of_plan(row[0][0]["Plan"]), self._asking.index
        if used != index:
            expected = f"use the index {index}" if index else "scan the whole table"
            instead = f"uses {used}" if used else "scans the whole table"
            raise PostgresError(f"pgbench's query does not {expected} but {instead}")
