"""Vectors that lie row by row in a file: NPY, HDF5 and the big-ann formats."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.hdf5 import is_plain, lacking, open_hdf5_file

from .reading import choose, read_at, reading, require_vectors, row_range
from .rows import Rows


class FlatRows(Rows):
    """Rows that follow one another from an offset in a file on.

    They are read into arrays, not through a memory map: pages of a map count as resident memory, and where
    the disk fails or the file has become shorter a map ends the process.
    """

    def __init__(self, path: Path, label: str, offset: int, shape: tuple[int, int], dtype: Any) -> None:
        self._stored: np.dtype[Any] = np.dtype(dtype)
        require_vectors(label, shape, self._stored)
        self.label, self.shape, self.dtype = label, shape, self._stored.newbyteorder("=")
        self.paths = (path.absolute(),)
        self._offset, self._row_bytes = offset, shape[1] * self._stored.itemsize
        self._require_whole(path.stat().st_size)

    def read(self, start: int, stop: int) -> np.ndarray:
        rows = np.empty((stop - start, self.shape[1]), self._stored)
        with reading(row_range(self.label, start, stop)):
            got = read_at(self.paths[0], rows, self._offset + start * self._row_bytes) if rows.nbytes else 0
        if got < rows.nbytes:
            raise UserError(
                f"cannot read {self.row_name(start + got // self._row_bytes)}: the file ends before it, "
                f"though it had {len(self):,} rows when it was opened; fetch or write it again"
            )
        return rows if self._stored.isnative else rows.byteswap(inplace=True).view(self.dtype)

    def mapped(self) -> np.ndarray | None:
        """Return a copy-on-write map; a read-only one where the file is larger than the OS grants memory."""
        is_aligned = self._stored.isnative and not self._offset % self._stored.itemsize
        if not is_aligned or not self.nbytes:
            return None
        with reading(self.label):
            place = {"dtype": self.dtype, "offset": self._offset, "shape": self.shape}
            try:
                return np.memmap(self.paths[0], mode="c", **place)  # type: ignore[call-overload]
            except OSError:
                return np.memmap(self.paths[0], mode="r", **place)  # type: ignore[call-overload]

    def _require_whole(self, size: int) -> None:
        """Raise UserError unless a file of `size` bytes holds all rows."""
        promised = self._offset + self.nbytes
        if size < promised:
            whole = max(0, size - self._offset) // max(1, self._row_bytes)
            raise UserError(
                f"cannot read {self.label}: its header promises {len(self):,} rows of {self.shape[1]} "
                f"{self.dtype}, {promised:,} bytes, but the file has {size:,}, which end in row {whole} "
                "(from 0); fetch or write it again"
            )


class ChunkedRows(Rows):
    """Rows of an HDF5 dataset that the library must find or convert."""

    def __init__(self, path: Path, key: str, shape: tuple[int, int], dtype: np.dtype) -> None:
        self.label, self.shape, self.dtype = f"{path}:{key}", shape, dtype.newbyteorder("=")
        self.paths, self._key = (path.absolute(),), key

    def read(self, start: int, stop: int) -> np.ndarray:
        with reading(row_range(self.label, start, stop)), open_hdf5_file(self.paths[0]) as file:
            return np.array(file[self._key][start:stop], self.dtype)


def open_npy(path: Path) -> FlatRows:
    """Open an NPY file of any version, stored row by row."""
    with reading(path), path.open("rb") as file:
        shape, dtype = _npy_header(file, str(path))
        return FlatRows(path, str(path), file.tell(), shape, dtype)


def _npy_header(opened: Any, label: str) -> tuple[tuple[int, int], np.dtype[Any]]:
    """Read the header of an array; its rows, which come next, must be in one piece each."""
    # Version 3.0 differs from 2.0 only in the names of fields.
    is_first = np.lib.format.read_magic(opened) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(opened)
    if by_column and len(shape) == 2 and 1 not in shape:
        raise UserError(
            f"{label} is stored column by column; save numpy.ascontiguousarray(...) of it instead"
        )
    require_vectors(label, shape, dtype)
    return (shape[0], shape[1]), dtype


def open_big_ann(path: Path, dtype: str) -> FlatRows:
    """Open a big-ann file: uint32 rows and dimension, then the rows and nothing else; little-endian."""
    with reading(path):
        header = np.fromfile(path, "<u4", 2)
        size = path.stat().st_size
    if len(header) < 2:
        raise UserError(f"cannot read {path}: it has {size} bytes where a header alone has 8; fetch it again")
    rows, dimension = map(int, header)
    if not dimension:
        raise UserError(
            f"cannot read {path}: its header says {rows:,} rows of 0 numbers; is it a big-ann file?"
        )
    opened = FlatRows(path, str(path), 8, (rows, dimension), dtype)
    if size > 8 + opened.nbytes:
        raise UserError(
            f"cannot read {path}: its header promises {rows:,} rows of {dimension} {opened.dtype}, "
            f"{8 + opened.nbytes:,} bytes, but the file has {size:,}, enough for "
            f"{(size - 8) // (opened.nbytes // rows) if rows else 'more'} rows; fetch it again"
        )
    return opened


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
        return ChunkedRows(path, key, stored.shape, stored.dtype)
