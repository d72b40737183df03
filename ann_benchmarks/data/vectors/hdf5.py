"""Vectors in HDF5 files."""

import threading
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .flat import FlatRows
from .reading import choose, reading, require_vectors, row_range
from .rows import Rows


def open_hdf5(path: Path, key: str) -> Rows:
    """Open a dataset: `key`, else `train`, else the only one of two dimensions."""
    with reading(path), open_file(path) as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        if not key:
            names = ["train"] if "train" in names else [name for name in names if file[name].ndim == 2]
        key = choose(path, "two-dimensional dataset", names, key)
        stored, label = file[key], f"{path}:{key}"
        require_vectors(label, stored.shape, stored.dtype)
        offset = stored.id.get_offset()  # None: chunked, compressed or never written
        if offset is None:
            return ChunkedRows(path, label, key, stored)
        return FlatRows(path, label, offset, stored.shape, stored.dtype)


def open_file(path: Path) -> h5py.File:
    """Open for reading, without a lock: others may read too."""
    return h5py.File(path, "r", locking=False)


class ChunkedRows(Rows):
    """Rows that only HDF5 itself can find: in chunks, compressed or not."""

    def __init__(self, path: Path, label: str, key: str, stored: h5py.Dataset) -> None:
        self.label, self.shape, self.dtype = label, stored.shape, stored.dtype.newbyteorder("=")
        self.paths = (path.absolute(),)
        self._key = key
        self._file: h5py.File | None = None
        self._lock = threading.Lock()

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows, in an array of their own."""
        with self._lock, reading(row_range(self.label, start, stop)):
            if self._file is None:
                self._file = open_file(self.paths[0])
            rows: np.ndarray = self._file[self._key][start:stop]
        return rows.astype(self.dtype, copy=False)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
