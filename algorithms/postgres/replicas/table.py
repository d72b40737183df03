"""A table and its index on a primary, with standbys that answer the queries in its place."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg

from .. import catalog
from ..building import IndexHooks
from ..catalog import LoadedTable
from ..columns import Column
from ..environment import given_settings
from ..errors import PostgresError, naming_replica
from ..extension import RequiredExtension
from ..fitting import IndexedTable
from ..machine import drop_from_cache
from ..servers import Server, current_server, stop_replicas
from ..session import SessionFacts
from ..settings import settable
from ..statement import QueryStatement, changed
from ..watching import ServerWatch, SeveralWatch
from ..writing import WritableTable
from .position import WrittenLog, settled
from .replica import Replica
from .statement import ReplicaStatement
from .watch import ReplicasWatch
from .writing import ReplicatedWritable

_SYNCHRONOUS = "synchronous_standby_names"


class ReplicatedTable(IndexedTable):
    """What IndexedTable is, where clients query standbys; without one, they query the primary.

    While a table is loaded or an index built, no standby runs: they would take CPU from it.
    """

    def __init__(
        self, extension: RequiredExtension, metric: str, hooks: IndexHooks, count: int, most: int = 0
    ) -> None:
        """Take what the plug-in describes; nothing is started yet. `most`: as in its set_replicas."""
        super().__init__(extension, metric, hooks.entering(stop_replicas))
        self._replicas = [Replica(number, count, max(count, most)) for number in range(1, count + 1)]
        self._log = WrittenLog()  # of the last run, which may go on
        self._where, self._servers = f"{count} replicas", 1 + max(count, most)

    def statement(self, q: Any, n: int, settings: Mapping[str, str], rerank: int | None) -> QueryStatement:
        """Return the query for the n nearest rows, in sessions with these settings; `q` is one of many."""
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

    def watch(self, flush: Callable[[], None]) -> ServerWatch | SeveralWatch:
        """Return what observes all servers in runs; `flush` has sessions flush their statistics after one."""
        if not self._replicas:
            return super().watch(flush)
        table, index = self.names()
        assert table is not None
        servers = [replica.server for replica in self._replicas]
        return ReplicasWatch(self.server, servers, (table, index), flush, self._begin_log)

    def facts(self) -> dict[str, Any]:
        """Return what is stored of the primary's table and index, and of how the replicas were made."""
        if not self._replicas:
            return super().facts()
        return super().facts() | {
            "replica_times": [replica.seconds for replica in self._replicas],
            "replica_backup_times": [replica.backup_seconds for replica in self._replicas],
        }

    def cool(self) -> None:
        """Stop all servers and drop their files from the system's cache."""
        super().cool()
        for replica in self._replicas:
            replica.server.stop()
            self._facts["caches_dropped"] &= drop_from_cache(replica.server.data_folder)

    def resume(self) -> bool:
        """Have queries use this index; return whether others may have pushed it out of the caches."""
        is_pushed_out = super().resume()
        self._follow()
        return is_pushed_out

    def recover(self) -> None:
        """Have all servers answer, and warm the index where one has lost it."""
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
        if not self._replicas:
            return
        position = settled(self.server)
        for replica in self._replicas:
            with naming_replica(replica.number, replica.count):
                replica.follow(self._extension, position, has_failed)
                with replica.server.connect() as connection:
                    settable(connection, given_settings(), is_ours=True)
                if self._options.prewarms and self._indexes.names:
                    replica.warmth.ensure(replica.server, self._warm)

    def _begin_log(self) -> WrittenLog:
        if self._log.is_held:
            self._log.go_on(time.perf_counter())
        else:
            self._log = WrittenLog()
        return self._log
