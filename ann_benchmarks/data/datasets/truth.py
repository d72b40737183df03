"""True neighbours in a file beside the data: data/NAME.truth.h5."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from ann_benchmarks.common.atomic import atomic_path
from ann_benchmarks.common.disk import disk_errors
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.distance import candidate_distances

if TYPE_CHECKING:
    from .dataset import Dataset

_FIRST_ROWS = 64
_SAMPLED_ROWS = 1024


@dataclass(frozen=True)
class Truth:
    """Of every query the row numbers (n_queries, k) int64, nearest first, and distances alike, ascending."""

    neighbors: np.ndarray
    distances: np.ndarray | None


def truth_path(name: str, data: Path) -> Path:
    """Where the true neighbours that were found here lie."""
    return data / f"{name}.truth.h5"


def write_truth(path: Path, truth: Truth, dataset: "Dataset") -> None:
    """Store true neighbours, with a mark of the vectors that they are true of."""
    with disk_errors(path), atomic_path(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs.update(
            {"distance": dataset.attrs["distance"], "rows": dataset.rows, "mark": mark_of(dataset)}
        )
        file["neighbors"], file["distances"] = truth.neighbors, truth.distances


def read_truth(path: Path) -> Truth:
    """Read true neighbours; UserError when the file is damaged."""
    try:
        with h5py.File(path, "r", locking=False) as file:
            return Truth(file["neighbors"][()], file["distances"][()])
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise UserError(f"{path} is damaged ({str(error).splitlines()[0]}); delete it") from None


def check_mark(path: Path, dataset: "Dataset") -> None:
    """Raise UserError when a file of true neighbours belongs to other vectors of the same name."""
    try:
        with h5py.File(path, "r", locking=False) as file:
            mark = file.attrs.get("mark")
    except OSError as error:
        raise UserError(f"{path} is damaged ({str(error).splitlines()[0]}); delete it") from None
    if mark != mark_of(dataset):
        raise UserError(
            f"{path} holds the true neighbours of other vectors; delete it, or find these by: "
            f"python create_dataset.py --ground-truth {dataset.name} --force"
        )


def mark_of(dataset: "Dataset") -> str:
    """Tell vectors of one name apart: by metric, shape, a sample of the rows, and all queries."""
    digest = hashlib.blake2b(f"{dataset.attrs['distance']} {dataset.rows}".encode(), digest_size=16)
    if dataset.attrs["type"] == "sparse":
        sample: Any = np.concatenate(dataset.train()[:_FIRST_ROWS])
        queries: Any = np.concatenate(dataset.test())
    else:
        train, queries = dataset.train_rows(), dataset.test()
        if callable(own := getattr(train, "fingerprint", None)):  # single rows cannot be read quickly
            digest.update(own().encode())
            sample = train[:_FIRST_ROWS]
        else:
            sample = train[np.linspace(0, len(train) - 1, min(_SAMPLED_ROWS, len(train)), dtype=np.int64)]
    for vectors in (sample, queries):
        digest.update(np.ascontiguousarray(vectors, np.float32).data)
    return digest.hexdigest()


def settle(neighbors: np.ndarray, dataset: "Dataset") -> Truth:
    """Compute the distances of published neighbours in float64, and order them by distance and row."""
    train: Any = dataset.train() if dataset.attrs["type"] == "sparse" else dataset.train_rows()
    distances = candidate_distances(
        dataset.attrs["distance"], dataset.test(), train, neighbors, progress=True
    )
    order = np.lexsort((neighbors, distances), axis=1)
    return Truth(np.take_along_axis(neighbors, order, 1), np.take_along_axis(distances, order, 1))


def rows_of_ids(ids: np.ndarray, numbered: Iterable[np.ndarray] | None, rows: int, path: Path) -> np.ndarray:
    """Turn the ids that a published truth names into row numbers.

    `numbered` gives the id of every row in order, in blocks; without it, ids are row numbers.
    """
    if numbered is not None:
        wanted = np.unique(ids)
        row_of = np.full(len(wanted), -1, dtype=np.int64)
        start = 0
        for block in numbered:
            at = np.minimum(np.searchsorted(wanted, block), len(wanted) - 1)
            here = np.flatnonzero(wanted[at] == block)
            row_of[at[here]] = start + here
            start += len(block)
        found = row_of[np.searchsorted(wanted, ids)]
        found[found >= rows] = -1
    else:
        found = np.where((ids >= 0) & (ids < rows), ids, -1).astype(np.int64)
    query, place = np.unravel_index(np.argmin(found), found.shape)
    if found[query, place] < 0:
        raise UserError(
            f"{path} row {query} (from 0) names id {ids[query, place]}, which none of the {rows:,} training"
            " rows has; delete it and get it again"
        )
    return found


def agreement(found: Truth, published: Truth) -> float:
    """Share of published neighbours that are as near as those found, to 1e-5 of their distances."""
    assert found.distances is not None and published.distances is not None
    k = min(found.distances.shape[1], published.distances.shape[1])
    limit = found.distances[:, k - 1 : k]
    return float(np.mean(published.distances[:, :k] <= limit + 1e-5 * np.abs(limit) + 1e-9))
