"""Published ground truth: the row numbers of each query's neighbours, and the ids of rows."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError

from .opening import open_rows
from .reading import format_suffix, reading

BIG_ANN_HEADER = 8  # bytes: uint32 queries, uint32 neighbours of each
BATCH = 2**16  # ids at once


def read_neighbors(path: Path, may_lack: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
    """Read ids (queries, k) int64 and distances (queries, k), or None where the file has none.

    From .npy, .ivecs, HDF5 (`neighbors`, `distances`), Parquet (`neighbors_id`, in the order of the column
    `id` where there is one), else the big-ann layout: header, int32 ids, float32 distances or nothing. With
    `may_lack`, numbers below 0 are allowed: -1 stands for no row, and the dataset refuses others.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}; give the path of a file of neighbours")
    suffix = format_suffix(path)
    if suffix in (".hdf5", ".h5"):
        ids, distances = _read_hdf5(path)
    elif suffix == ".parquet":
        ids, distances = _read_parquet(path), None
    elif suffix in (".npy", ".ivecs"):
        ids, distances = open_rows(path)[:], None
    else:
        ids, distances = _read_big_ann(path)
    return _plausible(path, ids, distances, may_lack), distances


def _plausible(path: Path, ids: np.ndarray, distances: np.ndarray | None, may_lack: bool) -> np.ndarray:
    if ids.dtype.kind not in "iu":
        raise UserError(f"{path} holds {ids.dtype} where neighbours are the numbers of rows, integers")
    if not ids.size:
        raise UserError(
            f"{path} has {ids.shape[1]} neighbours for {ids.shape[0]} queries; it needs some of both"
        )
    ids = ids.astype(np.int64)
    negative = (ids < 0).any(axis=1)
    if negative.any() and not may_lack:
        row = int(np.argmax(negative))
        raise UserError(
            f"{path} row {row} (from 0) has neighbour {ids[row].min()} where row numbers begin at 0; "
            "is it a file of neighbours? fetch it again"
        )
    if distances is not None and np.isnan(distances).any():
        row = int(np.argmax(np.isnan(distances).any(axis=1)))
        raise UserError(f"{path} row {row} (from 0) has NaN where a distance is expected; fetch it again")
    return ids


def _read_big_ann(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    size = path.stat().st_size
    with reading(path), path.open("rb") as file:
        header = np.fromfile(file, "<u4", 2)
        queries, k = map(int, header) if len(header) == 2 else (0, 0)
        only_ids, both = BIG_ANN_HEADER + queries * k * 4, BIG_ANN_HEADER + queries * k * 8
        if not queries or not k or size not in (only_ids, both):
            expected = f"{both:,} bytes with distances or {only_ids:,} without" if queries and k else "some"
            raise UserError(
                f"cannot read {path}: its header says {k:,} neighbours for each of {queries:,} queries, "
                f"{expected}, but the file has {size:,} bytes; fetch it again"
            )
        ids = np.fromfile(file, "<i4", queries * k).reshape(queries, k)
        distances = np.fromfile(file, "<f4", queries * k).reshape(queries, k) if size == both else None
    return ids, distances


def _read_hdf5(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    from ann_benchmarks.common.hdf5 import open_hdf5_file

    ids = open_rows(path, "neighbors")[:]
    with reading(path), open_hdf5_file(path) as file:
        given = "distances" in file
    distances = open_rows(path, "distances")[:] if given else None
    if distances is not None and distances.shape != ids.shape:
        raise UserError(
            f"{path} has neighbors {ids.shape} but distances {distances.shape}; they must be alike"
        )
    return ids, distances


def _read_parquet(path: Path) -> np.ndarray:
    from .parquet import list_columns

    rows = open_rows(path, "neighbors_id" if "neighbors_id" in list_columns(path) else "")
    numbers = shard_ids([path])
    if numbers is None:
        return rows[:]
    order = np.concatenate([np.empty(0, np.int64), *numbers])
    sorted_rows = np.argsort(order, kind="stable")
    twice = np.flatnonzero(np.diff(order[sorted_rows]) == 0)
    if len(twice):
        row = int(sorted_rows[twice[0] + 1])
        raise UserError(f"{path}:id row {row} (from 0) is {order[row]}, as an earlier one; ids must differ")
    found: np.ndarray = rows[:][sorted_rows]
    return found


def shard_ids(paths: Sequence[Path]) -> Iterator[np.ndarray] | None:
    """Give the columns `id` of Parquet files end to end, in blocks of int64; None if there are none."""
    having = [_has_ids(path) for path in paths]
    if not any(having):
        return None
    if not all(having):
        raise UserError(
            f"{paths[having.index(False)]} has no column 'id' of integers, but {paths[having.index(True)]} "
            "has; all shards need one, or none"
        )
    return _ids(paths)


def _has_ids(path: Path) -> bool:
    import pyarrow as pa

    from .parquet import open_file

    with reading(path), open_file(path) as file:
        index = file.schema_arrow.get_field_index("id")
        return index >= 0 and pa.types.is_integer(file.schema_arrow.field(index).type)


def _ids(paths: Sequence[Path]) -> Iterator[np.ndarray]:
    from .parquet import nulls, open_file

    for path in paths:
        start = 0
        with reading(path):
            batches = open_file(path).iter_batches(BATCH, columns=["id"], use_threads=False)
        # Only the reading is guarded: an error of whoever consumes the ids is not this file's.
        while True:
            with reading(path):
                batch = next(batches, None)
            if batch is None:
                break
            column = batch.column(0)
            if column.null_count:
                row = start + int(np.argmax(nulls(column)))
                raise UserError(f"{path}:id row {row} (from 0) is null; every row needs its id")
            yield column.to_numpy(zero_copy_only=False).astype(np.int64)
            start += len(column)
