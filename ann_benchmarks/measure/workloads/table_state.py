"""Which vector each row of the table has, and the exact neighbours among the rows of a moment."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.ground_truth import exact_neighbors
from ann_benchmarks.data.vectors.rows import Rows
from ann_benchmarks.distance import candidate_distances, rounded_up
from ann_benchmarks.load.workload import KINDS
from ann_benchmarks.results.measurement import recall_of_each

INSERT, UPDATE, DELETE = range(len(KINDS))
GONE = -1


@dataclass(frozen=True)
class Planned:
    """Changes to make: kinds, ids of the table's rows, and the dataset's rows whose vectors these get."""

    due: np.ndarray  # s from the start of the segment that they are made in
    kinds: np.ndarray
    ids: np.ndarray
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.kinds)

    def part(self, chosen: np.ndarray) -> "Planned":
        """Return some of them."""
        return Planned(self.due[chosen], self.kinds[chosen], self.ids[chosen], self.rows[chosen])


class TableState:
    """The rows of the table by their ids, which are given once, and the dataset's rows that are not in it.

    A dataset's row is in the table once at most. An insert or update takes one that has never been in it, or,
    once all have been, the one that left it first.
    """

    def __init__(self, rows: int, loaded: int) -> None:
        """Have the first rows of the dataset in the table, each under its own number."""
        self.row_of = np.arange(loaded)  # of the dataset, by id; GONE: the id is not in the table
        self.unused = np.arange(loaded, rows)  # in the order of use
        self.next_id = rows

    @property
    def ids(self) -> np.ndarray:
        """Ids of the rows that are in the table, ascending."""
        return np.flatnonzero(self.row_of != GONE)

    def insert(self, ids: np.ndarray) -> None:
        """Know that rows of the dataset were inserted, each under its own number."""
        self._make_room(int(ids.max(initial=-1)))
        self.row_of[ids] = ids

    def plan(self, due: np.ndarray, kinds: np.ndarray, draw: np.random.Generator) -> Planned:
        """Plan changes, as many of the first as there are rows for.

        No two are of one row, so that their order does not matter: what is updated or deleted is drawn of the
        rows that are there now.
        """
        is_new, needs_row = kinds == INSERT, kinds != DELETE
        there = self.ids
        fits = (np.cumsum(~is_new) <= len(there)) & (np.cumsum(needs_row) <= len(self.unused))
        number = int(np.count_nonzero(fits))
        due, kinds, is_new, needs_row = due[:number], kinds[:number], is_new[:number], needs_row[:number]
        ids = np.empty(number, dtype=np.int64)
        ids[is_new] = np.arange(self.next_id, self.next_id + np.count_nonzero(is_new))
        self.next_id += int(np.count_nonzero(is_new))
        ids[~is_new] = draw.choice(there, np.count_nonzero(~is_new), replace=False)
        rows = np.full(number, GONE)
        rows[needs_row], self.unused = np.split(self.unused, [np.count_nonzero(needs_row)])
        return Planned(due, kinds, ids, rows)

    def give_back(self, planned: Planned) -> None:
        """Forget changes that were planned and never begun."""
        self.unused = np.concatenate((planned.rows[planned.rows != GONE], self.unused))

    def apply(self, made: Planned) -> None:
        """Know that these changes were made."""
        self._make_room(int(made.ids.max(initial=-1)))
        left = self.row_of[made.ids]
        self.row_of[made.ids] = made.rows  # GONE, where a row was deleted
        self.unused = np.concatenate((self.unused, left[left != GONE]))

    def rows_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the dataset's rows that answers, ids of any shape with -1 for none, stand for."""
        known = np.append(self.row_of, GONE)  # for -1
        rows: np.ndarray = known[ids]
        return rows

    def _make_room(self, most: int) -> None:
        missing = most + 1 - len(self.row_of)
        if missing > 0:
            self.row_of = np.concatenate((self.row_of, np.full(max(missing, len(self.row_of)), GONE)))


class ChosenRows(Rows):
    """Some rows of others, by ascending numbers."""

    def __init__(self, rows: Any, numbers: np.ndarray) -> None:
        """Take the rows and the numbers of those that are chosen."""
        self._rows, self._numbers = rows, numbers
        self.label, self.dtype = getattr(rows, "label", "the vectors"), rows.dtype
        self.shape = (len(numbers), rows.shape[1])

    def read(self, start: int, stop: int) -> np.ndarray:
        return np.asarray(self._rows[self._numbers[start:stop]])

    def row_name(self, row: int) -> str:
        return str(self._rows.row_name(int(self._numbers[row])))


class ChangingTruth:
    """The queries of a dataset, and what is nearest to them among changing rows."""

    def __init__(self, metric: str, train: Any, queries: np.ndarray, count: int) -> None:
        """Take the dataset's rows, its queries, and how many neighbours are requested."""
        self._metric, self._train, self._queries, self._count = metric, train, queries, count

    def distances(self, state: TableState) -> np.ndarray:
        """Return the exact distances of the nearest rows of the table, (queries, count)."""
        rows = np.sort(state.row_of[state.ids])
        if len(rows) < self._count:
            raise UserError(
                f"the table has {len(rows):,} rows in the end, fewer than the {self._count} neighbours that"
                " are requested: give a longer --duration, or a smaller --count"
            )
        among = ChosenRows(self._train, rows)
        return exact_neighbors(self._metric, among, self._queries, self._count, progress=False)[1]

    def recalls(self, state: TableState, ids: np.ndarray, distances: np.ndarray | None = None) -> np.ndarray:
        """Return the recall of each query, (queries,), whose answers are ids of the table.

        `distances` are those that `distances` returns, where they are known already.
        """
        rows = state.rows_of(ids[:, : self._count])
        found = candidate_distances(self._metric, self._queries, self._train, rows)
        true = self.distances(state) if distances is None else distances
        return np.asarray(recall_of_each(found, rounded_up(true[:, -1]), self._count))
