"""Open vectors by what their files are called."""

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from ann_benchmarks.common.errors import UserError

from .flat import BIG_ANN_TYPES, open_big_ann, open_npy
from .joined import JoinedRows
from .keyed import NpzRows, open_hdf5
from .reading import format_suffix
from .rows import FirstRows, Rows
from .texmex import TEXMEX_TYPES, TexmexRows

FORMATS = ".npy, .npz, .hdf5, .h5, .parquet, .fbin, .u8bin, .i8bin, .fvecs, .bvecs or .ivecs"


def open_rows(path: Path | str, key: str = "", count: int | None = None) -> Rows:
    """Open the vectors of a file, by its suffix; `key` names an array, HDF5 dataset or column.

    `count`: the first rows alone, this number of them. Raises UserError when there are fewer, or the file is
    damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no file {path}; give the path of a file ending in {FORMATS}")
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
    """Open FILE, FILE:KEY or a pattern with *, whose files are parts in natural order, as a user types it."""
    paths, key = source_files(text)
    rows = open_parts(paths, key) if len(paths) > 1 else open_rows(paths[0], key)
    if not len(rows):
        raise UserError(
            f"{rows.label} has {rows.shape[0]} rows of {rows.shape[1]} numbers; it needs some of both"
        )
    return rows


def source_files(text: str) -> tuple[list[Path], str]:
    """Return the files that FILE, FILE:KEY or a pattern means, and the key."""
    name, _, key = text.rpartition(":")
    for pattern, chosen in ((text, ""), (name, key)):
        found = [Path(pattern)] if Path(pattern).exists() else _matching(pattern)
        if pattern and found:
            return found, chosen
    if "*" in text:
        raise UserError(f"no file matches {text}; give the path of a file ending in {FORMATS}")
    return ([Path(name)], key) if Path(name).suffix else ([Path(text)], "")


def _matching(pattern: str) -> list[Path]:
    if "*" not in pattern:
        return []
    names = glob.glob(pattern)  # noqa: PTH207, Path.glob finds hidden files too: unfinished ones
    return [Path(name) for name in sorted(names, key=_natural)]


def _natural(name: str) -> list[str | int]:
    """Make part_2 come before part_10."""
    return [int(piece) if piece.isdecimal() else piece for piece in re.split(r"([0-9]+)", name)]
