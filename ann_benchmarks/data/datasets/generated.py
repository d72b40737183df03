"""Datasets that are generated: of any size, such as clustered-100k-96-angular, and ann-benchmarks' own.

ann-benchmarks draws its random datasets with scikit-learn's make_blobs and train_test_split at
random_state=1. What those take from NumPy's frozen RandomState, and in which order, is repeated here, so that
the datasets are the same, number for number, without that library.
"""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ann_benchmarks.common.errors import UserError

from . import clustered
from .write import NEIGHBORS, write_dense, write_sets

SEED = 1  # of ann-benchmarks' random datasets


def uniform_blocks(rows: int, dimension: int, queries: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (train rows, test rows), first the queries: float32, of length 1, without any structure.

    Benchmarks of speed alone often take such vectors: each value is uniform between 0 and 1, then all are
    divided by the length. No vector is near another one, so that an index finds few of the true neighbours,
    and recall says nothing about real vectors.
    """
    size = max(64, min(4096, 2**22 // dimension))
    nothing = np.empty((0, dimension), np.float32)
    for stream, number in ((1, queries), (2, rows)):
        for block, start in enumerate(range(0, number, size)):
            draw = np.random.Generator(np.random.Philox([rows, dimension, stream, block]))
            # In float64, whose sums round to the same float32 in whatever order a machine adds.
            drawn = draw.random((min(size, number - start), dimension))
            values = (drawn / np.sqrt(np.square(drawn).sum(axis=1, keepdims=True))).astype(np.float32)
            yield (nothing, values) if stream == 1 else (values, nothing)


# Give (train rows, test rows) block by block: the same for the same numbers of rows, dimensions and queries.
KINDS: dict[str, Callable[[int, int, int], Iterator[tuple[np.ndarray, np.ndarray]]]] = {
    "clustered": clustered.blocks,
    "uniform": uniform_blocks,
}
PATTERNS = [f"{kind}-ROWS-DIMENSION-METRIC" for kind in KINDS]
NAME = re.compile(rf"({'|'.join(KINDS)})-([1-9]\d*)([km]?)-([1-9]\d*)-(euclidean|angular|ip)")
FACTORS = {"": 1, "k": 1000, "m": 1000_000}
QUERIES = 1000


class Generated(NamedTuple):
    """What a name says."""

    kind: str
    rows: int
    dimension: int
    metric: str

    @property
    def queries(self) -> int:
        """The number of queries that are drawn: 1,000, fewer for a set of under 10,000 rows."""
        return min(QUERIES, self.rows // 10)


def parse(name: str) -> Generated | None:
    """Read a name; None if it is of none of the kinds."""
    match = NAME.fullmatch(name)
    if match is None:
        return None
    kind, number, factor, dimension, metric = match.groups()
    size = Generated(kind, int(number) * FACTORS[factor], int(dimension), metric)
    if size.rows < NEIGHBORS or size.dimension > 65536:
        raise UserError(f"'{name}' needs at least {NEIGHBORS} rows and at most 65536 dimensions")
    return size


def write_generated(path: Path, size: Generated) -> None:
    """Generate the vectors block by block into a dataset file."""
    shapes = (size.rows, size.dimension), (size.queries, size.dimension)
    blocks = KINDS[size.kind](size.rows, size.dimension, size.queries)
    write_dense(path, size.metric, shapes, np.float32, blocks)


def write_blobs(path: Path, metric: str, rows: int, dimension: int, centers: int) -> None:
    """Gaussian blobs, a tenth held out; rows of bits (the sign) under hamming, with one query a centre."""
    vectors = blobs(rows, dimension, centers)
    if metric == "hamming":
        vectors = vectors > 0
    train, test = split(vectors, centers if metric == "hamming" else -(-rows // 10))
    write_dense(path, metric, (train.shape, test.shape), vectors.dtype, [(train, test)])


def write_random_sets(path: Path, metric: str, rows: int, size: int, universe: int) -> None:
    """Sets of `size` integers below `universe`, each equally likely; 100 held out."""
    # ann-benchmarks seeds the random module itself; an instance draws the same.
    draw = random.Random(SEED)
    sets = np.array([draw.sample(range(universe), size) for _ in range(rows)])
    train, test = split(sets, 100)
    write_sets(path, metric, universe, list(train), list(test))


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
