"""Attributes and filters of one's own for a dataset: with new vectors, or for one that is there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError

from ..filters import RowAttribute, RowAttributes
from ..filters.own import OwnFilters, kept_rows, read_own_filters
from ..filters.truth import count_matches, grouped
from ..vectors.sparse import is_sparse_file
from .catalog import canonical_name, get_dataset
from .dataset import Dataset
from .filter_files import (
    attribute_mark,
    column_path,
    filter_path,
    read_attribute,
    read_attributes,
    stored_filters,
    write_attribute,
)
from .filtering import store_filters
from .own import QUERIES, OwnVectors
from .published_filters import published_source
from .write import NEIGHBORS


@dataclass(frozen=True)
class FilterFiles:
    """The Parquet file of the attributes, one row a vector, and the YAML file of the filters."""

    attributes: Path
    filters: Path


def filters_of_own(files: FilterFiles, own: OwnVectors) -> OwnFilters:
    """Read filters for vectors that are still to become a dataset; UserError where they do not fit."""
    if is_sparse_file(Path(own.train)):
        raise UserError(
            f"{own.train} holds sparse vectors; make the dataset without filters, then add these by"
            " --add-filters"
        )
    vectors, queries = own.open()
    rows = len(vectors)
    removed = np.array(sorted(own.held_out(rows)), np.int64)
    count = len(queries) if queries is not None else own.queries or QUERIES
    found = read_own_filters(files.attributes, files.filters, rows, count)
    found = OwnFilters(kept_rows(found.attributes, removed), found.sets)
    _check_matches(files, found, rows - len(removed))
    return found


def add_own_filters(
    name: str, files: FilterFiles, neighbors: int = NEIGHBORS, force: bool = False
) -> list[str]:
    """Read filters for a dataset that is there, and store them; return the names of the sets."""
    with get_dataset(canonical_name(name))[0] as dataset:
        found = read_own_filters(files.attributes, files.filters, dataset.rows, len(dataset.test()))
        for filter in found.sets:
            if published_source(dataset.name, filter):
                raise UserError(
                    f"'{filter}' are the published filters of {dataset.name}; choose another name"
                )
        _check_matches(files, found, dataset.rows)
        return store_own_filters(dataset, found, neighbors, force)


def store_own_filters(dataset: Dataset, own: OwnFilters, neighbors: int, force: bool) -> list[str]:
    """Store filters, and their truth with up to `neighbors` rows a query; return the names of the sets.

    UserError where sets or columns of these names are there and `force` is not given.
    """
    mark = dataset.mark()
    if not force:
        _refuse_stored(dataset, own)
    for column, attribute in own.attributes.items():
        write_attribute(column_path(dataset.name, column, dataset.data), attribute, mark)
    for name, filters in own.sets.items():
        columns = [predicate.column for predicate in filters[0].predicates]
        attributes = read_attributes(dataset.name, columns, dataset.data, mark)
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
    attributes: Mapping[str, RowAttribute] = own.attributes
    for name, filters in own.sets.items():
        of_rows = RowAttributes(attributes, rows, "")
        if filters and not count_matches(grouped(filters), of_rows, len(filters)).any():
            raise UserError(f"{files.filters}: no row passes any of the filters '{name}'; correct them")
