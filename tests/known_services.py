"""Plug-ins whose behaviour is known, and what arithmetic says that a measurement of them must give."""

import math
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.load.samples import ClientAnswers

clock = time.perf_counter
NEVER = math.inf


class Sleeping(BaseANN):
    """Takes `seconds` for a query, however many come at the same time; answers with its number."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def query(self, q: np.ndarray, n: int) -> list[int]:
        """Sleep; `q` holds the number."""
        time.sleep(self.seconds)
        return [int(q[0])]


class Stalling(Sleeping):
    """Stands still once in a run, for `stall` s: what comes then waits for its end.

    That is `after` s after the first query of the run, however long its clients took to start. Runs must be
    without a warm-up: of those, a plug-in learns that they begin.
    """

    def __init__(self, seconds: float, after: float, stall: float) -> None:
        super().__init__(seconds)
        self.after, self.stall = after, stall
        self._begins, self._lock = NEVER, threading.Lock()  # of clock, for all threads

    def cool(self) -> None:
        """Note that a run begins."""
        self._begins = NEVER

    def query(self, q: np.ndarray, n: int) -> list[int]:
        """Wait for the end of the stall, and sleep."""
        now = clock()
        with self._lock:
            self._begins = begins = min(self._begins, now + self.after)
        if 0 <= (into := now - begins) < self.stall:
            time.sleep(self.stall - into)
        return super().query(q, n)


def _answers(
    numbers: np.ndarray, due: np.ndarray | None, sent: np.ndarray, answered: np.ndarray
) -> ClientAnswers:
    """Return what a client measured whose every answer is the query's own number."""
    sampled, rows = np.unique(numbers), np.ones(len(numbers), np.int64)
    return ClientAnswers(
        numbers, due, sent, answered, rows, sampled, sampled[:, None], rows[: len(sampled)], 0.0
    )


class Computed(BaseANN):
    """Needs no time to be measured: its clients, each with a server of its own, compute their clock readings.

    `services(n)` draws how long n queries take, in s, `mean` on average. Open loops are for one client.
    """

    def __init__(self, mean: float, services: Callable[[int], np.ndarray] | None = None) -> None:
        self.mean, self.services = mean, services or (lambda n: np.full(n, mean))

    def open_clients(self, queries: np.ndarray, count: int, clients: int) -> "ComputedClients":
        """Start nothing."""
        return ComputedClients(self)


class ComputedClients:
    """Clients of a computed plug-in, whose runs begin at 0."""

    def __init__(self, algo: Computed) -> None:
        self._algo = algo
        self._answers: list[ClientAnswers] = []

    def prepare(
        self, orders: Sequence[np.ndarray], seconds: float | None = None, keeps_ids: bool = True
    ) -> None:
        """Send one query after the other, or as many as fit on average into `seconds`."""
        self._answers = []
        for order in orders:
            numbers = order if seconds is None else np.resize(order, round(seconds / self._algo.mean))
            services = self._algo.services(len(numbers))
            answered = np.cumsum(services)
            self._answers.append(_answers(numbers, None, answered - services, answered))

    def prepare_arrivals(
        self, due: np.ndarray, numbers: np.ndarray, patience: float, keeps_ids: bool = True
    ) -> None:
        """Send each when it is due and the one before is answered."""
        services = self._algo.services(len(due))
        answered = one_server(due, services)
        sent = answered - services
        is_sent = sent <= due[-1] + patience
        self._answers = [_answers(numbers[is_sent], due[is_sent], sent[is_sent], answered[is_sent])]

    def run(self) -> None:
        """Do nothing: all is computed."""

    def answers(self) -> list[ClientAnswers]:
        """Return what was computed."""
        return self._answers

    def close(self) -> None:
        """Nothing is open."""


def one_server(due: np.ndarray, services: np.ndarray) -> np.ndarray:
    """Return when one server is done with each query, all (n,) in s: first come, first served.

    Lindley's recursion of 1952.
    """
    work = np.cumsum(services)
    return np.asarray(work + np.maximum.accumulate(due - (work - services)))


class StallSeen:
    """What many clients see of one stall in an open loop, and what few see of it in a closed one.

    What is due `u` s after the beginning of the stall, of length L, waits L - u for its end and then for what
    was due before it in the stall, `utilisation` * u; nothing else waits.
    """

    def __init__(self, service: float, stall: float, seconds: float, utilisation: float) -> None:
        """Of a run of `seconds`, in which clients are busy for a share `utilisation` of their time."""
        self.service, self.stall, self.seconds, self.utilisation = service, stall, seconds, utilisation

    def open_share_over(self, latency: float) -> float:
        """Share of the queries whose latency is over `latency` s, more than the service takes."""
        return (self.stall + self.service - latency) / (1 - self.utilisation) / self.seconds

    def open_percentile(self, percentile: float) -> float:
        """Latency in s that this percentage of the queries does not exceed."""
        over = (1 - percentile / 100) * self.seconds * (1 - self.utilisation)
        return self.service + max(self.stall - over, 0.0)

    def closed_queries(self) -> float:
        """The number of queries that one client sends in a closed loop; only one of them sees the stall."""
        return (self.seconds - self.stall) / self.service
