"""The bundle beside the real vectors: distances of the rows that answers and truth name, recomputed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import checked_name
from ann_benchmarks.data.datasets import Dataset, HDF5Dataset, get_dataset, prepare_filters
from ann_benchmarks.data.filters import passing
from ann_benchmarks.distance import candidate_distances

from ..manifest import BundledDataset, Manifest
from .arithmetic import Neighborhood
from .points import CheckedPoint
from .rules import Findings
from .truth import mark_of, tolerance, truth_path

BLOCK_BYTES = 32 << 20  # of the rows that are gathered at once, in double precision
OTHER_DATA = "measure on the dataset of this name, or give yours a name of its own"
AGAIN = "measure the point again"


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
            dataset = self._dataset(name)
            if dataset is None:
                continue
            path = truth_path(name, filter_set)
            try:
                own = self._own_truth(name, dataset, filter_set)
            except UserError as error:
                self._findings.warn(path, "truth", f"was not compared with the dataset's: {error}")
                continue
            width = min(own.shape[1], truth.distances.shape[1])
            problem = _differing(truth.distances[:, :width], own[:, :width])
            if not problem:
                problem = _differing(truth.distances, self._distances(dataset, truth.rows))
            if problem:
                what = f"its distances are others than the dataset's, {problem}"
                self._findings.refuse(path, "truth", what, "take the dataset's own")
            if filter_set and (wrong := self._not_passing(dataset, filter_set, truth.rows)):
                what = f"has rows that do not pass the filters of {wrong:,} queries"
                self._findings.refuse(path, "truth", what, "take the dataset's own")

    def check_point(self, point: CheckedPoint) -> None:
        """Refuse a point whose distances are not those of its rows."""
        dataset = self._dataset(point.dataset)
        if dataset is None:
            return
        rows, stored = point.stored.neighbors, point.stored.distances.astype(np.float64)
        if problem := _differing(stored, self._distances(dataset, rows)):
            what = f"has other distances than its rows have, {problem}"
            self._findings.refuse(point.file, "answers", what, AGAIN)
        if point.series.filter:
            try:
                wrong = self._not_passing(dataset, point.series.filter, rows)
            except UserError:
                return  # which the check of the truth says
            if wrong:
                what = f"has rows that do not pass the filters of {wrong:,} queries"
                self._findings.refuse(point.file, "answers", what, AGAIN)

    def _dataset(self, name: str) -> Dataset | None:
        """Open a dataset; None, which is said once, where it cannot be had or is another one."""
        if name not in self._opened:
            self._opened[name] = None
            try:
                opened = self._open(name)
            except UserError as error:
                advice = "get it, or give --data the folder that has it"
                self._findings.refuse(truth_path(name, ""), "dataset", f"cannot be compared: {error}", advice)
                return None
            self._stack.enter_context(opened)
            problems = list(differences(opened, self._manifest.datasets[name]))
            for problem in problems:
                self._findings.refuse(truth_path(name, ""), "dataset", problem, OTHER_DATA)
            if not any("shape" in problem for problem in problems):
                self._opened[name] = opened
        return self._opened[name]

    def _open(self, name: str) -> Dataset:
        if self._folder is None:
            return get_dataset(name)[0]
        return HDF5Dataset(self._folder / f"{checked_name(name, 'dataset')}.hdf5")

    def _own_truth(self, name: str, dataset: Dataset, filter_set: str) -> np.ndarray:
        if filter_set and self._folder is None:
            prepare_filters(name, [filter_set])
        return np.asarray(dataset.truth(filter_set).known_distances, np.float64)

    def _distances(self, dataset: Dataset, rows: np.ndarray) -> np.ndarray:
        metric = str(dataset.attrs["distance"])
        if dataset.attrs.get("type", "dense") != "dense":
            sets = dataset.attrs["type"] == "sparse"
            return candidate_distances(
                metric, dataset.test(), dataset.train() if sets else dataset.train_rows(), rows
            )
        return distances_of(metric, np.asarray(dataset.test()), dataset.train_rows(), rows)

    def _not_passing(self, dataset: Dataset, filter_set: str, rows: np.ndarray) -> int:
        filters = dataset.filter_set(filter_set).filters
        passed = passing(dataset.attributes([filter_set]), filters, rows.astype(np.int64))
        return int((~passed).any(axis=1).sum())


def differences(dataset: Dataset, said: BundledDataset) -> Iterator[str]:
    """Yield in what a dataset is another one than the manifest says."""
    metric = str(dataset.attrs["distance"])
    shape = (dataset.rows, int(dataset.attrs["dimension"]), len(dataset.test()))
    if metric != said.metric:
        yield f"is of the metric {said.metric}, and the dataset of {metric}"
    if shape != (said.rows, said.dimension, said.queries):
        yield (
            f"has another shape: {said.rows:,} rows of {said.dimension:,} and {said.queries:,} queries, and"
            f" the dataset {shape[0]:,} of {shape[1]:,} and {shape[2]:,}"
        )
        return
    mark = mark_of(dataset.truth().known_distances)
    if mark != said.fingerprint:
        yield f"has the fingerprint {said.fingerprint}, and the dataset {mark}"


def distances_of(metric: str, queries: np.ndarray, train: Any, rows: np.ndarray) -> np.ndarray:
    """Return the distance of each row named in (queries, k) to its query, inf for -1; by blocks."""
    found = np.full(rows.shape, np.inf)
    query_of, slot = np.nonzero(rows >= 0)
    number = rows[query_of, slot]
    order = np.argsort(number, kind="stable")
    size = max(1, BLOCK_BYTES // (8 * max(queries.shape[1], 1)))
    for start in range(0, len(order), size):
        block = order[start : start + size]
        distinct, place = np.unique(number[block], return_inverse=True)
        vectors = np.asarray(train[distinct])[place]
        found[query_of[block], slot[block]] = FORMULAS[metric](queries[query_of[block]], vectors)
    return found


def _euclidean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(a.astype(np.float64) - b.astype(np.float64), axis=1))


def _manhattan(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(a.astype(np.float64) - b.astype(np.float64)).sum(axis=1))


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((a.astype(np.float64) * b.astype(np.float64)).sum(axis=1))


def _angular(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    lengths = np.sqrt(_inner(a, a) * _inner(b, b))
    return np.asarray(1 - np.divide(_inner(a, b), lengths, out=np.zeros(len(a)), where=lengths > 0))


def _hamming(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((a.astype(bool) != b.astype(bool)).mean(axis=1))


def _jaccard(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(bool), b.astype(bool)
    return np.asarray(1 - (a & b).sum(axis=1) / np.maximum((a | b).sum(axis=1), 1))


FORMULAS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "euclidean": _euclidean,
    "manhattan": _manhattan,
    "ip": lambda a, b: -_inner(a, b),
    "angular": _angular,
    "hamming": _hamming,
    "jaccard": _jaccard,
}


def _differing(said: np.ndarray, computed: np.ndarray) -> str:
    """Say for how many queries distances differ, "" for none; inf equals inf."""
    with np.errstate(invalid="ignore"):
        same = (said == computed) | (np.abs(said - computed) <= tolerance(computed))
    wrong = int((~same).any(axis=1).sum())
    return f"for {wrong:,} queries" if wrong else ""
