"""Whether stored filters are as they should be: columns, rows that pass, and neighbours."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.distance import candidate_distances

from ..filters import FilterSet, RowAttributes
from ..filters.matching import Matcher
from .dataset import Dataset
from .filter_files import attribute_mark, column_path, read_attribute, stored_filters

CHECKED_QUERIES = 100  # whose matches and distances are computed again


def verify_filters(dataset: Dataset) -> Iterator[str]:
    """Give one line for each thing that is wrong with the filters of a dataset."""
    mark, damaged = dataset.mark(), set()
    folder = column_path(dataset.name, "x", dataset.data).parent
    for path in sorted(folder.glob("[!.]*.h5")):
        try:
            attribute, values_mark = read_attribute(path, mark)
            if attribute_mark(attribute) != values_mark:
                damaged.add(attribute.name)
                yield f"{path} has other values than were written; delete it, and make the filters again"
        except UserError as error:
            yield str(error)
    for name in stored_filters(dataset.name, dataset.data):
        try:
            found = dataset.filter_set(name)
            if not damaged & {*found.attributes}:
                yield from _verify_set(dataset, found)
        except UserError as error:
            yield str(error)


def _verify_set(dataset: Dataset, filters: FilterSet) -> Iterator[str]:
    """Compute the matches and the distances of some queries again."""
    remedy = (
        f"make it again by: python create_dataset.py --ground-truth {dataset.name} --filters {filters.name}"
        " --force"
    )
    attributes: RowAttributes = dataset.attributes([filters.name])
    truth, every = dataset.truth(filters.name), dataset.test()
    if len(filters.filters) != len(every) or filters.rows != dataset.rows:
        yield f"the filters '{filters.name}' are of another number of rows or queries; {remedy}"
        return
    train: Any = dataset.train() if dataset.attrs["type"] == "sparse" else dataset.train_rows()
    numbers = np.linspace(0, len(every) - 1, min(CHECKED_QUERIES, len(every)), dtype=int)
    matcher, everywhere = Matcher(attributes), range(dataset.rows)
    for number in numbers.tolist():
        passing = matcher.rows(filters.filters[number], everywhere)
        found = truth.neighbors[number][truth.neighbors[number] >= 0]
        query: Any = [every[number]] if isinstance(every, list) else every[number : number + 1]
        distances = candidate_distances(
            dataset.attrs["distance"], query, train, truth.neighbors[number][None]
        )
        stored = truth.known_distances[number]
        slack = 1e-4 * float(np.median(np.abs(stored[np.isfinite(stored)]))) if len(found) else 0.0
        problem = ""
        if len(passing) != filters.matches[number]:
            problem = f"{len(passing):,} rows pass, not {filters.matches[number]:,}"
        elif not np.isin(found, passing).all() or len(found) != min(len(passing), len(stored)):
            problem = "its neighbours are not rows that pass"
        elif not np.isclose(distances[0], stored, rtol=1e-3, atol=slack).all():
            problem = "its neighbours are at other distances"
        if problem:
            yield f"the filters '{filters.name}', query {number} (from 0): {problem}; {remedy}"
            return
