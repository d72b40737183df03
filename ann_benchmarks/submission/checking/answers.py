"""Stored answers beside the true neighbours: whether they can have been given, and what they are worth."""

import numpy as np

from ..manifest import BundledDataset
from .arithmetic import Neighborhood, places, recalls_by_rows
from .points import CheckedPoint
from .rules import Findings
from .truth import repeated, tolerance

ADVICE = "measure the point again"
RECALL_APART = 0.01  # by which recall by distances may exceed that by rows without a word


def check_answers(
    point: CheckedPoint, dataset: BundledDataset, truth: Neighborhood, findings: Findings
) -> bool:
    """Refuse answers that no search of this dataset can give; return whether all can be."""
    rows, distances = point.stored.neighbors, point.stored.distances.astype(np.float64)
    problems = []
    if rows.min() < -1 or rows.max() >= dataset.rows:
        problems.append(f"has rows that a dataset of {dataset.rows:,} has not")
    if count := int(repeated(rows).sum()):
        problems.append(f"has a row twice in the answers to {count:,} queries")
    none = rows < 0
    if (np.diff(none.astype(np.int8), axis=1) < 0).any():
        problems.append("has rows after the end of an answer")
    if np.isnan(distances).any() or np.isneginf(distances).any() or (np.isposinf(distances) != none).any():
        problems.append("has rows without a distance, or distances without a row")
    if not problems:
        problems = contradictions(rows, distances, truth)
    for problem in problems:
        findings.refuse(point.file, "answers", problem, ADVICE)
    if not problems:
        _warn(point, truth, findings)
    return not problems


def contradictions(rows: np.ndarray, distances: np.ndarray, truth: Neighborhood) -> list[str]:
    """Say where answers contradict the true neighbours."""
    problems = []
    ordered = np.sort(distances, axis=1)
    width = min(ordered.shape[1], truth.distances.shape[1])
    best = truth.distances[:, :width]
    with np.errstate(invalid="ignore"):
        if count := int((ordered[:, :width] < best - tolerance(best)).any(axis=1).sum()):
            problems.append(f"has answers to {count:,} queries that are nearer than the true nearest rows")
        found = places(truth.rows, rows)
        same = np.take_along_axis(truth.distances, np.maximum(found, 0), axis=1)
        differs = (found >= 0) & (np.abs(distances - same) > tolerance(same))
        if count := int(differs.any(axis=1).sum()):
            problems.append(f"has other distances than the truth of the same rows, for {count:,} queries")
        last = truth.distances[:, -1:]
        nearer = (found < 0) & (rows >= 0) & (distances < last - tolerance(last))
    if count := int(nearer.any(axis=1).sum()):
        problems.append(f"has rows that would be among the true nearest of {count:,} queries, and are not")
    return problems


def _warn(point: CheckedPoint, truth: Neighborhood, findings: Findings) -> None:
    rows, distances = point.stored.neighbors, point.stored.distances.astype(np.float64)
    with np.errstate(invalid="ignore"):
        unsorted = (np.diff(distances, axis=1) < -tolerance(distances[:, 1:])).any(axis=1).sum()
    if unsorted:
        findings.warn(point.file, "answers", f"the answers to {int(unsorted):,} queries are not in order")
    by_rows = float(recalls_by_rows(places(truth.rows[:, : rows.shape[1]], rows), truth).mean())
    if point.recall - by_rows > RECALL_APART:
        findings.warn(
            point.file,
            "answers",
            f"its recall is {point.recall:.4f} by distances and {by_rows:.4f} by rows: many rows are nearly"
            " as near as the k-th",
        )
