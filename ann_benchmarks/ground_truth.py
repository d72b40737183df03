"""Exact nearest neighbours: float32 matrix products find who may be near, float64 decides who is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from .distance import pair_distances, rows_per_block, set_distances
from .errors import UserError

SCORES_PER_BLOCK = 2**22  # 16 MiB of float32: larger blocks leave the processor's caches
CENTRE_SAMPLE = 1000  # rows whose mean is subtracted under euclidean and angular
FLOAT32_UNIT = 2.0**-24  # relative error of one float32 operation


def exact_neighbors(
    metric: str, train: Any, queries: Any, k: int, progress: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest training rows of every query: ids int64 (n, k) and distances float64 (n, k), ascending.

    `train` is (rows, dimension) and read once in blocks, so that it may be a memory map larger than memory;
    under jaccard it may be a list of integer sets. Equal distances are ordered by id, and neither the block
    size nor the float32 rounding changes the answer.
    """
    if k > len(train):
        raise UserError(
            f"{k} neighbours asked for, but there are only {len(train)} training rows; ask for fewer"
        )
    if metric == "jaccard" and getattr(train[0], "dtype", None) != np.bool_:
        return _nearest_sets(train, queries, k, progress)
    queries = np.asarray(queries)
    score = _SCORES[metric](train, queries)
    nearest = _Nearest(metric, queries, k, len(train))
    dimension = queries.shape[1]
    size = min(max(SCORES_PER_BLOCK // len(queries), 256), rows_per_block(dimension))
    with _bar(len(train), "row", progress) as bar:
        for start in range(0, len(train), size):
            block = np.asarray(train[start : start + size])
            _offer(nearest, score, block, start)
            bar.update(len(block))
    return nearest.ids, nearest.distances


def _offer(nearest: "_Nearest", score: "_Score", block: np.ndarray, start: int) -> None:
    scores = score.lower_bounds(block)
    limits = score.limits(nearest.distances[:, -1])
    passing = scores <= limits[:, np.newaxis]
    k = nearest.k
    crowded = np.flatnonzero(np.count_nonzero(passing, axis=1) > 2 * k)
    if len(crowded):
        # The k that look nearest bring the limit down for the others of the block.
        best = np.argpartition(scores[crowded], k - 1, axis=1)[:, :k]
        nearest.add(np.repeat(crowded, k), best.ravel(), block, start)
        scores[crowded[:, np.newaxis], best] = np.inf
        limits = score.limits(nearest.distances[:, -1])
        passing[crowded] = scores[crowded] <= limits[crowded, np.newaxis]
        # Before k rows have been seen the limit is infinite, and so are the scores just struck out.
        passing[crowded[:, np.newaxis], best] = False
    query_of, row = np.divmod(np.flatnonzero(passing), len(block))
    nearest.add(query_of, row, block, start)


class _Nearest:
    """The k nearest so far of every query, by float64 distance and then by id."""

    def __init__(self, metric: str, queries: np.ndarray, k: int, rows: int) -> None:
        self.metric, self.queries, self.k = metric, queries, k
        self.distances = np.full((len(queries), k), np.inf)
        self.ids = np.full((len(queries), k), rows, dtype=np.int64)

    def add(self, query_of: np.ndarray, row: np.ndarray, block: np.ndarray, start: int) -> None:
        """Consider rows of a block that begins at training row `start`, each for one query."""
        if not len(query_of):
            return
        size = rows_per_block(block.shape[1])
        parts = [slice(at, at + size) for at in range(0, len(row), size)]
        found = np.concatenate(
            [pair_distances(self.metric, self.queries[query_of[part]], block[row[part]]) for part in parts]
        )
        touched, group = np.unique(query_of, return_inverse=True)
        groups = np.concatenate((np.repeat(np.arange(len(touched)), self.k), group))
        distances = np.concatenate((self.distances[touched].ravel(), found))
        ids = np.concatenate((self.ids[touched].ravel(), start + row))
        order = np.lexsort((ids, distances, groups))
        first = np.searchsorted(groups[order], np.arange(len(touched)))
        keep = order[first[:, np.newaxis] + np.arange(self.k)]
        self.distances[touched], self.ids[touched] = distances[keep], ids[keep]


class _Score:
    """A float32 number for each query and row that is at most what the exact distance would give.

    `limits` turns each query's k-th smallest distance into the same scale: a row whose number is above it
    cannot be among the k nearest. The error of a float32 dot product of q and x is at most
    dimension * 2^-24 * |q||x| (Higham, Accuracy and Stability of Numerical Algorithms, 3.1); `slack` doubles
    that and adds room for the roundings before and after it.
    """

    weights: np.ndarray

    def __init__(self, train: Any, queries: np.ndarray) -> None:
        self.dimension = queries.shape[1]
        self.slack = 2 * (self.dimension + 16) * FLOAT32_UNIT
        self.prepare(train, queries)

    def prepare(self, train: Any, queries: np.ndarray) -> None:
        raise NotImplementedError

    def lower_bounds(self, block: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def limits(self, farthest: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def combine(self, vectors: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        if not np.isfinite(offsets).all():
            raise UserError(
                "the vectors hold NaN, infinity or values too large for float32; clean or scale them"
            )
        scores = self.weights @ vectors.T
        scores += offsets.astype(np.float32)
        return scores


class _Euclidean(_Score):
    """|x|^2 - 2 q.x, of vectors moved to the middle of the data, where rounding does least harm."""

    def prepare(self, train: Any, queries: np.ndarray) -> None:
        step = max(1, len(train) // CENTRE_SAMPLE)
        self.centre = self.unit(np.asarray(train[::step][:CENTRE_SAMPLE])).mean(axis=0)
        moved = self.moved(queries)
        self.weights = -2 * moved
        self.squares = (1 - self.slack) * _squares(moved)

    def unit(self, vectors: np.ndarray) -> np.ndarray:
        return vectors.astype(np.float64)

    def moved(self, vectors: np.ndarray) -> np.ndarray:
        moved: np.ndarray = (self.unit(vectors) - self.centre).astype(np.float32)
        return moved

    def lower_bounds(self, block: np.ndarray) -> np.ndarray:
        vectors = self.moved(block)
        return self.combine(vectors, (1 - self.slack) * _squares(vectors))

    def limits(self, farthest: np.ndarray) -> np.ndarray:
        return _round_up(farthest**2 - self.squares)


class _Angular(_Euclidean):
    """Unit vectors: 1 - cosine is half their squared euclidean distance."""

    def unit(self, vectors: np.ndarray) -> np.ndarray:
        vectors = vectors.astype(np.float64)
        lengths = np.sqrt(_squares(vectors))
        return vectors / np.where(lengths > 0, lengths, 1)[:, np.newaxis]

    # What has no direction is at distance 1 by definition, which no product of vectors gives: let it pass.

    def prepare(self, train: Any, queries: np.ndarray) -> None:
        super().prepare(train, queries)
        self.squares[~queries.any(axis=1)] = -np.inf

    def lower_bounds(self, block: np.ndarray) -> np.ndarray:
        scores = super().lower_bounds(block)
        scores[:, ~block.any(axis=1)] = -np.inf
        return scores

    def limits(self, farthest: np.ndarray) -> np.ndarray:
        return _round_up(2 * farthest - self.squares)


class _InnerProduct(_Score):
    """-q.x for unit queries: a query's length does not change the order of its answers."""

    def prepare(self, train: Any, queries: np.ndarray) -> None:
        queries = queries.astype(np.float64)
        lengths = np.sqrt(_squares(queries))
        self.lengths = np.where(lengths > 0, lengths, 1)
        self.weights = (-queries / self.lengths[:, np.newaxis]).astype(np.float32)

    def lower_bounds(self, block: np.ndarray) -> np.ndarray:
        vectors = block.astype(np.float32)
        return self.combine(vectors, -self.slack * np.sqrt(_squares(vectors)))

    def limits(self, farthest: np.ndarray) -> np.ndarray:
        return _round_up(farthest / self.lengths)


class _Hamming(_Score):
    """Differing bits less those of the query: whole numbers, exact in float32."""

    def prepare(self, train: Any, queries: np.ndarray) -> None:
        bits = queries.astype(bool).astype(np.float32)
        self.weights = -2 * bits
        self.ones = bits.sum(axis=1)

    def lower_bounds(self, block: np.ndarray) -> np.ndarray:
        vectors = block.astype(bool).astype(np.float32)
        return self.combine(vectors, vectors.sum(axis=1))

    def limits(self, farthest: np.ndarray) -> np.ndarray:
        return _round_up(farthest * self.dimension - self.ones + 0.5)


class _Jaccard(_Score):
    """The distance itself between rows of bits; only the division is rounded."""

    def prepare(self, train: Any, queries: np.ndarray) -> None:
        self.weights = queries.astype(bool).astype(np.float32)
        self.ones = self.weights.sum(axis=1, keepdims=True)

    def lower_bounds(self, block: np.ndarray) -> np.ndarray:
        vectors = block.astype(bool).astype(np.float32)
        shared = self.weights @ vectors.T
        scores: np.ndarray = 1 - shared / np.maximum(self.ones + vectors.sum(axis=1) - shared, 1)
        return scores

    def limits(self, farthest: np.ndarray) -> np.ndarray:
        return _round_up(farthest + 4 * FLOAT32_UNIT)


_SCORES: dict[str, type[_Score]] = {
    "euclidean": _Euclidean,
    "angular": _Angular,
    "ip": _InnerProduct,
    "hamming": _Hamming,
    "jaccard": _Jaccard,
}


def _nearest_sets(
    train: Sequence[np.ndarray], queries: Sequence[np.ndarray], k: int, progress: bool
) -> tuple[np.ndarray, np.ndarray]:
    items = np.concatenate([np.asarray(row) for row in train])
    ends = np.cumsum([len(row) for row in train])
    ids = np.empty((len(queries), k), dtype=np.int64)
    distances = np.empty((len(queries), k))
    with _bar(len(queries), "query", progress) as bar:
        for number, query in enumerate(queries):
            found = set_distances(np.asarray(query), items, ends)
            ids[number] = np.argsort(found, kind="stable")[:k]
            distances[number] = found[ids[number]]
            bar.update()
    return ids, distances


def _bar(total: int, unit: str, progress: bool) -> tqdm:
    disable = None if progress else True  # None: only on a terminal
    return tqdm(total=total, desc="exact neighbours", unit=unit, unit_scale=True, delay=1, disable=disable)


def _squares(vectors: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)


def _round_up(limits: np.ndarray) -> np.ndarray:
    return np.nextafter(limits.astype(np.float32), np.float32(np.inf))
