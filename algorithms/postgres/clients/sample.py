"""Which answers a client keeps: the first to each of the queries that are its own, and an even sample of all.

Nothing is decoded before the end of a run, and what is kept is little: to go through every answer would cost
the client more than to send its query.
"""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

EVEN = 2  # answers of the even samples of all clients together, as a multiple of the queries


class RawSample:
    """Answers of one run as libpq returns them.

    An answer's place is how many the client had before. `turn` is the place of the next one to hand over: who
    counts the answers compares two numbers for each, and no more.
    """

    def __init__(self, own: Sequence[int], slots: int, draw: Callable[[], float] | None = None) -> None:
        """Keep the answers at the places `own`, ascending, and draw up to `slots` evenly from all.

        `draw` returns numbers from 0 to 1.
        """
        self._draw = draw or random.Random().random  # seeded anew: else all forks would draw the same
        self._own, self._slots = iter(own), slots
        self._first: list[tuple[int, Any]] = []
        self._even: list[tuple[int, Any]] = []
        self._next_own = next(self._own, math.inf)
        self._next_even = 0 if slots else math.inf
        self._share = 1.0
        self.turn = min(self._next_own, self._next_even)

    def keep(self, place: int, number: int, answer: Any, is_first: bool = False) -> float:
        """Keep the answer at the place `turn` to query `number`, or the first to it; return the next turn."""
        if is_first or place == self._next_own:
            self._first.append((number, answer))
            if not is_first:
                self._next_own = next(self._own, math.inf)
        if place == self._next_even:
            if len(self._even) < self._slots:
                self._even.append((number, answer))
            else:
                self._even[int(self._draw() * self._slots)] = number, answer
            self._next_even = place + 1 + (self._skipped() if len(self._even) == self._slots else 0)
        self.turn = min(self._next_own, self._next_even)
        return self.turn

    def arrays(
        self, answers: int, decode: Callable[[Any], Sequence[int]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return numbers of queries, (kept,), their ids, (kept, most rows), and their weights, (kept,).

        A weight is for how many answers one stands: for its share of the `answers`, or, a first one, for one.
        """
        kept = [*self._first, *self._even]
        found = [decode(answer) for _, answer in kept]
        ids = np.full((len(kept), max(map(len, found), default=0)), -1, np.int64)
        for row, own in zip(ids, found, strict=True):
            row[: len(own)] = own
        weights = np.ones(len(kept))
        weights[len(self._first) :] = answers / max(len(self._even), 1)
        return np.array([number for number, _ in kept], np.int64), ids, weights

    def _skipped(self) -> int:
        """Draw how many answers pass until the next one replaces another (Li 1994, algorithm L)."""
        self._share *= math.exp(math.log(1 - self._draw()) / self._slots)
        return math.floor(math.log(1 - self._draw()) / math.log1p(-self._share))


def own_places(orders: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return at which places of its order each client is the first of all to send a query, ascending."""
    numbers = np.concatenate([np.asarray(order, np.int64) for order in orders])
    places = np.concatenate([np.arange(len(order)) for order in orders])
    clients = np.repeat(np.arange(len(orders)), [len(order) for order in orders])
    by_place = np.argsort(places, kind="stable")
    _, first = np.unique(numbers[by_place], return_index=True)
    chosen = by_place[first]
    return [np.sort(places[chosen[clients[chosen] == client]]) for client in range(len(orders))]
