"""Datasets made of files of sparse vectors: big-ann-benchmarks' sparse track, and one's own."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from ann_benchmarks.common.atomic import scratch_path
from ann_benchmarks.common.disk import disk_errors
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.sparse import SPARSE_METRICS, SparseVectors, joined, sparse_candidate_distances

from ..vectors import read_neighbors
from ..vectors.sparse import SparseRows, open_csr, open_sparse, unpack
from .parts import Parts
from .queries import rows_of_ids
from .sparse_file import FindTruth, write_sparse
from .write import NEIGHBORS


def convert_sparse(parts: Parts, path: Path, data: Path) -> None:
    """Write `path` from the files of `parts`, which lie in `data`, with the neighbours that came with them.

    Raises UserError where the neighbours are those of other vectors, or where a file is damaged.
    """
    truth = parts.place(parts.neighbors, data)
    with ExitStack() as stack:
        train = stack.enter_context(_opened(parts.train_files(data)[0], data))
        test = stack.enter_context(_opened(parts.place(parts.test, data), data))
        find: FindTruth | int = _published(truth, parts.distance) if parts.neighbors else NEIGHBORS
        _write(path, parts.distance, train, test.read(0, len(test)), np.empty(0, np.int64), find)


def create_sparse(
    path: Path, metric: str, train: Path, test: Path | None, queries: int, seed: int, neighbors: int
) -> None:
    """Write a dataset of one's own sparse vectors: queries of their own, or rows that are held out."""
    if metric not in SPARSE_METRICS:
        raise UserError(f"sparse vectors have no metric '{metric}'; use one of {', '.join(SPARSE_METRICS)}")
    with ExitStack() as stack:
        rows = stack.enter_context(_opened(train, path.parent))
        if test is not None:
            held_out = np.empty(0, np.int64)
            own = stack.enter_context(_opened(test, path.parent))
            asked = own.read(0, len(own))
        else:
            if queries >= len(rows):
                raise UserError(
                    f"{rows.label} has {len(rows)} rows, too few to hold out {queries} queries; "
                    "use a smaller --queries, or --test"
                )
            held_out = np.array(sorted(random.Random(seed).sample(range(len(rows)), queries)), np.int64)
            asked = rows[held_out]
        left = len(rows) - len(held_out)
        if neighbors > left:
            raise UserError(
                f"--neighbors {neighbors} is more than the {left} training rows; use {left} or less"
            )
        _write(path, metric, rows, asked, held_out, neighbors)


@contextmanager
def _opened(path: Path, folder: Path) -> Iterator[SparseRows]:
    """Open a file; what is compressed is unpacked in `folder` for the time."""
    if not path.name.endswith(".gz"):
        yield open_sparse(path)
        return
    if not path.is_file():
        raise UserError(f"there is no file {path}; give the path of a .csr, .csr.gz or .npz file")
    target = folder / path.name.removesuffix(".gz")
    with scratch_path(target) as unpacked:
        with disk_errors(target):
            unpack(path, unpacked)
        rows = open_csr(unpacked)
        rows.label = str(path)
        yield rows
        rows.close()


def _write(
    path: Path,
    metric: str,
    train: SparseRows,
    test: SparseVectors,
    held_out: np.ndarray,
    find_truth: FindTruth | int,
) -> None:
    """Read the rows twice: to count their values without zeros, then to copy them."""
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


def _published(path: Path, metric: str) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    def truth(train: SparseRows, test: SparseVectors) -> tuple[np.ndarray, np.ndarray]:
        """Take the published neighbours, with float64 distances."""
        ids = read_neighbors(path)
        if len(ids) != len(test):
            raise UserError(f"{path} has the neighbours of {len(ids):,} queries, but there are {len(test):,}")
        ids = rows_of_ids(ids, None, len(train) - 1, path)
        distances = sparse_candidate_distances(metric, test, train, ids)
        order = np.lexsort((ids, distances), axis=1)
        return np.take_along_axis(ids, order, 1), np.take_along_axis(distances, order, 1)

    return truth
