"""Open vectors by what their files are called."""

from collections.abc import Sequence
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import matching, natural_order
from ann_benchmarks.common.regular import require_file

from .flat import BIG_ANN_TYPES, open_big_ann, open_npy
from .joined import JoinedRows
from .keyed import NpzRows, open_hdf5
from .reading import format_suffix, reading
from .rows import FirstRows, Rows
from .texmex import TEXMEX_TYPES, TexmexRows

_SUFFIXES = (".npy", ".npz", ".hdf5", ".h5", ".parquet", *BIG_ANN_TYPES, *TEXMEX_TYPES)
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
        return NpzRows(path, key)
    if suffix in (".hdf5", ".h5"):
        return open_hdf5(path, key)
    if suffix == ".parquet":
        from .parquet import open_parquet

        return open_parquet(path, key)
    if suffix != ".npy" and suffix not in BIG_ANN_TYPES and suffix not in TEXMEX_TYPES:
        raise UserError(f"{path} is of no known format; give a file ending in {FORMATS}")
    if key:
        raise UserError(f"{path} holds one array; give its path without ':{key}'")
    if suffix == ".npy":
        return open_npy(path)
    if suffix in BIG_ANN_TYPES:
        return open_big_ann(path, BIG_ANN_TYPES[suffix])
    return TexmexRows(path, TEXMEX_TYPES[suffix])


def open_parts(paths: Sequence[Path], key: str = "") -> Rows:
    """Open the vectors of several files, end to end."""
    parts = [open_rows(path, key) for path in paths]
    return JoinedRows(parts)


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
