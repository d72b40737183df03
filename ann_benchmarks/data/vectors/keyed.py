"""Vectors under a key of a file: HDF5 datasets, and arrays of NPZ archives."""

import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.hdf5 import is_plain, lacking, open_hdf5_file

from .flat import FlatRows, read_npy_header, require_row_order
from .reading import choose, reading, require_vectors, row_range
from .rows import LockedRows, Rows


def open_hdf5(path: Path, key: str) -> Rows:
    """Open a dataset: `key`, else `train`, else the only one of two dimensions."""
    with reading(path), open_hdf5_file(path) as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        if not key:
            names = ["train"] if "train" in names else [name for name in names if file[name].ndim == 2]
        key = choose(path, "two-dimensional dataset", names, key)
        stored, label = file[key], f"{path}:{key}"
        require_vectors(label, stored.shape or (), stored.dtype)
        if problem := lacking(file, stored):
            raise UserError(f"{label} {problem}")
        if is_plain(stored):
            return FlatRows(path, label, stored.id.get_offset(), stored.shape, stored.dtype)
        return ChunkedRows(path, label, key, stored)


class ChunkedRows(LockedRows):
    """Rows that only HDF5 itself can find or convert: in chunks, compressed, of numbers unlike numpy's."""

    _file: h5py.File | None

    def __init__(self, path: Path, label: str, key: str, stored: h5py.Dataset) -> None:
        super().__init__()
        self.label, self.shape, self.dtype = label, stored.shape, stored.dtype.newbyteorder("=")
        self.paths = (path.absolute(),)
        self._key = key

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows, in an array of their own."""
        with self._lock, reading(row_range(self.label, start, stop)):
            if self._file is None:
                self._file = open_hdf5_file(self.paths[0])
            rows: np.ndarray = self._file[self._key][start:stop]
        return rows.astype(self.dtype, copy=False)

    def _closed(self) -> dict[str, Any]:
        return {"_file": None}


class NpzRows(LockedRows):
    """An array of an archive, read as a stream: going back begins anew, going on costs nothing."""

    _member: Any

    def __init__(self, path: Path, key: str) -> None:
        super().__init__()
        self.paths = (path.absolute(),)
        with reading(path), zipfile.ZipFile(path) as archive:
            names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
            self._key = choose(path, "array", names, key)
            self.label = f"{path}:{self._key}"
            with archive.open(f"{self._key}.npy") as member:
                shape, by_column, self._stored = read_npy_header(member)
                self._offset = member.tell()
            size = archive.getinfo(f"{self._key}.npy").file_size
        require_row_order(self.label, shape, by_column)
        require_vectors(self.label, shape, self._stored)
        self.shape, self.dtype = (shape[0], shape[1]), self._stored.newbyteorder("=")
        if self._offset + self.nbytes > size:
            raise UserError(
                f"cannot read {self.label}: its header promises {shape[0]:,} rows of {shape[1]} "
                f"{self.dtype}, {self._offset + self.nbytes:,} bytes, but the archive has {size:,} of it; "
                "write it again"
            )

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows, in an array of their own."""
        rows = np.empty((stop - start, self.shape[1]), self._stored)
        with self._lock, reading(row_range(self.label, start, stop)):
            if rows.nbytes:
                self._fill(rows.reshape(-1).view(np.uint8).data, start)
        if self._stored.isnative:
            return rows
        return rows.byteswap(inplace=True).view(self.dtype)

    def _fill(self, view: memoryview, start: int) -> None:
        member = self._member or self._open()
        self._member = None  # not used again after an error
        at = self._offset + start * (self.nbytes // len(self))
        if member.tell() != at:
            member.seek(at)
        done = 0
        while done < len(view):
            got = member.readinto(view[done:])
            if not got:
                raise EOFError("the archive ends too early")
            done += got
        self._member = member

    def _open(self) -> Any:
        with zipfile.ZipFile(self.paths[0]) as archive:
            return archive.open(f"{self._key}.npy")  # keeps the file open

    def _closed(self) -> dict[str, Any]:
        return {"_member": None}
