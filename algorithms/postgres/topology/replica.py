"""One of several standbys: made or found, and followed until it has what its primary has written.

Positions in the log are in bytes from its beginning.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import psycopg

from ..errors import FolderInUseError, PostgresError, naming
from ..servers import Server, replica_server
from ..servers.caches import Warmth
from ..servers.extension import RequiredExtension
from ..servers.standby import StandbyServer
from .shard import shared_memory

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
            done, moved = replayed(connection), time.monotonic()
            while done < position:
                time.sleep(_POLL_SECONDS)
                now = replayed(connection)
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


def written(primary: psycopg.Connection[Any]) -> int:
    """Return what is on the primary's disk; a standby is sent no more."""
    return _value(primary, _WRITTEN)


def replayed(standby: psycopg.Connection[Any]) -> int:
    """Return what its queries see."""
    return _value(standby, _REPLAYED)


def settled(primary: Server) -> int:
    """Return the position behind all that was committed, also by sessions that do not wait for the disk."""
    with primary.connect() as connection:
        with connection.transaction():
            connection.execute("SET LOCAL synchronous_commit = on")
            connection.execute("SELECT pg_logical_emit_message(true, 'ann_benchmarks', '')")
        return written(connection)


def _value(connection: psycopg.Connection[Any], sql: str) -> int:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return int(row[0])
