"""Open vectors, and published neighbours, by what their files are called."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import require_file
from ann_benchmarks.common.names import matching, natural_order

from .files import open_big_ann, open_hdf5, open_npy
from .reading import format_suffix, reading
from .rows import JoinedRows, Rows


def cast(rows: Rows, start: int, block: np.ndarray, stored: np.dtype) -> np.ndarray:
    """Return rows from `start` on as another type; UserError for a number that it cannot hold."""
    if block.dtype == stored:
        return block
    with np.errstate(all="ignore"):  # reported below, with the row
        converted = block.astype(stored)
        lost = np.isinf(converted) & np.isfinite(block) if stored.kind == "f" else converted != block
    if lost.any():
        row, place = divmod(int(np.argmax(lost)), block.shape[1])
        raise UserError(
            f"{rows.row_name(start + row)} has {block[row, place]} as number {place} (from 0), which "
            f"{stored} cannot hold; convert to a larger type"
        )
    return converted


# Some of big-ann-benchmarks' files of floats are called .bin.
BIG_ANN_TYPES = {".fbin": "<f4", ".u8bin": "u1", ".i8bin": "i1", ".bin": "<f4"}


def big_ann_bytes(suffix: str, rows: int, dimension: int) -> int:
    """Return how long a file of this form is: 8 bytes of rows and dimension, and the numbers."""
    return 8 + rows * dimension * np.dtype(BIG_ANN_TYPES[suffix]).itemsize


def _open_parquet(path: Path, key: str) -> Rows:
    from .parquet import open_parquet

    return open_parquet(path, key)


# What opens a file of several arrays, one of which a key names, and a file of one, by suffix.
_KEYED: dict[str, Callable[[Path, str], Rows]] = {
    ".hdf5": open_hdf5,
    ".h5": open_hdf5,
    ".parquet": _open_parquet,
}
_SINGLE: dict[str, Callable[[Path], Rows]] = {
    ".npy": open_npy,
    **{suffix: partial(open_big_ann, dtype=dtype) for suffix, dtype in BIG_ANN_TYPES.items()},
}
_SUFFIXES = (".npy", *_KEYED, *BIG_ANN_TYPES)
FORMATS = f"{', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}"


def open_rows(path: Path | str, key: str = "") -> Rows:
    """Open the vectors of a file, by its suffix; `key` names an HDF5 dataset or a column.

    Raises UserError when the file is damaged.
    """
    path = Path(path)
    require_file(path, f"give the path of a file ending in {FORMATS}")
    suffix = format_suffix(path)
    if suffix in _KEYED:
        return _KEYED[suffix](path, key)
    if suffix not in _SINGLE:
        raise UserError(f"{path} must have a known format; give a file ending in {FORMATS}")
    if key:
        raise UserError(f"{path} holds one array; give its path without ':{key}'")
    return _SINGLE[suffix](path)


def open_parts(paths: Sequence[Path], key: str = "") -> Rows:
    """Open the vectors of files, end to end."""
    parts = [open_rows(path, key) for path in paths]
    return parts[0] if len(parts) == 1 else JoinedRows(parts)


def open_source(text: str) -> Rows:
    """Open FILE, FILE:KEY, a folder or a pattern, as a user types it; several files are parts of one."""
    rows = open_parts(*source_files(text))
    if not len(rows):
        raise UserError(
            f"{rows.label} has {rows.shape[0]} rows of {rows.shape[1]} numbers; it needs some of both"
        )
    return rows


def source_files(text: str) -> tuple[list[Path], str]:
    """Return the files that FILE, FILE:KEY, a folder or a pattern means, and the key."""
    name, _, key = text.rpartition(":")
    for pattern, chosen in ((text, ""), (name, key)):
        if pattern and (found := matching(pattern)):
            return [file for path in found for file in (_files_in(path) if path.is_dir() else [path])], chosen
    if "*" in text:
        raise UserError(f"no file matches {text}; give the path of a file ending in {FORMATS}")
    return ([Path(name)], key) if Path(name).suffix else ([Path(text)], "")


def _files_in(folder: Path) -> list[Path]:
    """Return the vectors in a folder, in natural order; what is hidden, unfinished or a crop is left out."""
    with reading(folder):
        there = [path for path in folder.iterdir() if not path.name.startswith(".") and not path.is_dir()]
    files = [path for path in there if path.suffix.lower() == format_suffix(path) in _SUFFIXES]
    found = sorted({format_suffix(path) for path in files})
    if not found:
        raise UserError(f"{folder} has no file ending in {FORMATS}; give a folder of such files, or a file")
    if len(found) > 1:
        raise UserError(f"{folder} has {' and '.join(found)} files; choose with {folder}/*{found[0]}")
    return sorted(files, key=lambda path: natural_order(path.name))


def read_neighbors(path: Path) -> np.ndarray:
    """Read ids (queries, k), int64.

    From .npy, HDF5 (`neighbors`), Parquet (`neighbors_id`, in the order of its column `id` if there
    is one), else the big-ann layout: header, int32 ids, float32 distances or nothing. -1 stands for no row.
    """
    require_file(path, "give the path of a file of neighbours")
    suffix = format_suffix(path)
    if suffix == ".parquet":
        from .parquet import read_parquet_neighbors

        return _plausible(path, read_parquet_neighbors(path))
    if suffix in (".hdf5", ".h5"):
        return _plausible(path, open_rows(path, "neighbors")[:])
    return _plausible(path, open_rows(path)[:] if suffix == ".npy" else _read_big_ann(path))


def _plausible(path: Path, ids: np.ndarray) -> np.ndarray:
    if ids.dtype.kind not in "iu":
        raise UserError(f"{path} holds {ids.dtype} where neighbours are the numbers of rows, integers")
    if not ids.size:
        raise UserError(
            f"{path} has {ids.shape[1]} neighbours for {ids.shape[0]} queries; it needs some of both"
        )
    ids = ids.astype(np.int64)
    negative = (ids < -1).any(axis=1)
    if negative.any() and format_suffix(path) != ".parquet":  # its ids may be any numbers
        row = int(np.argmax(negative))
        raise UserError(
            f"{path} row {row} (from 0) has neighbour {ids[row].min()} where row numbers begin at 0; "
            "is it a file of neighbours? fetch it again"
        )
    return ids


def _read_big_ann(path: Path) -> np.ndarray:
    """Read uint32 queries and neighbours of each, then the neighbours; distances may follow."""
    size = path.stat().st_size
    with reading(path), path.open("rb") as file:
        header = np.fromfile(file, "<u4", 2)
        queries, k = map(int, header) if len(header) == 2 else (0, 0)
        only_ids, both = 8 + queries * k * 4, 8 + queries * k * 8
        if not queries or not k or size not in (only_ids, both):
            expected = f"{both:,} bytes with distances or {only_ids:,} without" if queries and k else "some"
            raise UserError(
                f"cannot read {path}: its header says {k:,} neighbours for each of {queries:,} queries, "
                f"{expected}, but the file has {size:,} bytes; fetch it again"
            )
        return np.fromfile(file, "<i4", queries * k).reshape(queries, k)
