"""Datasets made of files of sparse vectors: opened, unpacked, copied into one HDF5 file."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import disk_errors, scratch_path
from ann_benchmarks.common.sparse import SparseVectors, joined, sparse_candidate_distances

from ..vectors import read_neighbors
from ..vectors.sparse import SparseRows, open_csr, open_sparse, unpack
from .parts import Parts
from .queries import neighbor_rows
from .write import NEIGHBORS, FindTruth, write_sparse


def convert_sparse(parts: Parts, path: Path, data: Path) -> None:
    """Write `path` from the files of `parts`, which lie in `data`, with the neighbours that came with them.

    Raises UserError where the neighbours are those of other vectors, or where a file is damaged.
    """
    truth = parts.place(parts.neighbors, data)

    def published(train: SparseRows, test: SparseVectors) -> tuple[np.ndarray, np.ndarray]:
        """Take the published neighbours, with float64 distances."""
        ids = read_neighbors(truth)
        if len(ids) != len(test):
            raise UserError(
                f"{truth} has the neighbours of {len(ids):,} queries, but there are {len(test):,}"
            )
        ids = neighbor_rows(ids, None, len(train) - 1, truth)
        distances = sparse_candidate_distances(parts.distance, test, train, ids)
        order = np.lexsort((ids, distances), axis=1)
        return np.take_along_axis(ids, order, 1), np.take_along_axis(distances, order, 1)

    with ExitStack() as stack:
        train = stack.enter_context(opened_sparse(parts.train_files(data)[0], data))
        test = stack.enter_context(opened_sparse(parts.place(parts.test, data), data))
        find: FindTruth | int = published if parts.neighbors else NEIGHBORS
        copy_sparse(path, parts.distance, train, test.read(0, len(test)), np.empty(0, np.int64), find)


@contextmanager
def opened_sparse(path: Path, folder: Path) -> Iterator[SparseRows]:
    """Open a file; what is compressed is unpacked in `folder` for the time."""
    if not path.name.endswith(".gz"):
        yield open_sparse(path)
        return
    if not path.is_file():
        raise UserError(f"the file {path} does not exist; give the path of a .csr, .csr.gz or .npz file")
    target = folder / path.name.removesuffix(".gz")
    with scratch_path(target) as unpacked:
        with disk_errors(target):
            unpack(path, unpacked)
        rows = open_csr(unpacked)
        rows.label = str(path)
        yield rows
        rows.close()


def copy_sparse(
    path: Path,
    metric: str,
    train: SparseRows,
    test: SparseVectors,
    held_out: np.ndarray,
    find_truth: FindTruth | int,
) -> None:
    """Write a dataset; the rows are read twice: to count their values without zeros, then to copy them."""
    dimension = max(train.dimension, test.dimension)
    counts = np.concatenate([np.empty(0, np.int64), *(rows.counts for rows in _kept(train, held_out))])
    if not len(counts) or not len(test):
        raise UserError(
            f"{train.label} has {len(counts)} rows for {len(test)} queries; it needs some of both"
        )
    blocks = _kept(train, held_out)
    write_sparse(path, metric, (counts, dimension), blocks, replace(test, dimension=dimension), find_truth)


def _kept(train: SparseRows, held_out: np.ndarray) -> Iterator[SparseVectors]:
    for start, block in train.blocks():
        here = held_out[(held_out >= start) & (held_out < start + len(block))] - start
        edges = [-1, *here.tolist(), len(block)]
        parts = [block[a + 1 : b] for a, b in pairwise(edges)]
        yield block if not len(here) else joined(parts, block.dimension)
