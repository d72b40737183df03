"""A random sample of rows, drawn without replacement while they stream to the device."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from .devices import Array, Device
from .kmeans import normalized
from .settings import ClusteringError, Settings

BLOCK_BYTES = 8 * 2**20  # read at once
FAR_APART = 256  # if fewer than one row in this many is drawn, the rows are read one by one
READERS = 4  # threads that read rows in memory or mapped; a file of another kind is read by one
_MOST_FOR_HYPERGEOMETRIC = 10**9  # NumPy's bound

Numbers = range | np.ndarray


@np.errstate(over="ignore", invalid="ignore")
def draw_sample(
    rows: Any, count: int, settings: Settings, device: Device, rng: np.random.Generator, advance: Any
) -> tuple[Array, Array, Array]:
    """Return `count` rows on the device less a shift, (count, dimension), the shift, and their squares' sum.

    The shift is the mean of the first ones, which makes the differences of rows more exact; centroids of
    length 1 allow none. ClusteringError names the row whose values cannot be clustered.
    """
    xp, sample = device.xp, device.empty(count, rows.shape[1])
    shift, total, done = None, 0.0, 0
    pool = ThreadPoolExecutor(READERS if isinstance(rows, np.ndarray) else 1)
    arriving = []
    for numbers in drawn_numbers(rows, count, rng):
        part = sample[done : done + len(numbers)]
        arriving.append((part, numbers, pool.submit(device.fill, part, partial(_read, rows, numbers))))
        done += len(numbers)
    try:
        for part, numbers, reading in arriving:
            reading.result()
            _require_finite(rows, numbers, device.get(device.squares(part)))
            if settings.unit_rows:
                part[:] = normalized(part)
            if shift is None:
                shift = part.mean(0) * (not settings.spherical)
            part -= shift
            total += device.squares(part).sum(dtype=xp.float64)
            advance(len(part))
    finally:
        pool.shutdown(cancel_futures=True)
    return sample, shift, total


def drawn_numbers(rows: Any, count: int, rng: np.random.Generator) -> Iterator[Numbers]:
    """Yield the numbers of `count` rows in order, block by block: a range where all of a block are drawn.

    Every set of `count` rows is equally likely, because the number drawn from a block follows the
    hypergeometric distribution. Above 10^9 rows it is the binomial one, which differs by about a block's
    share of all rows.
    """
    rows_left, missing = rows.shape[0], count
    for block in _blocks(rows):
        rows_left -= len(block)
        drawn = drawn_here(rng, len(block), rows_left, missing)
        missing -= drawn
        if drawn == len(block):
            yield block
        elif drawn:
            yield block.start + np.sort(rng.choice(len(block), drawn, replace=False, shuffle=False))


def drawn_here(rng: np.random.Generator, here: int, later: int, missing: int) -> int:
    """How many of the `missing` rows are among those `here`; the others are among those `later`."""
    if here + later < _MOST_FOR_HYPERGEOMETRIC:
        return int(rng.hypergeometric(here, later, missing))
    drawn = int(rng.binomial(here, missing / (here + later)))
    return max(missing - later, min(drawn, missing))


def every_block(rows: Any) -> Iterator[np.ndarray]:
    """Yield all rows, in order, in blocks of float32; ClusteringError names a row that is not finite."""
    for block in _blocks(rows):
        vectors = np.empty((len(block), rows.shape[1]), np.float32)
        _read(rows, block, vectors)
        _require_finite(rows, block, np.einsum("ij,ij->i", vectors, vectors))
        yield vectors


def _require_finite(rows: Any, numbers: Numbers, squares: np.ndarray) -> None:
    finite = np.isfinite(squares)
    if not finite.all():
        number = int(numbers[int(finite.argmin())])
        name = rows.row_name(number) if hasattr(rows, "row_name") else f"row {number} (from 0)"
        raise ClusteringError(
            f"{name} holds NaN, infinity or values too large to square; "
            "finite numbers were expected: remove or correct it"
        )


def _blocks(rows: Any) -> Iterator[range]:
    size = max(1, BLOCK_BYTES // max(1, rows.shape[1] * np.dtype(rows.dtype).itemsize))
    for start in range(0, rows.shape[0], size):
        yield range(start, min(start + size, rows.shape[0]))


@np.errstate(over="ignore", invalid="ignore")
def _read(rows: Any, numbers: Numbers, into: np.ndarray) -> None:
    first, stop = int(numbers[0]), int(numbers[-1]) + 1
    if isinstance(numbers, range):
        into[:] = rows[first:stop]
    elif isinstance(rows, np.ndarray):
        into[:] = rows[numbers]
    elif len(numbers) * FAR_APART < stop - first:
        for place, number in enumerate(numbers.tolist()):
            into[place] = rows[number : number + 1][0]
    else:
        into[:] = np.asarray(rows[first:stop])[numbers - first]
