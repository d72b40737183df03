"""Exact distances in float64: of pairs of a query and a training row; the nearest sets and sparse vectors."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ann_benchmarks.common.sparse import SparseQuery, SparseVectors
from ann_benchmarks.distance import pair_distances, set_distances

FETCHED_AT_ONCE = 2**21  # bytes of float64
COMPUTED_AT_ONCE = 2**18  # bytes of float64: such arrays stay in a core's cache, and malloc keeps their pages
BLOCK_ROWS = 2**15  # rows searched at once: their scores stay in the processor's cache
BLOCK_VALUES = 2**22  # of these rows: about 150 MiB, with the lists that are made of them
ROUNDING = 1e-11  # of the largest score: more than float64 sums of thousands of products are off by

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


def nearest_sparse(
    metric: str, train: Any, queries: SparseVectors, k: int, advance: Callable[[int], object]
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest rows of every query: ids int64 (n, k), distances float64 (n, k); equal ones by row.

    `train` is SparseVectors or SparseRows. Each block of rows is turned into lists of rows by place, so that
    a query adds up the lists of its own places alone. These sums only rule rows out; the distances are those
    of SparseQuery. `advance` is called with the rows done.
    """
    ids = np.full((len(queries), k), -1, np.int64)
    distances = np.full((len(queries), k), np.inf)
    rows_of_values = BLOCK_VALUES * len(train) // max(1, int(train.indptr[-1]))
    size = max(1, min(BLOCK_ROWS, rows_of_values))
    for start in range(0, len(train), size):
        block = train[start : start + size]
        scores = _Scores(metric, block)
        for number, query in enumerate(queries):
            near = scores.near(query, k, float(distances[number, -1]))
            if not len(near):
                continue
            exact = SparseQuery(query).distances(metric, block[near])
            rows = np.concatenate([ids[number], near + start])
            both = np.concatenate([distances[number], exact])
            best = np.lexsort((rows, both))[:k]
            ids[number], distances[number] = rows[best], both[best]
        advance(len(block))
    return ids, distances


class _Scores:
    """Rows in lists by place, and what rises with the distance of a query to each."""

    def __init__(self, metric: str, rows: SparseVectors) -> None:
        self._metric, self._count = metric, len(rows)
        order = np.argsort(rows.indices, kind="stable")
        places = rows.indices[order]
        self._rows = rows.row_numbers[order]
        self._values = rows.data[order].astype(np.float64)
        self._places, first = np.unique(places, return_index=True)
        self._first = np.append(first, len(places))
        self._power = 1 if metric == "manhattan" else 2
        sizes = np.abs(rows.data.astype(np.float64)) ** self._power
        self._sizes = np.bincount(rows.row_numbers, sizes, len(rows))
        self._dots = np.empty(len(rows))

    def near(self, query: SparseVectors, k: int, farthest: float) -> np.ndarray:
        """Return the numbers of the rows that may be among the k nearest, all within `farthest`."""
        dots = self._dots
        dots[:] = 0
        values = query.data.astype(np.float64)
        at = np.searchsorted(self._places, query.indices)
        known = np.flatnonzero(np.append(self._places, -1)[at] == query.indices)
        for place, value in zip(at[known].tolist(), values[known].tolist(), strict=True):
            lists = slice(self._first[place], self._first[place + 1])
            own = self._values[lists]
            shared = value * own if self._power == 2 else abs(value) + np.abs(own) - np.abs(value - own)
            dots[self._rows[lists]] += shared  # a row has a place once
        size = float((np.abs(values) ** self._power).sum())
        if self._metric == "ip":
            scores, limit = -dots, farthest
        elif self._metric == "angular":
            lengths = np.sqrt(size * self._sizes)
            scores = 1 - np.divide(dots, lengths, out=np.zeros(self._count), where=lengths > 0)
            limit = farthest
        elif self._metric == "manhattan":
            scores, limit = self._sizes + size - dots, farthest
        else:
            scores, limit = self._sizes + size - 2 * dots, farthest**2
        largest = size + float(self._sizes.max()) + 1  # by Cauchy and Schwarz, no score is far beyond
        if self._count > k:
            limit = min(limit, float(np.partition(scores, k - 1)[k - 1]))
        return np.flatnonzero(scores <= limit + ROUNDING * largest)
