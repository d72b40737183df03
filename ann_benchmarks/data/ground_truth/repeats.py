"""Vectors that occur so often that more of them cannot change any answer."""

import numpy as np

MOST = 32  # vectors remembered
MANY = 8  # copies among rows looked at together that make a vector worth remembering


class Repeats:
    """Of equal vectors the k with the smallest row numbers are nearer, to any query, than the others."""

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
            if key in self._known or (len(numbers) >= min(MANY, self._k) and len(self._known) < MOST):
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
