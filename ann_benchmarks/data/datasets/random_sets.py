"""ann-benchmarks' random datasets, number for number, without the library it makes them with.

ann-benchmarks draws them with scikit-learn's make_blobs and train_test_split at random_state=1; what those
take from NumPy's frozen RandomState, in which order, is all that is repeated here.
"""

import random
from pathlib import Path

import numpy as np

from .write import write_dense, write_sets

SEED = 1


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
