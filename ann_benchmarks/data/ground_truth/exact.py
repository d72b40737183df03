"""Exact distances in float64: of pairs of a query and a training row; the nearest sets."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ann_benchmarks.distance import pair_distances, set_distances

FETCHED_AT_ONCE = 2**21  # bytes of float64
COMPUTED_AT_ONCE = 2**18  # bytes of float64: such arrays stay in a core's cache, and malloc keeps their pages

Run = Callable[[Callable[[slice], None], Iterable[slice]], Any]  # a kind of `map`, in threads or not


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
    order = np.argsort(row)
    first = np.flatnonzero(np.diff(row[order], prepend=-1))
    numbers, first = row[order[first]], np.append(first, len(row))
    distances = np.empty(len(row))
    width = 8 * queries.shape[1]
    step = max(1, COMPUTED_AT_ONCE // width)

    def compute(part: slice) -> None:
        vectors = fetch(numbers[part])
        begin, end = first[part.start], first[min(part.stop, len(numbers))]
        vector_of = np.repeat(np.arange(len(vectors)), np.diff(first[part.start : part.stop + 1]))
        for at in range(0, end - begin, step):
            pairs = order[begin + at : min(begin + at + step, end)]
            found = vectors.take(vector_of[at : at + step], axis=0)
            distances[pairs] = pair_distances(metric, queries.take(query[pairs], axis=0), found)

    size = max(1, FETCHED_AT_ONCE // width)
    for _ in run(compute, [slice(at, at + size) for at in range(0, len(numbers), size)]):
        pass
    return distances


def nearest(query: np.ndarray, distances: np.ndarray, rows: np.ndarray, k: int) -> np.ndarray:
    """Indexes of the k nearest of every query, by distance and then by row; sorted by query."""
    order = np.argsort(distances)
    few = query.astype(np.min_scalar_type(query.max(initial=0)))  # two bytes are sorted soonest
    order = order[np.argsort(few[order], kind="stable")]
    query, distances = query[order], distances[order]
    ties = np.flatnonzero((query[1:] == query[:-1]) & (distances[1:] == distances[:-1]))
    ties = np.union1d(ties, ties + 1)
    equal = order[ties]
    order[ties] = equal[np.lexsort((rows[equal], distances[ties], query[ties]))]
    first = np.flatnonzero(np.diff(query, prepend=-1))
    rank = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
    return order[rank < k]


def nearest_sets(
    train: Sequence[np.ndarray], queries: Sequence[np.ndarray], k: int, advance: Callable[[int], object]
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


def power_of_two(squares: np.ndarray) -> float:
    """Return the power of two that brings the usual length near 1, or 1 if it is not far from it."""
    lengths = np.sqrt(squares)
    lengths = lengths[np.isfinite(lengths) & (lengths > 0)]
    exponent = -np.round(np.log2(np.median(lengths))) if len(lengths) else 0
    return float(2.0 ** np.clip(exponent, -400, 400)) if abs(exponent) > 20 else 1.0


def round_up(numbers: np.ndarray) -> np.ndarray:
    """Return the float32 numbers just above these."""
    return np.nextafter(numbers.astype(np.float32), np.float32(np.inf))
