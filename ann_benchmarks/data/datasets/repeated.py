"""Queries that are rows of the training set, too: they find themselves, which is easier than others."""

from collections.abc import Iterable
from typing import Any

import numpy as np

NEAR = 1e-3  # a distance that rounding may make of 0, to be followed by an exact comparison
IN_TRAIN = "queries_in_train"  # the attribute of a dataset and of its results


def count_repeated(
    metric: str, train: Any, queries: np.ndarray, ids: np.ndarray, distances: np.ndarray
) -> int:
    """Return how many queries are rows of `train`, value for value.

    `ids` and `distances` are the true neighbours, (queries, k). Under inner product, the nearest row of a
    vector need not be itself, so that all rows are read.
    """
    if metric == "ip":
        return _among_all(train, queries)
    return sum(
        _is_one_of(queries[number], (train[int(row) : int(row) + 1] for row in ids[number][near]))
        for number, near in enumerate(distances <= NEAR)
        if near.any()
    )


def _is_one_of(query: np.ndarray, rows: Iterable[np.ndarray]) -> bool:
    return any(np.array_equal(row[0], query) for row in rows)


def _among_all(train: Any, queries: np.ndarray) -> int:
    wanted = {query.tobytes(): 0 for query in np.ascontiguousarray(queries)}
    first = np.sort(queries[:, 0])
    for _, block in train.blocks():
        # Few rows share their first value with a query.
        places = np.minimum(np.searchsorted(first, block[:, 0]), len(first) - 1)
        for row in np.ascontiguousarray(block[first[places] == block[:, 0]], queries.dtype):
            if row.tobytes() in wanted:
                wanted[row.tobytes()] = 1
    return sum(wanted[query.tobytes()] for query in np.ascontiguousarray(queries))


def repetition(repeated: int, queries: int | None = None) -> str:
    """Say that queries are rows of the training set."""
    number = f"{repeated:,}" if queries is None else f"{repeated:,} of {queries:,}"
    return (
        f"{number} queries are rows of the training set: each finds itself, which raises the recall;"
        " take other queries, or have them held out (create_dataset.py --queries)"
    )
