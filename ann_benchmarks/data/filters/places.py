"""A place for every row in an order in which near rows are close together, and stretches of it as filters.

The order is that of the leaves of a tree of halves. All nodes of a level divide their rows at the median of
one principal component of a sample, the first component first; within a leaf, rows are ordered by one more,
equal ones by row number.

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
_ITERATIONS = 4
_BLOCK_BYTES = 2**25  # of float64
_OTHERS = 32  # queries of which the farthest is another's opposite


class PlaceTree:
    """Components and thresholds of a tree of halves; `unit` is whether only directions of vectors count."""

    def __init__(self, sample: np.ndarray, unit: bool) -> None:
        """Fit it to rows (n, dimension)."""
        self._unit, vectors = unit, _seen(sample, unit)
        self._centre = vectors.mean(axis=0)
        vectors -= self._centre
        levels, dimension = int(np.log2(max(len(sample) / LEAF, 1))) + 1, sample.shape[1]
        components = np.random.RandomState(0).randn(dimension, min(levels, dimension))
        for _ in range(_ITERATIONS):  # of subspaces: the first few need no whole decomposition
            components = np.linalg.qr(vectors.T @ (vectors @ components))[0]
        self._components = components[:, np.arange(levels) % dimension]
        self._thresholds: list[np.ndarray] = []
        scores = self._scores(sample)
        nodes = [np.arange(len(sample))]
        for level in range(levels - 1):
            orders = [rows[np.argsort(scores[rows, level], kind="stable")] for rows in nodes]
            self._thresholds.append(np.array([scores[rows[len(rows) // 2], level] for rows in orders]))
            nodes = [half for rows in orders for half in np.split(rows, [len(rows) // 2])]

    def _scores(self, vectors: np.ndarray) -> np.ndarray:
        """Return the projections on the component of each level, (n, levels) float32."""
        return ((_seen(vectors, self._unit) - self._centre) @ self._components).astype(np.float32)

    def keys(self, vectors: np.ndarray) -> np.ndarray:
        """Return a uint64 for each row, in whose order their places are: the leaf, then the projection."""
        scores, node = self._scores(vectors), np.zeros(len(vectors), np.int64)
        for level, thresholds in enumerate(self._thresholds):
            node = 2 * node + (scores[:, level] >= thresholds[node])
        return (node.astype(np.uint64) << np.uint64(32)) | _ordered_bits(scores[:, -1])


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
