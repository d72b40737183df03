"""PostgreSQL's own statistics, read now and then over a connection of its own."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import pq

from ..environment import server_kind
from ..errors import PostgresError
from ..servers import Server
from ..servers.libpq import connect
from ..servers.machine import server_processes
from . import counters
from .counters import VIEWS, CounterReader

MONITOR_APPLICATION = "ann_benchmarks_monitor"
RETRY_SECONDS = 5.0  # after a connection was lost, unless the server is known to be there again
PREFIX = "postgresql."


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
    def panels(self) -> dict[str, str]:
        """The titles under which the dashboard draws names that it has no panel for."""
        return {
            PREFIX + name: view.panel for view in counters.VIEWS if view.panel for name in view.statistics
        }

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
