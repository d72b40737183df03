"""A table that is written to on the primary, while its standbys answer the queries."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from statistics import fmean
from typing import Any

import psycopg

from ..columns import Column
from ..errors import PostgresError, naming_replica
from ..servers import Server
from ..writing import WritableTable
from .lag import watching_connection
from .position import WrittenLog, replayed, settled, written
from .replica import Replica

_PAUSE_SECONDS = 60.0  # until a standby has come to a place in the log where it can pause
_PAUSE_STATE = 140000  # the version that has it
_IS_PAUSED = "SELECT pg_get_wal_replay_pause_state() = 'paused'"


class ReplicatedWritable(WritableTable):
    """What PostgresANN.open_writable gives where there are replicas."""

    def __init__(
        self,
        server: Server,
        column: Column,
        extensions: tuple[str, ...],
        replicas: Sequence[Replica],
        log: Callable[[], WrittenLog],
    ) -> None:
        """Take the standbys, and what returns the log of the last run."""
        super().__init__(server, column, extensions)
        self._replicas, self._log = replicas, log
        self._connections: list[psycopg.Connection[Any]] = []  # to each, which pause it at once

    def settle(self) -> None:
        """Wait until all standbys have what was written."""
        position = settled(self._server)
        for replica in self._replicas:
            with naming_replica(replica.number, replica.count):
                replica.wait_for(position)
        if (log := self._log()).is_held:
            log.go_on(time.perf_counter())
        self._connect()

    @contextmanager
    def at_this_moment(self) -> Iterator[Callable[[], Mapping[str, float]]]:
        """Have all standbys replay nothing within; give what returns how far they are behind.

        That is in bytes, and in s: the means of all standbys. It waits until each has paused.
        """
        self._connect()
        try:
            for place, connection in enumerate(self._connections, 1):
                with naming_replica(place, len(self._replicas)):
                    connection.execute("SELECT pg_wal_replay_pause()")
            log, now = self._log(), time.perf_counter()
            log.hold(now)
            yield lambda: self._behind(log, now)
        finally:
            for connection in self._connections:
                with suppress(psycopg.Error):  # one that has ended begins anew without a pause
                    connection.execute("SELECT pg_wal_replay_resume()")

    def close(self) -> None:
        """Drop it."""
        for connection in self._connections:
            connection.close()
        super().close()

    def _connect(self) -> None:
        if not self._connections:
            self._connections = [watching_connection(replica.server) for replica in self._replicas]

    def _behind(self, log: WrittenLog, now: float) -> dict[str, float]:
        for place, connection in enumerate(self._connections, 1):
            with naming_replica(place, len(self._replicas)):
                _wait_until_paused(connection)
        with self._server.connect() as primary:
            position = written(primary)
        log.note(now, position)
        known = [replayed(connection) for connection in self._connections]
        return {
            "recall_lag_bytes": fmean(max(position - one, 0) for one in known),
            "recall_lag_seconds": fmean(log.seconds_behind(one, log.last_growth) for one in known),
        }


def _wait_until_paused(connection: psycopg.Connection[Any]) -> None:
    if connection.info.server_version < _PAUSE_STATE:
        return
    deadline = time.monotonic() + _PAUSE_SECONDS
    while connection.execute(_IS_PAUSED).fetchone() != (True,):
        if time.monotonic() > deadline:
            raise PostgresError(f"its replay did not pause within {_PAUSE_SECONDS:.0f} s")
        time.sleep(0.001)
