"""How far standbys are behind: positions in the log, in bytes from its beginning, and their times."""

import random
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from statistics import fmean
from typing import Any

import psycopg

from ..errors import PostgresError
from ..servers import Server
from ..servers.libpq import connect
from .watch import Facts

_WRITTEN = "SELECT (pg_current_wal_flush_lsn() - '0/0')::int8"
_REPLAYED = "SELECT (coalesce(pg_last_wal_replay_lsn(), '0/0') - '0/0')::int8"
_INTERVAL_SECONDS = 0.05
_STOP_SECONDS = 5.0


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


def watching_connection(server: Server) -> psycopg.Connection[Any]:
    """Open a connection that is none of the clients'."""
    return connect({**server.connection_parameters(), "application_name": "ann_benchmarks_watch"})


class WrittenLog:
    """When the primary's log was how long, as it was seen now and then in one run.

    A run may be held: then nothing is written or replayed, and no time passes.
    """

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._seen: list[tuple[float, int]] = []  # s of perf_counter, bytes; both ascending
        self._held: float | None = None  # since when, s of perf_counter

    @property
    def is_held(self) -> bool:
        """Whether the run is held."""
        return self._held is not None

    def hold(self, moment: float) -> None:
        """Know that the run is held from a moment on."""
        self._held = moment

    def go_on(self, moment: float) -> None:
        """Know that it is held no longer."""
        assert self._held is not None
        passed, self._held = moment - self._held, None
        self._seen = [(seen + passed, length) for seen, length in self._seen]

    def note(self, moment: float, position: int) -> None:
        """Know that it had this length at a moment."""
        if not self._seen or position >= self._seen[-1][1]:
            self._seen.append((moment, position))

    @property
    def last_growth(self) -> float:
        """When it was first seen as long as it was last."""
        return self._seen[bisect_left(self._seen, self._seen[-1][1], key=_length)][0]

    def seconds_behind(self, position: int, moment: float) -> float:
        """For how long, at a moment, the log was longer than a position; 0 where it was not.

        Between two lengths that were seen, it is taken to have grown evenly.
        """
        place = bisect_right(self._seen, position, key=_length)  # the first that is longer
        if place == len(self._seen):
            return 0.0
        after, length = self._seen[place]
        if place == 0:  # since before it was seen first
            return max(moment - after, 0.0)
        before, shorter = self._seen[place - 1]
        passed = before + (position - shorter) / (length - shorter) * (after - before)
        return max(moment - passed, 0.0)


@contextmanager
def sampled_lag(primary: Server, replicas: Sequence[Server], log: WrittenLog) -> Iterator[Facts]:
    """Compare, every 50 ms or so, what the primary has written with what each standby has replayed.

    `log` gets what was written. Give the mean and the largest lag of all, in bytes and s. An error ends it
    silently; earlier samples stay.
    """
    lags: list[tuple[int, float]] = []
    done = threading.Event()

    def sample() -> None:
        with suppress(psycopg.Error, PostgresError), ExitStack() as stack:
            asked, *standbys = (
                stack.enter_context(closing(watching_connection(one))) for one in (primary, *replicas)
            )
            # At irregular moments: what happens regularly would be seen always, or never.
            while not done.wait(_INTERVAL_SECONDS * random.uniform(0.5, 1.5)):
                moment, position = time.perf_counter(), written(asked)
                log.note(moment, position)
                for standby in standbys:
                    known = replayed(standby)
                    lags.append((max(position - known, 0), log.seconds_behind(known, moment)))

    def facts(queries: int) -> dict[str, float]:
        found: dict[str, float] = {}
        for place, unit in enumerate(("bytes", "seconds") if lags else ()):
            own = [float(lag[place]) for lag in lags]
            found |= {f"replication_lag_{unit}": fmean(own), f"replication_lag_{unit}_max": max(own)}
        return found

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield facts
    finally:
        done.set()
        thread.join(_STOP_SECONDS)


def _value(connection: psycopg.Connection[Any], sql: str) -> int:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return int(row[0])


def _length(seen: tuple[float, int]) -> int:
    return seen[1]
