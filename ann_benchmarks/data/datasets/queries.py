"""Queries as values: a vector, perhaps a filter, and the true neighbours under that filter."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from .truth import TrueNeighbors


@dataclass(frozen=True, eq=False)
class Query:
    """One query of a dataset; `number` is its place among them, from 0.

    `true_neighbors` (k,) int64 are the nearest training rows that pass `filter`, `true_distances` (k,) their
    distances, ascending. Without a filter every row passes.
    """

    number: int
    vector: np.ndarray
    true_neighbors: np.ndarray
    true_distances: np.ndarray
    filter: Any = None


@dataclass(frozen=True, eq=False)
class Queries(Sequence[Query]):
    """The queries of a dataset, backed by arrays: a Query is made only when one is indexed or iterated.

    `vectors` is (n, dimension), or a list of n integer arrays where the dataset is of sets. `truth` holds
    arrays (n, k). `filters` has the filter of each query, in the same order; None: no query has one.
    """

    vectors: np.ndarray | list[np.ndarray]
    truth: TrueNeighbors
    filters: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.vectors), len(self.truth.neighbors), len(self.truth.known_distances)}
        if self.filters is not None:
            lengths.add(len(self.filters))
        if len(lengths) > 1:
            raise ValueError(f"vectors, true neighbours and filters of different lengths: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.vectors)

    @overload
    def __getitem__(self, number: int) -> Query: ...
    @overload
    def __getitem__(self, number: slice) -> "Queries": ...
    def __getitem__(self, number: int | slice) -> "Query | Queries":
        """Return one query; or those of a slice, numbered from 0, whose arrays are views of these."""
        filters = self.filters
        if isinstance(number, slice):
            truth = replace(
                self.truth,
                neighbors=self.true_neighbors[number],
                distances=self.truth.known_distances[number],
            )
            return Queries(self.vectors[number], truth, None if filters is None else filters[number])
        number = range(len(self))[number]
        return Query(
            number,
            self.vectors[number],
            self.true_neighbors[number],
            self.truth.known_distances[number],
            None if filters is None else filters[number],
        )

    def __iter__(self) -> Iterator[Query]:
        return map(self.__getitem__, range(len(self)))

    @property
    def true_neighbors(self) -> np.ndarray:
        """The row numbers of each query's nearest rows, (n, k) int64."""
        return self.truth.neighbors

    def true_distances(self, count: int) -> np.ndarray:
        """Distances of each query's `count` nearest rows, ascending: (n, count) float64, in a new array.

        Raises UserError where fewer neighbours are known.
        """
        return self.truth.nearest(count).known_distances

    def first(self, number: int) -> "Queries":
        """Return the first `number` of them, or all where there are not more."""
        return self[:number]

    def copied_vectors(self) -> list[np.ndarray]:
        """Return each vector in an array of its own, which a plug-in may change in place."""
        return [np.array(vector) for vector in self.vectors]

    def copied_batch(self) -> np.ndarray | list[np.ndarray]:
        """Return all vectors as one array, or a list of sets, which a plug-in may change in place."""
        return self.copied_vectors() if isinstance(self.vectors, list) else np.array(self.vectors)
