"""Queries with filters: whether all rows that are returned pass, and figures of their answers."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.filters import Filter, RowAttributes, passing
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.statistics.intervals import share_interval
from ann_benchmarks.statistics.percentiles import shown_percentile

LEAST_RANGE = 10  # times the smallest number of matches, that the largest one has
_PERCENTILES = ("p50", "p99")


class AnswerCheck:
    """Sees that rows pass the filters of the queries that they were returned to."""

    def __init__(self, attributes: RowAttributes, filters: Sequence[Filter]) -> None:
        """Take the attributes of all rows, and the filter of each query."""
        self._attributes, self._filters = attributes, filters

    def __call__(self, neighbors: np.ndarray) -> None:
        """Raise UserError, which names the query, where a row of (queries, n) does not pass; -1 passes."""
        passed = passing(self._attributes, self._filters, neighbors)
        if passed.all():
            return
        query, place = np.argwhere(~passed)[0]
        raise UserError(
            f"query {query} was answered with row {neighbors[query, place]}, which does not pass its filter"
            f" {self._filters[query]}"
        )


def filter_figures(complete: np.ndarray) -> dict[str, float]:
    """Return what is stored of the rows returned, by the completeness of each query, (queries,)."""
    is_short = (complete < 1).astype(float)
    of_rows, of_answers = share_interval(complete), share_interval(is_short)
    return {
        "completeness": float(complete.mean()),
        "completeness_low": of_rows.low,
        "completeness_high": of_rows.high,
        "short_answers": float(is_short.mean()),
        "short_answers_low": of_answers.low,
        "short_answers_high": of_answers.high,
    }


def decile_figures(
    matches: np.ndarray, recalls: np.ndarray, complete: np.ndarray, runs: Sequence[Measured]
) -> dict[str, str]:
    """Return what is stored of queries by how many rows match, each array (queries,), as JSON.

    Nothing where that differs little.
    """
    taken = [(run.times, np.arange(len(run.times)) if run.numbers is None else run.numbers) for run in runs]
    found = deciles(matches, recalls, complete, taken)
    return {"deciles": json.dumps(found)} if found else {}


def deciles(
    matches: np.ndarray,
    recalls: np.ndarray,
    completeness: np.ndarray,
    runs: Sequence[tuple[np.ndarray, np.ndarray]],
) -> list[dict[str, Any]]:
    """Return the figures of up to ten groups of queries, from those with the fewest matches on.

    The first three arrays are of all queries, (queries,). `runs` has the seconds of each run and the numbers
    of the queries that took them, both (n,); -1 where that is not known. Queries with equally many matches
    are in one group, so that groups can differ in size. Nothing where matches differ by less than 10 times.
    A percentile is that of the latencies of all runs, in s, and None where these are too few.
    """
    if not len(matches) or matches.max() < LEAST_RANGE * max(matches.min(), 1):
        return []
    edges = np.unique(np.quantile(matches, np.arange(1, 10) / 10, method="lower"))
    group_of = np.searchsorted(edges, matches)
    seconds = np.concatenate([times[numbers >= 0] for times, numbers in runs])
    of_latency = group_of[np.concatenate([numbers[numbers >= 0] for _, numbers in runs])]
    found = []
    for group in np.unique(group_of):
        those, latencies = group_of == group, seconds[of_latency == group]
        found.append({
            "least": int(matches[those].min()),
            "most": int(matches[those].max()),
            "queries": int(np.count_nonzero(those)),
            "recall": float(recalls[those].mean()),
            "completeness": float(completeness[those].mean()),
            **{name: shown_percentile(latencies, name) for name in _PERCENTILES},
        })  # fmt: skip
    return found
