"""Ground truth of a whole dataset, span by span, here or on a cluster."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.host import usable_cores

from ..vectors.rows import Rows
from .answers import Answers, StateFile, identity_of
from .cluster import Cluster
from .sets import nearest_sets
from .span import Found, Question, search_span

SPAN = 2**22  # rows; what is saved at once, and a worker's task


def exact_neighbors(
    metric: str, train: Any, queries: Any, k: int, progress: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest training rows of every query: ids int64 (n, k) and distances float64 (n, k), ascending.

    `train` is an array, memory map, HDF5 dataset or Rows, (rows, dimension), and is read in blocks; under
    jaccard it may be a list of integer sets. Equal distances are ordered by id. Raises UserError for vectors
    that hold NaN or infinity, and where there are fewer than k rows.
    """
    return ground_truth(metric, train, queries, k, progress=progress)


def ground_truth(
    metric: str,
    train: Any,
    queries: Any,
    k: int,
    state: Path | None = None,
    mark: str = "",
    scheduler: str | None = None,
    opener: Callable[[], Rows] | None = None,
    progress: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """As exact_neighbors; interrupted, it goes on from `state`; with `scheduler` it runs on a Dask cluster.

    The state file holds what is known after each span of rows, and is used again only for the same metric, k,
    queries, shape, dtype and `mark`, which says which rows these are. The caller deletes it when the result
    is stored. On a cluster each worker calls `opener`, which must survive pickling, for the same rows.
    """
    _check(train, queries, k)
    if metric == "jaccard" and getattr(train[0], "dtype", None) != np.bool_:
        with _bar(len(queries), 0, "query", progress) as bar:
            return nearest_sets(train, queries, k, bar.update)
    question = Question(metric, np.ascontiguousarray(queries), k)
    if question.queries.ndim != 2 or question.queries.shape[1] != train.shape[1]:
        raise UserError(
            f"the queries have shape {question.queries.shape}, the training rows {tuple(train.shape)}; "
            "both need the same number of dimensions"
        )
    spans = [range(at, min(at + SPAN, len(train))) for at in range(0, len(train), SPAN)]
    answers = Answers(question, len(train), len(spans))
    file = StateFile(state, identity_of(question, train, mark, SPAN)) if state else None
    if file:
        file.load_into(answers)
    missing = [number for number in range(len(spans)) if not answers.done[number]]
    done = len(train) - sum(len(spans[number]) for number in missing)
    if not len(question.queries):
        missing = []
    with _bar(len(train), done, "row", progress) as bar:
        if scheduler and missing:
            if opener is None:
                raise UserError("a cluster's workers need a way to open the dataset; this one has none")
            found = _far(Cluster(scheduler, opener), question, train, spans, missing, answers, bar.update)
        else:
            found = _near(question, train, spans, missing, answers, bar.update)
        for number, part in found:
            answers.merge(number, part)
            if file:
                file.save(answers)
    return answers.ids, answers.distances


Results = Iterator[tuple[int, Found]]


def _near(
    question: Question,
    train: Any,
    spans: list[range],
    missing: list[int],
    answers: Answers,
    advance: Callable[[int], object],
) -> Results:
    for number in missing:
        farthest = answers.distances[:, -1]
        yield number, search_span(question, train, spans[number], farthest, usable_cores(), advance)


def _far(
    cluster: Cluster,
    question: Question,
    train: Any,
    spans: list[range],
    missing: list[int],
    answers: Answers,
    advance: Callable[[int], object],
) -> Results:
    for number, found in cluster.search(
        question, train, {number: spans[number] for number in missing}, lambda: answers.distances[:, -1]
    ):
        yield number, found
        advance(len(spans[number]))


def _check(train: Any, queries: Any, k: int) -> None:
    if k < 1:
        raise UserError(f"{k} neighbours asked for; ask for at least 1")
    if k > len(train):
        raise UserError(
            f"{k} neighbours asked for, but there are only {len(train)} training rows; ask for fewer"
        )


def _bar(total: int, done: int, unit: str, progress: bool) -> tqdm:
    disable = None if progress else True  # None: only on a terminal
    return tqdm(
        total=total,
        initial=done,
        desc="exact neighbours",
        unit=unit,
        unit_scale=True,
        delay=1,
        disable=disable,
    )
