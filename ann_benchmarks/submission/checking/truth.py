"""The true neighbours that a bundle holds: whether they can be true, and are those of its results."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError, shown

from ..manifest import BundledDataset, Manifest
from .arithmetic import Neighborhood, places
from .reading import array_of, attributes_of, opened_file
from .rules import Findings

FACTS = ("rows", "dimension", "metric", "queries")
RANGES = {
    "euclidean": (0.0, np.inf),
    "manhattan": (0.0, np.inf),
    "angular": (0.0, 2.0),
    "hamming": (0.0, 1.0),
    "jaccard": (0.0, 1.0),
}
ADVICE = "take the dataset's own, and write the bundle again"


def tolerance(distances: np.ndarray) -> np.ndarray:
    """Return by how much two computations of a distance may differ."""
    return np.where(np.isfinite(distances), 2e-5 + 1e-4 * np.abs(distances), 0.0)


def mark_of(distances: np.ndarray) -> str:
    """Return what identifies true distances, as results and manifests store it."""
    return hashlib.sha256(np.ascontiguousarray(distances, np.float64).tobytes()).hexdigest()[:16]


def truth_path(dataset: str, filter_set: str) -> str:
    """Return the path in a bundle of the true neighbours of a dataset, or of those under its filters."""
    return f"truth/{dataset}--{filter_set.replace(':', '-')}.hdf5" if filter_set else f"truth/{dataset}.hdf5"


class Truths:
    """The true neighbours of each dataset and filter set of a bundle, by (dataset, filter set)."""

    def __init__(self, folder: Path, manifest: Manifest, files: list[str], findings: Findings) -> None:
        """Read and check all that the manifest names."""
        self.found: dict[tuple[str, str], Neighborhood] = {}
        self._folder, self._findings = folder, findings
        expected = set()
        for name, dataset in sorted(manifest.datasets.items()):
            for filter_set in ("", *dataset.filters):
                path = truth_path(name, filter_set)
                expected.add(path)
                if path not in files:
                    findings.refuse(path, "truth", "is missing", "write the bundle again")
                    continue
                try:
                    self.found[name, filter_set] = self._read(path, name, dataset, filter_set)
                except UserError as error:
                    findings.refuse(path, "truth", str(error), ADVICE)
        for path in files:
            if path.startswith("truth/") and path not in expected:
                findings.refuse(path, "truth", "belongs to no dataset of the manifest", "take it out")

    def _read(self, path: str, name: str, dataset: BundledDataset, filter_set: str) -> Neighborhood:
        with opened_file(self._folder / path) as file:
            facts = attributes_of(file)
            rows = array_of(file, "neighbors", "iu").astype(np.int64)
            distances = array_of(file, "distances", "f")
            matches = array_of(file, "matches", "iu").astype(np.int64) if filter_set else None
        if rows.ndim != 2 or rows.shape != distances.shape or len(rows) != dataset.queries:
            raise UserError(f"has neighbours {rows.shape} and distances {distances.shape}")
        truth = Neighborhood(rows, distances.astype(np.float64), matches)
        self._check_facts(path, facts, name, dataset, mark_of(truth.distances))
        if problem := problem_of(truth, dataset):
            raise UserError(problem)
        if not filter_set and mark_of(truth.distances) != dataset.fingerprint:
            raise UserError(
                f"its distances have the fingerprint {mark_of(truth.distances)}, and the manifest"
                f" {dataset.fingerprint}"
            )
        whole = self.found.get((name, ""))
        if filter_set and whole is not None and (problem := contradiction(truth, whole)):
            raise UserError(problem)
        return truth

    def _check_facts(
        self, path: str, facts: dict[str, Any], name: str, dataset: BundledDataset, mark: str
    ) -> None:
        expected = {"name": name, "fingerprint": mark, **{fact: getattr(dataset, fact) for fact in FACTS}}
        for fact, value in expected.items():
            if fact in facts and facts[fact] != value:
                what = f"says {fact} {shown(facts[fact])}, which is {shown(value)}"
                self._findings.refuse(path, "dataset", what, "write the bundle again")


def problem_of(truth: Neighborhood, dataset: BundledDataset) -> str | None:
    """Say why these neighbours cannot be the true ones of any such dataset."""
    rows, distances = truth.rows, truth.distances
    if rows.min() < -1 or rows.max() >= dataset.rows:
        return f"names rows that a dataset of {dataset.rows:,} has not"
    if repeated(rows).any():
        return "names a row twice for one query"
    none = rows < 0
    if np.isnan(distances).any() or not (np.isposinf(distances) == none).all():
        return "has distances that are no numbers, or rows without a distance"
    if truth.matches is None and none.any():
        return "lacks neighbours of some queries"
    with np.errstate(invalid="ignore"):
        if (np.diff(distances, axis=1) < 0).any():
            return "has distances that do not ascend"
    least, most = RANGES.get(dataset.metric, (-np.inf, np.inf))
    known = distances[~none]
    if len(known) and (known.min() < least - 1e-5 or known.max() > most + 1e-5):
        return f"has distances that the metric {dataset.metric} cannot have"
    if truth.matches is not None:
        due = np.minimum(truth.matches, rows.shape[1])
        if len(due) != len(rows) or due.min() < 0 or truth.matches.max() > dataset.rows:
            return "has numbers of matching rows that cannot be"
        if ((~none).sum(axis=1) != due).any():
            return "has other numbers of neighbours than matching rows"
    return None


def contradiction(filtered: Neighborhood, whole: Neighborhood) -> str | None:
    """Say why neighbours under a filter contradict those without one."""
    width = min(filtered.rows.shape[1], whole.rows.shape[1])
    mine, others = filtered.distances[:, :width], whole.distances[:, :width]
    if (mine < others - tolerance(others)).any():
        return "has nearer rows under a filter than there are without one"
    found = places(whole.rows, filtered.rows)
    same = np.take_along_axis(whole.distances, np.maximum(found, 0), axis=1)
    with np.errstate(invalid="ignore"):
        differs = np.abs(filtered.distances - same) > tolerance(same)
    if (differs & (found >= 0)).any():
        return "has another distance of a row under a filter than without one"
    return None


def repeated(rows: np.ndarray) -> np.ndarray:
    """Return which lines of (queries, k) have a row twice, (queries,); -1 is none."""
    ordered = np.sort(rows, axis=1)
    equal: np.ndarray = ((np.diff(ordered, axis=1) == 0) & (ordered[:, 1:] >= 0)).any(axis=1)
    return equal
