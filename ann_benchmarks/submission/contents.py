"""What a bundle has beside its results: what it claims, its README, and the true neighbours."""

import math
from collections.abc import Iterable
from pathlib import Path

import h5py

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.data.datasets import Dataset, get_dataset, is_present
from ann_benchmarks.results.file import truth_mark
from ann_benchmarks.results.runs import Run

from .files import truth_name
from .manifest import BundledDataset, Manifest

README = "README.md"
README_TEXT = """# {title}

Results of a benchmark of vector search: `report/report.html` has the answer, `results/` a file for each
point. In a checkout of the project, `python -m ann_benchmarks.submission check FOLDER` checks all of it.

{facts}

## Data

{data}

## What was left out as private

{left_out}

The same placeholder stands for the same text everywhere.
"""


def claimed_points(runs: Iterable[Run], target: float) -> list[Run]:
    """Return what a bundle claims: of each series, the fastest point that reaches the target recall.

    The points of a series have the same clients, tier and filter. A throughput that was given is not a claim.
    """
    fastest: dict[Path, Run] = {}
    for run in runs:
        recall, qps = run.metrics["recall"], run.metrics["qps"]
        if run.series.is_open or not (target <= recall <= 1 and 0 < qps < math.inf):
            continue
        other = fastest.setdefault(run.path.parent, run)
        if qps > other.metrics["qps"]:
            fastest[run.path.parent] = run
    return [run for _, run in sorted(fastest.items())]


def bundle_facts(manifest: Manifest) -> dict[str, str]:
    """Return what a reader learns first."""
    experiment = f"{manifest.experiment}{', miniature' * manifest.mini}" if manifest.experiment else ""
    return {
        "Made at": manifest.made,
        "Contact": manifest.contact or "none given",
        "Division": manifest.division,
        "Target recall": f"{manifest.target_recall:g}",
        **({"Experiment": experiment} if experiment else {}),
    }


def dataset_lines(manifest: Manifest) -> list[str]:
    """Return a line for each dataset."""
    return [
        f"{name}: {counted(one.rows, 'row')} of {counted(one.dimension, 'dimension')}, {one.metric},"
        f" {one.queries:,} queries; fingerprint `{one.fingerprint}`"
        for name, one in sorted(manifest.datasets.items())
    ]


def readme(manifest: Manifest) -> str:
    """Return the text for somebody who opens the folder; its items follow from the manifest."""
    items = {
        "facts": [f"{name}: {value}" for name, value in bundle_facts(manifest).items()],
        "data": dataset_lines(manifest),
        "left_out": manifest.left_out,
    }
    lists = {name: "\n".join(f"- {line}" for line in lines) for name, lines in items.items()}
    lists["left_out"] = lists["left_out"] or "Nothing was found."
    return README_TEXT.format(title=manifest.title, **lists)


def write_truths(folder: Path, dataset: str, filters: Iterable[str]) -> BundledDataset:
    """Write the true neighbours of a dataset and of its filter sets into a bundle; describe the dataset.

    Each file has `distances` and `neighbors`, (queries, k), as the dataset has them; under a filter set also
    `matches`, (queries,), the number of rows that pass. UserError if the dataset is not here.
    """
    if not is_present(dataset):
        raise UserError(
            f"the dataset {dataset} is not here, and a bundle describes it: copy it here, or make it by:"
            f" python create_dataset.py --dataset {dataset}"
        )
    names = sorted(set(filters) - {""})
    with get_dataset(dataset)[0] as opened:
        for filter in ["", *names]:
            truth = opened.truth(filter)
            path = folder / truth_name(dataset, filter)
            path.parent.mkdir(parents=True, exist_ok=True)
            with h5py.File(path, "w") as file:
                file["distances"], file["neighbors"] = truth.known_distances, truth.neighbors
                if filter:
                    file["matches"] = opened.filter_set(filter).matches
        return described(opened, names)


def described(dataset: Dataset, filters: list[str]) -> BundledDataset:
    """Describe a dataset whose queries were measured under the filter sets of these names."""
    truth = dataset.truth()
    dimension, metric = int(dataset.attrs["dimension"]), str(dataset.attrs["distance"])
    mark = truth_mark(truth.known_distances)
    return BundledDataset(int(dataset.rows), dimension, metric, len(truth.neighbors), mark, filters)
