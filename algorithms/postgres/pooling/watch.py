"""A server and the pooler in front of it observed while clients send queries."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from ..watching import ServerWatch, SeveralWatch


class PooledWatch:
    """Observes both; the pooler's CPU is none of the server's."""

    def __init__(
        self, server: ServerWatch | SeveralWatch, pooler: Callable[[], psutil.Process | None]
    ) -> None:
        """Take what observes the server, and what returns the pooler's process, None where there is none."""
        self._server, self._pooler = server, pooler
        self._used: float | None = None  # s, in the last run
        self._seconds = 0.0  # that it took

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watch what happens within."""
        self._used = None
        with self._server.running():
            process, started = self._pooler(), time.perf_counter()
            before = self._cpu_seconds(process)
            yield
            after, self._seconds = self._cpu_seconds(process), time.perf_counter() - started
            # Of one that has ended meanwhile, nothing is known, and of another one in its place neither.
            if before is not None and after is not None and process == self._pooler():
                self._used = after - before

    def processes(self) -> list[int] | None:
        """Return the process ids of the server and of the pooler; None where one of them is not known."""
        server, pooler = self._server.processes(), self._pooler()
        return None if server is None or pooler is None else [*server, pooler.pid]

    def facts(self, queries: int) -> dict[str, Any]:
        """Return what the last run was to the server, and what CPU the pooler took for it."""
        facts = self._server.facts(queries)
        if self._used is not None and queries:
            facts["pooler_cpu_seconds_per_query"] = self._used / queries
            # Of one core: it has one thread.
            facts["pooler_busy_share"] = min(self._used / self._seconds, 1.0)
        return facts

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    @staticmethod
    def _cpu_seconds(process: psutil.Process | None) -> float | None:
        with suppress(psutil.Error):
            if process is not None:
                return float(sum(process.cpu_times()[:2]))
        return None
