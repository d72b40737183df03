"""K-means by Lloyd's passes, in which a list without rows gets a new place, over a random sample of rows.

Each pass moves every centroid to the mean of its list.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .devices import Array, Device
from .settings import ClusteringError, Settings

BLOCK_BYTES = 8 * 2**20  # read at once
FAR_APART = 256  # if fewer than one row in this many is drawn, the rows are read one by one
READERS = 4  # threads that read rows in memory or mapped; a file of another kind is read by one
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

    Each block has its share of the `count` rows, drawn at random.
    """
    total = rows.shape[0]
    for block in _blocks(rows):
        drawn = block.stop * count // total - block.start * count // total
        if drawn == len(block):
            yield block
        elif drawn:
            yield block.start + np.sort(rng.choice(len(block), drawn, replace=False, shuffle=False))


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


ENOUGH = 1e-3  # passes end when one reduces the inertia by less than this share
ROUNDS_OF_FILLING = 12
ROWS_A_SEED, LEAST_ROWS = 16, 4096  # among which seeds are looked for, at first
BLOCK_VALUES = 2**24  # of rows whose distances are computed at a time
# What float32 products can distinguish: a squared distance, relative to the vector's squared length.
LEAST_GAP = 1e-6
LEAST_SQUARE = 1e-37  # of a vector that has a direction


class Lists(NamedTuple):
    """Centroids, (k, dimension) float32, the rows of each list, (k,), and the rows' mean squared distance."""

    centroids: Array
    counts: Array
    inertia: float

    @property
    def are_full(self) -> bool:
        """Whether every list has rows."""
        return bool(self.counts.all())


@dataclass(frozen=True)
class KMeans:
    """Rows, (n, dimension) float32 on a device, and the sum of their squared lengths in float64."""

    device: Device
    rows: Array
    squares: Array
    spherical: bool
    rng: np.random.Generator

    def draw(self, count: int) -> Array:
        """Return the numbers of this many rows."""
        return self.device.put(np.sort(self.rng.choice(len(self.rows), count, replace=False)))

    def part(self, numbers: Array) -> "KMeans":
        """Return the k-means of the rows of these numbers."""
        rows = self.rows[numbers]
        squares = self.device.squares(rows).sum(dtype=self.device.xp.float64)
        return replace(self, rows=rows, squares=squares)

    def train(self, k: int, most: int) -> Lists:
        """Start from random rows, and make passes; if rows are too alike, some lists remain empty."""
        start = self.rows[self.draw(k)]
        lists = Lists(normalized(start) if self.spherical else start, np.ones(k), np.inf)
        for after in self.passes(lists, most):
            lists = after
        return self.fill(lists)

    def passes(self, lists: Lists, most: int) -> Iterator[Lists]:
        """Yield the lists after each pass, until one gains little and leaves no list empty."""
        for _ in range(most):
            before, lists = lists.inertia, self.improve(lists)
            yield lists
            if lists.inertia >= (1 - ENOUGH) * before and lists.are_full:
                break

    def improve(self, lists: Lists, moves: bool = True) -> Lists:
        """Make a pass: empty lists get a seed, rows the nearest list, and, if it `moves`, a list its mean."""
        xp, centroids = self.device.xp, self._seeded(lists)
        sums, counts = self.device.sums(self.rows, self.labels(centroids), len(centroids))
        if moves:
            scale = ((sums * sums).sum(1) ** 0.5 if self.spherical else counts)[:, None]
            # Without rows, or where they cancel out, a list keeps its centroid.
            means = xp.where(scale > 0, sums / xp.where(scale > 0, scale, 1), centroids)
            centroids = xp.asarray(means, dtype=xp.float32)
        # The sum of |x - c|² over a list is that of |x|², less 2 c·s for the sum s of its rows, plus |c|²
        # for each row.
        exact = xp.asarray(centroids, dtype=xp.float64)
        differences = self.squares + (counts * (exact**2).sum(1) - 2 * (sums * exact).sum(1)).sum()
        return Lists(centroids, counts, max(0.0, float(differences) / len(self.rows)))

    def labels(self, centroids: Array) -> Array:
        """Return the number of each row's nearest centroid c: that with the largest x·c - |c|²/2."""
        device, xp = self.device, self.device.xp
        exact = xp.asarray(centroids, dtype=xp.float64)
        halves = xp.asarray((exact**2).sum(1) / 2 * (not self.spherical), dtype=xp.float32)
        size = max(1, device.tile // len(centroids))
        tiles = (self.rows[start : start + size] for start in range(0, len(self.rows), size))
        found = device.each(lambda tile: device.scores(tile, centroids, halves).argmax(1), tiles)
        return xp.concatenate([*found])

    def fill(self, lists: Lists) -> Lists:
        """Measure lists, and give rows to those that have none, until all have or rows are too alike."""
        with self.device.exactly():
            for _ in range(ROUNDS_OF_FILLING):
                if lists.are_full and lists.inertia < np.inf:
                    break
                lists = self.improve(lists, moves=False)
        return lists

    def _seeded(self, lists: Lists) -> Array:
        """Return the centroids, with seeds in place of those whose lists are empty.

        A row becomes one with a probability in proportion to its squared distance from the nearest centroid,
        as by k-means++ (Arthur and Vassilvitskii, 2007): first some of the rows are looked at, then all if
        too few are found. Equal rows that are drawn together count once; none only where no row is left.
        """
        if lists.are_full:
            return lists.centroids
        device, total, size = self.device, len(self.rows), max(1, BLOCK_VALUES // self.rows.shape[1])
        empty = np.flatnonzero(device.get(lists.counts) == 0)
        full = lists.centroids[lists.counts > 0]
        for among in (max(LEAST_ROWS, ROWS_A_SEED * len(empty)), total):
            numbers = self.draw(min(among, total))
            blocks = (numbers[start : start + size] for start in range(0, len(numbers), size))
            gaps = np.concatenate([device.get(self.part(block).gaps(full)) for block in blocks])
            far = np.flatnonzero(gaps)
            # The least of exponentially distributed numbers with these rates: a draw without replacement.
            keys = self.rng.standard_exponential(len(far)) / gaps[far]
            drawn = np.sort(far[np.argsort(keys, kind="stable")[: len(empty)]])
            seeds = device.get(self.rows[numbers[device.put(drawn)]])
            seeds = np.unique(normalized(seeds).round(5) if self.spherical else seeds, axis=0)
            if len(seeds) == len(empty):
                break
        centroids = lists.centroids + 0  # a copy
        seeds = normalized(seeds) if self.spherical else seeds
        centroids[device.put(empty[: len(seeds)])] = device.put(seeds)
        return centroids

    def gaps(self, centroids: Array) -> Array:
        """Squared distances of rows from their nearest centroids, 0 where they cannot be distinguished."""
        xp, nearest = self.device.xp, centroids[self.labels(centroids)]
        rows = normalized(self.rows) if self.spherical else self.rows
        found = ((rows - nearest) ** 2).sum(1)
        return xp.where(found > LEAST_GAP * xp.maximum((rows**2).sum(1), (nearest**2).sum(1)), found, 0)


def normalized(vectors: Array) -> Array:
    """Return vectors of length 1; those of length 0 stay as they are."""
    return vectors / ((vectors**2).sum(1).clip(min=LEAST_SQUARE) ** 0.5)[:, None]
