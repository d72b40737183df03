"""Datasets of sparse vectors: one HDF5 file, in a form that readers of dense vectors and of sets refuse.

The vectors lie in the groups `csr_train` and `csr_test`, each with `indptr`, `indices` and `data`. There is
no `train`: a program that does not know this form stops at once and reads nothing wrong.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.atomic import atomic_path
from ann_benchmarks.common.disk import disk_errors, require_space
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.foreign import DAMAGE, reason_of
from ann_benchmarks.common.hdf5 import open_hdf5_file
from ann_benchmarks.common.sparse import SPARSE_METRICS, SparseVectors

from ..ground_truth import exact_neighbors
from ..vectors.sparse import SparseRows, open_sparse_hdf5
from .dataset import Dataset
from .queries import TrueNeighbors, truth_problem
from .write import METADATA, NEIGHBORS, allocate, put, reserve

TRAIN, TEST = "csr_train", "csr_test"
PARTS: dict[str, np.dtype[Any]] = {
    "indptr": np.dtype(np.int64),
    "indices": np.dtype(np.int32),
    "data": np.dtype(np.float32),
}
FindTruth = Callable[[SparseRows, SparseVectors], tuple[np.ndarray, np.ndarray]]


class SparseDataset(Dataset):
    """An open dataset of sparse vectors. Raises UserError when the file is damaged."""

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.data = path, path.stem, path.parent
        try:
            with open_hdf5_file(path) as file:
                self.attrs = {"point_type": "sparse"} | {
                    key: _plain(value) for key, value in file.attrs.items()
                }
                self.attrs["type"] = "csr"
                arrays = [file[key] for key in ("neighbors", "distances") if key in file]
                problem = truth_problem(file, arrays) if arrays else None
                self._truth = [array[()] for array in arrays] if not problem else []
            if problem is None and self.attrs["distance"] not in SPARSE_METRICS:
                problem = f"its distance is none of {', '.join(SPARSE_METRICS)}"
            dimension = self.attrs["dimension"] = int(self.attrs["dimension"])
        except DAMAGE as error:
            problem = reason_of(error)
        if problem:
            raise UserError(
                f"dataset file {path} is damaged ({problem}); delete it, then make or download it again"
            )
        self._train, self._test = (open_sparse_hdf5(path, group, dimension) for group in (TRAIN, TEST))
        shapes = {array.shape for array in self._truth}
        if len(shapes) > 1 or any(rows != len(self._test) for rows, _ in shapes):
            found = " and ".join(f"{rows} × {count}" for rows, count in sorted(shapes))
            raise UserError(
                f"dataset file {path} is damaged ({len(self._test)} queries, but neighbours and distances"
                f" {found}); delete it, then make or download it again"
            )

    @property
    def rows(self) -> int:
        """How many vectors there are."""
        return len(self._train)

    @property
    def row_values(self) -> int:
        """How many numbers of 4 bytes a row takes on average: two for each value that is not 0."""
        return round(2 * int(self._train.indptr[-1]) / max(1, self.rows))

    @property
    def train_files(self) -> list[Path]:
        """The one file."""
        return [self.path]

    def train_rows(self) -> Any:
        """The vectors as they lie in the file: SparseRows."""
        return self._train

    def train(self) -> Any:
        """All vectors in memory: SparseVectors."""
        return self._train.read(0, len(self._train))

    def test(self) -> Any:
        """The queries in memory: SparseVectors."""
        return self._test.read(0, len(self._test))

    def published_truth(self) -> TrueNeighbors | None:
        """The neighbours and distances in the file."""
        if len(self._truth) < 2:
            return None
        return TrueNeighbors(self._truth[0], self._truth[1], self.name)

    @property
    def has_published_truth(self) -> bool:
        """Whether the file has neighbours and their distances."""
        return len(self._truth) == 2

    def rows_opener(self) -> Callable[[], Any]:
        """See Dataset."""
        return partial(_open_rows, self.path.absolute())

    def close(self) -> None:
        """Close the files."""
        self._train.close()
        self._test.close()


def is_sparse_dataset(path: Path) -> bool:
    """Whether a file is a dataset of sparse vectors; a file that cannot be read is none."""
    try:
        with open_hdf5_file(path) as file:
            return TRAIN in file
    except DAMAGE:
        return False


def write_sparse(
    path: Path,
    metric: str,
    shape: tuple[np.ndarray, int],
    blocks: Iterable[SparseVectors],
    test: SparseVectors,
    find_truth: FindTruth | int = NEIGHBORS,
) -> None:
    """Write a dataset of sparse vectors; the file appears under its name only when it is whole.

    `shape` is how many values each training row has, and the dimension; `blocks` gives these rows.
    `find_truth` returns the neighbours and distances of the queries, or is how many of each query are to be
    found. Raises UserError when the disk is too small.
    """
    counts, dimension = shape
    indptr = np.append(0, np.cumsum(counts, dtype=np.int64))
    values = int(indptr[-1])
    size = 8 * (len(indptr) + len(test.indptr)) + 8 * (values + len(test.data)) + METADATA
    require_space(path.parent, size + len(test) * 16 * NEIGHBORS)
    with disk_errors(path), atomic_path(path) as temporary:
        reserve(temporary, size)
        with h5py.File(temporary, "w") as file:
            file.attrs.update(type="csr", distance=metric, dimension=dimension, point_type="sparse")
            lengths = (
                (TRAIN, (len(indptr), values, values)),
                (TEST, (len(test.indptr), *2 * [len(test.data)])),
            )
            at = {
                group: [
                    allocate(file, f"{group}/{name}", (length,), kind) if length else 0
                    for (name, kind), length in zip(PARTS.items(), sizes, strict=True)
                ]
                for group, sizes in lengths
            }
            for group, _ in lengths:
                for name in ("indices", "data"):
                    if name not in file[group]:
                        file.create_dataset(f"{group}/{name}", (0,), PARTS[name])
        reserve(temporary, temporary.stat().st_size)
        with temporary.open("rb+") as raw:
            for number, part in enumerate((test.indptr, test.indices, test.data)):
                put(raw, at[TEST][number], part, part.dtype)
            put(raw, at[TRAIN][0], indptr, indptr.dtype)
            _, places_at, values_at = at[TRAIN]
            with _bar(path.name, len(counts)) as bar:
                for block in blocks:
                    places_at = put(raw, places_at, block.indices, PARTS["indices"])
                    values_at = put(raw, values_at, block.data, PARTS["data"])
                    bar.update(len(block))
        train = open_sparse_hdf5(temporary, TRAIN, dimension)
        found = (
            exact_neighbors(metric, train, test, find_truth)
            if isinstance(find_truth, int)
            else find_truth(train, test)
        )
        train.close()
        with h5py.File(temporary, "r+") as file:
            file["neighbors"], file["distances"] = found


def _bar(name: str, rows: int) -> tqdm:
    return tqdm(None, f"writing {name}", rows, unit="row", unit_scale=True, delay=1, disable=None)


def _open_rows(path: Path) -> SparseRows:
    rows: SparseRows = SparseDataset(path).train_rows()
    return rows


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if isinstance(value, np.generic) else value
