"""Sparse vectors of any size that resemble those of learned sparse retrieval, such as SPLADE's."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ann_benchmarks.common.sparse import SparseVectors, joined

from .sparse_file import write_sparse

VALUES, QUERY_VALUES = 120, 40  # the usual numbers of values that are not 0
SPREAD = 1 / 3  # standard deviation of these numbers, as a share of them
FLATTENING = 30  # ranks by which the most frequent places are less frequent than Zipf's law has it
TOPIC_PLACES = 400  # places that rows of one topic share
OF_TOPIC = 0.6  # share of a row's draws that are of its topic
STEPS = 64.0  # a value is a multiple of 1/64, so that float64 adds up products without rounding
BLOCK_ROWS = 4096


class SparseDraws:
    """Rows of one name: the same for the same rows and dimension on every machine.

    Places follow Zipf's law, as words do. A row draws most of its places from those of its topic, whose
    values are larger, so that rows have nearest neighbours that are nearer than the rest.
    """

    def __init__(self, rows: int, dimension: int) -> None:
        self._seed = [rows, dimension]
        self.dimension = dimension
        weights = 1.0 / (np.arange(dimension) + 1 + FLATTENING)
        self._cumulative = np.cumsum(weights)
        self._cumulative /= self._cumulative[-1]
        draw = self._draws(0, 0)
        self._place_of = draw.permutation(dimension)
        topics = max(8, round(rows**0.5 / 2))
        self._topics = self._ranks(draw.random((topics, min(TOPIC_PLACES, dimension))))

    def counts(self, rows: int, mean: int, stream: int) -> np.ndarray:
        """Return how many values each row has, (rows,): normal about the mean, at most half the dimension."""
        drawn = self._draws(stream, -1).normal(mean, mean * SPREAD, rows)
        most = max(1, min(4 * mean, self.dimension // 2))
        return np.clip(np.rint(drawn), min(5, most), most).astype(np.int64)

    def blocks(self, counts: np.ndarray, stream: int) -> Iterator[SparseVectors]:
        """Give the rows of one stream of random numbers, some thousand at a time."""
        for number, start in enumerate(range(0, len(counts), BLOCK_ROWS)):
            yield self._rows(counts[start : start + BLOCK_ROWS], self._draws(stream, number))

    def _rows(self, counts: np.ndarray, draw: np.random.Generator) -> SparseVectors:
        places, values = [], []
        for count, topic in zip(
            counts.tolist(), draw.integers(len(self._topics), size=len(counts)), strict=True
        ):
            found = np.empty(0, np.int64)
            while len(found) < count:
                drawn = 2 * count + 8
                ranks = self._ranks(draw.random(drawn))
                own = self._topics[topic][(draw.random(drawn) * self._topics.shape[1]).astype(np.int64)]
                ranks = np.concatenate([found, np.where(draw.random(drawn) < OF_TOPIC, own, ranks)])
                distinct, first = np.unique(ranks, return_index=True)
                found = distinct[np.argsort(first)]  # the first draws count: later ones are more often rare
            found = found[:count]
            largest = np.where(np.isin(found, self._topics[topic]), 3.0, 1.0)
            value = np.floor(draw.random(count) * largest * STEPS + 1) / STEPS
            order = np.argsort(self._place_of[found])
            places.append(self._place_of[found][order])
            values.append(value[order])
        indptr = np.append(0, np.cumsum(counts))
        return SparseVectors(
            indptr,
            np.concatenate(places).astype(np.int32),
            np.concatenate(values).astype(np.float32),
            self.dimension,
        )

    def _ranks(self, drawn: np.ndarray) -> np.ndarray:
        return np.minimum(np.searchsorted(self._cumulative, drawn), self.dimension - 1)

    def _draws(self, stream: int, block: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox([*self._seed, stream, block + 1]))


def write_generated_sparse(path: Path, metric: str, rows: int, dimension: int, queries: int) -> None:
    """Generate the vectors block by block into a dataset file."""
    draws = SparseDraws(rows, dimension)
    counts = draws.counts(rows, VALUES, 2)
    asked = joined([*draws.blocks(draws.counts(queries, QUERY_VALUES, 1), 1)], dimension)
    write_sparse(path, metric, (counts, dimension), draws.blocks(counts, 2), asked)
