"""The true neighbours that a bundle holds: whether they can be true, and are those of the real vectors."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.names import checked_name
from ann_benchmarks.data.datasets import Dataset, HDF5Dataset, get_dataset, prepare_filters
from ann_benchmarks.data.filters import passing
from ann_benchmarks.distance import candidate_distances
from ann_benchmarks.results.file import truth_mark

from ..files import truth_name
from ..manifest import BundledDataset, Manifest
from .points import CheckedPoint, Neighborhood
from .reading import array_of, opened_file
from .rules import Findings

FACTS = ("rows", "dimension", "metric", "queries")
FARTHEST = {"euclidean": np.inf, "manhattan": np.inf, "angular": 2.0, "hamming": 1.0, "jaccard": 1.0}
NOISE = 1e-5  # of a distance in single precision
ADVICE = "take the dataset's own, and write the bundle again"
OWN = "take the dataset's own"
OTHER_DATA = "measure on the dataset of this name, or give yours a name of its own"
AGAIN = "measure the point again"
_BLOCK = 1 << 24  # comparisons at once


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


def repeats(rows: np.ndarray) -> np.ndarray:
    """Return which lines of (queries, k) have a row twice, (queries,); -1 is none."""
    ordered = np.sort(rows, axis=1)
    equal: np.ndarray = ((np.diff(ordered, axis=1) == 0) & (ordered[:, 1:] >= 0)).any(axis=1)
    return equal


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
            if path not in files:
                findings.refuse(path, "truth", "is missing", "write the bundle again")
                continue
            try:
                truth, facts = _read_truth(folder / path, dataset, filter_set)
            except UserError as error:
                findings.refuse(path, "truth", str(error), ADVICE)
                continue
            own = {"name": name, "fingerprint": truth_mark(truth.distances)}
            for fact, value in (own | {fact: getattr(dataset, fact) for fact in FACTS}).items():
                if fact in facts and facts[fact] != value:
                    what = f"says {fact} {shown(facts[fact])}, which is {shown(value)}"
                    findings.refuse(path, "dataset", what, "write the bundle again")
            if problem := next(_truth_problems(truth, dataset, found.get((name, ""))), None):
                findings.refuse(path, "truth", problem, ADVICE)
            else:
                found[name, filter_set] = truth
    for path in files:
        if path.startswith("truth/") and path not in expected:
            findings.refuse(path, "truth", "belongs to no dataset of the manifest", "take it out")
    return found


def _read_truth(path: Path, dataset: BundledDataset, filter_set: str) -> tuple[Neighborhood, dict[str, Any]]:
    """Return true neighbours and what their file says of them; UserError where they cannot be read."""
    with opened_file(path) as file:
        facts = dict(file.attrs)
        rows = array_of(file, "neighbors", "iu").astype(np.int64)
        distances = array_of(file, "distances", "f")
        matches = array_of(file, "matches", "iu").astype(np.int64) if filter_set else None
    if rows.ndim != 2 or rows.shape != distances.shape or len(rows) != dataset.queries:
        raise UserError(f"has neighbours {rows.shape} and distances {distances.shape}")
    return Neighborhood(distances.astype(np.float64), bool(filter_set), rows=rows, matches=matches), facts


def _truth_problems(
    truth: Neighborhood, dataset: BundledDataset, whole: Neighborhood | None
) -> Iterator[str]:
    """Yield why these neighbours cannot be the true ones of such a dataset; each assumes those before.

    `whole` are those without filters.
    """
    rows, distances, matches = truth.rows, truth.distances, truth.matches
    none = rows < 0
    if rows.min() < -1 or rows.max() >= dataset.rows:
        yield f"names rows that a dataset of {dataset.rows:,} has not"
    if repeats(rows).any():
        yield "names a row twice for one query"
    if np.isnan(distances).any() or not (np.isposinf(distances) == none).all():
        yield "has distances that are no numbers, or rows without a distance"
    if matches is None and none.any():
        yield "lacks neighbours of some queries"
    with np.errstate(invalid="ignore"):
        if (np.diff(distances, axis=1) < 0).any():
            yield "has distances that do not ascend"
    if dataset.metric in FARTHEST and not none.all():
        known, farthest = distances[~none], FARTHEST[dataset.metric]
        if known.min() < -NOISE or known.max() > farthest + NOISE:
            yield f"has distances that the metric {dataset.metric} cannot have"
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


class RealVectors:
    """The datasets that a bundle's results are of, opened one by one; a context that closes them."""

    def __init__(self, folder: Path | None, manifest: Manifest, findings: Findings) -> None:
        """Take the folder with the datasets' files; None: they are opened by their names, from data/."""
        self._folder, self._manifest, self._findings = folder, manifest, findings
        self._opened: dict[str, Dataset | None] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "RealVectors":
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def check_truth(self, truths: Mapping[tuple[str, str], Neighborhood]) -> None:
        """Refuse datasets that are others, and true neighbours that are not those of the vectors."""
        for (name, filter_set), truth in truths.items():
            if (dataset := self._dataset(name)) is None:
                continue
            path = truth_name(name, filter_set)
            try:
                if filter_set and self._folder is None:
                    prepare_filters(name, [filter_set])
                own = np.asarray(dataset.truth(filter_set).known_distances, np.float64)
            except UserError as error:
                self._findings.warn(path, "truth", f"was not compared with the dataset's: {error}")
                continue
            width = min(own.shape[1], truth.distances.shape[1])
            problem = _different_queries(truth.distances[:, :width], own[:, :width])
            problem = problem or _different_queries(truth.distances, _distances(dataset, truth.rows))
            if problem:
                what = f"its distances are others than the dataset's, {problem}"
                self._findings.refuse(path, "truth", what, OWN)
            if filter_set and (wrong := _not_passing(dataset, filter_set, truth.rows)):
                self._findings.refuse(path, "truth", wrong, OWN)

    def check_point(self, point: CheckedPoint) -> None:
        """Refuse a point whose distances are not those of its rows."""
        if (dataset := self._dataset(point.dataset)) is None:
            return
        rows, stored = point.stored.neighbors, point.stored.distances.astype(np.float64)
        if problem := _different_queries(stored, _distances(dataset, rows)):
            what = f"has other distances than its rows have, {problem}"
            self._findings.refuse(point.file, "answers", what, AGAIN)
        if point.series.filter:
            try:
                wrong = _not_passing(dataset, point.series.filter, rows)
            except UserError:
                return  # the check of the truth says why
            if wrong:
                self._findings.refuse(point.file, "answers", wrong, AGAIN)

    def _dataset(self, name: str) -> Dataset | None:
        """Open a dataset; None, which is said once, where it cannot be had or is another one."""
        if name in self._opened:
            return self._opened[name]
        self._opened[name], path = None, truth_name(name)
        try:
            if self._folder is None:
                opened = get_dataset(name)[0]
            else:
                opened = HDF5Dataset(self._folder / f"{checked_name(name, 'dataset')}.hdf5")
        except UserError as error:
            advice = "get it, or give --data the folder that has it"
            self._findings.refuse(path, "dataset", f"cannot be compared: {error}", advice)
            return None
        self._stack.enter_context(opened)
        said, metric = self._manifest.datasets[name], str(opened.attrs["distance"])
        shape = (opened.rows, int(opened.attrs["dimension"]), len(opened.test()))
        if metric != said.metric:
            what = f"is of the metric {said.metric}, and the dataset of {metric}"
            self._findings.refuse(path, "dataset", what, OTHER_DATA)
        if shape != (said.rows, said.dimension, said.queries):
            what = (
                f"has another shape: {said.rows:,} rows of {said.dimension:,} and {said.queries:,} queries,"
                f" and the dataset {shape[0]:,} of {shape[1]:,} and {shape[2]:,}"
            )
            self._findings.refuse(path, "dataset", what, OTHER_DATA)
            return None
        if (mark := truth_mark(opened.truth().known_distances)) != said.fingerprint:
            what = f"has the fingerprint {said.fingerprint}, and the dataset {mark}"
            self._findings.refuse(path, "dataset", what, OTHER_DATA)
        self._opened[name] = opened
        return opened


def _distances(dataset: Dataset, rows: np.ndarray) -> np.ndarray:
    """Return the distance of each row named in (queries, k) to its query, inf for -1."""
    train = dataset.train() if dataset.attrs.get("type") == "sparse" else dataset.train_rows()
    return candidate_distances(str(dataset.attrs["distance"]), dataset.test(), train, rows)


def _not_passing(dataset: Dataset, filter_set: str, rows: np.ndarray) -> str:
    """Say for how many queries rows do not pass their filter, "" for none."""
    filters = dataset.filter_set(filter_set).filters
    passed = passing(dataset.attributes([filter_set]), filters, rows.astype(np.int64))
    wrong = int((~passed).any(axis=1).sum())
    return f"has rows that do not pass the filters of {wrong:,} queries" if wrong else ""


def _different_queries(said: np.ndarray, computed: np.ndarray) -> str:
    """Say for how many queries distances differ, "" for none; inf equals inf."""
    with np.errstate(invalid="ignore"):
        same = (said == computed) | (np.abs(said - computed) <= tolerance(computed))
    wrong = int((~same).any(axis=1).sum())
    return f"for {wrong:,} queries" if wrong else ""
