"""Write dataset files: rows in contiguous storage, so that they memory-map, then their exact neighbours."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import h5py
import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.atomic import atomic_path
from ann_benchmarks.common.disk import disk_errors, require_space

from ..ground_truth import exact_neighbors
from ..vectors import open_rows
from .repeated import IN_TRAIN, count_repeated

NEIGHBORS = 100  # true neighbours kept for each query, as ann-benchmarks keeps
METADATA = 2**16  # bytes, more than HDF5 needs for names, shapes and attributes


def write_dense(
    path: Path,
    metric: str,
    shapes: tuple[tuple[int, int], tuple[int, int]],
    dtype: np.dtype | type,
    blocks: Iterable[tuple[np.ndarray, np.ndarray]],
    neighbors: int = NEIGHBORS,
) -> None:
    """Write a dataset of vectors: `blocks` gives (train rows, test rows) until `shapes` are filled.

    The file appears under its name only when it is whole. Raises UserError when the disk is too small.
    """
    (rows, dimension), (queries, _) = shapes
    item = np.dtype(dtype)
    truth = (queries, neighbors)
    size = (rows + queries) * dimension * item.itemsize + queries * neighbors * 16 + METADATA
    require_space(path.parent, size)
    with disk_errors(path), atomic_path(path) as temporary:
        reserve(temporary, size)
        with h5py.File(temporary, "w") as file:
            _describe(file, "dense", metric, dimension, "bit" if item == np.bool_ else "float")
            train_at = allocate(file, "train", shapes[0], item)
            test_at = allocate(file, "test", shapes[1], item)
            ids_at = allocate(file, "neighbors", truth, np.dtype(np.int64))
            distances_at = allocate(file, "distances", truth, np.dtype(np.float64))
        reserve(temporary, temporary.stat().st_size)
        with temporary.open("rb+") as raw:
            bar = tqdm(
                total=rows, desc=f"writing {path.name}", unit="row", unit_scale=True, delay=1, disable=None
            )
            with bar:
                for train_rows, test_rows in blocks:
                    train_at = put(raw, train_at, train_rows, item)
                    test_at = put(raw, test_at, test_rows, item)
                    bar.update(len(train_rows))
            train, test = (open_rows(temporary, key) for key in ("train", "test"))
            ids, distances = exact_neighbors(metric, train, test[:], neighbors)
            repeated = count_repeated(metric, train, test[:], ids, distances)
            put(raw, ids_at, ids, ids.dtype)
            put(raw, distances_at, distances, distances.dtype)
        if repeated:
            with h5py.File(temporary, "r+") as file:
                file.attrs[IN_TRAIN] = repeated


def write_sets(
    path: Path, metric: str, dimension: int, train: Sequence[np.ndarray], test: Sequence[np.ndarray]
) -> None:
    """Write a dataset of integer sets in ann-benchmarks' sparse form: sorted items end to end, and sizes."""
    ids, distances = exact_neighbors(metric, train, test, NEIGHBORS)
    arrays = {"neighbors": ids, "distances": distances}
    for key, sets in (("train", train), ("test", test)):
        arrays[key] = np.concatenate([np.sort(items) for items in sets])
        arrays[f"size_{key}"] = np.array([len(items) for items in sets])
    size = sum(array.nbytes for array in arrays.values()) + METADATA
    require_space(path.parent, size)
    with disk_errors(path), atomic_path(path) as temporary:
        reserve(temporary, size)
        with h5py.File(temporary, "w") as file:
            _describe(file, "sparse", metric, dimension, "bit")
            for key, array in arrays.items():
                file.create_dataset(key, data=array)


def _describe(file: h5py.File, kind: str, metric: str, dimension: int, point_type: str) -> None:
    file.attrs.update({"type": kind, "distance": metric, "dimension": dimension, "point_type": point_type})


def reserve(path: Path, size: int) -> None:
    """Claim disk space: a full disk is an error here, not inside HDF5, which may crash at exit after one."""
    if sys.platform == "linux":
        with path.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, size)


def allocate(file: h5py.File, key: str, shape: tuple[int, ...], item: np.dtype) -> int:
    """Create an HDF5 dataset in one piece, unwritten; return where in the file its bytes go."""
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    offset: int = file.create_dataset(key, shape, item, dcpl=layout).id.get_offset()
    return offset


def put(raw: BinaryIO, offset: int, rows: np.ndarray, item: np.dtype) -> int:
    """Write rows at an offset; return the offset after them."""
    raw.seek(offset)
    raw.write(np.ascontiguousarray(rows, item).data)
    raw.flush()
    return raw.tell()
