"""Recall against the exact neighbours among the rows that a table has at a moment."""

from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.ground_truth import exact_neighbors
from ann_benchmarks.data.vectors.rows import Rows
from ann_benchmarks.distance import candidate_distances
from ann_benchmarks.results.metrics import RECALL_SLACK, recall_of_each

from .state import TableState

SPARSE = 4  # rows between the first and the last for each that is wanted, above which each is read by itself


class ChosenRows(Rows):
    """Some rows of others, by ascending numbers."""

    def __init__(self, rows: Any, numbers: np.ndarray) -> None:
        """Take the rows and the numbers of those that are wanted."""
        self._rows, self._numbers = rows, numbers
        self.label, self.dtype = getattr(rows, "label", "the vectors"), rows.dtype
        self.shape = (len(numbers), rows.shape[1])

    def read(self, start: int, stop: int) -> np.ndarray:
        """Read all between the first and the last in one go where most of that is wanted."""
        wanted = self._numbers[start:stop]
        if not len(wanted):
            return np.empty((0, self.shape[1]), self.dtype)
        first, last = int(wanted[0]), int(wanted[-1]) + 1
        if last - first > SPARSE * len(wanted):
            return np.asarray(self._rows[wanted])
        return np.asarray(self._rows[first:last])[wanted - first]

    def where(self, row: int) -> str:
        """Say which row this is, as the others do."""
        return str(self._rows.where(int(self._numbers[row])))


class Truth:
    """The queries of a dataset, and what is nearest to them among changing rows."""

    def __init__(self, metric: str, train: Any, queries: np.ndarray, count: int) -> None:
        """Take the dataset's rows, its queries, and how many neighbours are asked for."""
        self._metric, self._train, self._queries, self._count = metric, train, queries, count

    def distances(self, state: TableState) -> np.ndarray:
        """Return the exact distances of the nearest rows of the table, (queries, count)."""
        rows = np.sort(state.row_of[state.ids])
        if len(rows) < self._count:
            raise UserError(
                f"the table has {len(rows):,} rows in the end, fewer than the {self._count} neighbours that"
                " are asked for: give a longer --duration, or ask for fewer by --count"
            )
        among = ChosenRows(self._train, rows)
        return exact_neighbors(self._metric, among, self._queries, self._count, progress=False)[1]

    def recalls(self, state: TableState, ids: np.ndarray) -> np.ndarray:
        """Return the recall of each query, (queries,), whose answers are ids of the table."""
        rows = state.rows_of(ids[:, : self._count])
        found = candidate_distances(self._metric, self._queries, self._train, rows)
        threshold = self.distances(state)[:, -1] + RECALL_SLACK
        return np.asarray(recall_of_each(found, threshold, self._count))
