"""A place for every row in an order in which near rows are close together, and stretches of it as filters.

The order is that of the leaves of a tree of halves: each node splits a sample of the rows into two equal
halves by 2-means, whose sides are told by the projection on the line between the two means. Of two halves,
the one nearer to the node before comes first. The other rows go down the tree, and within a leaf they are
ordered by one more projection, equal ones by row number.

Projections are rounded from float64 to float32. A row whose projection is within rounding of the median may
still go the other way on a machine with another BLAS; what was computed once is therefore stored.
"""

from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from ..vectors.rows import Rows
from .filter import Filter, make_filters
from .named import SyntheticSet, below

SAMPLE = 2**15  # rows that the tree is made of, at most
LEAF = 16  # of them in a leaf, at least
_LOOKED_AT = 2**12  # rows of a node that take part in 2-means, at most
_ITERATIONS = 4
_STAGE = 6  # levels whose directions are one matrix product
_BLOCK_BYTES = 2**25  # of float64
_OTHERS = 32  # queries of which the farthest is another's opposite


class PlaceTree:
    """Directions and thresholds of a tree of halves; `unit` is whether only directions of vectors count."""

    def __init__(self, sample: np.ndarray, unit: bool) -> None:
        """Fit it to rows (n, dimension)."""
        self._unit = unit
        self._centre = np.zeros(sample.shape[1])
        self._centre = self.moved(sample).mean(axis=0)
        self._thresholds: list[np.ndarray] = []
        self._directions: list[np.ndarray] = []
        vectors = self.moved(sample)
        nodes = [np.arange(len(sample))]
        while True:
            self._directions.append(_directions(vectors, nodes))
            if len(nodes[0]) < 2 * LEAF:
                return
            halves: list[np.ndarray] = []
            thresholds = np.empty(len(nodes), np.float32)
            for number, rows in enumerate(nodes):
                scores = (vectors[rows] @ self._directions[-1][number]).astype(np.float32)
                order = np.argsort(scores, kind="stable")
                half = len(rows) // 2
                thresholds[number] = scores[order[half]]
                halves += [rows[order[:half]], rows[order[half:]]]
            self._thresholds.append(thresholds)
            nodes = halves

    def moved(self, vectors: np.ndarray) -> np.ndarray:
        """Return vectors about the middle of the sample, float64."""
        return _seen(vectors, self._unit) - self._centre

    def keys(self, vectors: np.ndarray) -> np.ndarray:
        """Return a uint64 for each row, in whose order their places are: the leaf, then the projection."""
        moved, levels = self.moved(vectors), len(self._directions)
        node = np.zeros(len(moved), np.int64)
        score = np.zeros(len(moved), np.float32)
        for first in range(0, levels, _STAGE):
            stage = range(first, min(first + _STAGE, levels))
            for top in np.unique(node):
                rows = np.flatnonzero(node == top)
                below_top = [slice(top << number, (top + 1) << number) for number in range(len(stage))]
                parts = [self._directions[level][part] for level, part in zip(stage, below_top, strict=True)]
                scores = (moved[rows] @ np.concatenate(parts).T).astype(np.float32)
                at, column = np.full(len(rows), top), 0
                for level, part in zip(stage, below_top, strict=True):
                    own = scores[np.arange(len(rows)), column + at - part.start]
                    if level == levels - 1:
                        score[rows] = own
                        break
                    at = 2 * at + (own >= self._thresholds[level][at])
                    column += part.stop - part.start
                node[rows] = at
        return (node.astype(np.uint64) << np.uint64(32)) | _ordered_bits(score)


class Places(NamedTuple):
    """The place of each row, a permutation of 0 to rows - 1, and the place that each query would have."""

    rows: np.ndarray
    queries: np.ndarray


def find_places(train: Rows, queries: np.ndarray, metric: str) -> Places:
    """Order the rows. Memory: 24 bytes a row, and the sample in float64."""
    sample = np.unique(np.linspace(0, len(train) - 1, min(SAMPLE, len(train))).astype(np.int64))
    tree = PlaceTree(train.take(sample), metric == "angular")
    keys = np.empty(len(train), np.uint64)
    size = max(1, _BLOCK_BYTES // (8 * train.shape[1]))
    with tqdm(total=len(train), desc="places", unit=" rows", unit_scale=True, delay=1, disable=None) as bar:
        for start, block in train.blocks(size):
            keys[start : start + len(block)] = tree.keys(block)
            bar.update(len(block))
    order = np.argsort(keys, kind="stable")
    places = np.empty(len(keys), np.int64)
    places[order] = np.arange(len(keys))
    return Places(places, np.searchsorted(keys[order], tree.keys(queries)))


def place_filters(
    wanted: SyntheticSet, queries: np.ndarray, places: np.ndarray, rows: int, metric: str
) -> list[Filter]:
    """Make the filter of each query of a near or far set.

    `queries` are (n, dimension), and `places` what find_places gives for them, of `rows`. The rows are cut
    into stretches of equal length. A query of a near set has that of its own place; a query of a far set has
    that of the farthest of some other queries whose stretch is another.
    """
    # Half of an odd number of rows, rounded up, would leave no other stretch.
    length = min(wanted.matches(rows), rows // 2)
    starts = np.minimum(places // length * length, rows - length)
    if wanted.kind == "far":
        starts = _far(starts, _seen(queries, metric == "angular"), rows, length)
    return make_filters(
        [("place", ">="), ("place", "<")], [(start, start + length) for start in starts.tolist()]
    )


def _far(starts: np.ndarray, queries: np.ndarray, rows: int, length: int) -> np.ndarray:
    """Return for each query where the stretch of one that is far from it starts."""
    numbers = np.arange(len(starts))
    # The opposite end, where every other query is in the same stretch.
    found = np.where(starts >= rows - length - starts, 0, rows - length)
    farthest = np.full(len(starts), -1.0)
    for number in range(_OTHERS):
        other = below(f"far {number}", numbers, len(starts))
        difference = queries - queries[other]
        distance = np.einsum("ij,ij->i", difference, difference)
        better = (distance > farthest) & (np.abs(starts - starts[other]) >= length)
        found[better], farthest[better] = starts[other][better], distance[better]
    return found


def _directions(vectors: np.ndarray, nodes: list[np.ndarray]) -> np.ndarray:
    """Return the line between the two means of each node, pointing from the node before to the one after."""
    means = np.stack([vectors[rows].mean(axis=0) for rows in nodes])
    before, after = np.concatenate((means[:1], means[:-1])), np.concatenate((means[1:], means[-1:]))
    found = np.empty_like(means)
    for number, rows in enumerate(nodes):
        step = max(1, len(rows) // _LOOKED_AT)
        direction = _subtract_means(vectors[rows[::step]], means[number])
        found[number] = -direction if direction @ (after[number] - before[number]) < 0 else direction
    return found


def _subtract_means(vectors: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return the difference of the means of two equal halves, as 2-means has them after a few rounds."""
    one = vectors[np.argmax(_squares(vectors - mean))]
    direction: np.ndarray = vectors[np.argmax(_squares(vectors - one))] - one
    for _ in range(_ITERATIONS):
        order = np.argsort((vectors @ direction).astype(np.float32), kind="stable")
        half = len(order) // 2
        if not half:
            break
        direction = vectors[order[half:]].mean(axis=0) - vectors[order[:half]].mean(axis=0)
    return direction


def _seen(vectors: np.ndarray, unit: bool) -> np.ndarray:
    """Return vectors as the metric sees them, float64."""
    vectors = vectors.astype(np.float64)
    if unit:
        lengths = np.sqrt(_squares(vectors))
        vectors /= np.where(lengths > 0, lengths, 1)[:, np.newaxis]
    return vectors


def _squares(vectors: np.ndarray) -> np.ndarray:
    squares: np.ndarray = np.einsum("ij,ij->i", vectors, vectors)
    return squares


def _ordered_bits(numbers: np.ndarray) -> np.ndarray:
    """Return uint64 in the order of float32 numbers."""
    bits = (numbers + np.float32(0)).view(np.uint32)  # without a zero below zero
    is_negative = bits >> np.uint32(31) == 1
    return np.where(is_negative, ~bits, bits | np.uint32(1 << 31)).astype(np.uint64)
