"""What a dataset offers, whatever files it lies in."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ann_benchmarks.common.errors import UserError

from ..vectors import Rows
from .truth import Truth, check_mark, read_truth, settle, truth_path, write_truth

DATA_FOLDER = Path("data")  # in the current folder, as in ann-benchmarks


class Dataset(ABC):
    """Training vectors, queries and true neighbours; also indexed as ann-benchmarks' HDF5 file is.

    `attrs` holds distance, dimension, point_type ("float" or "bit") and type ("dense" or "sparse"). Sparse
    datasets are lists of sets of integers; all else is rows of numbers.
    """

    name: str
    data: Path  # the folder in which datasets lie
    attrs: dict[str, Any]

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many training vectors there are."""

    @property
    @abstractmethod
    def train_files(self) -> list[Path]:
        """The files that the training vectors are read from."""

    @abstractmethod
    def train_rows(self) -> Rows:
        """The training vectors of a dense dataset as they lie on disk, read by range and checked."""

    @abstractmethod
    def train(self) -> np.ndarray | list[np.ndarray]:
        """The training vectors as one array, mapped where the file allows it; int arrays when sparse."""

    @abstractmethod
    def test(self) -> np.ndarray | list[np.ndarray]:
        """The queries, in the same form as the training vectors."""

    @abstractmethod
    def published_truth(self) -> Truth | None:
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

    def truth(self) -> Truth:
        """The true neighbours of every query: those found here, or else those that came with the data.

        Where neighbours came without distances, these are computed once and kept. Raises UserError when there
        are none.
        """
        path = truth_path(self.name, self.data)
        if path.exists():
            check_mark(path, self)
            return read_truth(path)
        published = self.published_truth()
        if published is None:
            raise UserError(
                f"dataset '{self.name}' has no true neighbours; "
                f"find them by: python create_dataset.py --ground-truth {self.name}"
            )
        if published.distances is None:
            published = settle(published.neighbors, self)
            write_truth(path, published, self)
        return published

    def true_distances(self, count: int) -> np.ndarray:
        """Distances of each query's `count` nearest training rows, ascending: (n_queries, count) float64."""
        distances = self.truth().distances
        assert distances is not None
        stored = distances.shape[1]
        if stored < count:
            raise UserError(
                f"dataset '{self.name}' has {stored} true neighbours a query, fewer than {count}; use --count"
                f" {stored} or less, or find more by: python create_dataset.py --ground-truth {self.name}"
                f" --neighbors {count}"
            )
        return distances[:, :count].astype(np.float64)


def as_one_array(rows: Rows) -> np.ndarray:
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
            f"{rows.label} would take {needed / 1e9:,.0f} GB of memory for a plug-in that does not stream,"
            f" but {free / 1e9:,.0f} GB are free; use a smaller set"
        )
    array = rows.read(0, len(rows))
    return array if fits else array.astype(np.float32)
