"""Make the filter sets that a dataset does not have yet: columns, filters, and true neighbours under them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError, shown

from ..filters import SYNTHETIC_KINDS, Filter, FilterSet, RowAttribute, RowAttributes, canonical_filter
from ..filters.named import SyntheticSet, generated_column, generated_filters, synthetic_set
from ..filters.own import OwnFilters, read_own_filters
from ..filters.places import find_places, place_filters
from ..filters.truth import count_matches, filtered_truth, grouped
from ..ground_truth import SearchOptions
from ..ground_truth.span import Problem
from .catalog import canonical_name, get_dataset
from .dataset import DATA_FOLDER, Dataset
from .filter_files import (
    attribute_mark,
    column_path,
    filter_path,
    read_attribute,
    stored_filters,
    write_filter_set,
)
from .own import OwnVectors
from .published_filters import compare_published, published_filters, published_source, published_sources
from .queries import TrueNeighbors
from .write import NEIGHBORS

QUERY_PLACES = "place of queries"  # a column of the queries, not of the rows


def check_filters(name: str, filters: Sequence[str]) -> list[str]:
    """Return the canonical names of filter sets, each once; UserError for one that cannot be had."""
    stored = stored_filters(name, DATA_FOLDER)
    names = list(dict.fromkeys(canonical_filter(filter) for filter in filters))
    for filter in names:
        if synthetic_set(filter) or filter in stored or published_source(name, filter):
            continue
        kinds = [f"{kind}:..." for kind in SYNTHETIC_KINDS]
        known = ", ".join([*stored, *kinds, *(source.names for source in published_sources(name))])
        raise UserError(
            f"dataset '{name}' has no filters '{shown(filter)}'; there are {known};"
            f" one's own come from: python create_dataset.py --add-filters {name} --attributes FILE"
            " --filters FILE.yml"
        )
    return names


def prepare_filters(
    name: str, filters: Sequence[str], count: int = NEIGHBORS, force: bool = False
) -> list[str]:
    """Make what is missing of filter sets; return their canonical names, each once.

    `count` true neighbours a query are found, or as many as there are rows. An interrupted run goes on where
    it stopped. With `force`, neighbours are found anew. UserError for a set that cannot be had.
    """
    name = canonical_name(name)
    names = check_filters(name, filters)
    if not names:
        return []
    with get_dataset(name)[0] as dataset:
        sets = {filter: synthetic_set(filter) for filter in names}
        _require_dense(dataset)
        for synthetic in sets.values():
            if synthetic is not None:
                synthetic.matches(dataset.rows)  # refused before anything is made
        for filter, synthetic in sets.items():
            _prepare(dataset, filter, synthetic, min(count, dataset.rows), force)
    return names


def _require_dense(dataset: Dataset) -> None:
    if dataset.attrs["type"] != "dense":
        raise UserError(
            f"filters need dense vectors, which {dataset.name} does not have; use another dataset"
        )


def _prepare(dataset: Dataset, name: str, synthetic: SyntheticSet | None, count: int, force: bool) -> None:
    """Make one set unless it is there with `count` neighbours or more."""
    filters: Sequence[Filter]
    path = filter_path(dataset.name, name, dataset.data)
    source = published_source(dataset.name, name)
    can_be_made = synthetic is not None or source is not None
    stored = dataset.filter_set(name) if path.exists() and not (force and can_be_made) else None
    if stored is not None and not force and dataset.truth(name).neighbors.shape[1] >= count:
        return
    if source is not None:
        filters, attributes = published_filters(dataset, name, source)
        found = store_filters(dataset, name, filters, attributes, count)
        compare_published(dataset, found, filters, attributes)
        return
    if synthetic is None:
        assert stored is not None
        filters = stored.filters
        attributes = dataset.attributes([name])
    elif synthetic.column == "place":
        places, queries = _query_places(dataset), np.asarray(dataset.test())
        filters = place_filters(synthetic, queries, places, dataset.rows, str(dataset.attrs["distance"]))
        attributes = dataset.columns(["place"])
    else:
        if not dataset.has_column(synthetic.column):
            dataset.keep_column(generated_column(synthetic, dataset.rows))
        filters = generated_filters(synthetic, dataset.rows, len(dataset.test()))
        attributes = dataset.columns([synthetic.column])
    store_filters(dataset, name, filters, attributes, count)


def _query_places(dataset: Dataset) -> np.ndarray:
    """Return the places of queries; those of rows are found, too, if they are not there."""
    if not (dataset.has_column("place") and dataset.has_column(QUERY_PLACES)):
        found = find_places(dataset.train_rows(), np.asarray(dataset.test()), str(dataset.attrs["distance"]))
        dataset.keep_column(RowAttribute(QUERY_PLACES, "integer", found.queries))
        dataset.keep_column(RowAttribute("place", "integer", found.rows))
    return dataset.columns([QUERY_PLACES])[QUERY_PLACES].values


def store_filters(
    dataset: Dataset, name: str, filters: Sequence[Filter], attributes: RowAttributes, count: int
) -> TrueNeighbors:
    """Find the rows that pass each filter, and the true neighbours among them; store both, return the latter.

    UserError where no query has a row that passes its filter.
    """
    groups = grouped(filters)
    matches = count_matches(groups, attributes, len(filters))
    if not matches.any():
        raise UserError(f"no row passes any of the filters '{name}' of {dataset.name}; correct them")
    path = filter_path(dataset.name, name, dataset.data)
    state = path.with_name(f".{path.name}.truth.partial")
    files = [(file.stat().st_size, file.stat().st_mtime_ns) for file in dataset.train_files]
    searched = [(group.filter, group.queries.tolist()) for group in groups]
    digest = hashlib.blake2b(repr(searched).encode(), digest_size=16).hexdigest()
    options = SearchOptions(state, f"{dataset.mark()} {files} {attributes.mark} {digest}")
    problem = Problem(str(dataset.attrs["distance"]), np.asarray(dataset.test()), count)
    truth = filtered_truth(problem, dataset.train_rows(), groups, attributes, options)
    found = TrueNeighbors(*truth, dataset.name, name)
    made = FilterSet(name, filters, matches, dataset.rows)
    write_filter_set(path, made, found, dataset.mark(), attributes.mark)
    state.unlink(missing_ok=True)
    return found


@dataclass(frozen=True)
class FilterFiles:
    """The Parquet file of the attributes, one row a vector, and the YAML file of the filters."""

    attributes: Path
    filters: Path


def read_new_filters(files: FilterFiles, own: OwnVectors) -> OwnFilters:
    """Read filters for vectors that are still to become a dataset; UserError where they do not fit."""
    vectors, queries = own.open()
    chosen = own.query_rows(vectors.label, len(vectors))
    count = len(queries) if queries is not None else len(chosen)
    found = read_own_filters(files.attributes, files.filters, len(vectors), count)
    removed = own.removed(chosen)
    kept = {name: attribute.drop_rows(removed) for name, attribute in found.attributes.items()}
    found = OwnFilters(kept, found.sets)
    _check_matches(files, found, len(vectors) - len(removed))
    return found


def add_own_filters(
    name: str, files: FilterFiles, neighbors: int = NEIGHBORS, force: bool = False
) -> list[str]:
    """Read filters for a dataset that is there, and store them; return the names of the sets."""
    with get_dataset(canonical_name(name))[0] as dataset:
        _require_dense(dataset)
        found = read_own_filters(files.attributes, files.filters, dataset.rows, len(dataset.test()))
        for filter in found.sets:
            if published_source(dataset.name, filter):
                raise UserError(
                    f"'{filter}' is the name of published filters of {dataset.name}; choose another"
                )
        _check_matches(files, found, dataset.rows)
        return store_own_filters(dataset, found, neighbors, force)


def store_own_filters(dataset: Dataset, own: OwnFilters, neighbors: int, force: bool) -> list[str]:
    """Store filters, and their truth with up to `neighbors` rows a query; return the names of the sets.

    UserError where sets or columns of these names are there and `force` is not given.
    """
    if not force:
        _refuse_stored(dataset, own)
    for attribute in own.attributes.values():
        dataset.keep_column(attribute)
    for name, filters in own.sets.items():
        attributes = dataset.columns([predicate.column for predicate in filters[0].predicates])
        store_filters(dataset, name, filters, attributes, min(neighbors, dataset.rows))
    return list(own.sets)


def _refuse_stored(dataset: Dataset, own: OwnFilters) -> None:
    taken = [name for name in own.sets if name in stored_filters(dataset.name, dataset.data)]
    if taken:
        path = filter_path(dataset.name, taken[0], dataset.data)
        raise UserError(f"{path} exists; choose another name than '{taken[0]}', or add --force to replace it")
    for column, attribute in own.attributes.items():
        path = column_path(dataset.name, column, dataset.data)
        if path.exists() and read_attribute(path)[1] != attribute_mark(attribute):
            raise UserError(
                f"{path} exists with other values; --force replaces it, and other filters on '{column}' have"
                " to be made again"
            )


def _check_matches(files: FilterFiles, own: OwnFilters, rows: int) -> None:
    """Refuse filters that no row passes, before anything is made."""
    attributes = RowAttributes(own.attributes, rows, "")
    for name, filters in own.sets.items():
        if filters and not count_matches(grouped(filters), attributes, len(filters)).any():
            raise UserError(f"{files.filters}: no row passes any of the filters '{name}'; correct them")
