"""A bundle beside the real vectors: the distances of its rows, and which rows pass a filter."""

from contextlib import suppress

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import Dataset, get_dataset, prepare_filters
from ann_benchmarks.data.filters import passing
from ann_benchmarks.distance import candidate_distances

from ..contents import described
from ..files import truth_name
from .points import CheckedPoint, OpenedBundle
from .truth import Neighborhood, broken_rows, tolerance


def compare_with_data(opened: OpenedBundle) -> None:
    """Refuse datasets, true neighbours and answers that are not those of the vectors."""
    findings = opened.findings
    for name, said in opened.manifest.datasets.items():
        with findings.refusing(truth_name(name), "dataset"), get_dataset(name)[0] as dataset:
            own = vars(described(dataset, said.filters))
            different = {fact for fact, value in own.items() if getattr(said, fact) != value}
            for fact in different:
                what = f"has the {fact} {getattr(said, fact)}, and the dataset {own[fact]}"
                findings.refuse(truth_name(name), "dataset", what)
            if not different <= {"metric", "fingerprint"}:
                continue
            for filter_set in ("", *said.filters):
                if (truth := opened.truths.get((name, filter_set))) is not None:
                    _compare_truth(opened, dataset, name, filter_set, truth)
            for point in opened.points(name):
                if not broken_rows(point.rows, point.distances, said.rows):
                    with suppress(UserError):  # the check of the truth says why
                        _compare(opened, point.file, "answers", dataset, point, point.series.filter)


def _compare_truth(
    opened: OpenedBundle, dataset: Dataset, name: str, filter_set: str, truth: Neighborhood
) -> None:
    """Refuse true neighbours with other distances than the dataset's."""
    path = truth_name(name, filter_set)
    try:
        prepare_filters(name, [filter_set] if filter_set else [])
        own = np.asarray(dataset.truth(filter_set).known_distances, np.float64)
    except UserError as error:
        what = f"was not compared with the dataset's: {error}"
        opened.findings.refuse(path, "truth", what, disqualifies=False)
        return
    width = min(own.shape[1], truth.distances.shape[1])
    if problem := _different_queries(truth.distances[:, :width], own[:, :width]):
        opened.findings.refuse(path, "truth", f"its distances are others than the dataset's, {problem}")
    else:
        _compare(opened, path, "truth", dataset, truth, filter_set)


def _compare(
    opened: OpenedBundle,
    file: str,
    rule: str,
    dataset: Dataset,
    found: CheckedPoint | Neighborhood,
    filter_set: str,
) -> None:
    """Refuse rows with other distances than theirs, and those that do not pass their filter."""
    metric = str(dataset.attrs["distance"])
    own = candidate_distances(metric, dataset.test(), dataset.vectors(), found.rows)
    if problem := _different_queries(found.distances, own):
        opened.findings.refuse(file, rule, f"has other distances than its rows have, {problem}")
    if filter_set:
        filters = dataset.filter_set(filter_set).filters
        passed = passing(dataset.attributes([filter_set]), filters, found.rows.astype(np.int64))
        if wrong := int((~passed).any(axis=1).sum()):
            what = f"has rows that do not pass the filters of {wrong:,} queries"
            opened.findings.refuse(file, rule, what)


def _different_queries(said: np.ndarray, computed: np.ndarray) -> str:
    """Say for how many queries distances differ, "" for none; inf equals inf."""
    with np.errstate(invalid="ignore"):
        same = (said == computed) | (np.abs(said - computed) <= tolerance(computed))
    wrong = int((~same).any(axis=1).sum())
    return f"for {wrong:,} queries" if wrong else ""
