"""The true distances of a dataset, by which its results are judged."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.foreign import DAMAGE, reason_of
from ann_benchmarks.data.datasets import stored_distances, truth_file

from .file import Stamp, file_stamp, truth_mark


@dataclass(frozen=True)
class Truth:
    """The true distances that a dataset stores, (queries, neighbours), in ascending order."""

    distances: np.ndarray
    _columns: dict[int, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    def nth(self, number: int) -> np.ndarray:
        """Each query's distance to its n-th neighbour; copied once, because a column of a matrix is slow."""
        if number not in self._columns:
            self._columns[number] = np.ascontiguousarray(self.distances[:, number - 1])
        return self._columns[number]

    @cached_property
    def sums(self) -> np.ndarray:
        """Sum of each query's distances."""
        return self.distances.sum(axis=1, dtype=np.float64)


class TruthError(UserError):
    """The true distances of a dataset cannot be had, so that none of its results can be judged."""


class TruthFile:
    """A dataset's true distances, once they are read, and what shows whether their file has changed."""

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        try:
            self.stamp: Stamp = file_stamp(truth_file(dataset))
        except OSError:
            raise TruthError(
                f"{truth_file(dataset)}, which holds the true distances, is missing: restore it, or make it"
                f" with run.py or create_dataset.py"
            ) from None
        self._truth = Truth(np.empty((0, 0)))
        self._marks: dict[int, str] = {}

    def read(self) -> None:
        """Read the distances; TruthError if they cannot be."""
        try:
            self._truth = Truth(stored_distances(self.dataset))
        except UserError as error:
            raise TruthError(str(error)) from error
        except DAMAGE as error:
            raise TruthError(f"{truth_file(self.dataset)} cannot be read: {reason_of(error)}") from error

    def covering(self, queries: int, count: int) -> Truth:
        """Return all true distances; UserError if a result has more queries or neighbours."""
        stored_queries, stored_count = self._truth.distances.shape
        if queries > stored_queries or not 1 <= count <= stored_count:
            raise UserError(
                f"it has {queries} queries with {count} neighbours, {truth_file(self.dataset)} the truth of"
                f" {stored_queries} with {stored_count}: it was run on another version of the dataset"
            )
        return self._truth

    def mark(self, count: int) -> str:
        """Return the mark of this dataset in results with `count` neighbours."""
        if count not in self._marks:
            self._marks[count] = truth_mark(self._truth.distances[:, :count])
        return self._marks[count]
