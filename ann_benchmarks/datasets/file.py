"""A dataset's HDF5 file: opened, checked, and read without copying where it can be."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..distance import METRICS
from ..errors import UserError

# What h5py and numpy raise, depending on which byte of a file is wrong.
_HDF5_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError)


class Dataset:
    """An open dataset, indexed as ann-benchmarks' HDF5 file is: train, test, neighbors, distances.

    Raises UserError when the file is damaged or is no dataset of this kind. `attrs` holds distance,
    dimension, point_type and type, supplied where an old file lacks them, and whatever else the file says.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.stem
        try:
            # No lock is needed: files get their name when they are whole and are never written again.
            self._file = h5py.File(path, "r", locking=False)
        except OSError as error:
            if isinstance(error, (FileNotFoundError, PermissionError)):
                raise UserError(f"cannot open {path}: {error.strerror or error}") from None
            raise _damaged(path, "not a whole HDF5 file") from None
        try:
            self.attrs = _checked_attributes(self._file, path)
        except UserError:
            self.close()
            raise
        except _HDF5_ERRORS as error:
            self.close()
            raise _damaged(path, _first_line(error)) from None

    def __getitem__(self, key: str) -> h5py.Dataset:
        return self._file[key]

    def __contains__(self, key: object) -> bool:
        return key in self._file

    def __enter__(self) -> "Dataset":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; arrays already taken from it stay valid."""
        self._file.close()

    def train(self) -> np.ndarray | list[np.ndarray]:
        """The training rows: a copy-on-write memory map where the file allows it, int arrays when sparse."""
        return self._rows("train")

    def streamed_train(self) -> np.ndarray | h5py.Dataset:
        """The training rows as they lie on disk: a memory map, or what HDF5 reads range by range."""
        mapped = map_rows(self["train"])
        return self["train"] if mapped is None else mapped

    def test(self) -> np.ndarray | list[np.ndarray]:
        """The queries, in the same form as the training rows."""
        return self._rows("test")

    def true_distances(self, count: int) -> np.ndarray:
        """Distances of each query's `count` nearest training rows, ascending: (n_queries, count) float64."""
        stored = self["distances"].shape[1]
        if stored < count:
            raise UserError(
                f"dataset '{self.name}' has {stored} true neighbours a query, fewer than {count}; "
                f"use --count {stored} or less, or make the dataset again with more"
            )
        return self._read("distances", slice(count)).astype(np.float64)

    def _rows(self, key: str) -> np.ndarray | list[np.ndarray]:
        if self.attrs["type"] != "sparse":
            try:
                mapped = map_rows(self[key])
            except _HDF5_ERRORS as error:
                raise _damaged(self.path, f"'{key}' cannot be mapped: {_first_line(error)}") from None
            return self._read(key) if mapped is None else mapped
        return np.split(self._read(key), np.cumsum(self._read(f"size_{key}"))[:-1])

    def _read(self, key: str, columns: slice | None = None) -> np.ndarray:
        try:
            rows: np.ndarray = self[key][()] if columns is None else self[key][:, columns]
        except _HDF5_ERRORS as error:
            raise _damaged(self.path, f"'{key}' cannot be read: {_first_line(error)}") from None
        return rows


def map_rows(stored: h5py.Dataset) -> np.ndarray | None:
    """A copy-on-write memory map of an HDF5 dataset; None where its storage has no such form."""
    offset = stored.id.get_offset()  # None: chunked, compressed or never written
    item = stored.dtype
    if offset is None or item.byteorder not in "=|<" or offset % item.itemsize or stored.size == 0:
        return None
    return np.memmap(stored.file.filename, dtype=item, mode="c", offset=offset, shape=stored.shape)


def _damaged(path: Path, reason: str) -> UserError:
    return UserError(f"dataset file {path} is damaged ({reason}); delete it, then make or download it again")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _checked_attributes(file: h5py.File, path: Path) -> dict[str, Any]:
    for key in ("train", "test", "neighbors", "distances"):
        if not isinstance(file.get(key), h5py.Dataset):
            raise _damaged(path, f"'{key}' is missing")
    attributes = {name: _plain(value) for name, value in file.attrs.items()}
    attributes.setdefault("type", "dense")
    attributes.setdefault("point_type", "float")
    if attributes.get("distance") not in METRICS:
        found = (
            f"its distance is '{attributes['distance']}'"
            if "distance" in attributes
            else "it has no distance"
        )
        raise _damaged(path, f"{found}, which is none of {', '.join(METRICS)}")
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
        queries = len(test)
        attributes.setdefault("dimension", train.shape[1])
    attributes["dimension"] = int(attributes["dimension"])
    if not sparse and attributes["dimension"] != train.shape[1]:
        raise _damaged(path, f"its dimension is {attributes['dimension']} but its rows have {train.shape[1]}")
    shape = file["distances"].shape
    if len(shape) != 2 or shape[0] != queries or shape[1] == 0 or file["neighbors"].shape != shape:
        raise _damaged(
            path, f"{queries} queries, but distances {shape} and neighbors {file['neighbors'].shape}"
        )
    return attributes


def _checked_sets(file: h5py.File, path: Path) -> int:
    for key in ("train", "test"):
        size = f"size_{key}"
        if not isinstance(file.get(size), h5py.Dataset):
            raise _damaged(path, f"'{size}' is missing")
        if file[key].ndim != 1 or file[size][()].sum() != len(file[key]):
            raise _damaged(path, f"'{size}' does not add up to the length of '{key}'")
    return len(file["size_test"])


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if isinstance(value, np.generic) else value
