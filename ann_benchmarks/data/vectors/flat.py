"""Vectors that lie in a file as one block: NPY, the big-ann formats, HDF5 in contiguous storage."""

from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError

from .reading import OffsetFile, reading, require_vectors, row_range
from .rows import Rows

BIG_ANN_TYPES = {".fbin": "<f4", ".u8bin": "u1", ".i8bin": "i1"}


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
        self._file = OffsetFile(path)
        self._require_bytes(path)

    def _require_bytes(self, path: Path) -> None:
        size = path.stat().st_size
        promised = self._offset + self.nbytes
        if size < promised:
            whole = max(0, size - self._offset) // max(1, self._row_bytes)
            raise UserError(
                f"cannot read {self.label}: its header promises {self.shape[0]:,} rows of {self.shape[1]} "
                f"{self.dtype}, {promised:,} bytes, but the file has {size:,}, which end in row {whole} "
                "(from 0); fetch or write it again"
            )

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows, in an array of their own."""
        rows = np.empty((stop - start, self.shape[1]), self._stored)
        with reading(row_range(self.label, start, stop)):
            got = self._file.read_into(rows, self._offset + start * self._row_bytes)
        if got < rows.nbytes:
            raise UserError(
                f"cannot read {self.where(start + got // self._row_bytes)}: the file ends before it, though "
                f"it had {len(self):,} rows when it was opened; fetch or write it again"
            )
        if self._stored.isnative:
            return rows
        return rows.byteswap(inplace=True).view(self.dtype)

    def mapped(self) -> np.ndarray | None:
        """Return a copy-on-write map; a read-only one where the file is larger than the OS grants memory."""
        if not self._stored.isnative or self._offset % self._stored.itemsize or not self.nbytes:
            return None
        with reading(self.label):
            place = {"dtype": self.dtype, "offset": self._offset, "shape": self.shape}
            try:
                return np.memmap(self.paths[0], mode="c", **place)  # type: ignore[call-overload]
            except OSError:
                return np.memmap(self.paths[0], mode="r", **place)  # type: ignore[call-overload]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_npy(path: Path) -> FlatRows:
    """Open an NPY file of any version, stored row by row."""
    with reading(path), path.open("rb") as file:
        shape, by_column, dtype = read_npy_header(file)
        offset = file.tell()
    require_row_order(str(path), shape, by_column)
    require_vectors(str(path), shape, dtype)
    return FlatRows(path, str(path), offset, (shape[0], shape[1]), dtype)


def read_npy_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, whether stored by column, and element type; the array's bytes come next."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)  # 3.0 differs only in the names of fields


def require_row_order(label: str, shape: tuple[int, ...], by_column: bool) -> None:
    """Raise UserError for an array whose rows are not in one piece each."""
    if by_column and len(shape) == 2 and 1 not in shape:
        raise UserError(
            f"{label} is stored column by column; save numpy.ascontiguousarray(...) of it instead"
        )


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
