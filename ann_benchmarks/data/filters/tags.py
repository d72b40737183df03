"""Tags of rows in big-ann-benchmarks' files: a sparse matrix, rows by tags, whose entries are not 0."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError

from ..vectors.files import FlatRows
from ..vectors.reading import LARGEST, reading

_AT_ONCE = 2**20  # rows, and entries
_HEADER = 24  # bytes: int64 rows, tags, entries


def read_header(path: Path) -> tuple[int, int, int]:
    """Return the rows, tags and entries of a file; UserError where it is another one."""
    with reading(path), path.open("rb") as file:
        content = file.read(_HEADER)
    header = np.frombuffer(content, "<i8") if len(content) == _HEADER else np.array([-1])
    if (header < 0).any() or (header >= LARGEST).any() or not 0 < header[1] < 2**31:
        raise UserError(f"cannot read {path}: it does not begin as a matrix of tags does; fetch it again")
    rows, tags, entries = map(int, header)
    return rows, tags, entries


def read_tags(path: Path, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Give, for many rows at once, how many tags each row has, and the tags, ascending in each row.

    UserError where the file has another number of rows, or is damaged.
    """
    found, tags, entries = read_header(path)
    if found != rows:
        raise UserError(f"{path} has {found:,} rows, but there are {rows:,} vectors; fetch it again")
    at = _HEADER + 8 * (rows + 1)
    bounds = FlatRows(path, str(path), _HEADER, (rows + 1, 1), "<i8").read(0, rows + 1)[:, 0]
    if bounds[0] or bounds[-1] != entries or (np.diff(bounds) < 0).any():
        raise UserError(f"cannot read {path}: the bounds of its rows do not fit its {entries:,} entries")
    tag_of = FlatRows(path, str(path), at, (entries, 1), "<i4")
    value_of = FlatRows(path, str(path), at + 4 * entries, (entries, 1), "<f4")
    start = 0
    while start < rows:
        stop = int(np.searchsorted(bounds, bounds[start] + _AT_ONCE, "right")) - 1
        stop = min(max(stop, start + 1), rows, start + _AT_ONCE)
        part = int(bounds[start]), int(bounds[stop])
        tag, is_there = tag_of.read(*part)[:, 0].astype(np.int64), value_of.read(*part)[:, 0] != 0
        row = np.repeat(np.arange(stop - start), np.diff(bounds[start : stop + 1]))
        if (is_outside := (tag < 0) | (tag >= tags)).any():
            bad = start + int(row[np.argmax(is_outside)])
            raise UserError(f"{path} row {bad} (from 0) has a tag outside its {tags:,}; fetch it again")
        row, tag = np.divmod(np.unique(row[is_there] * tags + tag[is_there]), tags)
        yield np.bincount(row, minlength=stop - start), tag
        start = stop
