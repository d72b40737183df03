"""Answers of runs: checked, also by their filters, and completed where a run has not sent a query."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets.truth_check import MOST_MISSING
from ann_benchmarks.data.filters import Filter, RowAttributes, passing
from ann_benchmarks.distance import is_nearer, rounded_up
from ann_benchmarks.load.samples import padded
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.statistics.intervals import share_interval
from ann_benchmarks.statistics.percentiles import shown_percentile

LEAST_RANGE = 10  # times the smallest number of matches, that the largest one has
_PERCENTILES = ("p50", "p99")


def checked_neighbors(answers: Sequence[Any] | np.ndarray, count: int, rows: int) -> np.ndarray:
    """Put answers into an array, (queries, at least count), -1 for none; UserError names a wrong one."""
    neighbors = padded(answers, count)
    strange = (neighbors < -1) | (neighbors >= rows)
    if strange.any():
        query, place = np.argwhere(strange)[0]
        raise UserError(
            f"query {query} was answered with neighbour {neighbors[query, place]},"
            f" but the training set has the rows 0 to {rows - 1}"
        )
    added = np.array([neighbors.shape[1] - len(answer) for answer in answers])
    nones = np.count_nonzero(neighbors == -1, axis=1) - added
    # ann-benchmarks stops at any repeated id, and what runs here is to run there. Arrays are padded already.
    if not isinstance(answers, np.ndarray) and (nones > 1).any():
        raise UserError(
            f"query {np.argmax(nones > 1)} was answered with -1 more than once;"
            " where there are fewer neighbours, the answer has to be shorter"
        )
    in_order = np.sort(neighbors, axis=1)
    repeated = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    if repeated.any():
        query, place = np.argwhere(repeated)[0]
        raise UserError(f"query {query} was answered with neighbour {in_order[query, place]} twice")
    return neighbors


class RefutedTruth(UserError):
    """An answer is better than the true neighbours allow, so that no recall means anything."""


def require_no_better(
    dataset: str, metric: str, neighbors: np.ndarray, found: np.ndarray, true: np.ndarray
) -> None:
    """Raise RefutedTruth where answers are better than the true neighbours of a dataset can be.

    `neighbors` and their distances, `found`, are answers, (queries, count), each row once; the distances
    `true` (queries, at least count) ascend, inf where fewer rows pass a filter.
    """
    in_order, true = np.sort(found, axis=1), true[:, : found.shape[1]]
    better = is_nearer(metric, in_order, true)
    slightly = rounded_up(in_order) < true
    if not better.any() and np.count_nonzero(slightly) <= MOST_MISSING * found.size:
        return
    query, place = np.argwhere(better if better.any() else slightly)[0]
    row = neighbors[query, np.argsort(found[query], kind="stable")[place]]
    limit = f"at {true[query, place]:.6g}" if np.isfinite(true[query, place]) else "missing"
    raise RefutedTruth(
        f"the true neighbours of {dataset} are wrong: query {query} was answered with row {row} at distance"
        f" {in_order[query, place]:.6g}, and its true neighbour {place + 1} is {limit}; compute them with:"
        f" python create_dataset.py --ground-truth {dataset} --force"
    )


def require_complete(neighbors: np.ndarray, due: int) -> None:
    """Raise UserError where an answer of an exact search, (queries, at least due), has fewer neighbours."""
    found = np.count_nonzero(neighbors >= 0, axis=1)
    if (found < due).any():
        query = int(np.argmax(found < due))
        raise UserError(
            f"query {query} was answered with {found[query]} neighbours, but an exact search has {due} here"
        )


def completed(run: Measured, others: np.ndarray | None) -> Measured:
    """Return a run that has an answer to every query, and how many of them it has not sent itself.

    `others` are the neighbours, (queries, at least count), of queries that were answered aside.
    """
    assert run.answered is not None
    aside = ~run.answered
    run = replace(run, facts={**run.facts, "queries_answered_aside": int(np.count_nonzero(aside))})
    if others is None or not aside.any():
        return run
    more = max(others.shape[1] - run.neighbors.shape[1], 0)
    found = np.pad(run.neighbors, ((0, 0), (0, more)), constant_values=-1)
    found[aside] = -1
    found[aside, : others.shape[1]] = others[aside]
    return replace(run, neighbors=found)


def filled(runs: list[Measured]) -> list[Measured]:
    """Give each run the other rounds' answers to queries that it has not sent itself.

    A query that no round has counted an answer to has that of the first run, which was obtained aside.
    """
    answered = np.array([
        np.ones(len(run.neighbors), bool) if run.answered is None else run.answered for run in runs
    ])  # fmt: skip
    if answered.all():
        return runs
    width = max(run.neighbors.shape[1] for run in runs)
    ids = np.full((len(runs), answered.shape[1], width), -1, dtype=np.int64)
    for row, run in zip(ids, runs, strict=True):
        row[:, : run.neighbors.shape[1]] = run.neighbors
    everyone, aside = np.arange(answered.shape[1]), ~answered.any(axis=0)
    result = []
    for place, run in enumerate(runs):
        source = (np.roll(answered, -place, axis=0).argmax(axis=0) + place) % len(runs)
        source[aside] = 0
        facts = {**run.facts, "queries_answered_aside": int(np.count_nonzero(aside))}
        result.append(replace(run, neighbors=ids[source, everyone], facts=facts))
    return result


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
