"""Datasets that are generated: of any size, such as clustered-100k-96-angular, and ann-benchmarks' own.

ann-benchmarks draws its random datasets with scikit-learn's make_blobs and train_test_split at
random_state=1. What those take from NumPy's frozen RandomState, and in which order, is repeated here, so that
the datasets are the same, number for number, without that library.
"""

import random
import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.common.numbers import ROW_UNITS

from .write import NEIGHBORS, write_dense, write_sets

LATENT = 32  # directions that the clusters share; in one cluster about half of them matter
SPREAD = 0.9  # median width of a cluster, where the centres' own is 1
DENSITIES = 0.5  # standard deviation of the logarithm of the width
SIZES = 1.2  # standard deviation of the logarithm of the number of points
THINNING = 0.97  # ratio of a cluster's widths from one direction to the next
BETWEEN = 0.1  # share of points between two clusters
NOISE = 0.05  # standard deviation of the noise in every dimension
GRID = 2.0**-12
SEED = 1  # of ann-benchmarks' random datasets


def clustered_blocks(rows: int, dimension: int, queries: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (train rows, test rows), first the queries: float32, the same for the same rows and dimension.

    They have the structure that makes approximate search err: clusters of very different size and density,
    each wide in a few directions and thin in the others; some points between two clusters; a little noise
    everywhere; queries drawn like the rest.
    """
    clusters = _Clusters(rows, dimension)
    nothing = np.empty((0, dimension), np.float32)
    for part in clusters.draw(queries, stream=1):
        yield nothing, part
    for part in clusters.draw(rows, stream=2):
        yield part, nothing


class _Clusters:
    """The mixture, and its points in blocks, each from its own seed.

    Everything multiplied by matrices lies on a grid so coarse that float64 sums it exactly: the result does
    not depend on the order in which a machine's BLAS adds.
    """

    def __init__(self, rows: int, dimension: int) -> None:
        self.seed = [rows & 0xFFFFFFFF, rows >> 32, dimension]
        self.dimension = dimension
        self.block = max(64, min(4096, 2**22 // dimension))
        latent = min(dimension, LATENT)
        count = max(8, round(rows**0.5 / 2))
        draw = self._draws(0, 0)
        self.cumulative = np.cumsum(np.exp(SIZES * draw.randn(count)))
        self.cumulative /= self.cumulative[-1]
        self.centres = draw.randn(count, latent)
        width = SPREAD * np.exp(DENSITIES * draw.randn(count, 1))
        rank = np.argsort(draw.rand(count, latent), axis=1)
        self.widths = width * THINNING**rank
        self.directions = _round_to_grid(draw.randn(latent, dimension) / latent**0.5)

    def draw(self, rows: int, stream: int) -> Iterator[np.ndarray]:
        """Blocks of float32 points of one stream of random numbers, `rows` in all."""
        return _drawn_blocks(partial(self._points, stream), rows, self.block)

    def _draws(self, stream: int, block: int) -> np.random.RandomState:
        return np.random.RandomState([*self.seed, stream, block])

    def _points(self, stream: int, block: int, rows: int) -> np.ndarray:
        draw = self._draws(stream, block)
        latent = self._members(rows, draw)
        between = np.flatnonzero(draw.rand(rows) < BETWEEN)
        share = draw.rand(len(between), 1)
        latent[between] = share * latent[between] + (1 - share) * self._members(len(between), draw)
        points = _round_to_grid(latent) @ self.directions + NOISE * draw.randn(rows, self.dimension)
        return points.astype(np.float32)

    def _members(self, rows: int, draw: np.random.RandomState) -> np.ndarray:
        cluster = np.searchsorted(self.cumulative, draw.rand(rows))
        drawn = draw.randn(rows, len(self.directions))
        return np.asarray(self.centres[cluster] + self.widths[cluster] * drawn)


def _round_to_grid(values: np.ndarray) -> np.ndarray:
    return np.rint(values / GRID) * GRID


def uniform_blocks(rows: int, dimension: int, queries: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (train rows, test rows), first the queries: float32, of length 1, without any structure.

    Benchmarks of speed alone often take such vectors: each value is uniform between 0 and 1, then all are
    divided by the length. No vector is near another one, so that an index finds few of the true neighbours,
    and recall says nothing about real vectors.
    """
    size = max(64, min(4096, 2**22 // dimension))
    nothing = np.empty((0, dimension), np.float32)

    def unit_vectors(stream: int, block: int, count: int) -> np.ndarray:
        draw = np.random.Generator(np.random.Philox([rows, dimension, stream, block]))
        # In float64, whose sums round to the same float32 in whatever order a machine adds.
        drawn = draw.random((count, dimension))
        return (drawn / np.sqrt(np.square(drawn).sum(axis=1, keepdims=True))).astype(np.float32)

    for stream, number in ((1, queries), (2, rows)):
        for values in _drawn_blocks(partial(unit_vectors, stream), number, size):
            yield (nothing, values) if stream == 1 else (values, nothing)


def _drawn_blocks(draw: Callable[[int, int], np.ndarray], rows: int, size: int) -> Iterator[np.ndarray]:
    """Give draw(number of the block, its rows) of every block in order; all cores draw."""
    ahead: deque[Future[np.ndarray]] = deque()
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(usable_cores()) as pool:
        for number, start in enumerate(range(0, rows, size)):
            ahead.append(pool.submit(draw, number, min(size, rows - start)))
            if len(ahead) > 2 * usable_cores():
                yield ahead.popleft().result()
        for block in ahead:
            yield block.result()


# Give (train rows, test rows) block by block: the same for the same numbers of rows, dimensions and queries.
KINDS: dict[str, Callable[[int, int, int], Iterator[tuple[np.ndarray, np.ndarray]]]] = {
    "clustered": clustered_blocks,
    "uniform": uniform_blocks,
}
PATTERNS = [f"{kind}-ROWS-DIMENSION-METRIC[-QUERIESq]" for kind in KINDS]
NAME = re.compile(
    rf"({'|'.join(KINDS)})-([1-9]\d*)([km]?)-([1-9]\d*)-(euclidean|angular|ip|manhattan)"
    r"(?:-([1-9]\d*)(k?)q)?"
)
QUERIES, MOST_QUERIES, MOST_DIMENSIONS = 1000, 100_000, 2**16


class Generated(NamedTuple):
    """What a name says."""

    kind: str
    rows: int
    dimension: int
    metric: str
    named_queries: int = 0  # 0 where the name has no number of them

    @property
    def queries(self) -> int:
        """The number of queries that are drawn: 1,000, fewer for a set of under 10,000 rows."""
        return self.named_queries or min(QUERIES, self.rows // 10)


def parse(name: str) -> Generated | None:
    """Read a name; None for a name of no kind."""
    match = NAME.fullmatch(name)
    if match is None:
        return None
    kind, number, factor, dimension, metric, queries, query_factor = match.groups()
    named = int(queries) * ROW_UNITS[query_factor] if queries else 0
    size = Generated(kind, int(number) * ROW_UNITS[factor], int(dimension), metric, named)
    if size.rows < NEIGHBORS or size.dimension > MOST_DIMENSIONS:
        raise UserError(f"'{name}' needs at least {NEIGHBORS} rows and at most {MOST_DIMENSIONS} dimensions")
    if size.named_queries > MOST_QUERIES:
        raise UserError(f"'{name}' has too many queries: {MOST_QUERIES:,} at most")
    return size


def write_generated(path: Path, size: Generated) -> None:
    """Generate the vectors block by block into a dataset file."""
    rows, dimension, queries = size.rows, size.dimension, size.queries
    shapes = (rows, dimension), (queries, dimension)
    write_dense(path, size.metric, shapes, np.float32, KINDS[size.kind](rows, dimension, queries))


def write_random(
    path: Path, metric: str, dimension: int, kind: str, rows: int, centers: int = 0, size: int = 0
) -> None:
    """Write one of ann-benchmarks' random datasets, of `rows` in all.

    "blobs": Gaussian blobs, a tenth held out; rows of bits (the sign) under hamming, with one query a centre.
    "sets": sets of `size` integers below the dimension, each equally likely; 100 held out.
    """
    if kind == "sets":
        # ann-benchmarks seeds the random module itself; an instance draws the same.
        draw = random.Random(SEED)
        train, test = split(np.array([draw.sample(range(dimension), size) for _ in range(rows)]), 100)
        write_sets(path, metric, dimension, list(train), list(test))
        return
    vectors = blobs(rows, dimension, centers)
    if metric == "hamming":
        vectors = vectors > 0
    train, test = split(vectors, centers if metric == "hamming" else -(-rows // 10))
    write_dense(path, metric, (train.shape, test.shape), vectors.dtype, [(train, test)])


def blobs(rows: int, dimension: int, centers: int) -> np.ndarray:
    """What make_blobs(rows, dimension, centers=centers, random_state=1) returns as X."""
    draw = np.random.RandomState(SEED)
    means = draw.uniform(-10, 10, (centers, dimension))
    sizes = np.full(centers, rows // centers) + (np.arange(centers) < rows % centers)
    vectors = np.concatenate(
        [draw.normal(mean, 1.0, (size, dimension)) for mean, size in zip(means, sizes, strict=True)]
    )
    order = np.arange(rows)
    draw.shuffle(order)
    return vectors[order]


def split(vectors: np.ndarray, queries: int) -> tuple[np.ndarray, np.ndarray]:
    """What train_test_split(vectors, test_size=queries, random_state=1) returns: train, test."""
    order = np.random.RandomState(SEED).permutation(len(vectors))
    return vectors[order[queries:]], vectors[order[:queries]]
