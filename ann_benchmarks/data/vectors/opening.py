"""Open vectors, and published neighbours, by what their files are called."""

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import require_file
from ann_benchmarks.common.names import matching, natural_order

from .files import BIG_ANN_TYPES, TEXMEX_TYPES, TexmexRows, open_big_ann, open_hdf5, open_npy, open_npz
from .reading import format_suffix, reading
from .rows import FirstRows, LockedRows, Rows

_SUFFIXES = (".npy", ".npz", ".hdf5", ".h5", ".parquet", *BIG_ANN_TYPES, *TEXMEX_TYPES)
OPEN_PARTS = 64  # fewer than the files that a process may have open
FORMATS = f"{', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}"


def open_rows(path: Path | str, key: str = "", count: int | None = None) -> Rows:
    """Open the vectors of a file, by its suffix; `key` names an array, HDF5 dataset or column.

    `count`: the first rows alone, this number of them. Raises UserError when there are fewer, or the file is
    damaged.
    """
    path = Path(path)
    require_file(path, f"give the path of a file ending in {FORMATS}")
    rows = _open(path, key)
    if count is None or count == len(rows):
        return rows
    if count > len(rows):
        raise UserError(f"{rows.label} has {len(rows):,} rows, fewer than the {count:,} requested")
    return FirstRows(rows, count)


def _open(path: Path, key: str) -> Rows:
    suffix = format_suffix(path)
    if suffix == ".npz":
        return open_npz(path, key)
    if suffix in (".hdf5", ".h5"):
        return open_hdf5(path, key)
    if suffix == ".parquet":
        from .parquet import open_parquet

        return open_parquet(path, key)
    if suffix != ".npy" and suffix not in BIG_ANN_TYPES and suffix not in TEXMEX_TYPES:
        raise UserError(f"{path} must have a known format; give a file ending in {FORMATS}")
    if key:
        raise UserError(f"{path} holds one array; give its path without ':{key}'")
    if suffix == ".npy":
        return open_npy(path)
    if suffix in BIG_ANN_TYPES:
        return open_big_ann(path, BIG_ANN_TYPES[suffix])
    return TexmexRows(path, TEXMEX_TYPES[suffix])


def open_parts(paths: Sequence[Path], key: str = "") -> Rows:
    """Open the vectors of several files, end to end."""
    return JoinedRows([open_rows(path, key) for path in paths])


def open_source(text: str) -> Rows:
    """Open FILE, FILE:KEY, a folder or a pattern, as a user types it; several files are parts of one."""
    paths, key = source_files(text)
    rows = open_parts(paths, key) if len(paths) > 1 else open_rows(paths[0], key)
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


class JoinedRows(LockedRows):
    """Rows of several files end to end, of one dimension and element type; empty parts may be anything."""

    _recent: dict[int, None]  # parts that are open, the longest ago first

    def __init__(self, parts: Sequence[Rows]) -> None:
        super().__init__()
        filled = [part for part in parts if len(part)] or parts[:1]
        if not filled:
            raise UserError("vectors in parts need at least one part")
        first = filled[0]
        for part in filled:
            if part.shape[1] != first.shape[1] or part.dtype != first.dtype:
                raise UserError(
                    f"{part.label} has rows of {part.shape[1]} {part.dtype} where {first.label} has "
                    f"{first.shape[1]} {first.dtype}; all parts must agree"
                )
        self._parts = list(filled)
        self._starts = [0, *accumulate(len(part) for part in filled)]
        self.shape, self.dtype = (self._starts[-1], first.shape[1]), first.dtype
        others = len(filled) - 1
        self.label = f"{first.label} and {others} more" if others else first.label
        self.paths = tuple(path for part in filled for path in part.paths)

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return rows, in an array of their own."""
        number = self._number(start)
        if stop <= self._starts[number + 1]:
            first = self._starts[number]
            return self._opened(number).read(start - first, stop - first)
        rows = np.empty((stop - start, self.shape[1]), self.dtype)
        at = start
        while at < stop:
            first, end = self._starts[number], min(stop, self._starts[number + 1])
            rows[at - start : end - start] = self._opened(number).read(at - first, end - first)
            number, at = number + 1, end
        return rows

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """Return the rows of these numbers, each part read once."""
        numbers = np.asarray(numbers)
        found = np.empty((len(numbers), self.shape[1]), self.dtype)
        part_of = np.searchsorted(self._starts, numbers, side="right") - 1
        for number in np.unique(part_of):
            here = part_of == number
            found[here] = self._opened(int(number)).take(numbers[here] - self._starts[number])
        return found

    def mapped(self) -> np.ndarray | None:
        """Return the map of a single part."""
        return self._parts[0].mapped() if len(self._parts) == 1 else None

    def fingerprint(self) -> str:
        """Return a digest of those of the parts, if each has one, as Parquet files do."""
        parts = [part.fingerprint() for part in self._parts]
        return hashlib.blake2b("".join(parts).encode(), digest_size=16).hexdigest() if all(parts) else ""

    def where(self, row: int) -> str:
        """Say which row of which part this is."""
        number = self._number(row)
        return self._parts[number].where(row - self._starts[number])

    def close(self) -> None:
        """Close the files of all parts."""
        for part in self._parts:
            part.close()

    def _closed(self) -> dict[str, Any]:
        return {"_recent": {}}

    def _number(self, row: int) -> int:
        return min(bisect_right(self._starts, row), len(self._parts)) - 1

    def _opened(self, number: int) -> Rows:
        """Return a part that is about to be read; what was read longest ago is closed."""
        with self._lock:
            self._recent.pop(number, None)
            self._recent[number] = None
            if len(self._recent) > OPEN_PARTS:
                oldest = next(iter(self._recent))
                del self._recent[oldest]
                self._parts[oldest].close()
        return self._parts[number]


def read_neighbors(path: Path) -> np.ndarray:
    """Read ids (queries, k): int64, or texts where a Parquet file has those.

    From .npy, .ivecs, HDF5 (`neighbors`), Parquet (`neighbors_id`, in the order of its column `id` if there
    is one), else the big-ann layout: header, int32 ids, float32 distances or nothing. -1 stands for no row.
    """
    require_file(path, "give the path of a file of neighbours")
    suffix = format_suffix(path)
    if suffix == ".parquet":
        from .parquet import read_parquet_neighbors

        return _plausible(path, read_parquet_neighbors(path))
    if suffix in (".hdf5", ".h5"):
        return _plausible(path, open_rows(path, "neighbors")[:])
    is_array = suffix in (".npy", ".ivecs")
    return _plausible(path, open_rows(path)[:] if is_array else _read_big_ann(path))


def _plausible(path: Path, ids: np.ndarray) -> np.ndarray:
    if ids.dtype.kind not in "iuU":
        raise UserError(f"{path} holds {ids.dtype} where neighbours are the numbers of rows, integers")
    if not ids.size:
        raise UserError(
            f"{path} has {ids.shape[1]} neighbours for {ids.shape[0]} queries; it needs some of both"
        )
    if ids.dtype.kind == "U":
        return ids
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
