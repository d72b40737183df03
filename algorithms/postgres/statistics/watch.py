"""Who reads what PostgreSQL counts: around a run, and now and then for as long as a job takes."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
import psycopg
from psycopg import pq

from ..environment import server_kind
from ..errors import PostgresError
from ..servers import Server
from ..servers.libpq import connect
from ..servers.machine import ServerProcesses, busy_share, machine_cpu, server_processes
from ..settings import shared_buffers
from .counters import VIEWS, CounterReader, WaitSampler, shares

_T = TypeVar("_T")
MONITOR_APPLICATION = "ann_benchmarks_monitor"
RETRY_SECONDS = 5.0  # after a connection was lost, unless the server is known to be there again
PREFIX = "postgresql."
_STATE = "SELECT pg_is_in_recovery(), extract(epoch FROM pg_postmaster_start_time())::float8"
_UNAVAILABLE = (psycopg.Error, PostgresError, psutil.Error, OSError)


@dataclass
class _Run:
    """What is known of one run."""

    counted_before: dict[str, float] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)  # by the server's processes
    busy_share: float | None = None
    seen: Counter[str] = field(default_factory=Counter)


class ServerWatch:
    """Observes a server while clients send it queries, over a connection of its own.

    What is not available is left out, for the clients report what is wrong with a server. PostgresError where
    it was started again or promoted: clients of others, or of a standby, do not notice that.
    """

    def __init__(
        self,
        server: Server,
        table: str,
        index: str | None,
        flush: Callable[[], None] = lambda: None,
        name: str = "the server",
        is_standby: bool | None = None,
    ) -> None:
        """Take the names, with their schema, of what is queried.

        `flush` has sessions that do not do so themselves flush their statistics after a run. `name` is for
        errors, `is_standby` what the server has to be; None: either.
        """
        self._name, self._is_standby = name, is_standby
        self._server, self._table, self._index, self._flush = server, table, index, flush
        self._connection: psycopg.Connection[Any] | None = None
        self._reader: CounterReader | None = None
        self._processes: ServerProcesses | None = None
        self._shared_buffers: int | None = None  # bytes
        self._run = _Run()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch what happens within. The clients' sessions should have flushed their statistics before."""
        self._run = run = _Run()
        before = self._state()
        if before is not None and self._is_standby not in (None, before[0]):
            raise PostgresError(f"{self._name} is not a standby any more: it was promoted")
        _if_available(self._flush)  # of earlier queries, such as those to warm up
        run.counted_before = self._counted()
        connection = self._connection  # none if the server has not answered
        sampler = WaitSampler(connection) if connection is not None else None
        used = self._used()
        machine = _if_available(machine_cpu)
        try:
            yield
        finally:
            if machine is not None and (now := _if_available(machine_cpu)) is not None:
                run.busy_share = busy_share(machine, now)
            run.used = _differences(used, self._used())
            if sampler is not None:
                run.seen = sampler.stop()
        after = self._state()
        if before is not None and after is not None and before != after:
            happened = "was started again" if before[0] == after[0] else "was promoted"
            raise PostgresError(f"{self._name} {happened} during the run, which does not count")

    def processes(self) -> list[int] | None:
        """Return the postmaster's process id; None where it is not on this machine, or cannot be seen."""
        return None if self._processes is None else [self._processes.postmaster]

    def facts(self, queries: int) -> dict[str, Any]:
        """Return what the last run was to the server, in which this number of queries was sent.

        To be called when the clients' sessions have flushed their statistics. Numbers, and `wait_events` as
        JSON text; what is not known is not there.
        """
        _if_available(self._flush)
        run = self._run
        totals = dict(run.used)
        if run.counted_before:
            totals |= _differences(run.counted_before, self._counted())
        facts: dict[str, Any] = {
            f"{name}_per_query": total / queries
            for name, total in totals.items()
            if queries and total >= 0  # less than before: it was counted anew
        }
        if self._shared_buffers:
            facts["shared_buffers"] = self._shared_buffers
        if run.busy_share is not None:
            facts["machine_busy_share"] = run.busy_share
        if run.seen:
            facts["wait_events"] = json.dumps(shares(run.seen))
        return facts

    def close(self) -> None:
        """Close the connection; the next run opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> None:
        """Open the connection, anew if it was lost: the server may have been restarted since."""
        connection = self._connection
        if connection is None or connection.closed:
            name = {"application_name": "ann_benchmarks_watch"}
            connection = _if_available(lambda: connect({**self._server.connection_parameters(), **name}))
            self._connection = connection
            self._reader = self._processes = self._shared_buffers = None
            if connection is not None:
                self._reader = _if_available(lambda: CounterReader(connection, only_stored=True))
                self._processes = _if_available(lambda: server_processes(connection))
                self._shared_buffers = _if_available(lambda: shared_buffers(connection))

    def _state(self) -> tuple[Any, ...] | None:
        """Return whether it is a standby, and when it was started; None where it does not answer."""
        for _ in range(2):  # the first connection may be lost
            self._connect()
            if (connection := self._connection) is None:
                return None
            found = _if_available(lambda: connection.execute(_STATE).fetchone())
            if connection.closed:
                self._connection = None
            if found:
                return found
        return None

    def _counted(self) -> dict[str, float]:
        connection, reader = self._connection, self._reader
        if connection is None or reader is None:
            return {}
        return _if_available(lambda: reader.read(self._table, self._index)) or {}

    def _used(self) -> dict[str, float]:
        return (_if_available(self._processes.used) if self._processes is not None else None) or {}


def _differences(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    return {name: value - before[name] for name, value in now.items() if name in before}


def _if_available(get: Callable[[], _T]) -> _T | None:
    """Return what it returns, or None where that is not available."""
    try:
        return get()
    except _UNAVAILABLE:
        return None


class PostgresStatistics:
    """What the server counts. Nothing raises: what is not available is left out until it is."""

    levels = frozenset(PREFIX + name for view in VIEWS if view.levels for name in view.statistics)

    def __init__(
        self, server: Callable[[], Server | None], relations: Callable[[], tuple[str | None, str | None]]
    ) -> None:
        """Take what returns the server, None before it is started, and what names its table and index."""
        self._server, self._relations = server, relations
        self._connection: psycopg.Connection[Any] | None = None
        self._reader: CounterReader | None = None
        self._has_local_processes = False
        self._retry_at = 0.0

    def sample(self) -> dict[str, float]:
        """Return all that is known now: totals since the statistics began, and the levels."""
        try:
            reader = self._opened()
            found = {} if reader is None else reader.read(*self._relations())
            if self._connection is not None and self._connection.pgconn.status != pq.ConnStatus.OK:
                self._lose()
            return {PREFIX + name: value for name, value in found.items()}
        except (psycopg.Error, PostgresError, psutil.Error, OSError, ValueError):
            self._lose()
            return {}

    @property
    def is_local(self) -> bool:
        """Whether the server is one of ours, or its processes are on this machine; False while not known."""
        server = self._server()
        is_ours = server_kind() != "external" if server is None else server.is_ours
        return is_ours or self._has_local_processes

    def revived(self) -> None:
        """Note that the server answers again: a lost connection may be opened at once."""
        self._retry_at = 0.0

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._reader = None, None

    def _opened(self) -> CounterReader | None:
        if self._reader is not None:
            return self._reader
        server = self._server()
        if server is None or time.monotonic() < self._retry_at:
            return None
        self._retry_at = time.monotonic() + RETRY_SECONDS
        parameters = server.connection_parameters()
        if server.is_ours and not Path(str(parameters["host"])).is_dir():
            return None  # it is stopped, and so has no socket
        self._connection = connect({**parameters, "application_name": MONITOR_APPLICATION})
        self._connection.execute("SET statement_timeout = '5s'")
        self._connection.execute("SET jit = off")
        self._reader = CounterReader(self._connection)
        with suppress(psutil.Error):
            self._has_local_processes = server_processes(self._connection) is not None
        return self._reader

    def _lose(self) -> None:
        self.close()
        self._retry_at = time.monotonic() + RETRY_SECONDS
