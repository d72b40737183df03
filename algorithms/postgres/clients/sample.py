"""Which answers a client keeps: the first to each of the queries that are its own, and an even sample of all.

Nothing is decoded before the end of a run, and what is kept is little: to go through every answer would cost
the client more than to send its query.
"""

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

EVEN = 2  # answers of the even samples of all clients together, as a multiple of the queries


class RawSample:
    """Answers of one run as libpq returns them.

    An answer's place is how many the client had before. Which places are kept is drawn before the run. `turn`
    is the first of them, and `keep` takes the answer of that place and returns the next: who counts the
    answers compares two numbers for each, and no more.
    """

    turn: float
    keep: Callable[[Any], float]

    def __init__(
        self, own: np.ndarray, slots: int, expected: float, room: int, rng: np.random.Generator | None = None
    ) -> None:
        """Keep the answers at the places `own`, ascending, and draw up to `slots` evenly from all of them.

        About `expected` answers come, and at most `room`.
        """
        rng = np.random.default_rng() if rng is None else rng
        self._own, self._slots = own, slots
        self._even, slot = _even_places(slots, min(slots / max(expected, 1), 1), room, rng)
        # Where an answer is kept: first those at the own places, then those of the even sample.
        is_own = np.isin(self._even, own)
        self._slot, self._at = slot, np.where(is_own, np.searchsorted(own, self._even), len(own) + slot)
        places = np.concatenate([own, self._even[~is_own]])
        at = np.concatenate([np.arange(len(own)), self._at[~is_own]])
        in_turn = np.argsort(places)
        self._kept: list[Any] = [None] * (len(own) + slots)
        keeping = _keeping(self._kept, places[in_turn].tolist(), at[in_turn].tolist())
        self.turn, self.keep = next(keeping), keeping.send
        self._first: list[tuple[int, Any]] = []

    def keep_first(self, place: int, answer: Any) -> None:
        """Keep an answer that is the first of all clients' to its query."""
        self._first.append((place, answer))

    def arrays(
        self, answers: int, number: Callable[[int], int], decode: Callable[[Any], Sequence[int]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return numbers of queries, (kept,), their ids, (kept, most rows), and their weights, (kept,).

        `number` gives that of the query at a place. A weight is for how many answers one stands: for its
        share of the `answers`, or, a first one, for one.
        """
        came = np.flatnonzero(self._even < answers)
        last = np.full(self._slots, -1)
        last[self._slot[came]] = came  # of several in one slot, the last one stays
        last = last[last >= 0]
        own = self._own[self._own < answers]
        first = [*zip(own.tolist(), self._kept, strict=False), *self._first]
        even = [(place, self._kept[at]) for place, at in zip(self._even[last], self._at[last], strict=True)]
        found = [decode(answer) for _, answer in first + even]
        ids = np.full((len(found), max(map(len, found), default=0)), -1, np.int64)
        for row, decoded in zip(ids, found, strict=True):
            row[: len(decoded)] = decoded
        weights = np.ones(len(found))
        weights[len(first) :] = answers / max(len(even), 1)
        return np.array([number(place) for place, _ in first + even], np.int64), ids, weights


def _keeping(kept: list[Any], places: Sequence[int], at: Sequence[int]) -> Generator[float, Any, None]:
    """Put the answer that it is sent where it belongs."""
    for place, there in zip(places, at, strict=True):
        kept[there] = yield place
    while True:
        yield math.inf


def _even_places(
    slots: int, share: float, room: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw an even sample of up to `slots` places, however many of the `room` places come.

    At first each place is drawn with a probability of `share`. Once the slots are full, it becomes smaller
    with each further one (Li 1994, algorithm L). An answer that is drawn costs the client time, also where
    another replaces it: with the share that fills the slots in the end, there are few of these. Return
    places, ascending, and the slot that each of them takes from the one before in it.
    """
    if not slots:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    drawn = np.cumsum(rng.geometric(share, slots)) - 1.0
    places, taken = [drawn], [np.arange(slots)]
    log_share, last = math.log(share), drawn[-1]
    while last < room:
        log_shares = log_share + np.cumsum(np.log(1 - rng.random(slots))) / slots
        with np.errstate(divide="ignore"):  # a share of 1 skips none
            skipped = np.floor(np.log(1 - rng.random(slots)) / np.log1p(-np.exp(log_shares)))
        drawn = last + np.cumsum(np.minimum(skipped, room) + 1)
        places.append(drawn)
        taken.append(rng.integers(slots, size=slots))
        log_share, last = log_shares[-1], drawn[-1]
    every = np.concatenate(places)
    return every[every < room].astype(np.int64), np.concatenate(taken)[every < room]


def own_places(orders: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return at which places of its order each client is the first of all to send a query, ascending."""
    numbers = np.concatenate([np.asarray(order, np.int64) for order in orders])
    places = np.concatenate([np.arange(len(order)) for order in orders])
    clients = np.repeat(np.arange(len(orders)), [len(order) for order in orders])
    by_place = np.argsort(places, kind="stable")
    _, first = np.unique(numbers[by_place], return_index=True)
    chosen = by_place[first]
    return [np.sort(places[chosen[clients[chosen] == client]]) for client in range(len(orders))]
