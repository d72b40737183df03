"""A table and its index on a primary, with standbys that follow its log and answer queries in its place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from . import SeveralWatch
from .replica import Replica, settled

_SYNCHRONOUS = "synchronous_standby_names"


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
        return SeveralWatch(watches, ("primary", primary))

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
