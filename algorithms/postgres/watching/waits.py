"""What the clients' sessions are doing, sampled many times in a run."""

import random
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq

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
