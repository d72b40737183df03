"""Rows drawn at random, block by block: what is in memory is one block."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from .errors import ClusteringError

BLOCK_BYTES = 4 * 2**20  # what is read at once
FAR_APART = 256  # where one row in more than so many is wanted, they are read one by one
_MOST_FOR_HYPERGEOMETRIC = 10**9  # NumPy's bound


def drawn_blocks(rows: Any, count: int, unit_rows: bool, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Give `count` rows drawn without replacement, in their order, as blocks of float32, (some, dimension).

    Every set of `count` rows is equally likely: how many of a block are taken follows the hypergeometric
    distribution. Above 10^9 rows it is the binomial one, which differs by about a block's share of all rows.
    Raises ClusteringError, with the number of the row, for values that cannot be clustered.
    """
    total, dimension = rows.shape
    size = max(1, BLOCK_BYTES // max(1, dimension * np.dtype(rows.dtype).itemsize))
    wanted = count
    for start in range(0, total, size):
        stop = min(start + size, total)
        taken = _taken(rng, stop - start, total - stop, wanted)
        if taken:
            wanted -= taken
            chosen = rng.choice(stop - start, taken, replace=False, shuffle=False)
            numbers = start + np.sort(chosen)
            yield _checked(rows, numbers, _read(rows, numbers, start, stop), unit_rows)


def _taken(rng: np.random.Generator, here: int, later: int, wanted: int) -> int:
    """How many of the `wanted` rows are among those `here`, the others being among those `later`."""
    if here + later < _MOST_FOR_HYPERGEOMETRIC:
        return int(rng.hypergeometric(here, later, wanted))
    drawn = int(rng.binomial(here, wanted / (here + later)))
    return max(wanted - later, min(drawn, wanted))


def _read(rows: Any, numbers: np.ndarray, start: int, stop: int) -> np.ndarray:
    if len(numbers) * FAR_APART < stop - start:
        vectors = np.concatenate([np.asarray(rows[n : n + 1]) for n in numbers.tolist()])
    else:
        vectors = np.asarray(rows[start:stop])[numbers - start]
    return np.ascontiguousarray(vectors, np.float32)


@np.errstate(over="ignore", invalid="ignore")
def _checked(rows: Any, numbers: np.ndarray, vectors: np.ndarray, unit_rows: bool) -> np.ndarray:
    squares = np.einsum("ij,ij->i", vectors, vectors)
    finite = np.isfinite(squares)
    if not finite.all():
        number = int(numbers[np.argmin(finite)])
        name = rows.where(number) if hasattr(rows, "where") else f"row {number} (from 0)"
        raise ClusteringError(
            f"{name} holds NaN, infinity or values too large to square; "
            "finite numbers were expected: remove or mend it"
        )
    if unit_rows:
        norms = np.sqrt(squares)
        vectors /= np.where(norms > 0, norms, 1)[:, np.newaxis]
    return vectors
