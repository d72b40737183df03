"""The engine in the client: it sends a query to all shards at the same time, and merges their answers."""

import select
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import psycopg
from psycopg import pq

from ..errors import PostgresError, naming
from ..servers.extension import RequiredExtension
from ..session.session import PayloadSize, QuerySession
from ..session.statement import QueryStatement, changed
from .shard import Engine, Neighbors, Shard

_DISTANCE = struct.Struct(">d")
_NO_DISTANCE = _DISTANCE.pack(float("nan"))
_FINE = pq.ExecStatus.TUPLES_OK


class ClientEngine(Engine):
    """Clients that ask the shards themselves."""

    def __init__(self, extension: RequiredExtension) -> None:
        """Raise PostgresError where clients cannot wait for several connections, as they do by epoll."""
        super().__init__(extension)
        if sys.platform != "linux":
            raise PostgresError("the shard engine client needs Linux: use --shard-engine citus")

    def statement(
        self, shards: Sequence[Shard], each: Sequence[QueryStatement], neighbors: Neighbors
    ) -> QueryStatement:
        scattered = [
            changed(one, QueryStatement, sql=scattered_sql(shard.table_name, neighbors))
            for shard, one in zip(shards, each, strict=True)
        ]
        statement: QueryStatement = changed(scattered[0], ScatteredStatement, shards=tuple(scattered))
        return statement


def scattered_sql(table: str, neighbors: Neighbors) -> str:
    """Return the query for the nearest rows of one shard with their distances, by which they are merged."""
    source, distance = table, neighbors.distance
    if neighbors.rerank is not None:
        nearest = (
            f"SELECT id, embedding FROM {table} ORDER BY {neighbors.form.comparison} LIMIT {neighbors.rerank}"
        )
        source = f"({nearest}) AS candidates"
    return f"SELECT id, {distance} AS distance FROM {source} ORDER BY {distance} LIMIT {neighbors.count}"


@dataclass(frozen=True)
class ScatteredStatement(QueryStatement):
    """A statement of each shard, which returns ids and distances; the other fields are the first one's."""

    shards: tuple[QueryStatement, ...] = ()

    def session_class(self) -> type[Any]:
        return ScatteredSession


class ScatteredSession(QuerySession):
    """A session of each shard, with its own settings and plan checked, behind what one session offers."""

    def __init__(self, statement: ScatteredStatement) -> None:
        self.sessions: list[QuerySession] = []
        try:
            for number, one in enumerate(statement.shards, 1):
                with naming(f"shard {number} of {len(statement.shards)}"):
                    self.sessions.append(QuerySession(one))
            connections = [session.libpq for session in self.sessions]
            self.libpq: Any = ScatteredConnections(connections, statement.count)
        except BaseException:
            self.close()
            raise
        self._statement, self.has_filter = statement, False
        self.encode, self.formats = statement.encoder(), statement.formats
        self.execute = self.libpq.exec_prepared
        self.payload = PayloadSize()
        self.backend, self.plan_text = self.sessions[0].backend, self.sessions[0].plan_text
        self._connection = self.sessions[0]._connection

    def check(self, result: Any) -> None:
        place = self.libpq.failed
        with naming(f"shard {place + 1} of {len(self.sessions)}"):
            self.sessions[place].check(result)

    def check_settings(self) -> None:
        """Raise PostgresError where a shard's session has other settings than it was given."""
        for session in self.sessions:
            session.check_settings()

    def flush_statistics(self) -> None:
        for session in self.sessions:
            session.flush_statistics()

    def close(self) -> None:
        for session in self.sessions:
            session.close()


class MergedAnswer:
    """The nearest rows of the answers of shards, as libpq returns an answer."""

    status = _FINE

    def __init__(self, answers: Sequence[pq.abc.PGresult], count: int) -> None:
        """Take the answers, each row an id and a distance in binary."""
        rows = []
        for answer in answers:
            value = answer.get_value
            for row in range(answer.ntuples):
                (distance,) = _DISTANCE.unpack(value(row, 1) or _NO_DISTANCE)
                # NaN, which a vector without a direction has, comes last, as on the server.
                rows.append((distance != distance, distance, value(row, 0) or b""))
        rows.sort()
        self._ids = [row[2] for row in rows[:count]]
        self.ntuples = len(self._ids)

    def get_value(self, row: int, column: int) -> bytes | None:
        """Return an id in binary."""
        return self._ids[row]


class ScatteredConnections:
    """A connection to each shard, behind what clients use of one.

    They wait for one descriptor, which can be read when any of the connections can.
    """

    def __init__(self, connections: Sequence[pq.abc.PGconn], count: int) -> None:
        """Take the connections; an answer has `count` rows at most."""
        self.failed = 0  # the shard of the last error
        self._connections, self._count = connections, count
        self._poller = select.epoll()
        self.socket = self._poller.fileno()
        self._places_by_socket = {connection.socket: place for place, connection in enumerate(connections)}
        for socket in self._places_by_socket:
            self._poller.register(socket, select.EPOLLIN)
        self._busy: set[int] = set()
        self._is_read = True

    @property
    def status(self) -> int:
        """Whether the connection of the last error is fine."""
        return self._connections[self.failed].status

    def send_query_prepared(self, *arguments: Any) -> None:
        """Send a statement with its parameters to all shards."""
        self._busy, self._is_read = set(range(len(self._connections))), False
        for place, connection in enumerate(self._connections):
            try:
                connection.send_query_prepared(*arguments)
            except psycopg.OperationalError as error:
                self._lose(place, error)

    def consume_input(self) -> None:
        """Read what has come on any of the connections."""
        for socket, _ in self._poller.poll(0):
            place = self._places_by_socket[socket]
            connection = self._connections[place]
            try:
                connection.consume_input()
            except psycopg.OperationalError as error:
                self._lose(place, error)
            if place in self._busy and not connection.is_busy():
                self._busy.remove(place)

    def is_busy(self) -> bool:
        """Whether an answer is still on its way."""
        return bool(self._busy)

    def get_result(self) -> Any:
        """Return all answers as one, or the first error; then None, which ends the query."""
        if self._is_read:
            return None
        self._is_read, self._busy = True, set()
        answers = [connection.get_result() for connection in self._connections]
        for connection in self._connections:
            connection.get_result()  # None
        for place, answer in enumerate(answers):
            if answer is None:
                self._lose(place, psycopg.OperationalError("it did not answer"))
            if answer.status != _FINE:
                self.failed = place
                return answer
        return MergedAnswer([answer for answer in answers if answer is not None], self._count)

    def exec_prepared(self, *arguments: Any) -> Any:
        """Send a statement with its parameters to all shards, and wait for all answers."""
        self.send_query_prepared(*arguments)
        answer = self.get_result()
        self.get_result()
        return answer

    def _lose(self, place: int, error: psycopg.Error) -> NoReturn:
        self.failed = place
        reason = " ".join(str(error).split())
        raise PostgresError(
            f"shard {place + 1} of {len(self._connections)}: the connection was lost: {reason}"
        ) from None
