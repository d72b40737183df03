"""A connection on which each statement has a transaction with settings: BEGIN; SET LOCAL; ...; COMMIT.

All of that is one pipeline: it takes one round trip, and holds a server connection of a pooler no longer.
"""

import select
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import pq, sql

_BEGIN, _COMMIT = b"ann_begin", b"ann_commit"
_FINE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


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
    """A connection that puts prepared statements around each that is sent, behind what clients use of it."""

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
        while self.is_busy():
            self._wait()
        self._is_read = True
        failed = [result for result in self._results if result.status not in _FINE]
        return failed[0] if failed else self._results[len(self._before)]

    def exec_prepared(self, *arguments: Any) -> Any:
        """Send a statement with its parameters, and wait for the answer."""
        self.send_query_prepared(*arguments)
        answer = self.get_result()
        self.get_result()
        return answer

    def _wait(self) -> None:
        """Wait until there is something to read.

        libpq would wait with Python's lock. Another thread needs it that holds the server connection in a
        transaction.
        """
        readable = select.poll()
        readable.register(self.socket, select.POLLIN)
        readable.poll()
        self._connection.consume_input()

    def _take(self) -> None:
        """Take the next result; the mark that ends all of them makes the answer whole."""
        result = self._connection.get_result()
        if result is None:
            if self._connection.status == pq.ConnStatus.BAD:
                self._lose()
            return  # between two statements
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            self._connection.exit_pipeline_mode()
            self._is_whole = True
            return
        self._results.append(result)

    def _lose(self) -> None:
        self._is_whole = True
        if not any(result.status not in _FINE for result in self._results):
            raise psycopg.OperationalError("the server closed the connection")
