"""A bundle beside the real vectors: the distances of its rows, and which rows pass a filter."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import Dataset, get_dataset, prepare_filters
from ann_benchmarks.data.filters import passing
from ann_benchmarks.distance import candidate_distances

from ..contents import described
from ..files import truth_name
from ..manifest import Manifest
from .points import CheckedPoint
from .rules import Findings
from .truth import Neighborhood, tolerance


class RealVectors(ExitStack):
    """The datasets that a bundle's results are of, opened one by one; a context that closes them."""

    def __init__(self, manifest: Manifest, findings: Findings) -> None:
        """Take what the bundle says of the datasets, which are opened by their names."""
        super().__init__()
        self._manifest, self._findings = manifest, findings
        self._opened: dict[str, Dataset | None] = {}

    def check_truth(self, truths: Mapping[tuple[str, str], Neighborhood]) -> None:
        """Refuse datasets that are others, and true neighbours that are not those of the vectors."""
        for (name, filter_set), truth in truths.items():
            if (dataset := self._dataset(name)) is None:
                continue
            path = truth_name(name, filter_set)
            try:
                prepare_filters(name, [filter_set] if filter_set else [])
                own = np.asarray(dataset.truth(filter_set).known_distances, np.float64)
            except UserError as error:
                what = f"was not compared with the dataset's: {error}"
                self._findings.refuse(path, "truth", what, disqualifies=False)
                continue
            width = min(own.shape[1], truth.distances.shape[1])
            if problem := _different_queries(truth.distances[:, :width], own[:, :width]):
                what = f"its distances are others than the dataset's, {problem}"
                self._findings.refuse(path, "truth", what)
            else:
                self._compare(path, "truth", dataset, truth, filter_set)

    def check_point(self, point: CheckedPoint) -> None:
        """Refuse a point whose distances are not those of its rows."""
        if (dataset := self._dataset(point.dataset)) is not None:
            with suppress(UserError):  # the check of the truth says why
                self._compare(point.file, "answers", dataset, point, point.series.filter)

    def _compare(
        self, file: str, rule: str, dataset: Dataset, found: CheckedPoint | Neighborhood, filter_set: str
    ) -> None:
        """Refuse rows with other distances than theirs, and those that do not pass their filter."""
        if problem := _different_queries(found.distances, _distances(dataset, found.rows)):
            self._findings.refuse(file, rule, f"has other distances than its rows have, {problem}")
        if filter_set and (wrong := _not_passing(dataset, filter_set, found.rows)):
            self._findings.refuse(file, rule, wrong)

    def _dataset(self, name: str) -> Dataset | None:
        """Open a dataset; None, which is said once, where it cannot be had or has another shape."""
        if name in self._opened:
            return self._opened[name]
        self._opened[name], path, said = None, truth_name(name), self._manifest.datasets[name]
        with self._findings.refusing(path, "dataset"):
            opened = self.enter_context(get_dataset(name)[0])
            own = vars(described(opened, said.filters))
            different = {fact for fact, value in own.items() if getattr(said, fact) != value}
            for fact in sorted(different):
                what = f"has the {fact} {getattr(said, fact)}, and the dataset {own[fact]}"
                self._findings.refuse(path, "dataset", what)
            if different <= {"metric", "fingerprint"}:
                self._opened[name] = opened
        return self._opened[name]


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
