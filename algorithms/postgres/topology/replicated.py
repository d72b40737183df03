"""A table and its index on a primary, with standbys that follow its log and answer queries in its place."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import psycopg

from .. import catalog
from ..catalog import LoadedTable
from ..environment import given_settings
from ..errors import PostgresError
from ..index.building import IndexHooks
from ..index.fitting import IndexedTable
from ..servers import Server, current_server, stop_replicas
from ..servers.extension import RequiredExtension
from ..servers.machine import drop_from_cache
from ..session.session import SessionFacts
from ..session.statement import QueryStatement, changed
from ..settings import settable
from ..statistics.watch import ServerWatch
from ..table import Column
from ..writing.table import WritableTable
from . import SeveralWatch
from .replica import Replica, WrittenLog, replayed, sampled_lag, settled, watching_connection, written

_SYNCHRONOUS = "synchronous_standby_names"
_PAUSE_SECONDS = 60.0  # until a standby has come to a place in the log where it can pause
_PAUSE_STATE = 140000  # the version that has it
_IS_PAUSED = "SELECT pg_get_wal_replay_pause_state() = 'paused'"


class ReplicatedTable(IndexedTable):
    """What IndexedTable is, where clients query standbys; without one, they query the primary.

    While a table is loaded or an index built, no standby runs: they would take CPU from it.
    """

    def __init__(
        self, extension: RequiredExtension, metric: str, hooks: IndexHooks, count: int, most: int = 0
    ) -> None:
        """Take what the plug-in describes; nothing is started yet. Each server has the memory of `most`."""
        super().__init__(extension, metric, hooks.entering(stop_replicas))
        self._replicas = [Replica(number, count, max(count, most)) for number in range(1, count + 1)]
        self._log = WrittenLog()  # of the last run, which may go on
        self._where, self._servers = f"{count} replicas", 1 + max(count, most)

    def statement(self, q: Any, n: int, settings: Mapping[str, str], rerank: int | None) -> QueryStatement:
        statement = super().statement(q, n, settings, rerank)
        if not self._replicas:
            return statement
        hosts = tuple(replica.server.connection_parameters() for replica in self._replicas)
        replicated: QueryStatement = changed(statement, ReplicaStatement, parameters=hosts[0], hosts=hosts)
        return replicated

    def check_sessions(self, sessions: Sequence[SessionFacts]) -> None:
        """Make sure that all replicas run with the same settings; each session has checked its plan."""
        settings = [session.settings for session in sessions[: len(self._replicas)]]
        for number, own in enumerate(settings, 1):
            for name in {**settings[0], **own}:
                one, other = (some.get(name, "its default") for some in (settings[0], own))
                if one != other:
                    raise PostgresError(
                        f"replica 1 runs with {name} = {one}, and replica {number} with {other}: use the same"
                    )

    def watch(self, flush: Callable[[], None]) -> Any:
        if not self._replicas:
            return super().watch(flush)
        table, index = self.names()
        assert table is not None
        watches = [
            ServerWatch(replica.server, table, index, flush, replica.title, is_standby=True)
            for replica in self._replicas
        ]
        primary = ServerWatch(self.server, table, index, name="the primary", is_standby=False)
        servers = [replica.server for replica in self._replicas]
        return SeveralWatch(
            watches,
            ("primary", primary),
            observing=lambda: sampled_lag(self.server, servers, self._begun_log()),
        )

    def facts(self) -> dict[str, Any]:
        """Return what is stored of the primary's table and index, and of how the replicas were made."""
        if not self._replicas:
            return super().facts()
        return super().facts() | {
            "replica_times": [replica.seconds for replica in self._replicas],
            "replica_backup_times": [replica.backup_seconds for replica in self._replicas],
        }

    def cool(self) -> None:
        super().cool()
        for replica in self._replicas:
            replica.server.stop()
            self._facts["caches_dropped"] &= drop_from_cache(replica.server.data_folder)

    def resume(self) -> bool:
        is_pushed_out = super().resume()
        self._follow()
        return is_pushed_out

    def recover(self) -> None:
        super().recover()
        self._follow(has_failed=True)

    def _start_server(self) -> Server:
        if _SYNCHRONOUS in given_settings():
            raise PostgresError(
                f"{_SYNCHRONOUS} would have the load wait for replicas that are made after it: leave it out"
            )
        server = current_server()
        server.serve_standbys()
        self._extension.start_server(server)
        for replica in self._replicas:
            replica.choose()
        return server

    def _load(self, connection: psycopg.Connection[Any], X: Any, mark: str, name: str) -> LoadedTable:
        if catalog.find_table(connection, name) is None:
            stop_replicas()
        return super()._load(connection, X, mark, name)

    def _finish(self, connection: psycopg.Connection[Any]) -> None:
        super()._finish(connection)
        if self._replicas:
            self.enter_phase("replicas")
            self._follow()

    def _writable(self, column: Column) -> WritableTable:
        if not self._replicas:
            return super()._writable(column)
        names = self._extension.all_names
        return ReplicatedWritable(self.server, column, names, self._replicas, lambda: self._log)

    def _forget_warmth(self) -> None:
        super()._forget_warmth()
        for replica in self._replicas:
            replica.warmth.forget()

    def _follow(self, has_failed: bool = False) -> None:
        """Have each replica be there, with all that was written, and warm."""
        position = settled(self.server) if self._replicas else 0
        for replica in self._replicas:
            with replica.naming():
                replica.follow(self._extension, position, has_failed)
                with replica.server.connect() as connection:
                    settable(connection, given_settings(), is_ours=True)
                if self._options.prewarms and self._indexes.names:
                    replica.warmth.ensure(replica.server, self._warm)

    def _begun_log(self) -> WrittenLog:
        """Return what the sampler of a run fills: where that goes on after it was held, the one before."""
        if self._log.is_held:
            self._log.go_on(time.perf_counter())
        else:
            self._log = WrittenLog()
        return self._log


@dataclass(frozen=True)
class ReplicaStatement(QueryStatement):
    """A statement that client i sends to host i modulo their number; a session by itself asks the first."""

    hosts: tuple[Mapping[str, Any], ...] = ()  # libpq's parameters of each
    is_dealt: bool = False  # to clients, whose errors name the replica

    def split_for_clients(self, clients: int) -> Sequence[QueryStatement]:
        """Return what each client sends, in turn to each host."""
        each = [replace(self, parameters=host, is_dealt=True) for host in self.hosts]
        return [each[client % len(each)] for client in range(clients)]

    def place_of_client(self, client: int) -> str:
        """Say which replica a client, from 0 on, asks."""
        return f" (replica {client % len(self.hosts) + 1} of {len(self.hosts)})"

    def facts_of_clients(self, sent: Sequence[int]) -> dict[str, Any]:
        """Return how many queries each replica was sent, of those that each client has sent."""
        count = len(self.hosts)
        return {"replica_queries": [sum(sent[place::count]) for place in range(count)]}

    def attributed(self, error: PostgresError) -> PostgresError:
        """Return an error of the query with its replica."""
        return error if self.is_dealt else PostgresError(f"replica 1 of {len(self.hosts)}: {error}")


class ReplicatedWritable(WritableTable):
    """A table that is written to on the primary, while its standbys answer the queries."""

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
        self._connections: list[psycopg.Connection[Any]] = []  # to each, to pause it at once

    def settle(self) -> None:
        """Wait until all standbys have what was written."""
        position = settled(self._server)
        for replica in self._replicas:
            with replica.naming():
                replica.wait_for(position)
        if (log := self._log()).is_held:
            log.go_on(time.perf_counter())
        self._connect()

    @contextmanager
    def freeze_answers(self) -> Iterator[Callable[[], Mapping[str, float]]]:
        """Have all standbys replay nothing within; give what returns how far they are behind.

        That is in bytes, and in s: the means of all standbys. It waits until each has paused.
        """
        self._connect()
        try:
            for replica, connection in zip(self._replicas, self._connections, strict=True):
                with replica.naming():
                    connection.execute("SELECT pg_wal_replay_pause()")
            log, now = self._log(), time.perf_counter()
            log.hold(now)
            yield lambda: self._behind(log, now)
        finally:
            for connection in self._connections:
                with suppress(psycopg.Error):  # one that has ended begins anew without a pause
                    connection.execute("SELECT pg_wal_replay_resume()")

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
        super().close()

    def _connect(self) -> None:
        if not self._connections:
            self._connections = [watching_connection(replica.server) for replica in self._replicas]

    def _behind(self, log: WrittenLog, now: float) -> dict[str, float]:
        for replica, connection in zip(self._replicas, self._connections, strict=True):
            with replica.naming():
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
