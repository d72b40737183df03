"""Make a dataset of one's own vectors: checked, queries held out, exact neighbours found."""

import random
import re
from collections.abc import Iterator

import numpy as np

from ..distance import METRICS
from ..errors import UserError
from . import dataset_path
from .registry import find_entry
from .sources import Source, open_source
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
    """Write data/NAME.hdf5 from FILE or FILE:KEY.

    Queries come from `test`, or are `queries` rows of `train`, chosen by `seed` and taken out of it. Vectors
    become float32, or bits under hamming and jaccard. Raises UserError for anything wrong with the vectors.
    """
    _check_name(name, force)
    if metric not in METRICS:
        raise UserError(f"unknown metric '{metric}'; use one of {', '.join(METRICS)}")
    vectors = open_source(train)
    own_queries = open_source(test) if test else None
    if own_queries:
        if own_queries.dimension != vectors.dimension:
            raise UserError(
                f"{own_queries.label} has {own_queries.dimension} dimensions but {vectors.label} has "
                f"{vectors.dimension}; queries and training vectors must have the same"
            )
        held_out: set[int] = set()
        count = own_queries.rows
    else:
        count = queries or QUERIES
        if count >= vectors.rows:
            raise UserError(
                f"{vectors.label} has {vectors.rows} rows, too few to hold out {count} queries; "
                "use a smaller --queries, or --test"
            )
        held_out = set(random.Random(seed).sample(range(vectors.rows), count))
    rows = vectors.rows - len(held_out)
    if neighbors > rows:
        raise UserError(f"--neighbors {neighbors} is more than the {rows} training rows; use {rows} or less")
    bits = metric in BIT_METRICS
    shapes = (rows, vectors.dimension), (count, vectors.dimension)
    blocks = _blocks(vectors, own_queries, held_out, metric)
    write_dense(dataset_path(name), metric, shapes, np.bool_ if bits else np.float32, blocks, neighbors)


def _check_name(name: str, force: bool) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", name):
        raise UserError(
            f"'{name}' cannot be a file's name; use letters, digits and '-_.', a letter or digit first"
        )
    if find_entry(name) is not None and not force:
        raise UserError(f"'{name}' is the name of a registered dataset; choose another, or add --force")
    if dataset_path(name).exists() and not force:
        raise UserError(f"{dataset_path(name)} exists; choose another --name, or add --force to replace it")


def _blocks(
    vectors: Source, own_queries: Source | None, held_out: set[int], metric: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    if own_queries:
        for block in _checked(own_queries, metric):
            yield block[:0], block
    removed = np.array(sorted(held_out), dtype=np.int64)
    start = 0
    for block in _checked(vectors, metric):
        here = removed[np.searchsorted(removed, start) : np.searchsorted(removed, start + len(block))] - start
        yield np.delete(block, here, axis=0), block[here]
        start += len(block)


def _checked(source: Source, metric: str) -> Iterator[np.ndarray]:
    start = 0
    for block in source.blocks():
        if metric in BIT_METRICS:
            _refuse(
                source,
                start,
                (block != 0) & (block != 1),
                f"holds more than 0 and 1 ({metric})",
            )
            yield block.astype(bool)
        else:
            with np.errstate(over="ignore"):  # reported below, with its row
                vectors = block.astype(np.float32)
            _refuse(
                source,
                start,
                ~np.isfinite(vectors),
                "has NaN, infinity or a value beyond float32",
            )
            if metric == "angular":
                _refuse(
                    source,
                    start,
                    np.asarray(~vectors.any(axis=1, keepdims=True)),
                    "is all zeros, without an angle",
                )
            yield vectors
        start += len(block)


def _refuse(source: Source, start: int, bad: np.ndarray, reason: str) -> None:
    wrong = bad.any(axis=1)
    if wrong.any():
        raise UserError(
            f"{source.label} row {start + int(np.argmax(wrong))} (from 0) {reason}; "
            f"{np.count_nonzero(wrong)} such rows near it; correct or remove them"
        )
