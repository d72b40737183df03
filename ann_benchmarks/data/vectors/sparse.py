"""Sparse vectors in files: big-ann-benchmarks' CSR format, SciPy's NPZ, and the HDF5 of a dataset."""

import gzip
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import disk_errors, open_regular, require_file, require_space, scratch_path
from ann_benchmarks.common.hdf5 import is_plain, open_hdf5_file
from ann_benchmarks.common.sparse import SparseVectors, joined
from ann_benchmarks.common.text import DAMAGE

from .files import FlatRows
from .reading import LARGEST, reading
from .rows import ArrayRows, Rows

BLOCK_VALUES = 2**20  # read at once
CSR_HEADER = 24  # bytes: int64 rows, columns, stored values
KINDS = ("iu", "iu", "iufb")  # of the numbers in SciPy's indptr, indices and data
SPARSE_SUFFIXES = (".csr", ".csr.gz")


class SparseRows:
    """Sparse vectors that may be larger than memory: rows by range, checked and put in order.

    In memory are the bounds of the rows (8 bytes each) and what was read last. Indexed as SparseVectors are,
    which is what comes back. Explicit zeros are left out. Raises UserError, with the file and the row, for
    places that are outside the dimension or twice in a row, and for NaN and infinity.
    """

    def __init__(self, label: str, dimension: int, indptr: np.ndarray, indices: Rows, data: Rows) -> None:
        self.label, self.dimension = label, dimension
        self.indptr, self._indices, self._data = indptr.astype(np.int64, copy=False), indices, data
        stored = len(indices)
        bounds = np.diff(self.indptr, prepend=0, append=stored)
        if not len(indptr) or indptr[0] != 0 or len(data) != stored or (bounds < 0).any() or bounds[-1]:
            raise UserError(f"cannot read {label}: the bounds of its rows do not fit its {stored:,} values")
        if not 0 < dimension < 2**31:
            raise UserError(f"cannot read {label}: its rows have {dimension:,} dimensions; is it a CSR file?")

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        return len(self.indptr) - 1, self.dimension

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, key: int | slice | np.ndarray) -> SparseVectors:
        if isinstance(key, int | np.integer):
            row = range(len(self))[int(key)]
            return self.read(row, row + 1)
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self.read(start, max(start, stop))
            key = np.arange(start, stop, step)
        return joined([self[int(row)] for row in key], self.dimension)

    def read(self, start: int, stop: int) -> SparseVectors:
        """Return rows `start` to `stop`, checked."""
        first, last = int(self.indptr[start]), int(self.indptr[stop])
        indices, data = self._indices.read(first, last)[:, 0], self._data.read(first, last)[:, 0]
        rows = SparseVectors(self.indptr[start : stop + 1] - first, indices, data, self.dimension)
        return self._checked(start, rows)

    def blocks(self) -> Iterator[tuple[int, SparseVectors]]:
        """Give (number of the first row, rows) for all rows, some MiB at a time."""
        start = 0
        while start < len(self):
            stop = int(np.searchsorted(self.indptr, self.indptr[start] + BLOCK_VALUES, "right")) - 1
            stop = min(max(stop, start + 1), len(self), start + BLOCK_VALUES)
            yield start, self.read(start, stop)
            start = stop

    def row_name(self, row: int) -> str:
        """Say which row this is in which file, for an error."""
        return f"{self.label} row {row} (from 0)"

    def close(self) -> None:
        """Close the files; a later read opens them again."""
        self._indices.close()
        self._data.close()

    def _checked(self, start: int, rows: SparseVectors) -> SparseVectors:
        row = rows.row_numbers
        outside = (rows.indices < 0) | (rows.indices >= self.dimension)
        self._refuse(start, row, outside, f"has a place outside its {self.dimension:,} dimensions")
        self._refuse(start, row, ~np.isfinite(rows.data), "has NaN or infinity")
        with np.errstate(over="ignore"):  # found below
            indices, data, indptr = rows.indices.astype(np.int32), rows.data.astype(np.float32), rows.indptr
        self._refuse(start, row, ~np.isfinite(data), "has a value beyond float32")
        within = row[1:] == row[:-1]
        if (within & (indices[1:] <= indices[:-1])).any():
            order = np.lexsort((indices, row))
            indices, data = indices[order], data[order]
            twice = within & (indices[1:] == indices[:-1])
            self._refuse(start, row[1:], twice, "has a place twice; add them up (sum_duplicates of SciPy)")
        if not data.all():
            kept = data != 0
            indices, data = indices[kept], data[kept]
            indptr = np.append(0, np.cumsum(np.bincount(row[kept], minlength=len(rows))))
        return SparseVectors(indptr.astype(np.int64), indices, data, self.dimension)

    def _refuse(self, start: int, row: np.ndarray, bad: np.ndarray, reason: str) -> None:
        if bad.any():
            raise UserError(f"{self.row_name(start + int(row[np.argmax(bad)]))} {reason}; correct the file")


def is_sparse_file(path: Path) -> bool:
    """Whether a file holds sparse vectors: .csr, .csr.gz, or an NPZ as scipy.sparse.save_npz writes it."""
    if path.name.endswith(SPARSE_SUFFIXES):
        return True
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            return {"format.npy", "shape.npy", "data.npy"} <= {*archive.namelist()}
    except DAMAGE:
        return False


def open_sparse(path: Path) -> SparseRows:
    """Open a .csr file, which is read by range, or an NPZ, which is read whole."""
    require_file(path, "give the path of a .csr, .csr.gz or .npz file")
    return open_csr(path) if path.suffix != ".npz" else _open_npz(path)


@contextmanager
def opened_sparse(path: Path, folder: Path) -> Iterator[SparseRows]:
    """Open a file; what is compressed is unpacked in `folder` for the time."""
    if not path.name.endswith(".gz"):
        yield open_sparse(path)
        return
    if not path.is_file():
        raise UserError(f"the file {path} does not exist; give the path of a .csr, .csr.gz or .npz file")
    target = folder / path.name.removesuffix(".gz")
    with scratch_path(target) as unpacked:
        with disk_errors(target):
            unpack(path, unpacked)
        rows = open_csr(unpacked)
        rows.label = str(path)
        yield rows
        rows.close()


def open_csr(path: Path) -> SparseRows:
    """Open a file of big-ann-benchmarks: int64 rows, columns and values; int64 bounds; int32; float32."""
    header = rows, columns, values = _header(path, path.open)
    promised, size = _csr_bytes(header), path.stat().st_size
    if size > promised:
        raise UserError(
            f"cannot read {path}: its header promises {promised:,} bytes, but the file has {size:,};"
            " fetch it again"
        )
    at = CSR_HEADER + 8 * (rows + 1)
    bounds, indices, data = (
        FlatRows(path, str(path), *where)
        for where in (
            (CSR_HEADER, (rows + 1, 1), "<i8"),
            (at, (values, 1), "<i4"),
            (at + 4 * values, (values, 1), "<f4"),
        )
    )
    return SparseRows(str(path), columns, bounds.read(0, rows + 1)[:, 0], indices, data)


def peek_csr(path: Path) -> tuple[int, int, int]:
    """Read rows, columns and stored values from the beginning of a .csr or .csr.gz file."""
    with reading(path), path.open("rb") as file:
        is_gzip = file.read(2) == b"\x1f\x8b"
    return _header(path, (lambda mode: gzip.open(path, mode)) if is_gzip else path.open)


def _header(path: Path, open_file: Callable[[str], Any]) -> tuple[int, int, int]:
    with reading(path), open_file("rb") as file:
        content = file.read(CSR_HEADER)
    header = np.frombuffer(content, "<i8") if len(content) == CSR_HEADER else np.array([-1])
    if (header < 0).any() or (header >= LARGEST).any():
        raise UserError(f"cannot read {path}: it does not begin as a CSR file does; fetch it again")
    rows, columns, values = map(int, header)
    return rows, columns, values


def _csr_bytes(header: tuple[int, int, int]) -> int:
    """Return how long a file with these rows, columns and stored values is."""
    rows, _, values = header
    return CSR_HEADER + 8 * (rows + 1) + 8 * values


def unpack(path: Path, target: Path) -> None:
    """Write the CSR file that a gzip file holds to `target`; UserError where it holds something else."""
    left = _csr_bytes(peek_csr(path))
    require_space(target.parent, left)
    with gzip.open(path, "rb") as packed, target.open("wb") as file:
        while True:
            with reading(path):  # a full disk is not this file's fault
                piece = packed.read(2**20)
            if not piece:
                return
            left -= len(piece)
            if left < 0:
                raise UserError(f"cannot read {path}: it holds more than its header promises; fetch it again")
            file.write(piece)


def _open_npz(path: Path) -> SparseRows:
    with reading(path), np.load(path, allow_pickle=False) as arrays:
        if arrays["format"].item() not in (b"csr", "csr"):
            raise UserError(f"{path} holds a SciPy matrix of another form; save matrix.tocsr() of it")
        shape, parts = arrays["shape"], [arrays[name] for name in ("indptr", "indices", "data")]
    fits = [part.ndim == 1 and part.dtype.kind in kinds for part, kinds in zip(parts, KINDS, strict=True)]
    is_shape = shape.shape == (2,) and shape.dtype.kind in "iu"
    if not all(fits) or not is_shape or len(parts[0]) != int(shape[0]) + 1:
        raise UserError(f"{path} must hold a CSR matrix as scipy.sparse.save_npz writes it; write it again")
    indptr, indices, data = parts
    return SparseRows(
        str(path), int(shape[1]), indptr,
        ArrayRows(indices[:, np.newaxis], str(path)), ArrayRows(data[:, np.newaxis], str(path)),
    )  # fmt: skip


def open_sparse_hdf5(path: Path, group: str, dimension: int) -> SparseRows:
    """Open a group of a dataset file that holds `indptr`, `indices` and `data`, each in one piece."""
    label = f"{path}:{group}"
    with reading(path), open_hdf5_file(path) as file:
        arrays = [file[f"{group}/{name}"] for name in ("indptr", "indices", "data")]
        if any(array.ndim != 1 or (len(array) and not is_plain(array)) for array in arrays):
            raise UserError(f"{label} is not stored in one piece; make the dataset again")
        if not all(array.dtype.kind in kinds for array, kinds in zip(arrays, KINDS, strict=True)):
            raise UserError(f"{label} holds other numbers than sparse vectors have; make the dataset again")
        found = [(array.id.get_offset() or 0, (len(array), 1), array.dtype) for array in arrays]
    indptr, indices, data = (FlatRows(path, label, *where) for where in found)
    return SparseRows(label, dimension, indptr.read(0, len(indptr))[:, 0], indices, data)
