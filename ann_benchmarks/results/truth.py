"""The true distances of a dataset, by which its results are judged."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import checked_name
from ann_benchmarks.common.text import DAMAGE, reason_of
from ann_benchmarks.data.datasets import stored_truth, truth_file
from ann_benchmarks.fields.rows import FILTERED
from ann_benchmarks.fields.series import stored_series

from .file import Stamp, file_stamp, read_attributes, truth_mark


@dataclass(frozen=True)
class Truth:
    """The true distances that a dataset stores, (queries, neighbours), in ascending order.

    Under filters they are infinite where fewer rows match.
    """

    distances: np.ndarray
    is_filtered: bool = False
    _columns: dict[int, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    def nth(self, number: int) -> np.ndarray:
        """Each query's distance to its n-th neighbour; copied once, because a column of a matrix is slow.

        Under a filter that fewer rows match, it is the distance to the last of them, and 0 without any.
        """
        if number not in self._columns:
            column = np.ascontiguousarray(self.distances[:, number - 1])
            if (due := self.due(number)) is not None:
                last = self.distances[np.arange(len(due)), np.maximum(due, 1) - 1]
                column = np.where(due > 0, last, 0.0)
            self._columns[number] = column
        return self._columns[number]

    def due(self, number: int) -> np.ndarray | None:
        """How many rows each query's answer has at most where `number` are requested; None: all of them."""
        if not self.is_filtered:
            return None
        return np.count_nonzero(np.isfinite(self.distances[:, :number]), axis=1)

    @cached_property
    def sums(self) -> np.ndarray:
        """Sum of each query's distances, without those that are infinite under a filter."""
        known = (
            np.where(np.isfinite(self.distances), self.distances, 0) if self.is_filtered else self.distances
        )
        return known.sum(axis=1, dtype=np.float64)


class TruthError(UserError):
    """The true distances of a dataset cannot be had, so that none of its results can be judged."""


class TruthFile:
    """A dataset's true distances, once they are read, and what shows whether their file has changed.

    With the name of a filter set, they are those under its filters.
    """

    def __init__(self, dataset: str, filter: str = "", path: Path | None = None) -> None:
        self.dataset, self.filter = dataset, filter
        try:  # a result may name what cannot be a filter
            self.path = path or truth_file(dataset, filter and checked_name(filter, "filter"))
        except UserError as error:
            raise TruthError(str(error)) from error
        try:
            self.stamp: Stamp = file_stamp(self.path)
        except OSError:
            how = f"run.py --dataset {dataset} --filter {filter}" if filter else "run.py or create_dataset.py"
            raise TruthError(
                f"{self.path}, which holds the true distances, is missing: restore it, or make it with {how}"
            ) from None
        self._truth = Truth(np.empty((0, 0)))
        self._marks: dict[int, set[str]] = {}
        self._published: np.ndarray | None = None  # the distances that ours replace

    def read(self) -> None:
        """Read the distances; TruthError if they cannot be."""
        try:
            distances, self._published = self.read_distances()
            self._truth = Truth(distances, bool(self.filter))
        except UserError as error:
            raise TruthError(str(error)) from error
        except DAMAGE as error:
            raise TruthError(f"{self.path} cannot be read: {reason_of(error)}") from error

    def read_distances(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Read the distances, and those published that they replace."""
        found = stored_truth(self.dataset, self.filter)
        return found.known_distances, found.published

    def covering(self, queries: int, count: int) -> Truth:
        """Return all true distances; UserError if a result has more queries or neighbours."""
        stored_queries, stored_count = self._truth.distances.shape
        if queries > stored_queries or not 1 <= count <= stored_count:
            raise UserError(
                f"it has {queries} queries with {count} neighbours, {self.path} the truth of"
                f" {stored_queries} with {stored_count}: it was run on another version of the dataset"
            )
        return self._truth

    def marks(self, count: int) -> set[str]:
        """Return the marks of this dataset in results with `count` neighbours: ours, and an earlier one."""
        if count not in self._marks:
            every = (self._truth.distances, self._published)
            self._marks[count] = {truth_mark(one[:, :count]) for one in every if one is not None}
        return self._marks[count]


class Truths:
    """The true distances of a dataset, and of each filter set that its results were measured under.

    They are read when they are needed, and what shows whether a file has changed is taken before that.
    """

    def __init__(self, dataset: str, open_file: Callable[[str, str], TruthFile] = TruthFile) -> None:
        """Look up those without a filter; TruthError where they are missing."""
        self.dataset, self._open_file = dataset, open_file
        self._files = {"": open_file(dataset, "")}
        self._read: set[str] = set()

    def stamp(self, filter: str) -> Stamp | None:
        """Return what shows whether the distances under a filter have changed; None without any."""
        try:
            return self._file(filter).stamp
        except TruthError:
            return None

    def read(self, filter: str) -> TruthFile:
        """Return the distances under a filter; TruthError if they cannot be read."""
        file = self._file(filter)
        if filter not in self._read:
            file.read()
            self._read.add(filter)
        return file

    def _file(self, filter: str) -> TruthFile:
        if filter not in self._files:
            self._files[filter] = self._open_file(self.dataset, filter)
        return self._files[filter]


def filter_of(path: Path) -> str:
    """Return the filter of a result, "" without one; without reading files whose folder has none."""
    if FILTERED not in path.parent.name:
        return ""
    try:
        series = stored_series(read_attributes(path))
    except (UserError, OSError):  # reading it says so
        return ""
    return series.filter if series else ""
