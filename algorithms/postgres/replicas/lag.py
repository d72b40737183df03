"""How far standbys are behind their primary, sampled in runs."""

import random
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from statistics import fmean
from typing import Any

import psycopg

from ..errors import PostgresError
from ..servers import Server
from ..servers.libpq import connect
from .position import WrittenLog, replayed, written

_INTERVAL_SECONDS = 0.05
_STOP_SECONDS = 5.0


class LagSampler:
    """A thread that compares, every 50 ms or so, what the primary has written with what each has replayed.

    An error ends it silently; earlier samples stay.
    """

    def __init__(self, primary: Server, replicas: Sequence[Server], log: WrittenLog) -> None:
        """Start to sample; `log` gets what the primary has written."""
        self._servers, self._log = (primary, *replicas), log
        self._bytes: list[int] = []
        self._seconds: list[float] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._done.set()
        self._thread.join(_STOP_SECONDS)

    def facts(self) -> dict[str, float]:
        """Return the mean and the largest lag of all standbys, in bytes and s; nothing without a sample."""
        of_bytes, of_seconds = self._bytes.copy(), self._seconds.copy()
        if not of_seconds:
            return {}
        return {
            "replication_lag_bytes": fmean(of_bytes),
            "replication_lag_bytes_max": float(max(of_bytes)),
            "replication_lag_seconds": fmean(of_seconds),
            "replication_lag_seconds_max": max(of_seconds),
        }

    def _sample(self) -> None:
        with suppress(psycopg.Error, PostgresError), ExitStack() as stack:
            opened = [stack.enter_context(closing(watching_connection(one))) for one in self._servers]
            primary, *replicas = opened
            # At irregular moments: what happens regularly would be seen always, or never.
            while not self._done.wait(_INTERVAL_SECONDS * random.uniform(0.5, 1.5)):
                moment, position = time.perf_counter(), written(primary)
                self._log.note(moment, position)
                for replica in replicas:
                    known = replayed(replica)
                    self._bytes.append(max(position - known, 0))
                    self._seconds.append(self._log.seconds_behind(known, moment))


def watching_connection(server: Server) -> psycopg.Connection[Any]:
    """Open a connection that is none of the clients'."""
    return connect({**server.connection_parameters(), "application_name": "ann_benchmarks_watch"})
