"""Queries and their true neighbours; those that were found here lie in data/NAME.truth.h5."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.hdf5 import (
    fits_in_memory,
    is_of_numbers,
    lacking,
    open_hdf5_file,
    write_hdf5_file,
)
from ann_benchmarks.common.text import DAMAGE, reason_of, shortened

from ..filters import FilteredVector

SUFFIX = ".truth.h5"
PUBLISHED = "published_distances"


@dataclass(frozen=True, eq=False)
class TrueNeighbors:
    """Row numbers (n_queries, k) int64 of each query's nearest rows, and their distances, ascending.

    Distances are None where those who published the neighbours have others than ours; `published` are those
    that ours replace. `dataset` and the filter set, if there is one, are named in messages. Where fewer than
    k rows pass a filter, the other numbers are -1 and their distances inf.
    """

    neighbors: np.ndarray
    distances: np.ndarray | None
    dataset: str = ""
    filter: str = ""
    published: np.ndarray | None = None

    @property
    def known_distances(self) -> np.ndarray:
        """The distances, where they must be known."""
        assert self.distances is not None
        return self.distances

    def nearest(self, count: int) -> "TrueNeighbors":
        """Return `count` neighbours a query, with distances in float64; UserError where fewer are known."""
        known = self.neighbors.shape[1]
        if known < count:
            where, option = (
                (f" under {self.filter}", f" --filters {self.filter}") if self.filter else ("", "")
            )
            raise UserError(
                f"dataset '{self.dataset}' has {known} true neighbours a query{where}, fewer than {count};"
                f" use --count {known} or less, or find more by:"
                f" python create_dataset.py --ground-truth {self.dataset}{option} --neighbors {count}"
            )
        distances = self.known_distances[:, :count].astype(np.float64)
        return replace(self, neighbors=self.neighbors[:, :count].astype(np.int64), distances=distances)


@dataclass(frozen=True, eq=False)
class Queries:
    """The queries of a dataset, backed by arrays.

    `vectors` is (n, dimension), or a list of n integer arrays, which are sets.
    `truth` holds arrays (n, k). `filters` has the filter of each query, in the same order; None: no query has
    one.
    """

    vectors: np.ndarray | list[np.ndarray]
    truth: TrueNeighbors
    filters: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.vectors), len(self.truth.neighbors), len(self.truth.known_distances)}
        if self.filters is not None:
            lengths.add(len(self.filters))
        if len(lengths) > 1:
            raise ValueError(f"vectors, true neighbours and filters of different lengths: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.vectors)

    def copied_vectors(self) -> list[Any]:
        """Return each vector in an array of its own, which a plug-in may change in place.

        With filters, each is a FilteredVector.
        """
        copies: list[Any] = [np.array(vector) for vector in self.vectors]
        if self.filters is None:
            return copies
        return [FilteredVector(*pair) for pair in zip(copies, self.filters, strict=True)]

    def copied_batch(self) -> np.ndarray | list[Any]:
        """Return all vectors as one array, or a list of sets, which a plug-in may change in place.

        With filters, it is a list of FilteredVector.
        """
        if self.filters is not None or isinstance(self.vectors, list):
            return self.copied_vectors()
        return np.array(self.vectors)


def truth_path(name: str, data: Path) -> Path:
    """Where the true neighbours that were found here lie."""
    return data / f"{name}{SUFFIX}"


def write_truth(path: Path, truth: TrueNeighbors, attributes: dict[str, Any]) -> None:
    """Store true neighbours with attributes; `mark` tells which vectors they are true of."""
    arrays = {"neighbors": truth.neighbors, "distances": truth.distances, PUBLISHED: truth.published}
    write_hdf5_file(path, attributes, {key: array for key, array in arrays.items() if array is not None})


def truth_problem(file: h5py.File, arrays: Sequence[Any]) -> str | None:
    """Say why neighbours and distances, or the first alone, cannot be read; None if they can."""
    for array, name in zip(arrays, ("neighbors", "distances"), strict=False):
        if not isinstance(array, h5py.Dataset) or len(array.shape or ()) != 2 or not array.size:
            return f"'{name}' must be an array of two dimensions"
        if not is_of_numbers(array.dtype, "iu" if name == "neighbors" else "fiu"):
            return f"'{name}' holds {shortened(array.dtype, 60)}"
        if problem := lacking(file, array) or (None if fits_in_memory(array) else "does not fit into memory"):
            return f"'{name}' {problem}"
    return None


def read_truth(path: Path, mark: str | None = None) -> TrueNeighbors:
    """Read true neighbours; UserError when the file is damaged, or its mark is another than the one given."""
    name = path.name.removesuffix(SUFFIX)
    try:
        with open_hdf5_file(path) as file:
            if mark is None or file.attrs.get("mark") == mark:
                arrays = [file[key] for key in ("neighbors", "distances")]
                if problem := truth_problem(file, arrays):
                    raise ValueError(problem)
                if arrays[0].shape != arrays[1].shape:
                    raise ValueError(f"neighbors are {arrays[0].shape}, distances {arrays[1].shape}")
                published = file[PUBLISHED][()] if PUBLISHED in file else None
                return TrueNeighbors(arrays[0][()], arrays[1][()], name, published=published)
    except DAMAGE as error:
        raise UserError(f"{path} is damaged ({reason_of(error)}); delete it") from None
    raise UserError(
        f"{path} holds the true neighbours of other vectors; delete it, or find these by: "
        f"python create_dataset.py --ground-truth {name} --force"
    )


def neighbor_rows(ids: np.ndarray, keys: Iterable[np.ndarray] | None, rows: int, path: Path) -> np.ndarray:
    """Turn the ids that a published truth names into row numbers.

    `keys` gives the id of every row in order, in blocks; without it, ids are row numbers, perhaps from 1 on.
    -1 stands for no row. UserError for an id that no row has, and for one that a query names twice.
    """
    if keys is not None:
        named = np.unique(ids)
        row_of = np.full(len(named), -1, dtype=np.int64)
        start = 0
        for block in keys:
            at = np.minimum(np.searchsorted(named, block), len(named) - 1)
            here = np.flatnonzero(named[at] == block)
            row_of[at[here]] = start + here
            start += len(block)
        found = row_of[np.searchsorted(named, ids)]
        found[found >= rows] = -1
    else:
        found = np.where((ids >= 0) & (ids <= rows), ids, -1).astype(np.int64)
    if (unknown := (found < 0) & (ids != -1)).any():
        query, place = np.unravel_index(np.argmax(unknown), found.shape)
        raise UserError(
            f"{path} query {query} (from 0) names id {ids[query, place]}, which none of the {rows:,} training"
            " rows has; delete it and get it again"
        )
    ordered = np.sort(found, axis=1)
    is_repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if is_repeated.any():
        query, place = np.unravel_index(np.argmax(is_repeated), is_repeated.shape)
        id = ids[query, np.argmax(found[query] == ordered[query, place])]
        raise UserError(
            f"{path} query {query} (from 0) names id {id} more than once; delete it and get it again"
        )
    return found


def ordered(neighbors: np.ndarray, distances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order the neighbours of each query by distance and row number."""
    order = np.lexsort((neighbors, distances), axis=1)
    return np.take_along_axis(neighbors, order, 1), np.take_along_axis(distances, order, 1)


def agreement(found: TrueNeighbors, published: TrueNeighbors) -> float:
    """Share of published neighbours that are as near as those found, to 1e-5 of their distances."""
    k = min(found.neighbors.shape[1], published.neighbors.shape[1])
    limit = found.known_distances[:, k - 1 : k]
    return float(np.mean(published.known_distances[:, :k] <= limit + 1e-5 * np.abs(limit) + 1e-9))
