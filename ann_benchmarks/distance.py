"""Distances as ann-benchmarks defines them, and Manhattan's: between two points, and of many at once."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError

METRICS: tuple[str, ...] = ("euclidean", "angular", "ip", "manhattan", "hamming", "jaccard")
# What others call them, and users type.
OTHER_NAMES = {
    **{"cosine": "angular", "cos": "angular", "l2": "euclidean", "l1": "manhattan"},
    **{"dot": "ip", "inner": "ip", "inner_product": "ip"},
}
BIT_METRICS = ("hamming", "jaccard")  # between rows of bits
BLOCK_BYTES = 32 * 2**20  # bound on the rows gathered at once
ROUNDING = 1e-6  # share of a distance by which two computations of it may differ
NOISE = 1e-15  # of float64, where vectors of one direction have an angle near 0
_SINGLE = 1e-4, 1e-6  # shares of a distance, and of 1 under angular, that single precision may lose


def metric_of(name: str) -> str:
    """Return the metric that a name means; any other name is its own."""
    return OTHER_NAMES.get(name.lower().replace("-", "_"), name)


class Distance(NamedTuple):
    """A distance between two points, and whether a value of it counts as an answer."""

    distance: Callable[[Any, Any], float]
    distance_valid: Callable[[float], bool]


def pair_distances(metric: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distance of each row of `a` to the same row of `b`: (n, dimension) twice -> (n,) float64.

    A row's result depends on that row only, never on its neighbours in the array: callers may cut blocks
    where they like. A vector of length zero has no direction; its angular distance to anything is 1.
    """
    if metric in BIT_METRICS:
        a, b = a.astype(bool), b.astype(bool)
        if metric == "hamming":
            return np.count_nonzero(a ^ b, axis=1) / a.shape[1]
        union = np.count_nonzero(a | b, axis=1)
        return 1.0 - np.count_nonzero(a & b, axis=1) / np.maximum(union, 1)
    a, b = a.astype(np.float64), b.astype(np.float64)
    if metric == "euclidean":
        a -= b
        return np.sqrt(_row_dots(a, a))
    if metric == "ip":
        return -_row_dots(a, b)
    if metric == "manhattan":
        return np.einsum("ij->i", np.abs(a - b))
    if metric == "angular":
        lengths = np.sqrt(_row_dots(a, a)) * np.sqrt(_row_dots(b, b))
        return 1.0 - np.divide(_row_dots(a, b), lengths, out=np.zeros(len(a)), where=lengths > 0)
    raise UserError(f"unknown metric '{metric}'; the metrics are {', '.join(METRICS)}")


def rounded_up(distances: np.ndarray) -> np.ndarray:
    """Return the largest values that are these distances but for rounding, however the data are scaled."""
    return distances + ROUNDING * np.abs(distances) + NOISE


def is_nearer(metric: str, distances: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Say which distances are less than a limit by more than single precision explains."""
    return distances < limit - np.where(np.isfinite(limit), single_precision(metric, limit), 0)


def single_precision(metric: str, distances: np.ndarray) -> np.ndarray:
    """Return by how much distances may be off that were computed in single precision."""
    share, angle = _SINGLE
    off: np.ndarray = share * np.abs(distances) + (angle if metric == "angular" else NOISE)
    return off


def set_distances(query: np.ndarray, items: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Jaccard distance of one set of integers to many; set i is items[ends[i - 1]:ends[i]]."""
    sizes = np.diff(ends, prepend=0)
    shared_before = np.concatenate(([0], np.cumsum(np.isin(items, query))))
    shared = shared_before[ends] - shared_before[ends - sizes]
    return 1.0 - shared / np.maximum(len(query) + sizes - shared, 1)


def candidate_distances(
    metric: str,
    queries: Sequence | np.ndarray,
    train: Any,
    neighbors: np.ndarray,
    progress: bool = False,
) -> np.ndarray:
    """Distances of each query to the rows of `train` named for it: (n_queries, k) float64.

    `neighbors` is (n_queries, k) row numbers; -1 means none and gives inf. `train` is indexed by row: an
    array, memory map, HDF5 dataset, list. Under jaccard, rows that are not of bools are sets of integers.
    """
    neighbors = np.asarray(neighbors)
    if metric not in METRICS:
        raise UserError(f"unknown metric '{metric}'; the metrics are {', '.join(METRICS)}")
    if neighbors.size and neighbors.max() >= len(train):
        raise UserError(
            f"neighbour {neighbors.max()} is not one of the {len(train)} training rows; the algorithm that "
            "returned it numbers rows wrongly or was built from other data"
        )
    distances = np.full(neighbors.shape, np.inf)
    query_of, slot = np.nonzero(neighbors >= 0)
    if not len(query_of):
        return distances
    if metric == "jaccard" and not _is_bits(train[0]):
        for query in np.unique(query_of):
            found = neighbors[query] >= 0
            sets = [np.asarray(train[int(row)]) for row in neighbors[query][found]]
            ends = np.cumsum([len(row) for row in sets])
            distances[query, found] = set_distances(np.asarray(queries[query]), np.concatenate(sets), ends)
        return distances
    rows = neighbors[query_of, slot]
    in_file_order = np.argsort(rows, kind="stable")
    size = rows_per_block(len(train[0]))
    bar = tqdm(
        range(0, len(rows), size), "distances of neighbours", delay=1, disable=None if progress else True
    )
    for start in bar:
        block = in_file_order[start : start + size]
        wanted, position = np.unique(rows[block], return_inverse=True)
        distances[query_of[block], slot[block]] = pair_distances(
            metric, _gather(queries, query_of[block]), _gather(train, wanted)[position]
        )
    return distances


def rows_per_block(dimension: int) -> int:
    """How many rows of float64 stay within BLOCK_BYTES; at least 1."""
    return max(1, BLOCK_BYTES // (8 * max(dimension, 1)))


def compute_distance(metric: str, a: Any, b: Any) -> float:
    """Distance between two points, in float64."""
    if metric == "jaccard" and not _is_bits(a):
        return float(set_distances(np.asarray(a), np.asarray(b), np.array([len(b)]))[0])
    return float(pair_distances(metric, np.asarray(a)[np.newaxis], np.asarray(b)[np.newaxis])[0])


def jaccard(a: Any, b: Any) -> float:
    """Similarity of two sets, 0 if one is empty; a name that ann-benchmarks' tests import from here."""
    return 1.0 - compute_distance("jaccard", a, b)


def _row_dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", a, b)


def _is_bits(row: Any) -> bool:
    return getattr(row, "dtype", None) == np.bool_


def _gather(data: Any, rows: np.ndarray) -> np.ndarray:
    if isinstance(data, (list, tuple)):
        return np.stack([np.asarray(data[row]) for row in rows])
    return np.asarray(data[rows])


# Sets that share nothing do not answer each other; every other distance counts.
metrics: dict[str, Distance] = {
    name: Distance(
        partial(compute_distance, name),
        (lambda distance: distance < 1 - 1e-5) if name == "jaccard" else (lambda distance: True),
    )
    for name in METRICS
}
