"""Datasets in one HDF5 file: opened, checked, and read without copying where it can be."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.foreign import DAMAGE, reason_of, shortened
from ann_benchmarks.common.hdf5 import is_of_numbers, lacking, open_hdf5_file
from ann_benchmarks.distance import METRICS

from ..vectors import Rows, checked, open_rows
from .dataset import Dataset, as_one_array
from .queries import TrueNeighbors, truth_problem


class HDF5Dataset(Dataset):
    """An open dataset in one file, as ann-benchmarks has it.

    Raises UserError when the file is damaged or is no dataset of this kind. `attrs` is supplied where an old
    file lacks some of it, and holds whatever else the file says; `distance` is that of a file without one.
    `recompute_distances`: those in the file are of another kind than ann-benchmarks'.
    """

    def __init__(self, path: Path, distance: str = "", recompute_distances: bool = False) -> None:
        self.path = path
        self._has_distances = not recompute_distances
        self.name, self.data = path.stem, path.parent
        try:
            # No lock is needed: files get their name when they are whole and are never written again.
            self._file = open_hdf5_file(path)
        except DAMAGE as error:
            if getattr(error, "strerror", None):
                raise UserError(f"cannot open {path}: {reason_of(error)}") from None
            raise _damaged(path, "not a whole HDF5 file") from None
        try:
            self.attrs = _checked_attributes(self._file, path, distance)
        except UserError:
            self.close()
            raise
        except DAMAGE as error:
            self.close()
            raise _damaged(path, reason_of(error)) from None

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key) if key in ("neighbors", "distances") else self._file[key]

    def __contains__(self, key: object) -> bool:
        return key in self._file

    def close(self) -> None:
        """Close the file; arrays already taken from it stay valid."""
        self._file.close()

    @property
    def rows(self) -> int:
        """How many training vectors or sets there are."""
        return len(self["size_train" if self.attrs["type"] == "sparse" else "train"])

    @property
    def row_values(self) -> int:
        """As for every dataset; sets take a bit for each item that there is."""
        if self.attrs["type"] == "sparse":
            return -(-len(np.unique(self._read("train"))) // 32)
        return super().row_values

    @property
    def train_files(self) -> list[Path]:
        """The one file."""
        return [self.path]

    def train_rows(self) -> Rows:
        """The training rows as they lie in the file."""
        # Vectors of zeros are let pass under angular: published files have some.
        return checked(open_rows(self.path, "train"))

    def train(self) -> np.ndarray | list[np.ndarray]:
        """The training rows: a copy-on-write memory map where the file allows it, int arrays when sparse."""
        return self._sets("train") if self.attrs["type"] == "sparse" else as_one_array(self.train_rows())

    def test(self) -> np.ndarray | list[np.ndarray]:
        """The queries, in the same form as the training rows."""
        if self.attrs["type"] == "sparse":
            return self._sets("test")
        return as_one_array(open_rows(self.path, "test"))

    def published_truth(self) -> TrueNeighbors | None:
        """The neighbours and distances in the file."""
        if not self.has_published_truth:
            return None
        has_distances = self._has_distances and "distances" in self
        distances = self._read("distances") if has_distances else None
        return TrueNeighbors(self._read("neighbors"), distances, self.name)

    @property
    def has_published_truth(self) -> bool:
        """Whether the file has neighbours."""
        return "neighbors" in self

    def rows_opener(self) -> Callable[[], Rows]:
        """See Dataset."""
        return partial(_open_rows, self.path.absolute())

    def _sets(self, key: str) -> list[np.ndarray]:
        return np.split(self._read(key), np.cumsum(self._read(f"size_{key}"))[:-1])

    def _read(self, key: str) -> np.ndarray:
        try:
            rows: np.ndarray = self._file[key][()]
        except DAMAGE as error:
            raise _damaged(self.path, f"'{key}' cannot be read: {reason_of(error)}") from None
        return rows


def _open_rows(path: Path) -> Rows:
    return HDF5Dataset(path, "angular").train_rows()  # the metric, which an old file lacks, changes no row


def _damaged(path: Path, reason: str) -> UserError:
    return UserError(f"dataset file {path} is damaged ({reason}); delete it, then make or download it again")


def _checked_attributes(file: h5py.File, path: Path, distance: str) -> dict[str, Any]:
    for key in ("train", "test"):
        if not isinstance(file.get(key), h5py.Dataset):
            raise _damaged(path, f"'{key}' is missing")
    attributes = {name: _plain(value) for name, value in file.attrs.items()}
    if distance:
        attributes.setdefault("distance", distance)
    attributes.setdefault("type", "dense")
    attributes.setdefault("point_type", "float")
    if attributes.get("distance") not in METRICS:
        found = (
            f"its distance is '{shortened(attributes['distance'], 60)}'"
            if "distance" in attributes
            else "it has no distance"
        )
        raise _damaged(path, f"{found}, which is none of {', '.join(METRICS)}")
    for key in ("train", "test", "size_train", "size_test"):
        if key in file and (problem := lacking(file, file[key])):
            raise _damaged(path, f"'{key}' {problem}")
    sparse = attributes["type"] == "sparse"
    train, test = file["train"], file["test"]
    if sparse:
        queries = _checked_sets(file, path)
        attributes.setdefault("dimension", int(train[()].max()) + 1)
    else:
        if (
            train.ndim != 2
            or test.ndim != 2
            or train.shape[1] != test.shape[1]
            or 0 in train.shape + test.shape
        ):
            raise _damaged(path, f"train is {train.shape} and test is {test.shape}")
        if train.dtype.kind not in "fiub" or test.dtype.kind not in "fiub":
            raise _damaged(path, "train and test do not hold numbers")
        if attributes["distance"] == "jaccard" and not train.dtype == test.dtype == np.bool_:
            raise _damaged(path, f"its rows are {train.dtype}, where jaccard needs bool, or sets")
        queries = len(test)
        attributes.setdefault("dimension", train.shape[1])
    attributes["dimension"] = int(attributes["dimension"])
    if attributes["dimension"] < 1:
        raise _damaged(path, f"its dimension is {attributes['dimension']}")
    if not sparse and attributes["dimension"] != train.shape[1]:
        raise _damaged(path, f"its dimension is {attributes['dimension']} but its rows have {train.shape[1]}")
    truth_keys = ("neighbors", "distances") if "neighbors" in file else ()
    arrays = [file[key] for key in truth_keys if key in file]
    shapes: list[tuple[int, ...]] = [getattr(array, "shape", None) or () for array in arrays]
    if any(len(shape) != 2 or shape[0] != queries or shape[1] == 0 or shape != shapes[0] for shape in shapes):
        names = [key for key in truth_keys if key in file]
        found = " and ".join(
            f"{name} {shape}" for name, shape in reversed([*zip(names, shapes, strict=True)])
        )
        raise _damaged(path, f"{queries} queries, but {found}")
    if arrays and (problem := truth_problem(file, arrays)):
        raise _damaged(path, problem)
    return attributes


def _checked_sets(file: h5py.File, path: Path) -> int:
    for key in ("train", "test"):
        size = f"size_{key}"
        if not isinstance(file.get(size), h5py.Dataset):
            raise _damaged(path, f"'{size}' is missing")
        if not all(is_of_numbers(file[name].dtype, "iu") and file[name].ndim == 1 for name in (key, size)):
            raise _damaged(path, f"'{key}' and '{size}' are not lists of whole numbers")
        sizes = file[size][()]
        if not len(sizes) or sizes.min() < 0 or sum(map(int, sizes)) != len(file[key]):
            raise _damaged(path, f"'{size}' does not add up to the length of '{key}'")
        if len(file[key]) and file[key][()].min() < 0:
            raise _damaged(path, f"'{key}' has items below 0")
    return len(file["size_test"])


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if isinstance(value, np.generic) else value
