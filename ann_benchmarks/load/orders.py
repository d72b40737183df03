"""Which query is sent next: the orders in which clients go through the queries."""

import math
from dataclasses import dataclass

import numpy as np

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.numbers import read_number

ZIPF_LENGTH = 10_000  # queries drawn for a client that goes on for a time, before it repeats itself
_POPULARITY_SEED = 1932
MOST_SKEW = 100.0  # with which all but the first query are as good as never sent
KINDS = ("same", "shuffled", "zipf", "single")


@dataclass(frozen=True)
class QueryOrder:
    """How often and in what order a client asks which of the queries.

    "shuffled": each client all of them, in an order of its own; "same": all clients in the dataset's order,
    so that what one has just read is found in the server's caches by the next; "zipf": drawn so that
    the r-th most popular query comes 1 / r^skew times as often as the first, for all clients the same ones;
    "single": the first query, again and again.
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
        if self.kind == "single":
            return np.zeros(length, dtype=np.int64)
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
