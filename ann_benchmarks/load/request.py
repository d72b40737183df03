"""A requested load: how many clients, in a closed or an open loop, for how long, in which order."""

import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.numbers import read_number
from ann_benchmarks.fields.rows import OWN_DRIVER
from ann_benchmarks.fields.series import Series
from ann_benchmarks.statistics.percentiles import AMPLE, LEAST_BEYOND, PERCENTILES, least_relaxations

from .search import CLOSE_ENOUGH

ZIPF_LENGTH = 10_000  # queries drawn for a client that goes on for a time, before it repeats itself
_POPULARITY_SEED = 1932
MOST_SKEW = 100.0  # with which all but the first query are as good as never sent


@dataclass(frozen=True)
class QueryOrder:
    """How often and in what order a client asks which of the queries.

    "shuffled": each client all of them, in an order of its own; "same": all clients in the dataset's order,
    so that what one has just read is found in the server's caches by the next; "zipf": drawn so that
    the r-th most popular query comes 1 / r^skew times as often as the first, for all clients the same ones.
    """

    kind: str = "shuffled"
    skew: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "QueryOrder":
        """Read "same", "shuffled" or "zipf:S"; UserError says what is allowed."""
        kind, colon, number = text.partition(":")
        if kind in ("same", "shuffled") and not colon:
            return cls(kind)
        skew = read_number(number) if kind == "zipf" else None
        if skew is None or not 0 < skew <= MOST_SKEW:
            raise UserError(
                f"'{shown(text)}' is not an order of queries: give same, shuffled, or zipf:S with S above 0"
            )
        return cls("zipf", skew)

    def __str__(self) -> str:
        return f"zipf:{self.skew:.12g}" if self.kind == "zipf" else self.kind

    def numbers(self, queries: int, length: int, seed: list[int]) -> np.ndarray:
        """Return the numbers of `length` queries out of `queries`, (length,); the same for the same seed."""
        if self.kind == "same":
            return np.resize(np.arange(queries), length)
        rng = np.random.default_rng(seed)
        if self.kind == "shuffled":
            # Further than once through all of them, it goes on in the same order.
            return np.resize(rng.permutation(queries), length)
        popularity = np.arange(1, queries + 1, dtype=np.float64) ** -self.skew
        by_popularity = np.random.default_rng(_POPULARITY_SEED).permutation(queries)
        return by_popularity[rng.choice(queries, length, p=popularity / popularity.sum())]

    def dealt(self, queries: int, length: int, clients: int, run: int) -> list[np.ndarray]:
        """Return the numbers of `length` queries for each client in a run.

        Shuffled, each client begins with its own share of the queries, so that together they soon have sent
        each of them: the recall of a short run, too, is that of all queries.
        """
        if self.kind != "shuffled":
            return [self.numbers(queries, length, [run, client]) for client in range(clients)]
        orders = []
        shares = np.array_split(np.random.default_rng(run).permutation(queries), clients)
        for client, share in enumerate(shares):
            own = self.numbers(queries, queries, [run, client])
            orders.append(np.resize(np.concatenate([share, own[~np.isin(own, share)]]), length))
        return orders

    def length_for_a_time(self, queries: int) -> int:
        """How many numbers a client gets that goes through them again until its time is over."""
        return max(queries, ZIPF_LENGTH) if self.kind == "zipf" else queries


def poisson_arrivals(rate: float, seconds: float, seed: list[int]) -> np.ndarray:
    """Return when queries are due, in s from 0 to `seconds`, ascending: independent ones, `rate` a second.

    A Poisson process: the gaps are exponentially distributed with mean 1 / rate. One is due in any case.
    """
    rng = np.random.default_rng(seed)
    expected = rate * seconds
    gaps = rng.exponential(1 / rate, math.ceil(expected + 10 * math.sqrt(expected) + 10))
    due = np.cumsum(gaps)
    due = due[: int(np.searchsorted(due, seconds))]
    return due if len(due) else rng.uniform(0, seconds, 1)  # the distribution of a single arrival


QUERIES_A_CLIENT = 100  # at least, where neither a number nor a time is given
OPEN_SECONDS = 10.0  # of a run at a given rate, where nothing else is said
MOST_STEADY_SECONDS = 30.0  # a run is extended by, for a queue that forgets slowly
MOST_OPEN_SECONDS = 300.0  # a run is extended by, for a rare percentile
LEAD_IN = 2.0  # relaxation times, after which percentiles are those of the steady state within noise
LEAST_LEAD_IN = 0.5  # s
MOST_LEAD_IN = 120.0
SERVICES = 10.0  # answers of each client that a lead-in lasts at least
HEAVIEST = 0.97  # utilisation that is assumed at most: what is served is known to a few percent only
OVERLOADED = 1.2  # the queue grows from here on: there is nothing steady to wait for
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class Objective:
    """A bound that a percentile of the latencies is to keep, in s (a service level objective)."""

    percentile: str  # of PERCENTILES
    seconds: float
    text: str

    @classmethod
    def parse(cls, text: str) -> "Objective":
        """Read such as "p99:50ms"; UserError says what is allowed."""
        match = re.fullmatch(
            rf"({'|'.join(PERCENTILES)}|p99\.9):([0-9]{{1,9}}(?:\.[0-9]{{1,9}})?)(us|ms|s)", text
        )
        if match is None or float(match[2]) == 0:
            raise UserError(
                f"'{shown(text)}' is not an objective: give a percentile and a time, such as p99:50ms"
            )
        return cls(match[1].replace(".", ""), float(match[2]) * UNITS[match[3]], text)

    @property
    def least_seconds(self) -> float:
        """How long a run has to last to tell a rate that is 5% too high.

        At a rate of (1 + x) times what a server can do, a query that is due after t s waits for x t s: the
        percentile q of a run of d s is q x d.
        """
        return self.seconds / (PERCENTILES[self.percentile] / 100 * (CLOSE_ENOUGH - 1))

    def seconds_at(self, rate: float) -> float:
        """How long a run lasts at a rate: long enough for that, and for 10 queries beyond the percentile."""
        beyond = LEAST_BEYOND / ((1 - PERCENTILES[self.percentile] / 100) * rate)
        return max(OPEN_SECONDS, self.least_seconds, min(beyond, MOST_OPEN_SECONDS))

    def is_kept(self, latencies: np.ndarray) -> bool:
        """Whether these latencies, in s, keep it."""
        return bool(np.percentile(latencies, PERCENTILES[self.percentile]) <= self.seconds)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Load:
    """The load of one run: by a number of clients, of a number of queries or of seconds.

    With `rate` or `objective` the loop is open: queries come when they come, `rate` a second, and wait if no
    client is free.
    """

    clients: int
    max_queries: int | None = None
    seconds: float | None = None
    order: QueryOrder = field(default_factory=QueryOrder)
    rate: float | None = None  # queries a second
    objective: Objective | None = None  # for which the highest rate is looked for
    distinct: int | None = None  # queries that are sent, the dataset's first ones; None: all of them

    @property
    def is_open(self) -> bool:
        """Whether queries come at a rate instead of one after the other."""
        return self.rate is not None or self.objective is not None

    @property
    def series(self) -> dict[str, Any]:
        """The fields of the series that its points belong to."""
        return {
            "clients": self.clients,
            "query_order": str(self.order),
            "distinct_queries": self.distinct,
            "rate": self.rate,
            "objective": "" if self.objective is None else str(self.objective),
        }

    def __str__(self) -> str:
        return ", ".join(Series("", **self.series).words("clients", "load"))

    @property
    def facts(self) -> dict[str, Any]:
        """What is stored of it: all that was requested."""
        return {
            "clients": self.clients,
            "query_order": str(self.order),
            "distinct_queries": self.distinct,
            "driver": OWN_DRIVER,
            "asked_duration": self.seconds,
            "asked_queries": self.max_queries,
        }

    def run_seconds(self, queries: int, rate: float) -> float:
        """How long a run through the queries takes, at a number of answers a second."""
        if self.is_open:
            return self._open_seconds(self.rate or rate)
        if self.seconds is not None:
            return self.seconds
        return (self.max_queries or max(queries, QUERIES_A_CLIENT * self.clients)) / rate

    def orders(self, queries: int, run: int) -> list[np.ndarray]:
        """Return the numbers of the queries that each client asks in a run, in its own order."""
        in_all = self.max_queries or max(queries, QUERIES_A_CLIENT * self.clients)
        length = math.ceil(in_all / self.clients)
        if self.seconds is not None:
            length = self.order.length_for_a_time(self.sent(queries))
        return self.order.dealt(self.sent(queries), length, self.clients, run)

    def numbers(self, queries: int, length: int, seed: list[int]) -> np.ndarray:
        """Return the numbers of `length` queries that a client asks, (length,), out of those of a dataset."""
        return self.order.numbers(self.sent(queries), length, seed)

    def sent(self, queries: int) -> int:
        """How many of a dataset's queries are sent at all."""
        return min(queries, self.distinct or queries)

    def arrivals(
        self, queries: int, rate: float, run: int, lead_in: float = 0.0, least: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return when the queries of a run are due, in s, and their numbers; both (n,).

        The run begins after `lead_in` s, and lasts `least` s at least where the user leaves that open.
        """
        seconds = self._open_seconds(rate)
        if self.seconds is None and self.max_queries is None:
            seconds = max(seconds, min(least, MOST_STEADY_SECONDS))
        due = poisson_arrivals(rate, lead_in + seconds, [run, round(rate * 1000)])
        if lead_in and due[-1] < lead_in:  # one is due after it in any case
            due = np.append(due, lead_in + seconds / 2)
        return due, self.numbers(queries, len(due), [run, 0])

    def _open_seconds(self, rate: float) -> float:
        if self.seconds is not None:
            return self.seconds
        if self.max_queries is not None:
            return self.max_queries / rate
        return OPEN_SECONDS if self.objective is None else self.objective.seconds_at(rate)


@dataclass(frozen=True)
class Queue:
    """What is known of a queue: arrivals and the most that is served, both a second, and its clients.

    A queue that begins empty is shorter than it will be. It forgets its beginning at a rate that is known for
    the queue with random arrivals and services: (1 - sqrt(utilisation))^2 times what it can serve (Morse
    1955). The inverse is its relaxation time: 0.4 s for services of 20 ms at 60% of what one server can do,
    31 s at 95%.
    """

    rate: float
    capacity: float
    clients: int

    @property
    def relaxation_seconds(self) -> float:
        """In how long it forgets its beginning, by a factor of e."""
        utilisation = min(self.rate / self.capacity, HEAVIEST)
        return float(1 / self.capacity / (1 - utilisation**0.5) ** 2)

    @property
    def lead_in_seconds(self) -> float:
        """How long it runs before anything counts."""
        if self.rate > OVERLOADED * self.capacity:
            return LEAST_LEAD_IN
        long = max(LEAD_IN * self.relaxation_seconds, SERVICES * self.clients / self.capacity)
        return min(max(long, LEAST_LEAD_IN), MOST_LEAD_IN)

    def run_seconds(self, runs: int) -> float:
        """How long each of its runs has to count, so that all of them suffice for a 99th percentile."""
        return AMPLE * least_relaxations("p99") * self.relaxation_seconds / runs

    @property
    def facts(self) -> dict[str, float]:
        """What is stored of it."""
        return {"closed_loop_rate": self.capacity, "relaxation_seconds": self.relaxation_seconds}
