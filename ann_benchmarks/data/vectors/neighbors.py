"""Published ground truth: the row numbers of each query's neighbours, and the ids of rows."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.regular import require_file

from .opening import open_rows
from .reading import format_suffix, reading

BIG_ANN_HEADER = 8  # bytes: uint32 queries, uint32 neighbours of each
BATCH = 2**16  # ids at once


def read_neighbors(path: Path) -> np.ndarray:
    """Read ids (queries, k): int64, or texts where a Parquet file has those.

    From .npy, .ivecs, HDF5 (`neighbors`), Parquet (`neighbors_id`, in the order of its column `id` if there
    is one), else the big-ann layout: header, int32 ids, float32 distances or nothing. -1 stands for no row.
    """
    require_file(path, "give the path of a file of neighbours")
    suffix = format_suffix(path)
    if suffix == ".parquet":
        return _plausible(path, _read_parquet(path))
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
    if negative.any() and format_suffix(path) != ".parquet":  # where ids may be any
        row = int(np.argmax(negative))
        raise UserError(
            f"{path} row {row} (from 0) has neighbour {ids[row].min()} where row numbers begin at 0; "
            "is it a file of neighbours? fetch it again"
        )
    return ids


def _read_big_ann(path: Path) -> np.ndarray:
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
        return np.fromfile(file, "<i4", queries * k).reshape(queries, k)


def _read_parquet(path: Path) -> np.ndarray:
    from .parquet import list_columns, read_texts

    column = "neighbors_id" if "neighbors_id" in list_columns(path) else ""
    rows = read_texts(path, column)
    ids: np.ndarray = open_rows(path, column)[:] if rows is None else rows
    keys = parquet_ids([path])
    return ids if keys is None else ids[np.argsort(distinct_ids(path, keys), kind="stable")]


def distinct_ids(path: Path, keys: Iterable[np.ndarray]) -> np.ndarray:
    """Return all ids of a file as one array; UserError where two rows have the same."""
    ids = np.concatenate([*keys])
    in_order = np.argsort(ids, kind="stable")
    twice = np.flatnonzero(ids[in_order][1:] == ids[in_order][:-1])
    if len(twice):
        row = int(in_order[twice[0] + 1])
        raise UserError(f"{path}:id row {row} (from 0) is {ids[row]}, as an earlier one; ids must differ")
    return ids


def parquet_ids(paths: Sequence[Path]) -> Iterator[np.ndarray] | None:
    """Give the columns `id` of Parquet files end to end, in blocks of int64 or of texts; None without any."""
    kinds = [_kind_of_ids(path) for path in paths]
    if not any(kinds):
        return None
    for path, kind in zip(paths, kinds, strict=True):
        if kind != kinds[0]:
            raise UserError(
                f"{path} has {f'{kind}s' if kind else 'nothing'} in a column 'id', and {paths[0]} has"
                f" {f'{kinds[0]}s' if kinds[0] else 'nothing'}; all shards must be alike"
            )
    return _ids(paths)


def _kind_of_ids(path: Path) -> str:
    import pyarrow as pa

    from .parquet import open_file

    with reading(path), open_file(path) as file:
        index = file.schema_arrow.get_field_index("id")
        kind = file.schema_arrow.field(index).type if index >= 0 else None
    if kind is None:
        return ""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    raise UserError(
        f"{path} has a column 'id' of {kind}, which cannot identify rows; convert it to integers or texts, or"
        " rename the column"
    )


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
            values = np.asarray(column.to_numpy(zero_copy_only=False))
            if values.dtype == np.uint64 and values.size and values.max() > np.iinfo(np.int64).max:
                raise UserError(f"{path} has the id {values.max()}; ids must be below 2^63")
            yield values.astype(np.str_ if values.dtype == object else np.int64)
            start += len(column)
