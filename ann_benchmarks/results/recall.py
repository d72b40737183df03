"""Recall and completeness of each query, from the distances of what was found, and the tail of recalls."""

import math
from functools import cache

import numpy as np

from ann_benchmarks.common.distributions import incomplete_beta

from .intervals import CONFIDENCE, Interval

RECALL_SLACK = 1e-3  # absolute, in the recall of ann-benchmarks alone
COUNTS = "recall_counts"  # attribute: how many queries have a recall of 0, 1/steps ... 1
ONE_IN = 20  # queries: 5%
MOST_STEPS = 100  # of recall, by which queries are counted
_ROUNDING = 1e-9


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


def fifth_percentile(recalls: np.ndarray) -> float:
    """Return the recall at the 5th percentile of queries, (queries,); NaN with fewer than 20 of them.

    It is the lower percentile, a value that occurred: at least 5% of the queries have this recall or a lower
    one, and at least 95% have this recall or a higher one.
    """
    if len(recalls) < ONE_IN:
        return math.nan
    place = (len(recalls) - 1) // ONE_IN
    return float(np.partition(recalls, place)[place])


def fifth_interval(recalls: np.ndarray) -> Interval:
    """Interval of the recall at the 5th percentile of all such queries; NaN with fewer than 20 of them.

    Its ends are order statistics: however recalls are distributed, the number of queries at most as good as
    the true percentile is at least binomial, and that of worse ones at most (David and Nagaraja, Order
    Statistics, 7.1). Where no query bounds it, the lower end is 0.
    """
    if len(recalls) < ONE_IN:
        return Interval(math.nan, math.nan)
    low, high = _ends(len(recalls))
    in_order = np.sort(recalls)
    return Interval(float(in_order[low - 1]) if low else 0.0, float(in_order[high - 1]))


@cache
def _ends(queries: int) -> tuple[int, int]:
    """Return the ranks of the ends, from 1 on; the lower one is 0 where no rank is low enough."""
    rest, share = (1 - CONFIDENCE) / 2, 1 / ONE_IN

    def at_least(rank: int) -> float:
        """Return the chance that this many queries or more are within the percentile."""
        return 1.0 if rank <= 0 else incomplete_beta(share, rank, queries - rank + 1)

    def first(limit: float) -> int:
        """Return the first rank whose chance is at most this."""
        low, high = 0, queries
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if at_least(middle) <= limit else (middle, high)
        return high

    return first(1 - rest - _ROUNDING) - 1, first(rest)


def recall_counts(recalls: np.ndarray, count: int) -> list[int]:
    """Return how many queries, (queries,), have each recall: 0, 1/k ... 1, where k is `count`.

    Beyond 100 neighbours these are steps of 1/100, and what lies between two counts to the lower one, as it
    does under a filter that fewer than k rows match.
    """
    steps = min(count, MOST_STEPS)
    places = np.floor(recalls * steps + _ROUNDING).astype(np.int64)
    found: list[int] = np.bincount(places, minlength=steps + 1).tolist()
    return found
