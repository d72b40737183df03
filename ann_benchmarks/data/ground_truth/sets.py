"""Nearest neighbours among sets of integers."""

from collections.abc import Callable, Sequence

import numpy as np

from ann_benchmarks.distance import set_distances


def nearest_sets(
    train: Sequence[np.ndarray],
    queries: Sequence[np.ndarray],
    k: int,
    advance: Callable[[int], object],
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest sets of every query by Jaccard distance; `advance` is told of queries done."""
    items = np.concatenate([np.asarray(row) for row in train])
    ends = np.cumsum([len(row) for row in train])
    ids = np.empty((len(queries), k), dtype=np.int64)
    distances = np.empty((len(queries), k))
    for number, query in enumerate(queries):
        found = set_distances(np.asarray(query), items, ends)
        ids[number] = np.argsort(found, kind="stable")[:k]
        distances[number] = found[ids[number]]
        advance(1)
    return ids, distances
