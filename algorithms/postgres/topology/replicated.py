"""A table and its index on a primary, with standbys that follow its log and answer queries in its place."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from .. import catalog
from ..catalog import LoadedTable
from ..environment import given_settings
from ..errors import FolderInUseError, PostgresError, naming
from ..index.building import IndexHooks
from ..index.fitting import IndexedTable
from ..servers import Server, current_server, replica_server, stop_replicas
from ..servers.caches import Warmth
from ..servers.extension import RequiredExtension
from ..servers.machine import drop_from_cache
from ..servers.standby import StandbyServer
from ..session.session import SessionFacts
from ..session.statement import QueryStatement, changed
from ..settings import settable
from ..statistics.watch import ServerWatch
from . import SeveralWatch
from .shard import shared_memory

_SYNCHRONOUS = "synchronous_standby_names"
STALLED_SECONDS = 60.0  # in which a standby that has something to replay replays nothing
_POLL_SECONDS = 0.02
_OF_STANDBY = """
    SELECT pg_is_in_recovery(), system_identifier, timeline_id,
           greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn(), redo_lsn)::text
    FROM pg_control_system(), pg_control_checkpoint()"""
# The log is in files whose names ascend, the timeline first.
_OF_PRIMARY = """
    SELECT system_identifier, timeline_id, %s::pg_lsn > pg_current_wal_flush_lsn(),
           pg_walfile_name(%s) < (SELECT min(name) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$')
    FROM pg_control_system(), pg_control_checkpoint()"""
# The end of the log on the disk of the primary, which sends no more; and how far queries of a standby see it.
_WRITTEN = "SELECT (pg_current_wal_flush_lsn() - '0/0')::int8"
_REPLAYED = "SELECT (coalesce(pg_last_wal_replay_lsn(), '0/0') - '0/0')::int8"
_WITHOUT_LOG = "wal_level=minimal"  # in PostgreSQL's own words


class Replica:
    """The standby of a number, from 1 on, of `count`."""

    server: StandbyServer

    def __init__(self, number: int, count: int, share: int) -> None:
        """Nothing is started yet. `share`: how many servers have the memory of one."""
        self.number, self.title = number, f"replica {number} of {count}"
        self.seconds = 0.0  # until it had all that was written when it was first to have it
        self.backup_seconds = 0.0  # of these, what its base backup took
        self.warmth = Warmth()
        self._share = share

    def naming(self) -> AbstractContextManager[None]:
        """Have errors begin with it."""
        return naming(self.title)

    def choose(self) -> None:
        """Take its server, of the current one, and see that it can be made."""
        self.server = replica_server(self.number)
        self.server.check_programs()

    def follow(self, extension: RequiredExtension, position: int, has_failed: bool = False) -> None:
        """Have it answer, with all that was written up to a position.

        What an earlier run has left is made again where it cannot follow. `has_failed`: it may be recovering.
        """
        began, backups = time.perf_counter(), self.server.backups
        try:
            with self._explaining():
                if has_failed and self.server.is_running:
                    self.server.revive()
                self._catch_up(extension, position)
        except FolderInUseError:
            raise
        except PostgresError as error:
            if self.server.backups != backups:
                raise  # it was new
            print(f"{self.title} is made again: {error}", flush=True)
            with self._explaining():
                self.server.remake(shared_memory(self._share))
                self._catch_up(extension, position)
        seconds = time.perf_counter() - began
        is_new = self.server.backups != backups
        if not self.seconds:
            self.seconds, self.backup_seconds = seconds, self.server.backup_seconds if is_new else 0.0
        if is_new:
            parts = f"{self.server.backup_seconds:.1f} s of them its base backup"
            print(f"{self.title} made in {seconds:.1f} s, {parts}", flush=True)

    def wait_for(self, position: int) -> None:
        """Wait until it has replayed the log up to a position; PostgresError where it no longer goes on."""
        with self._explaining(), self.server.connect() as connection:
            done, moved = _value(connection, _REPLAYED), time.monotonic()
            while done < position:
                time.sleep(_POLL_SECONDS)
                now = _value(connection, _REPLAYED)
                if now > done:
                    done, moved = now, time.monotonic()
                elif time.monotonic() - moved > STALLED_SECONDS:
                    raise PostgresError(
                        f"it has replayed nothing for {STALLED_SECONDS:.0f} s, and lacks"
                        f" {position - done:,} bytes of the log: {self.server.last_words()}"
                    )

    def _catch_up(self, extension: RequiredExtension, position: int) -> None:
        extension.start_server(self.server, shared_memory(self._share))
        self._check()
        self.wait_for(position)

    def _check(self) -> None:
        """Raise PostgresError where it is not a copy of its primary, or can follow it no further."""
        with self.server.connect() as connection:
            mine = connection.execute(_OF_STANDBY).fetchone()
        assert mine is not None
        is_standby, system, timeline, position = mine
        with self.server.primary.connect() as connection:
            theirs = connection.execute(_OF_PRIMARY, [position, position]).fetchone()
        assert theirs is not None
        for holds, problem in (
            (is_standby, "it is not a standby any more"),
            (theirs[:2] == (system, timeline), "it is a copy of another server"),
            (not theirs[2], "it is ahead of the primary"),
            (not theirs[3], "the primary no longer has the log that it lacks"),
        ):
            if not holds:
                raise PostgresError(problem)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Raise PostgresError with what its log says where it has ended."""
        try:
            yield
        except FolderInUseError:
            raise
        except (PostgresError, psycopg.OperationalError) as error:
            with suppress(PostgresError):  # it may hang, too
                self.server.wait_for_recovery()
            reason = " ".join(str(error).split())
            if self.server.has_ended:
                reason = self.server.last_words()
            if _WITHOUT_LOG in reason:
                reason = "the primary has run without replicas, and so without the log that they need"
            raise PostgresError(reason) from None


def settled(primary: Server) -> int:
    """Return the position behind all that was committed, also by sessions that do not wait for the disk."""
    with primary.connect() as connection:
        with connection.transaction():
            connection.execute("SET LOCAL synchronous_commit = on")
            connection.execute("SELECT pg_logical_emit_message(true, 'ann_benchmarks', '')")
        return _value(connection, _WRITTEN)


def _value(connection: psycopg.Connection[Any], sql: str) -> int:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return int(row[0])


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
