"""Recall and completeness of each query, from the distances of what was found."""

import math

import numpy as np

RECALL_SLACK = 1e-3  # absolute: absorbs the rounding of an algorithm that computes distances its own way


def recall(found: np.ndarray, threshold: np.ndarray, count: int, due: np.ndarray | None = None) -> float:
    """Return the mean share of each query's first `count` found distances within its threshold.

    `due`, (queries,), is how many there are to be found of each query under its filter; None: `count`.
    """
    if due is not None:
        return float(recall_of_each(found, threshold, count, due).mean()) if len(found) else math.nan
    hits = int(np.count_nonzero(found[:, :count] <= threshold[:, np.newaxis]))
    return hits / len(found) / count if len(found) else math.nan


def recall_of_each(
    found: np.ndarray, threshold: np.ndarray, count: int, due: np.ndarray | None = None
) -> np.ndarray:
    """Return each query's share; `recall` is their mean. That of a query without matches is 1."""
    hits = np.count_nonzero(found[:, :count] <= threshold[:, np.newaxis], axis=1)
    return hits / count if due is None else share_of_due(hits, due)


def share_of_due(found: np.ndarray, due: np.ndarray) -> np.ndarray:
    """Return the share that was found of what there is to find, both (queries,); 1 where that is nothing."""
    share: np.ndarray = np.where(due > 0, np.minimum(found / np.maximum(due, 1), 1), 1.0)
    return share


def completeness_of_each(found: np.ndarray, due: np.ndarray) -> np.ndarray:
    """Return the share of the rows that each query was to return, by the found distances, (queries, k)."""
    return share_of_due(np.count_nonzero(np.isfinite(found), axis=1), due)
