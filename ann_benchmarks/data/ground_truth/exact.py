"""Exact distances in float64: of pairs of a query and a training row, and of sets."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ann_benchmarks.distance import pair_distances, set_distances

from ..vectors.rows import ArrayRows, Rows

FETCHED_AT_ONCE = 2 * 2**20  # bytes of float64
COMPUTED_AT_ONCE = 2**18  # bytes of float64: within a core's cache

Run = Callable[[Callable[[slice], None], Iterable[slice]], Any]  # as `map`, in threads or not


def exact_distances(
    metric: str,
    queries: np.ndarray,
    fetch: Callable[[np.ndarray], np.ndarray],
    query: np.ndarray,
    row: np.ndarray,
    run: Run = map,
) -> np.ndarray:
    """Distances of the pairs (query[i], row[i]), float64 as pair_distances gives them.

    `fetch` returns rows by ascending numbers; each is fetched once, a few MiB at a time.
    """
    order = np.argsort(row, kind="stable")
    numbers, first = np.unique(row[order], return_index=True)
    first = np.append(first, len(row))
    distances = np.empty(len(row))
    width = 8 * queries.shape[1]
    step = max(1, COMPUTED_AT_ONCE // width)

    def compute(part: slice) -> None:
        vectors = fetch(numbers[part])
        begin, end = first[part.start], first[min(part.stop, len(numbers))]
        vector_of = np.repeat(np.arange(len(vectors)), np.diff(first[part.start : part.stop + 1]))
        for at in range(0, end - begin, step):
            pairs = order[begin + at : min(begin + at + step, end)]
            found = vectors[vector_of[at : at + step]]
            distances[pairs] = pair_distances(metric, queries[query[pairs]], found)

    size = max(1, FETCHED_AT_ONCE // width)
    for _ in run(compute, [slice(at, at + size) for at in range(0, len(numbers), size)]):
        pass
    return distances


def nearest(query: np.ndarray, distances: np.ndarray, rows: np.ndarray, k: int) -> np.ndarray:
    """Indexes of the k nearest of every query, by distance and then by row; sorted by query."""
    order = np.lexsort((rows, distances, query))
    _, first, counts = np.unique(query[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(first, counts)
    return order[rank < k]


def fetch_rows(train: Any, numbers: np.ndarray) -> np.ndarray:
    """Return the rows of these ascending numbers from an array, Rows, or what can be sliced."""
    if isinstance(train, ArrayRows):
        train = train.mapped()
    if isinstance(train, np.ndarray):
        return train[numbers]
    if isinstance(train, Rows):
        return train.take(numbers)
    found = np.empty((len(numbers), train.shape[1]), train.dtype)
    size = max(1, FETCHED_AT_ONCE // (train.shape[1] * train.dtype.itemsize))
    at = 0
    while at < len(numbers):
        start = int(numbers[at])
        end = int(np.searchsorted(numbers, start + size))
        found[at:end] = train[start : int(numbers[end - 1]) + 1][numbers[at:end] - start]
        at = end
    return found


def nearest_sets(
    train: Sequence[np.ndarray],
    queries: Sequence[np.ndarray],
    k: int,
    advance: Callable[[int], object],
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest sets of every query by Jaccard distance; `advance` is called with the queries done."""
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
