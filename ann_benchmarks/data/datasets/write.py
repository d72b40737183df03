"""Write dataset files: rows in contiguous storage, so that they memory-map, then their exact neighbours."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import h5py
import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.files import atomic_path, disk_errors, require_space

from ..ground_truth import exact_neighbors
from ..vectors import open_rows

NEIGHBORS = 100  # true neighbours kept for each query, as ann-benchmarks keeps
METADATA = 2**16  # bytes, more than HDF5 needs for names, shapes and attributes
IN_TRAIN = "queries_in_train"  # the attribute of a dataset and of its results
NEAR = 1e-3  # a distance that rounding may make of 0, to be followed by an exact comparison
Arrays = dict[str, tuple[tuple[int, ...], "np.dtype[Any]"]]  # shape and kind of element by name


def write_dense(
    path: Path,
    metric: str,
    shapes: tuple[tuple[int, int], tuple[int, int]],
    dtype: np.dtype | type,
    blocks: Iterable[tuple[np.ndarray, np.ndarray]],
    neighbors: int = NEIGHBORS,
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write a dataset of vectors: `blocks` gives (train rows, test rows) until `shapes` are filled.

    `facts` are more attributes. The file appears under its name only when it is whole. Raises UserError when
    the disk is too small.
    """
    (rows, dimension), (queries, _) = shapes
    item, truth = np.dtype(dtype), (queries, neighbors)
    kind = "bit" if item == np.bool_ else "float"
    attributes = {**_attributes("dense", metric, dimension, kind), **facts}
    arrays: Arrays = {
        "train": (shapes[0], item),
        "test": (shapes[1], item),
        "neighbors": (truth, np.dtype(np.int64)),
        "distances": (truth, np.dtype(np.float64)),
    }
    with _new_file(path, attributes, arrays) as temporary:
        with _filled(temporary) as put, _bar(path, rows) as bar:
            for train_rows, test_rows in blocks:
                put("train", train_rows)
                put("test", test_rows)
                bar.update(len(train_rows))
        train, test = (open_rows(temporary, key) for key in ("train", "test"))
        ids, distances = exact_neighbors(metric, train, test[:], neighbors)
        repeated = count_repeated(metric, train, test[:], ids, distances)
        with _filled(temporary, {IN_TRAIN: repeated} if repeated else {}) as put:
            put("neighbors", ids)
            put("distances", distances)


def write_sets(
    path: Path, metric: str, dimension: int, train: Sequence[np.ndarray], test: Sequence[np.ndarray]
) -> None:
    """Write a dataset of integer sets in ann-benchmarks' sparse form: sorted items end to end, and sizes."""
    ids, distances = exact_neighbors(metric, train, test, NEIGHBORS)
    arrays = {"neighbors": ids, "distances": distances}
    for key, sets in (("train", train), ("test", test)):
        arrays[key] = np.concatenate([np.sort(items) for items in sets])
        arrays[f"size_{key}"] = np.array([len(items) for items in sets])
    kinds = {key: (array.shape, array.dtype) for key, array in arrays.items()}
    attributes = _attributes("sparse", metric, dimension, "bit")
    with _new_file(path, attributes, kinds) as temporary, _filled(temporary) as put:
        for key, array in arrays.items():
            put(key, array)


def _attributes(kind: str, metric: str, dimension: int, point_type: str) -> dict[str, Any]:
    return {"type": kind, "distance": metric, "dimension": dimension, "point_type": point_type}


@contextmanager
def _new_file(path: Path, attributes: Mapping[str, Any], arrays: Arrays) -> Iterator[Path]:
    """Give a file with these arrays, each in one piece and unwritten; it gets its name at the end.

    Their bytes must find room: a full disk is an error here, not inside
    HDF5, which may crash at exit after one.
    """
    size = sum(prod(shape) * item.itemsize for shape, item in arrays.values()) + METADATA
    require_space(path.parent, size)
    with disk_errors(path), atomic_path(path) as temporary:
        _reserve(temporary, size)
        with h5py.File(temporary, "w") as file:
            file.attrs.update(attributes)
            for key, (shape, item) in arrays.items():
                layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                if prod(shape):
                    layout.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                    layout.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
                file.create_dataset(key, shape, item, dcpl=layout)
        _reserve(temporary, temporary.stat().st_size)
        yield temporary


def _reserve(path: Path, size: int) -> None:
    if sys.platform == "linux":
        with path.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, size)


@contextmanager
def _filled(
    path: Path, attributes: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[Callable[[str, np.ndarray], None]]:
    """Give what puts the next rows into an array of a file."""
    with h5py.File(path, "r+") as file:
        file.attrs.update(attributes)
        ends: dict[str, int] = {}

        def put(key: str, rows: np.ndarray) -> None:
            start, ends[key] = ends.get(key, 0), ends.get(key, 0) + len(rows)
            if len(rows):
                file[key][start : ends[key]] = rows

        yield put


def _bar(path: Path, rows: int) -> tqdm:
    return tqdm(None, f"writing {path.name}", rows, unit="row", unit_scale=True, delay=1, disable=None)


def count_repeated(
    metric: str, train: Any, queries: np.ndarray, ids: np.ndarray, distances: np.ndarray
) -> int:
    """Return how many queries are rows of `train`, value for value: they find themselves, which is easier.

    `ids` and `distances` are the true neighbours, (queries, k). Under inner product, the nearest row of a
    vector need not be itself, so that all rows are read.
    """
    if metric == "ip":
        return _count_among_all(train, queries)
    return sum(
        any(np.array_equal(train[int(row) : int(row) + 1][0], queries[number]) for row in ids[number][near])
        for number, near in enumerate(distances <= NEAR)
    )


def _count_among_all(train: Any, queries: np.ndarray) -> int:
    wanted, found = {query.tobytes() for query in np.ascontiguousarray(queries)}, set()
    first = np.sort(queries[:, 0])
    for _, block in train.blocks():
        # Few rows share their first value with a query.
        places = np.minimum(np.searchsorted(first, block[:, 0]), len(first) - 1)
        rows = np.ascontiguousarray(block[first[places] == block[:, 0]], queries.dtype)
        found |= wanted & {row.tobytes() for row in rows}
    return sum(query.tobytes() in found for query in np.ascontiguousarray(queries))


def repetition_warning(repeated: int, queries: int | None = None) -> str:
    """Say that queries are rows of the training set."""
    number = f"{repeated:,}" if queries is None else f"{repeated:,} of {queries:,}"
    return (
        f"{number} queries are rows of the training set: each finds itself, which raises the recall;"
        " take other queries, or have them held out (create_dataset.py --queries)"
    )
