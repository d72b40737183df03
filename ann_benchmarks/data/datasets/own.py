"""Make a dataset of one's own vectors: checked, queries held out, exact neighbours found."""

import random
import re
from collections.abc import Iterator

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.distance import METRICS

from ..vectors import Rows, checked, open_source
from . import DATA_FOLDER, dataset_path, description_path
from .registry import find_entry
from .truth import truth_path
from .write import NEIGHBORS, write_dense

QUERIES = 1000
BIT_METRICS = ("hamming", "jaccard")


def create_own(
    name: str,
    train: str,
    metric: str,
    test: str | None = None,
    queries: int | None = None,
    neighbors: int = NEIGHBORS,
    seed: int = 1,
    force: bool = False,
) -> None:
    """Write data/NAME.hdf5 from FILE, FILE:KEY or a pattern of files, of any format that `vectors` reads.

    Queries come from `test`, or are `queries` rows of `train`, chosen by `seed` and taken out of it. Vectors
    become float32, or bits under hamming and jaccard. Raises UserError for anything wrong with the vectors.
    """
    check_name(name, force)
    if metric not in METRICS:
        raise UserError(f"unknown metric '{metric}'; use one of {', '.join(METRICS)}")
    vectors = open_source(train)
    own_queries = open_source(test) if test else None
    rows, dimension = vectors.shape
    if own_queries is not None:
        if own_queries.shape[1] != dimension:
            raise UserError(
                f"{own_queries.label} has {own_queries.shape[1]} dimensions but {vectors.label} has "
                f"{dimension}; queries and training vectors must have the same"
            )
        held_out: set[int] = set()
        count = len(own_queries)
    else:
        count = queries or QUERIES
        if count >= rows:
            raise UserError(
                f"{vectors.label} has {rows} rows, too few to hold out {count} queries; "
                "use a smaller --queries, or --test"
            )
        held_out = set(random.Random(seed).sample(range(rows), count))
    rows -= len(held_out)
    if neighbors > rows:
        raise UserError(f"--neighbors {neighbors} is more than the {rows} training rows; use {rows} or less")
    bits = metric in BIT_METRICS
    shapes = (rows, dimension), (count, dimension)
    blocks = _blocks(vectors, own_queries, held_out, metric)
    write_dense(dataset_path(name), metric, shapes, np.bool_ if bits else np.float32, blocks, neighbors)
    for replaced in (truth_path(name, DATA_FOLDER), description_path(name)):
        replaced.unlink(missing_ok=True)


def check_name(name: str, force: bool) -> None:
    """Raise UserError for a name that cannot be given, or is taken."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", name):
        raise UserError(
            f"'{name}' cannot be a file's name; use letters, digits and '-_.', a letter or digit first"
        )
    if find_entry(name) is not None and not force:
        raise UserError(f"'{name}' is the name of a registered dataset; choose another, or add --force")
    for path in (dataset_path(name), description_path(name)):
        if path.exists() and not force:
            raise UserError(f"{path} exists; choose another --name, or add --force to replace it")


def _blocks(
    vectors: Rows, own_queries: Rows | None, held_out: set[int], metric: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    if own_queries is not None:
        for _, block in _usable(own_queries, metric):
            yield block[:0], block
    removed = np.array(sorted(held_out), dtype=np.int64)
    for start, block in _usable(vectors, metric):
        here = removed[np.searchsorted(removed, start) : np.searchsorted(removed, start + len(block))] - start
        yield np.delete(block, here, axis=0), block[here]


def _usable(vectors: Rows, metric: str) -> Iterator[tuple[int, np.ndarray]]:
    """Give the blocks as float32 or bits; UserError for a row that the metric has no distance for."""
    for start, block in checked(vectors, metric).blocks():
        if metric in BIT_METRICS:
            bad = (block != 0) & (block != 1)
            _refuse(vectors, start, bad, f"holds more than 0 and 1 ({metric})")
            yield start, block.astype(bool)
            continue
        with np.errstate(over="ignore"):  # reported below, with its row
            converted = block.astype(np.float32)
        if block.dtype == np.float64:
            _refuse(vectors, start, np.isinf(converted), "has a value beyond float32")
            if metric == "angular":
                zero = np.asarray(~converted.any(axis=1, keepdims=True))
                _refuse(vectors, start, zero, "is all zeros in float32, without an angle")
        yield start, converted


def _refuse(vectors: Rows, start: int, bad: np.ndarray, reason: str) -> None:
    wrong = bad.any(axis=1)
    if wrong.any():
        raise UserError(
            f"{vectors.where(start + int(np.argmax(wrong)))} {reason}; "
            f"{np.count_nonzero(wrong)} such rows near it; correct or remove them"
        )
