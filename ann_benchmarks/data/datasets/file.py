"""Datasets in one HDF5 file: opened, checked, and read without copying where it can be."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.hdf5 import is_of_numbers, lacking, open_hdf5_file
from ann_benchmarks.common.text import DAMAGE, reason_of, shortened
from ann_benchmarks.distance import METRICS

from ..vectors import Rows, checked, open_rows
from .dataset import Dataset, plug_in_array
from .queries import TrueNeighbors, truth_problem


class HDF5Dataset(Dataset):
    """An open dataset in one file, as ann-benchmarks has it.

    Raises UserError when the file is damaged or of another kind. `attrs` is supplied where an old
    file lacks some of it, and holds whatever else the file says; `distance` is that of a file without one.
    `recompute_distances`: those in the file are of another kind than ann-benchmarks'.
    """

    def __init__(self, path: Path, distance: str = "", recompute_distances: bool = False) -> None:
        self._has_distances = not recompute_distances
        self.path, self.name, self.data, self.train_files = path, path.stem, path.parent, [path]
        try:
            # No lock is needed: files get their name when they are whole and are never written again.
            self._file = open_hdf5_file(path)
        except DAMAGE as error:
            if getattr(error, "strerror", None):
                raise UserError(f"cannot open {path}: {reason_of(error)}") from None
            raise _damaged(path, "not a whole HDF5 file") from None
        try:
            self.attrs = _checked_attributes(self._file, distance)
        except DAMAGE as error:
            self.close()
            raise _damaged(path, reason_of(error)) from None
        self.rows = len(self._file["size_train" if self.attrs["type"] == "sparse" else "train"])
        self.has_published_truth = "neighbors" in self._file

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key) if key in ("neighbors", "distances") else self._file[key]

    def __contains__(self, key: object) -> bool:
        return key in self._file

    def close(self) -> None:
        """Close the file; arrays already taken from it stay valid."""
        self._file.close()

    @property
    def row_values(self) -> int:
        """As for every dataset; sets take a bit for each item that there is."""
        if self.attrs["type"] == "sparse":
            return -(-len(np.unique(self._read("train"))) // 32)
        return super().row_values

    def train_rows(self) -> Rows:
        # Vectors of zeros are let pass under angular: published files have some.
        return checked(open_rows(self.path, "train"))

    def train(self) -> np.ndarray | list[np.ndarray]:
        """The training rows: a copy-on-write memory map where the file allows it, or arrays of a set each."""
        return self._sets("train") if self.attrs["type"] == "sparse" else plug_in_array(self.train_rows())

    def test(self) -> np.ndarray | list[np.ndarray]:
        if self.attrs["type"] == "sparse":
            return self._sets("test")
        return plug_in_array(open_rows(self.path, "test"))

    def published_truth(self) -> TrueNeighbors | None:
        if not self.has_published_truth:
            return None
        has_distances = self._has_distances and "distances" in self
        distances = self._read("distances") if has_distances else None
        return TrueNeighbors(self._read("neighbors"), distances, self.name)

    def _sets(self, key: str) -> list[np.ndarray]:
        return np.split(self._read(key), np.cumsum(self._read(f"size_{key}"))[:-1])

    def _read(self, key: str) -> np.ndarray:
        try:
            rows: np.ndarray = self._file[key][()]
        except DAMAGE as error:
            raise _damaged(self.path, f"'{key}' cannot be read: {reason_of(error)}") from None
        return rows


def _damaged(path: Path, reason: str) -> UserError:
    return UserError(f"dataset file {path} is damaged ({reason}); delete it, then make or download it again")


def _checked_attributes(file: h5py.File, distance: str) -> dict[str, Any]:
    """Return what a file says of itself; ValueError, or another of DAMAGE, where it is not a dataset."""
    given = {"distance": distance} if distance else {}
    attributes = {"type": "dense", "point_type": "float"} | given | _plain_attributes(file)
    if attributes.get("distance") in ("cosine", "normalized"):  # VIBE's words
        attributes["distance"] = "angular"
    if attributes["type"] == "csr":
        raise ValueError("its vectors are sparse ones, which are not supported any more")
    are_sets = attributes["type"] == "sparse"
    for key in ("train", "test", *(("size_train", "size_test") if are_sets else ())):
        if not isinstance(file.get(key), h5py.Dataset):
            raise ValueError(f"'{key}' is missing")
        if problem := lacking(file, file[key]):
            raise ValueError(f"'{key}' {problem}")
    if attributes.get("distance") not in METRICS:
        metric = shortened(attributes.get("distance", "missing"), 60)
        raise ValueError(f"its distance is '{metric}', but must be one of {', '.join(METRICS)}")
    train, test = file["train"], file["test"]
    if are_sets:
        for key in ("train", "test"):
            _check_sets(key, file[key], file[f"size_{key}"])
        attributes.setdefault("dimension", int(train[()].max()) + 1)
    else:
        if not train.ndim == test.ndim == 2 or train.shape[1] != test.shape[1] or not train.size * test.size:
            raise ValueError(f"train is {train.shape} and test is {test.shape}")
        if train.dtype.kind not in "fiub" or test.dtype.kind not in "fiub":
            raise ValueError("train and test do not hold numbers")
        if attributes["distance"] == "jaccard" and not train.dtype == test.dtype == np.bool_:
            raise ValueError(f"its rows are {train.dtype}, where jaccard needs bool, or sets")
        attributes.setdefault("dimension", train.shape[1])
    dimension = attributes["dimension"] = int(attributes["dimension"])
    if dimension < 1:
        raise ValueError(f"its dimension is {dimension}")
    if not are_sets and dimension != train.shape[1]:
        raise ValueError(f"its dimension is {dimension} but its rows have {train.shape[1]}")
    if "neighbors" in file:
        arrays = {key: file[key] for key in ("neighbors", "distances") if key in file}
        _check_truth(arrays, file, len(file["size_test"] if are_sets else test))
    return attributes


def _check_truth(arrays: Mapping[str, Any], file: h5py.File, queries: int) -> None:
    """Raise ValueError unless these can be the neighbours and distances of this many queries."""
    if problem := truth_problem(file, list(arrays.values())):
        raise ValueError(problem)
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1 or any(rows != queries for rows, _ in shapes):
        found = " and ".join(f"{key} {array.shape}" for key, array in sorted(arrays.items()))
        raise ValueError(f"{queries} queries, but {found}")


def _check_sets(key: str, items: h5py.Dataset, sizes: h5py.Dataset) -> None:
    if not all(is_of_numbers(array.dtype, "iu") and array.ndim == 1 for array in (items, sizes)):
        raise ValueError(f"'{key}' and 'size_{key}' are not lists of whole numbers")
    counts = sizes[()]
    if not len(counts) or counts.min() < 0 or sum(map(int, counts)) != len(items):
        raise ValueError(f"'size_{key}' does not add up to the length of '{key}'")
    if len(items) and items[()].min() < 0:
        raise ValueError(f"'{key}' has items below 0")


def _plain_attributes(file: h5py.File) -> dict[str, Any]:
    """Return attributes without the types of NumPy."""
    found = {
        name: value.item() if isinstance(value, np.generic) else value for name, value in file.attrs.items()
    }
    return {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for name, value in found.items()
    }
