"""One run watched: what is read before it, during it, and after it."""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, TimeoutError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psutil
import psycopg
from psycopg import pq

from ..errors import PostgresError
from ..servers import Server
from ..servers.libpq import connect
from ..servers.machine import ServerProcesses, busy_share, machine_cpu, server_processes
from ..settings import shared_buffers
from .counters import REPORT_SECONDS, SHARED_MEMORY_VERSION, CounterReader

_T = TypeVar("_T")
_ANSWER_SECONDS = 30.0  # far more than a loaded server needs


class NoAnswer(Exception):
    """The server did not answer in time. The thread that sent the request still waits on the connection."""


def answered(ask: Callable[[], _T]) -> _T:
    """Return what `ask` returns, or raise what it raises; NoAnswer if that takes too long."""
    answer: Future[_T] = Future()

    def wait() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=wait, daemon=True).start()
    # Not result(timeout): `ask` may raise a TimeoutError of its own.
    try:
        error = answer.exception(_ANSWER_SECONDS)
    except TimeoutError:
        raise NoAnswer from None
    if error is not None:
        raise error
    return answer.result()


CLIENT_APPLICATION = "ann_benchmarks_client"
_INTERVAL_SECONDS = 0.05
_PAUSES_A_SAMPLE = 20  # fewer if samples take long, such as on a loaded machine
_STOP_SECONDS = 5.0
_STATEMENT = b""  # a statement without a name, which the next run replaces
# A session that this user may not see has no state.
_SESSIONS = f"""
    SELECT CASE WHEN state LIKE 'idle%' THEN 'idle'
                WHEN wait_event IS NULL THEN 'CPU'
                ELSE wait_event_type || ':' || wait_event END,
           count(*)
    FROM pg_stat_activity
    WHERE application_name = '{CLIENT_APPLICATION}' AND backend_type = 'client backend' AND state IS NOT NULL
    GROUP BY 1
"""


class WaitSampler:
    """A thread that counts, every 50 ms or so, how many sessions are on a CPU, idle, or in which wait.

    Nothing else may use the connection until it is stopped. An error ends it silently; earlier samples stay.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        """Start to sample."""
        self._connection = connection
        self._seen: Counter[str] = Counter()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> Counter[str]:
        """End it; return how many sessions were in each state."""
        self._done.set()
        self._thread.join(_STOP_SECONDS)
        return self._seen.copy()

    @property
    def is_stuck(self) -> bool:
        """Whether it could not be stopped, since the server does not answer."""
        return self._thread.is_alive()

    def _sample(self) -> None:
        libpq = self._connection.pgconn  # itself: half of what a sample costs here
        with suppress(psycopg.Error):
            libpq.prepare(_STATEMENT, _SESSIONS.encode())
            pause = _INTERVAL_SECONDS
            # At irregular moments: what happens regularly would be seen always, or never.
            while not self._done.wait(pause * random.uniform(0.5, 1.5)):
                started = time.perf_counter()
                result = libpq.exec_prepared(_STATEMENT, None)
                if result.status != pq.ExecStatus.TUPLES_OK:
                    return
                for row in range(result.ntuples):
                    doing, sessions = (result.get_value(row, column) or b"" for column in (0, 1))
                    self._seen[doing.decode()] += int(sessions)
                pause = max(_INTERVAL_SECONDS, _PAUSES_A_SAMPLE * (time.perf_counter() - started))


def shares(seen: Counter[str]) -> dict[str, float]:
    """Share of each in all samples, the largest first."""
    return {doing: round(sessions / seen.total(), 4) for doing, sessions in seen.most_common()}


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
                if sampler.is_stuck:
                    self._connection = None  # it is left to the thread that waits for the server
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
            facts |= {"wait_events": json.dumps(shares(run.seen)), "wait_samples": run.seen.total()}
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
            try:
                if found := _if_available(lambda: answered(lambda: connection.execute(_STATE).fetchone())):
                    return found
            except NoAnswer:
                return None
            finally:
                if connection.closed:
                    self._connection = None
        return None

    def _counted(self) -> dict[str, float]:
        connection, reader = self._connection, self._reader
        if connection is None or reader is None:
            return {}
        if connection.info.server_version < SHARED_MEMORY_VERSION:
            time.sleep(REPORT_SECONDS + 0.1)
        try:
            return _if_available(lambda: answered(lambda: reader.read(self._table, self._index))) or {}
        except NoAnswer:
            self._connection = None  # the same as after a sampler that is stuck
            return {}

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
