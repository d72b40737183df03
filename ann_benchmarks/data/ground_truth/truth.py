"""Ground truth of a whole dataset, span by span, here or on a cluster."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.common.sparse import SparseVectors

from ..vectors.rows import Rows
from .checkpoint import Checkpoint, PartialTruth, identity_of
from .cluster import Cluster
from .exact import nearest_sets
from .span import Problem, search_span
from .sparse import nearest_sparse

SPAN = 2**22  # rows; what is saved at once, and a worker's task


@dataclass(frozen=True)
class SearchOptions:
    """How a search goes on after an interruption, and where it runs.

    `state` is a file that holds what is known after each span of rows. It is used again only for the same
    metric, k, queries, shape, dtype and `mark`, which says which rows these are; the caller deletes it when
    the result is stored. With `scheduler`, the address of a Dask cluster, each worker calls `opener`, which
    must survive pickling, for the same rows.
    """

    state: Path | None = None
    mark: str = ""
    scheduler: str | None = None
    opener: Callable[[], Rows] | None = None
    progress: bool = True  # shown on a terminal


def exact_neighbors(
    metric: str, train: Any, queries: Any, k: int, progress: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest training rows of every query: ids int64 (n, k) and distances float64 (n, k), ascending.

    `train` is an array, memory map, HDF5 dataset or Rows, (rows, dimension), and is read in blocks; under
    jaccard it may be a list of integer sets. Where the queries are SparseVectors, it is SparseVectors or
    SparseRows. Equal distances are ordered by id. Raises UserError for vectors that hold NaN or infinity, and
    where there are fewer than k rows.
    """
    return ground_truth(metric, train, queries, k, SearchOptions(progress=progress))


def ground_truth(
    metric: str, train: Any, queries: Any, k: int, options: SearchOptions
) -> tuple[np.ndarray, np.ndarray]:
    """As exact_neighbors, but it can be interrupted, and may run on a Dask cluster; sparse vectors cannot."""
    _check(train, queries, k)
    if metric == "jaccard" and getattr(train[0], "dtype", None) != np.bool_:
        with _bar(len(queries), 0, "query", options.progress) as bar:
            return nearest_sets(train, queries, k, bar.update)
    if isinstance(queries, SparseVectors):
        with _bar(len(train), 0, "row", options.progress) as bar:
            return nearest_sparse(metric, train, queries, k, bar.update)
    problem = Problem(metric, np.ascontiguousarray(queries), k)
    if problem.queries.ndim != 2 or problem.queries.shape[1] != train.shape[1]:
        raise UserError(
            f"the queries have shape {problem.queries.shape}, the training rows {tuple(train.shape)}; "
            "both need the same number of dimensions"
        )
    spans = [range(at, min(at + SPAN, len(train))) for at in range(0, len(train), SPAN)]
    truth = PartialTruth(problem, len(train), len(spans))
    checkpoint = None
    if options.state:
        checkpoint = Checkpoint(options.state, identity_of(problem, train, options.mark, SPAN))
        checkpoint.load_into(truth)
    missing = {number: span for number, span in enumerate(spans) if not truth.done[number]}
    done = len(train) - sum(map(len, missing.values()))
    if not len(problem.queries):
        missing = {}

    def farthest() -> np.ndarray:
        return truth.distances[:, -1]

    with _bar(len(train), done, "row", options.progress) as bar:
        if options.scheduler and missing:
            if options.opener is None:
                raise UserError("a cluster's workers need a way to open the dataset; this one has none")
            cluster = Cluster(options.scheduler, options.opener)
            found = cluster.search(problem, train, missing, farthest, bar.update)
        else:
            found = (
                (number, search_span(problem, train, span, farthest(), usable_cores(), bar.update))
                for number, span in missing.items()
            )
        for number, part in found:
            truth.merge(number, part)
            if checkpoint:
                checkpoint.save(truth)
    return truth.ids, truth.distances


def _check(train: Any, queries: Any, k: int) -> None:
    if k < 1:
        raise UserError(f"{k} neighbours requested; request at least 1")
    if k > len(train):
        raise UserError(
            f"{k} neighbours requested, but there are only {len(train)} training rows; request fewer"
        )


def _bar(total: int, done: int, unit: str, progress: bool) -> tqdm:
    disable = None if progress else True  # None: only on a terminal
    title = "exact neighbours"
    return tqdm(None, title, total, initial=done, unit=unit, unit_scale=True, delay=1, disable=disable)
