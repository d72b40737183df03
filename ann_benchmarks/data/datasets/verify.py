"""Look at a dataset's files again: are they what they were, and what they should be?"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from tqdm import tqdm

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.distance import candidate_distances

from ..download import has_record, verify
from . import canonical_name, dataset_path, described, open_file
from .dataset import Dataset
from .parts import Parts

CHECKED_QUERIES = 100


def verify_dataset(name: str) -> Iterator[str]:
    """Give one line for each thing that is wrong with the files of a dataset; nothing if all is well."""
    name = canonical_name(name)
    entry = described(name) if not dataset_path(name).exists() else None
    files = entry.files() if isinstance(entry, Parts) else [dataset_path(name)]
    missing = [path for path in files if not path.exists()]
    if missing:
        raise UserError(
            f"{', '.join(map(str, missing[:3]))} {'is' if len(missing) == 1 else 'are'} not there"
            f"{f', nor {len(missing) - 3} others' if len(missing) > 3 else ''}; get them by: "
            f"python create_dataset.py --dataset {name}"
        )
    for path in files:
        if has_record(path):
            yield from verify(path)
    try:
        with entry.open() if isinstance(entry, Parts) else open_file(name) as dataset:
            yield from _verify_content(dataset)
    except UserError as error:
        yield str(error)


def _verify_content(dataset: Dataset) -> Iterator[str]:
    """Read every vector, and compute the distances of the true neighbours of some queries again."""
    dataset.test()
    is_sparse = dataset.attrs["type"] == "sparse"
    train: Any = dataset.train() if is_sparse else dataset.train_rows()
    if not is_sparse:
        bar = tqdm(total=len(train), desc="vectors", unit=" rows", unit_scale=True, delay=1, disable=None)
        with bar:
            for _, block in train.blocks():
                bar.update(len(block))
    truth = dataset.truth()
    queries = np.linspace(0, len(truth.neighbors) - 1, min(CHECKED_QUERIES, len(truth.neighbors)), dtype=int)
    every = dataset.test()
    chosen: Any = [every[i] for i in queries] if isinstance(every, list) else every[queries]
    found = candidate_distances(dataset.attrs["distance"], chosen, train, truth.neighbors[queries])
    # float32 distances of near duplicates are off by a small share of the usual distance.
    slack = 1e-4 * float(np.median(np.abs(truth.known_distances)))
    wrong = ~np.isclose(found, truth.known_distances[queries], rtol=1e-3, atol=slack)
    if wrong.any():
        row, place = np.unravel_index(np.argmax(wrong), wrong.shape)
        yield (
            f"the true neighbours of query {queries[row]}: row {truth.neighbors[queries[row], place]} is at"
            f" distance {found[row, place]:.6g}, not {truth.known_distances[queries[row], place]:.6g}; the"
            f" neighbours belong to other vectors, find them anew by: python create_dataset.py"
            f" --ground-truth {dataset.name}"
        )
