"""The true neighbours that a bundle holds: whether they can be true, and which answers they allow."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.file import truth_mark
from ann_benchmarks.results.truth import Truth

from ..files import truth_name
from ..manifest import BundledDataset, Manifest
from .reading import array_of, opened_file
from .rules import Findings

_BLOCK = 1 << 24  # comparisons at once


@dataclass(frozen=True)
class Neighborhood(Truth):
    """The true neighbours of every query: `rows` and `distances` (queries, k_truth).

    Under a filter rows are -1 and distances inf beyond the rows that pass; `matches` (queries,) is their
    number.
    """

    rows: np.ndarray = field(default_factory=lambda: np.empty((0, 0), int))
    matches: np.ndarray | None = None


def tolerance(distances: np.ndarray) -> np.ndarray:
    """Return by how much two computations of a distance may differ."""
    return np.where(np.isfinite(distances), 2e-5 + 1e-4 * np.abs(distances), 0.0)


def places(rows: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
    """Return where in `rows` (queries, n) each of `neighbors` (queries, k) is, -1 where it is not."""
    found = np.full(neighbors.shape, -1)
    step = max(1, _BLOCK // max(rows.shape[1] * neighbors.shape[1], 1))
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        equal = neighbors[block, :, None] == rows[block, None, :]
        found[block] = np.where(equal.any(axis=2) & (neighbors[block] >= 0), equal.argmax(axis=2), -1)
    return found


def broken_rows(rows: np.ndarray, distances: np.ndarray, most: int) -> list[str]:
    """Say which rules neighbours (queries, k) in `most` rows break, as answers or as the truth."""
    none, ordered = rows < 0, np.sort(rows, axis=1)
    rules = {
        f"has rows that a dataset of {most:,} has not": rows.min() < -1 or rows.max() >= most,
        "has a row twice for one query": ((np.diff(ordered, axis=1) == 0) & (ordered[:, 1:] >= 0)).any(),
        "has rows after the end of an answer": (np.diff(none.astype(np.int8), axis=1) < 0).any(),
        "has rows without a distance, or distances without a row": (
            np.isnan(distances).any() or (np.isposinf(distances) != none).any()),
    }  # fmt: skip
    return [text for text, is_broken in rules.items() if is_broken]


def different_distances(rows: np.ndarray, distances: np.ndarray, truth: Neighborhood) -> np.ndarray:
    """Return which (queries, k) of some rows have another distance than the truth has for them."""
    found = places(truth.rows, rows)
    same = np.take_along_axis(truth.distances, np.maximum(found, 0), axis=1)
    with np.errstate(invalid="ignore"):
        differs: np.ndarray = (found >= 0) & (np.abs(distances - same) > tolerance(same))
    return differs


def read_truths(
    folder: Path, manifest: Manifest, files: list[str], findings: Findings
) -> dict[tuple[str, str], Neighborhood]:
    """Read and check the true neighbours of each (dataset, filter set) of a bundle."""
    found: dict[tuple[str, str], Neighborhood] = {}
    expected = set()
    for name, dataset in sorted(manifest.datasets.items()):
        for filter_set in ("", *dataset.filters):
            path = truth_name(name, filter_set)
            expected.add(path)
            with findings.refusing(path, "truth"):
                if path not in files:
                    raise UserError("is missing")
                truth = _read_truth(folder / path, dataset, filter_set)
                for problem in islice(_truth_problems(truth, dataset, found.get((name, ""))), 1):
                    raise UserError(problem)
                found[name, filter_set] = truth
    for path in files:
        if path.startswith("truth/") and path not in expected:
            findings.refuse(path, "truth", "belongs to no dataset of the manifest")
    return found


def _read_truth(path: Path, dataset: BundledDataset, filter_set: str) -> Neighborhood:
    """Return true neighbours; UserError where they cannot be read."""
    with opened_file(path, ("neighbors", "distances", *["matches"] * bool(filter_set))) as file:
        rows = array_of(file, "neighbors", "iu").astype(np.int64)
        distances = array_of(file, "distances", "f")
        matches = array_of(file, "matches", "iu").astype(np.int64) if filter_set else None
    if rows.ndim != 2 or rows.shape != distances.shape or len(rows) != dataset.queries:
        raise UserError(f"has neighbours {rows.shape} and distances {distances.shape}")
    return Neighborhood(distances.astype(np.float64), bool(filter_set), rows=rows, matches=matches)


def _truth_problems(
    truth: Neighborhood, dataset: BundledDataset, whole: Neighborhood | None
) -> Iterator[str]:
    """Yield why these neighbours cannot be the true ones of such a dataset; each assumes those before.

    `whole` are those without filters.
    """
    rows, distances, matches = truth.rows, truth.distances, truth.matches
    none = rows < 0
    yield from broken_rows(rows, distances, dataset.rows)
    if matches is None and none.any():
        yield "lacks neighbours of some queries"
    with np.errstate(invalid="ignore"):
        if (np.diff(distances, axis=1) < 0).any():
            yield "has distances that do not ascend"
    if matches is not None:
        due = np.minimum(matches, rows.shape[1])
        if len(due) != len(rows) or due.min() < 0 or matches.max() > dataset.rows:
            yield "has numbers of matching rows that cannot be"
        elif ((~none).sum(axis=1) != due).any():
            yield "has other numbers of neighbours than matching rows"
    elif (mark := truth_mark(distances)) != dataset.fingerprint:
        yield f"its distances have the fingerprint {mark}, and the manifest {dataset.fingerprint}"
    if matches is not None and whole is not None:
        width = min(rows.shape[1], whole.rows.shape[1])
        others = whole.distances[:, :width]
        if (distances[:, :width] < others - tolerance(others)).any():
            yield "has nearer rows under a filter than there are without one"
        if different_distances(rows, distances, whole).any():
            yield "has another distance of a row under a filter than without one"
