"""What a dataset offers, whatever files it lies in."""

import hashlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import data_folder
from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.common.text import warn
from ann_benchmarks.distance import BIT_METRICS, candidate_distances

from ..filters import FilterSet, RowAttribute, RowAttributes
from ..vectors import Rows
from .filter_files import (
    attributes_mark,
    column_path,
    filter_path,
    read_attributes,
    read_filter_set,
    write_attribute,
)
from .queries import Queries, TrueNeighbors, ordered, read_truth, truth_path, write_truth
from .truth_check import ALL, DEPTH, check_path, check_truth, checked_depths, write_check
from .write import IN_TRAIN, count_repeated

_FIRST_ROWS = 64
_SAMPLED_ROWS = 1024
DATA_FOLDER = data_folder()


class Dataset(ABC):
    """Training vectors, queries and true neighbours; also indexed as ann-benchmarks' HDF5 file is.

    `attrs` holds distance, dimension, point_type ("float" or "bit") and type: "dense", or "sparse",
    lists of sets of integers.
    """

    name: str
    data: Path  # the folder in which datasets lie
    attrs: dict[str, Any]
    rows: int  # of the training vectors
    train_files: list[Path]  # the training vectors are read from these
    has_published_truth: bool  # whether true neighbours came with the data
    _known_truth: TrueNeighbors | None = None  # once it is checked
    _known_depth = 0

    @property
    def row_values(self) -> int:
        """How many numbers of 4 bytes a row takes: the dimension, or a 32nd of it where that counts bits."""
        dimension = int(self.attrs["dimension"])
        return -(-dimension // 32) if self.attrs["distance"] in BIT_METRICS else dimension

    @property
    def files(self) -> list[Path]:
        """The files that came with the dataset."""
        return self.train_files

    @abstractmethod
    def train_rows(self) -> Rows:
        """The training vectors of a dense dataset as they lie on disk, read by range and checked."""

    @abstractmethod
    def train(self) -> np.ndarray | list[np.ndarray]:
        """The training vectors as one array, mapped where the file allows it; or arrays of a set each."""

    @abstractmethod
    def test(self) -> np.ndarray | list[np.ndarray]:
        """The queries, in the same form as the training vectors."""

    @abstractmethod
    def published_truth(self) -> TrueNeighbors | None:
        """The true neighbours that came with the data, perhaps without distances; None if none came."""

    @abstractmethod
    def close(self) -> None:
        """Close the files; arrays already taken from them stay valid."""

    def __enter__(self) -> "Dataset":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getitem__(self, key: str) -> Any:
        if key in ("neighbors", "distances"):
            return getattr(self.truth(), key)
        if key in ("train", "test"):
            return self.train_rows() if key == "train" else self.test()
        raise KeyError(key)

    def queries(self, count: int, filter: str = "") -> Queries:
        """The queries with their `count` true neighbours; UserError where fewer are known.

        With the name of a filter set, each query has its filter, and its neighbours are those under it: -1,
        at distance inf, where fewer than `count` rows pass.
        """
        filters = self.filter_set(filter).filters if filter else None
        return Queries(self.test(), self.truth(filter, count).nearest(count), filters)

    def filter_set(self, name: str) -> FilterSet:
        """The filters of this name; UserError where they are not there, damaged, or of other vectors."""
        return self._filters(name)[0]

    def attributes(self, filters: Sequence[str]) -> RowAttributes:
        """The columns that these filter sets are about: what a table must have beside the vectors."""
        return self.columns([column for name in filters for column in self.filter_set(name).attributes])

    def columns(self, names: Sequence[str]) -> RowAttributes:
        """The attributes of these names; UserError where one is missing, or is of other vectors."""
        return read_attributes(self.name, names, self.data, self.mark())

    def has_column(self, name: str) -> bool:
        """Whether an attribute of this name is there."""
        return column_path(self.name, name, self.data).exists()

    def keep_column(self, attribute: RowAttribute) -> None:
        """Store an attribute of all rows."""
        write_attribute(column_path(self.name, attribute.name, self.data), attribute, self.mark())

    def true_distances(self, count: int, filter: str = "") -> np.ndarray:
        """Distances of each query's `count` nearest training rows, ascending: (n_queries, count) float64."""
        return self.truth(filter, count).nearest(count).known_distances

    def truth(self, filter: str = "", depth: int | None = None) -> TrueNeighbors:
        """The true neighbours of every query: those found here, or else those that came with the data.

        They are checked when the dataset is first opened and whenever a file of it has changed, with the
        distance of neighbour number `depth` of each query; what followed another convention, or had no
        distances, is kept as this project has it. With the name of a filter set, those under the filters.
        Raises UserError when they are missing, or are not those of the vectors.
        """
        if filter:
            return self._filters(filter)[1]
        if self._known_truth is None or depth not in (None, self._known_depth):
            self._known_depth = depth or DEPTH
            self._known_truth = self._checked_truth(self._known_depth)
        return self._known_truth

    def stored_truth(self) -> TrueNeighbors:
        """The true neighbours as they are in their file, perhaps wrong; UserError when they are missing."""
        path = truth_path(self.name, self.data)
        found = read_truth(path, self.mark()) if path.exists() else self.published_truth()
        if found is None:
            raise UserError(
                f"dataset '{self.name}' has no true neighbours; "
                f"find them by: python create_dataset.py --ground-truth {self.name}"
            )
        return found

    def _checked_truth(self, depth: int) -> TrueNeighbors:
        path, record = truth_path(self.name, self.data), check_path(self.name, self.data)
        found = self.stored_truth()
        files = [*self.files, path] if self.has_own_truth else self.files
        if found.distances is not None and {depth, ALL} & {*checked_depths(record, files)}:
            return found
        checked = check_truth(self, found, depth)
        if checked.corrections or found.distances is None:
            self.keep_truth(checked.truth)
        if checked.corrections:
            warn(
                f"{self.name} came with {', '.join(checked.corrections)}; the corrected values are in {path}"
            )
        print(f"the true neighbours of {self.name} were checked: {checked.extent}", file=sys.stderr)
        write_check(record, [*self.files, *([path] if path.exists() else [])], checked)
        return checked.truth

    def queries_in_train(self) -> int:
        """Return how many queries are rows of the training set, too; 0 for sets."""
        if IN_TRAIN in self.attrs:
            return int(self.attrs[IN_TRAIN])
        metric, truth = self.attrs["distance"], self.truth()
        if self.attrs["type"] != "dense" or metric == "ip":  # ip takes reading all rows
            return 0
        queries = np.asarray(self.test())
        return count_repeated(metric, self.train_rows(), queries, truth.neighbors, truth.known_distances)

    def has_truth(self) -> bool:
        """Whether `truth` has something to give."""
        return self.has_own_truth or self.has_published_truth

    @property
    def has_own_truth(self) -> bool:
        """Whether there is a file of neighbours that were found or put right here."""
        return truth_path(self.name, self.data).exists()

    def keep_truth(self, truth: TrueNeighbors) -> None:
        """Store true neighbours next to the data, with the mark of these vectors."""
        attributes = {"distance": self.attrs["distance"], "rows": self.rows, "mark": self.mark()}
        write_truth(truth_path(self.name, self.data), truth, attributes)
        self._known_truth = None

    def compute_distances(self, neighbors: np.ndarray) -> TrueNeighbors:
        """Compute the distances of published neighbours in float64, and order them by distance and row."""
        distances = candidate_distances(
            self.attrs["distance"], self.test(), self.vectors(), neighbors, progress=True
        )
        return TrueNeighbors(*ordered(neighbors, distances), self.name)

    def mark(self) -> str:
        """Tell vectors of one name apart: by metric, shape, a sample of the rows, and all queries."""
        digest = hashlib.blake2b(f"{self.attrs['distance']} {self.rows}".encode(), digest_size=16)
        train, queries = self.vectors(), self.test()
        if isinstance(train, list):
            sample: Any = np.concatenate(train[:_FIRST_ROWS])
            queries = np.concatenate(queries)
        elif isinstance(train, Rows) and (fingerprint := train.fingerprint()):
            digest.update(fingerprint.encode())
            sample = train[:_FIRST_ROWS]  # single rows cannot be read quickly
        else:
            sample = train[np.linspace(0, len(train) - 1, min(_SAMPLED_ROWS, len(train)), dtype=np.int64)]
        for vectors in (sample, queries):
            digest.update(np.ascontiguousarray(vectors, np.float32).data)
        return digest.hexdigest()

    def _filters(self, name: str) -> tuple[FilterSet, TrueNeighbors]:
        filters, truth, columns_mark = read_filter_set(
            filter_path(self.name, name, self.data), self.name, self.mark()
        )
        if attributes_mark(self.name, filters.attributes, self.data) != columns_mark:
            raise UserError(
                f"the filters '{name}' of {self.name} are of other attributes than its columns now have; make"
                f" them again by: python create_dataset.py --add-filters {self.name} --filters {name} --force"
            )
        return filters, truth

    def vectors(self) -> Any:
        """The training vectors in the form in which they are read block by block: Rows, or a list of sets."""
        return self.train() if self.attrs["type"] == "sparse" else self.train_rows()


def plug_in_array(rows: Rows) -> np.ndarray:
    """Vectors as plug-ins of ann-benchmarks expect them: float32, float64 or bool, mapped where possible.

    Raises UserError when they would have to be read into memory and do not fit.
    """
    fits = rows.dtype in (np.float32, np.float64, np.bool_)
    mapped = rows.mapped() if fits else None
    if mapped is not None:
        return mapped
    needed = rows.nbytes if fits else rows.nbytes + len(rows) * rows.shape[1] * 4
    free = psutil.virtual_memory().available
    if needed > free:
        raise UserError(
            f"{rows.label} would take {size_text(needed)} of memory for a plug-in that does not stream,"
            f" but {size_text(free)} are free; use a smaller set"
        )
    array = rows.read(0, len(rows))
    return array if fits else array.astype(np.float32)
