"""Filter sets that were published with a dataset: fetched, and compared with what is found here.

The neighbours that count are those of the exact search here. Published ones are compared by row number,
which reads no vectors: the first k of each query, k being what both have.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ann_benchmarks.common.atomic import scratch_path
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.output import say, warn

from ..filters import Filter, Predicate, RowAttribute, RowAttributes, passing
from ..filters.published import published_share
from ..filters.published_columns import id_column, label_column, tag_column, tag_filters
from ..vectors.opening import read_neighbors
from ..vectors.sparse import peek_csr
from .catalog import entry_of
from .dataset import Dataset
from .downloads import get_file
from .filter_files import column_path, read_attributes, write_attribute
from .filter_sources import OF_ID, FilterSource, source_of, written_for
from .parts import Parts, PartsDataset
from .queries import TrueNeighbors

ENOUGH = 0.999  # of the published neighbours that are found here; the rest are at equal distances
CONNECTIONS = 4


def sources_of(name: str) -> Sequence[FilterSource]:
    """Return where the published filter sets of a dataset come from; none for most datasets."""
    entry = entry_of(name)
    return entry.filters if isinstance(entry, Parts) else ()


def published_source(name: str, filter: str) -> FilterSource | None:
    """Return where a filter set of a dataset comes from; None if it was not published with it."""
    return source_of(sources_of(name), filter)


def published_filters(
    dataset: Dataset, filter: str, source: FilterSource
) -> tuple[Sequence[Filter], RowAttributes]:
    """Return the filter of each query and the attribute that they are about, fetched if it is not there."""
    assert isinstance(dataset, PartsDataset)
    path, mark = column_path(dataset.name, source.column, dataset.data), dataset.mark()
    if not path.exists():
        _store_column(dataset, source, path, mark)
    attributes = read_attributes(dataset.name, [source.column], dataset.data, mark)
    queries = len(dataset.test())
    share = published_share(filter)
    if share is None:
        matrix = get_file(dataset.parts, source.of_queries, peek_csr, CONNECTIONS)
        return tag_filters(source.column, matrix, queries), attributes
    if source.of_rows == OF_ID:
        predicate = Predicate(source.column, ">=", share.first_id(dataset.rows))
    else:
        predicate = Predicate(source.column, "=", written_for(source.label, share))
    return [Filter((predicate,))] * queries, attributes


def _store_column(dataset: PartsDataset, source: FilterSource, path: Path, mark: str) -> None:
    """Write an attribute of all rows."""
    parts, name = dataset.parts, source.column
    if source.of_queries:
        matrix = get_file(parts, source.of_rows, peek_csr, CONNECTIONS)
        with scratch_path(path.with_suffix(".tags")) as scratch:
            write_attribute(path, tag_column(name, matrix, dataset.rows, scratch), mark)
        return
    first = parts.place(parts.train[0], dataset.data)
    attribute: RowAttribute = id_column(name, dataset.ids_of_rows(), dataset.rows, first)
    if source.of_rows != OF_ID:
        labels = get_file(parts, source.of_rows, _opens, CONNECTIONS)
        attribute = label_column(name, labels, attribute.values)
    write_attribute(path, attribute, mark)


def compare_published(
    dataset: Dataset, found: TrueNeighbors, filters: Sequence[Filter], attributes: RowAttributes
) -> None:
    """Say how far the published neighbours agree with those found here; warn where they do not.

    Without them, or where they cannot be had, there is nothing to compare: a warning says so.
    """
    assert isinstance(dataset, PartsDataset)
    source = published_source(dataset.name, found.filter)
    if source is None or not source.neighbors:
        return
    address = written_for(source.neighbors, published_share(found.filter))
    try:
        path = get_file(dataset.parts, address, read_neighbors, CONNECTIONS)
        published = dataset.neighbors_in(path)
    except UserError as error:
        warn(f"the published neighbours under '{found.filter}' are not compared: {error}")
        return
    if not (published >= 0).any() and (found.neighbors >= 0).any():
        warn(f"the published neighbours under '{found.filter}' are not compared: {path} names no row")
        return
    shared, passed = agreement_of_ids(found.neighbors, published, filters, attributes)
    text = (
        f"{found.filter}: {shared:.3%} of the published neighbours are among those found here;"
        f" {passed:.3%} pass their filter"
    )
    if min(shared, passed) < ENOUGH:
        warn(f"{text}; recall is of those found here")
    else:
        say(text)


def agreement_of_ids(
    found: np.ndarray, published: np.ndarray, filters: Sequence[Filter], attributes: RowAttributes
) -> tuple[float, float]:
    """Return the share of published rows that were found, and the share that pass their filters.

    Both arrays are (queries, k) row numbers, nearest first, -1 for none; the first columns that both have are
    compared. 1 and 1 where nothing was published.
    """
    k = min(found.shape[1], published.shape[1])
    found, published = found[:, :k], published[:, :k]
    is_row = published >= 0
    if not is_row.any():
        return 1.0, 1.0
    query = np.arange(len(found))[:, np.newaxis] * (attributes.rows + 1)
    is_found = np.isin(query + published, (query + found)[found >= 0])
    passed = passing(attributes, filters, published)
    return float(is_found[is_row].mean()), float(passed[is_row].mean())


def _opens(path: Path) -> None:
    """Read a file of labels for no row: refuse what is no such file."""
    label_column("labels", path, np.empty(0, np.int64))
