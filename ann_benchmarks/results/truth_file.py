"""The true distances that the results of a dataset are judged by."""

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import stored_distances, truth_file

from .cache import Stamp, file_stamp
from .file import truth_mark
from .metrics import Truth


class TruthError(UserError):
    """The true distances of a dataset cannot be had, so that none of its results can be judged."""


class TruthFile:
    """A dataset's true distances, once they are read, and what tells whether their file has changed."""

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
        except (UserError, OSError, RuntimeError, KeyError, ValueError) as error:
            raise TruthError(str(error)) from error

    def covering(self, queries: int, count: int) -> Truth:
        """Return all true distances; UserError if they are fewer than the queries or neighbours asked for."""
        stored_queries, stored_count = self._truth.distances.shape
        if queries > stored_queries or not 1 <= count <= stored_count:
            raise UserError(
                f"it has {queries} queries with {count} neighbours, {truth_file(self.dataset)} the truth of"
                f" {stored_queries} with {stored_count}: it was run on another version of the dataset"
            )
        return self._truth

    def mark(self, count: int) -> str:
        """Return what results that asked for `count` neighbours hold as the mark of this dataset."""
        if count not in self._marks:
            self._marks[count] = truth_mark(self._truth.distances[:, :count])
        return self._marks[count]
