"""Make a dataset of one's own vectors: copied with their exact neighbours, or left where they lie."""

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import yaml

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path, disk_errors
from ann_benchmarks.common.hdf5 import open_hdf5_file
from ann_benchmarks.distance import BIT_METRICS, METRICS

from ..vectors import Rows, cast, checked, open_source, source_files
from ..vectors.reading import reading
from .catalog import canonical_name, dataset_path, description_path, remove_replaced
from .registry import find_entry, read_description
from .samples import sampled
from .write import NEIGHBORS, write_dense

QUERIES = 1000
STORED = (np.dtype(np.float32), np.dtype(np.bool_))  # what vectors are stored as, the latter for bits
_INDEX = "index_today"  # attribute of a dataset's file: what store_index stores
_MANY_ARRAYS = (".hdf5", ".h5")


@dataclass(frozen=True)
class OwnVectors:
    """Where the vectors are: FILE, FILE:KEY or a pattern of files, of any format that `vectors` reads.

    Queries come from `test`, or are `queries` rows of `train`, chosen by `seed` and taken out of it unless
    `keeps_queries`.
    """

    train: str
    metric: str
    test: str | None = None
    queries: int | None = None
    seed: int = 1
    keeps_queries: bool = False

    def open(self) -> tuple[Rows, Rows | None]:
        """Open vectors and queries; UserError where they do not fit together."""
        if self.metric not in METRICS:
            raise UserError(f"unknown metric '{self.metric}'; use one of {', '.join(METRICS)}")
        vectors, queries = open_source(self.train), open_source(self.test) if self.test else None
        if queries is not None and queries.shape[1] != vectors.shape[1]:
            raise UserError(
                f"{queries.label} has {queries.shape[1]} dimensions but {vectors.label} has "
                f"{vectors.shape[1]}; queries and training vectors must have the same"
            )
        return vectors, queries

    def removed(self, chosen: np.ndarray) -> np.ndarray:
        """Return which rows leave the training set when the `chosen` ones become queries."""
        return chosen[:0] if self.keeps_queries else chosen

    def query_rows(self, label: str, rows: int, neighbors: int = 0) -> np.ndarray:
        """Return which of so many rows become queries, ascending; UserError where too few are left.

        `neighbors` is how many rows each query must have.
        """
        count = 0 if self.test is not None else self.queries or QUERIES
        if neighbors > rows - count > 0:
            raise UserError(
                f"--neighbors {neighbors} is more than the {rows - count} training rows;"
                f" use {rows - count} or less"
            )
        if not count:
            return np.empty(0, np.int64)
        if count >= rows:
            raise UserError(
                f"{label} has {rows} rows, too few to hold out {count} queries; use a smaller --queries,"
                " or --test"
            )
        return np.array(sorted(random.Random(self.seed).sample(range(rows), count)), np.int64)


def create_own(name: str, own: OwnVectors, neighbors: int = NEIGHBORS, force: bool = False) -> None:
    """Write data/NAME.hdf5 with the vectors as float32, or as bits under hamming and jaccard.

    Raises UserError for anything wrong with the vectors.
    """
    check_name(name, force)
    vectors, own_queries = own.open()
    rows, dimension = vectors.shape
    chosen = own.query_rows(vectors.label, rows, neighbors)
    count = len(chosen) if own_queries is None else len(own_queries)
    removed = own.removed(chosen)
    shapes = (rows - len(removed), dimension), (count, dimension)
    blocks = _blocks(vectors, own_queries, chosen, removed, own.metric)
    write_dense(dataset_path(name), own.metric, shapes, STORED[own.metric in BIT_METRICS], blocks, neighbors)
    remove_replaced(name, description_path(name))


def create_in_place(name: str, own: OwnVectors, force: bool = False) -> None:
    """Write data/NAME.yml, which names the files; UserError if vectors and queries do not fit together.

    A description that says the same is left as it is, so that an interrupted
    command can be given again.
    """
    vectors, queries = own.open()
    assert own.test is not None and queries is not None
    train_files, test_files = _whole_files(own.train), _whole_files(own.test)
    if len(test_files) > 1:
        raise UserError(f"{own.test} is several files; the queries must be one")
    description = {
        "distance": own.metric,
        "rows": vectors.shape[0],
        "dimension": vectors.shape[1],
        "queries": queries.shape[0],
        "train": [str(path.absolute()) for path in train_files],
        "test": str(test_files[0].absolute()),
    }
    path, text = description_path(name), yaml.safe_dump(description, sort_keys=False)
    if path.exists() and path.read_text() == text and not force:
        return
    check_name(name, force)
    with disk_errors(path), atomic_path(path) as temporary:
        temporary.write_text(text)
    read_description(path).converted().unlink(missing_ok=True)
    remove_replaced(name, dataset_path(name))


def store_index(name: str, algorithm: str, arguments: Mapping[str, Any]) -> None:
    """Store with a dataset which index its rows have where they come from."""
    with h5py.File(dataset_path(name), "r+") as file:
        file.attrs[_INDEX] = json.dumps({"algorithm": algorithm, "arguments": dict(arguments)})


def stored_index(name: str) -> tuple[str, Mapping[str, Any]] | None:
    """Return the algorithm and the build arguments of the index that the rows of a dataset have, if any."""
    path = dataset_path(canonical_name(name))
    if not path.exists():
        return None
    with reading(path), open_hdf5_file(path) as file:
        if _INDEX not in file.attrs:
            return None
        found = json.loads(str(file.attrs[_INDEX]))
        return str(found["algorithm"]), found["arguments"]


def _whole_files(text: str) -> list[Path]:
    files, key = source_files(text)
    if key or files[0].suffix in _MANY_ARRAYS:
        raise UserError(f"{text} is one array of a file; --in-place takes whole files: leave it out to copy")
    return files


def check_name(name: str, force: bool) -> None:
    """Raise UserError for a name that cannot be given, or is taken."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", name):
        raise UserError(
            f"'{name}' cannot be a file's name; use letters, digits and '-_.', a letter or digit first"
        )
    if sampled(name)[1] > 1:
        raise UserError(f"'{name}' is kept for a sample of '{sampled(name)[0]}'; choose another --name")
    if find_entry(name) is not None and not force:
        raise UserError(f"'{name}' is the name of a registered dataset; choose another, or add --force")
    for path in (dataset_path(name), description_path(name)):
        if path.exists() and not force:
            raise UserError(f"{path} exists; choose another --name, or add --force to replace it")


def _blocks(
    vectors: Rows, own_queries: Rows | None, chosen: np.ndarray, removed: np.ndarray, metric: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    if own_queries is not None:
        for _, block in _usable(own_queries, metric):
            yield block[:0], block
    for start, block in _usable(vectors, metric):
        here = chosen[np.searchsorted(chosen, start) : np.searchsorted(chosen, start + len(block))] - start
        yield np.delete(block, here, axis=0) if len(removed) else block, block[here]


def _usable(vectors: Rows, metric: str) -> Iterator[tuple[int, np.ndarray]]:
    """Give the blocks as float32 or bits; UserError for a row that the metric has no distance for."""
    for start, block in checked(vectors, metric).blocks():
        converted = cast(vectors, start, block, STORED[metric in BIT_METRICS])
        if metric == "angular" and (zeros := ~converted.any(axis=1)).any():
            row = vectors.row_name(start + int(np.argmax(zeros)))
            raise UserError(f"{row} is all zeros in float32, without an angle; correct or remove it")
        yield start, converted
