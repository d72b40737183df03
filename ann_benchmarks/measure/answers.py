"""Answers of runs: checked, and completed with others where a run has not sent a query."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets.truth_check import MOST_MISSING
from ann_benchmarks.distance import is_nearer, rounded_up
from ann_benchmarks.load.samples import padded
from ann_benchmarks.load.spans import Measured


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
