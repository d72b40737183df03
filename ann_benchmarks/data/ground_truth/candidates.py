"""Rows that may be among the nearest of a group of queries, and vectors whose further copies cannot be."""

import threading
from collections.abc import Callable

import numpy as np

from .exact import nearest

DECIDED_AT_ONCE = 64  # queries; bounds the memory of a decision
MOST_REMEMBERED = 32  # vectors
MANY_COPIES = 8  # copies among rows looked at together that make a vector worth remembering


class Candidates:
    """Up to 2 k + `room` rows a query, and `limits` (queries,): no score above its limit matters.

    A query's limit is the k-th smallest upper bound that it has seen. Where more rows than fit are so close
    that bounds cannot order them, float64 decides on the spot, and the room suffices again. Change it with
    `lock` held; `limits` may be read without.
    """

    def __init__(
        self,
        limits: np.ndarray,
        k: int,
        room: int,
        exact: Callable[[np.ndarray, np.ndarray], np.ndarray],
        scores: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> None:
        """Begin with limits known before, or infinity.

        `exact(query, row)` gives float64 distances, `scores(distances, queries)` what they are as limits.
        """
        self.lock = threading.Lock()
        self.limits, self.k = limits, k
        self._exact, self._scores = exact, scores
        shape = (len(limits), 2 * k + room)
        self._lower = np.empty(shape, np.float32)
        self._upper = np.full(shape, np.inf, np.float32)  # infinite where there is no row
        self._row = np.empty(shape, np.int32)
        self._count = np.zeros(len(limits), np.int64)
        self._tighten_at = 2 * k * len(limits)

    def add(self, query: np.ndarray, row: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
        """Consider rows, each for one query, at most `room` for each; sorted by query."""
        if np.max(self._count + np.bincount(query, minlength=len(self.limits))) > self._row.shape[1]:
            self._tighten()
            near = lower <= self.limits[query]
            query, row, lower, upper = query[near], row[near], lower[near], upper[near]
            total = self._count + np.bincount(query, minlength=len(self.limits))
            crowded = total > self._row.shape[1]
            if crowded.any():
                there = crowded[query]
                self._decide(np.flatnonzero(crowded), query[there], row[there])
                query, row, lower, upper = query[~there], row[~there], lower[~there], upper[~there]
        self._put(query, row, lower, upper)
        if self._count.sum() > self._tighten_at:
            self._tighten()

    def rest(self) -> tuple[np.ndarray, np.ndarray]:
        """Give (query, row) of all that may be among the k nearest, sorted by query."""
        self._tighten()
        query, slot = np.nonzero(np.arange(self._row.shape[1]) < self._count[:, np.newaxis])
        row, lower = self._row[query, slot], self._lower[query, slot]
        near = lower <= self.limits[query]
        return query[near], row[near]

    def _put(self, query: np.ndarray, row: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
        new = np.bincount(query, minlength=len(self.limits))
        first = np.cumsum(new) - new
        at = query * self._row.shape[1] + (self._count - first)[query] + np.arange(len(query))
        self._row.reshape(-1)[at] = row
        self._lower.reshape(-1)[at] = lower
        self._upper.reshape(-1)[at] = upper
        self._count += new

    def _tighten(self) -> None:
        """Bring the limits down to the k-th smallest upper bounds; forget what is above them."""
        which = np.flatnonzero(self._count > self.k)
        if len(which):
            width = int(np.max(self._count))
            upper = self._upper[which, :width]
            kth = np.partition(upper, self.k - 1, axis=1)[:, self.k - 1]
            limits = np.minimum(self.limits[which], kth)
            self.limits[which] = limits
            lower = self._lower[which, :width]
            filled = np.arange(width) < self._count[which, np.newaxis]
            kept = np.flatnonzero((lower <= limits[:, np.newaxis]) & filled)
            of, row = which[kept // width], self._row[which, :width].reshape(-1)[kept]
            self._upper[which, :width] = np.inf
            self._count[which] = 0
            self._put(of, row, lower.reshape(-1)[kept], upper.reshape(-1)[kept])
        # What is near by all means must not bring us here again and again.
        self._tighten_at = max(2 * self.k * len(self.limits), int(self._count.sum()) * 3 // 2)

    def _decide(self, crowded: np.ndarray, query: np.ndarray, row: np.ndarray) -> None:
        """Keep the k nearest, by float64 distance and row, of what there is and of these rows."""
        for start in range(0, len(crowded), DECIDED_AT_ONCE):
            some = crowded[start : start + DECIDED_AT_ONCE]
            of, slot = np.nonzero(np.arange(self._row.shape[1]) < self._count[some, np.newaxis])
            part = slice(*np.searchsorted(query, [some[0], some[-1] + 1]))
            queries = np.concatenate((some[of], query[part]))
            rows = np.concatenate((self._row[some[of], slot], row[part]))
            distances = self._exact(queries, rows)
            order = nearest(queries, distances, rows, self.k)
            upper = self._scores(distances[order].reshape(len(some), self.k), some)
            self.limits[some] = np.minimum(self.limits[some], upper[:, -1])
            # Rounding to float32 and the step up moved them by less than two steps.
            lower = np.nextafter(np.nextafter(upper, np.float32(-np.inf)), np.float32(-np.inf))
            self._upper[some] = np.inf
            self._count[some] = 0
            self._put(queries[order], rows[order], lower.reshape(-1), upper.reshape(-1))


class Repeats:
    """Vectors that occur so often that more of them cannot change any answer.

    Of equal vectors the k with the smallest row numbers are nearer, to any query, than the others.
    """

    def __init__(self, k: int) -> None:
        self._k = k
        self._known: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}  # vector, its first k rows of those seen

    def learn(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """Look for vectors that many of these rows have."""
        copies: dict[bytes, list[int]] = {}
        for number, vector in enumerate(vectors):
            copies.setdefault(vector.tobytes(), []).append(number)
        for key, numbers in copies.items():
            vector, seen = self._known.get(key, (vectors[numbers[0]].copy(), np.empty(0, np.int64)))
            if key in self._known or (
                len(numbers) >= min(MANY_COPIES, self._k) and len(self._known) < MOST_REMEMBERED
            ):
                self._known[key] = vector, np.union1d(seen, rows[numbers])[: self._k]

    def superfluous(self, block: np.ndarray, start: int) -> np.ndarray:
        """Numbers in the block, which begins at row `start`, of rows that nobody needs."""
        found = [np.empty(0, np.int64)]
        for vector, seen in list(self._known.values()):
            if len(seen) == self._k:
                maybe = np.flatnonzero(block[:, 0] == vector[0])
                maybe = maybe[start + maybe > seen[-1]]
                found.append(maybe[(block[maybe] == vector).all(axis=1)])
        return np.concatenate(found)
