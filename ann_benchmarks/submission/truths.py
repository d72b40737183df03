"""What a bundle has of its datasets: their shapes and true neighbours, not their vectors."""

from collections.abc import Iterable
from pathlib import Path

import h5py

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset, is_present
from ann_benchmarks.results.file import truth_mark

from .manifest import BundledDataset


def truth_name(dataset: str, filter: str = "") -> str:
    """Return the path in a bundle of a dataset's true neighbours, or of those under a filter set."""
    return f"truth/{dataset}{'--' if filter else ''}{filter.replace(':', '-')}.hdf5"


def write_truths(folder: Path, dataset: str, filters: Iterable[str]) -> BundledDataset:
    """Write the true neighbours of a dataset and of its filter sets into a bundle; describe the dataset.

    Each file has `distances` and `neighbors`, (queries, k), as the dataset has them, and the facts of the
    dataset as attributes; under a filter set also `matches`, (queries,), the number of rows that pass.
    `fingerprint` is `truth_mark` of the `distances` of the file. UserError if the dataset is not here.
    """
    if not is_present(dataset):
        raise UserError(
            f"the dataset {dataset} is not here, and a bundle describes it: copy it here, or make it by:"
            f" python create_dataset.py --dataset {dataset}"
        )
    names = sorted(set(filters) - {""})
    with get_dataset(dataset)[0] as opened:
        rows, dimension = int(opened.rows), int(opened.attrs["dimension"])
        metric = str(opened.attrs["distance"])
        facts = {"name": dataset, "rows": rows, "dimension": dimension, "metric": metric}
        marks = {}
        for filter in ["", *names]:
            truth = opened.truth(filter)
            distances, neighbors = truth.known_distances, truth.neighbors
            marks[filter] = truth_mark(distances)
            path = folder / truth_name(dataset, filter)
            path.parent.mkdir(parents=True, exist_ok=True)
            with h5py.File(path, "w") as file:
                file.attrs.update({**facts, "queries": len(neighbors), "fingerprint": marks[filter]})
                file["distances"], file["neighbors"] = distances, neighbors
                if filter:
                    file.attrs["filter"] = filter
                    file["matches"] = opened.filter_set(filter).matches
            queries = len(neighbors)
    return BundledDataset(rows, dimension, metric, queries, marks[""], names)
