"""Filter sets that were published with a dataset: fetched, and compared with what is found here.

Tags of rows are in big-ann-benchmarks' files: a sparse matrix, rows by tags, whose entries are not 0.
The neighbours that count are those of the exact search here. Published ones are compared by row number,
without reading any vectors: the first k of each query, k being what both have.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import disk_errors, scratch_path
from ann_benchmarks.common.text import say, warn

from ..filters import Filter, RowAttribute, RowAttributes, passing
from ..filters.filter import make_filters
from ..filters.named import published_share
from ..vectors import read_neighbors
from ..vectors.files import FlatRows
from ..vectors.reading import LARGEST, reading
from .catalog import entry_of
from .dataset import Dataset
from .downloads import get_file
from .filter_files import column_path
from .parts import FilterSource, Parts, PartsDataset
from .queries import TrueNeighbors

_AT_ONCE = 2**20  # rows, and entries
_HEADER = 24  # bytes: int64 rows, tags, entries
ENOUGH = 0.999  # of the published neighbours that are found here; the rest are at equal distances


def published_sources(name: str) -> Sequence[FilterSource]:
    """Return where the published filter sets of a dataset come from; most datasets have none."""
    entry = entry_of(name)
    return entry.filters if isinstance(entry, Parts) else ()


def published_source(name: str, filter: str) -> FilterSource | None:
    """Return where a filter set of a dataset comes from; None if it was not published with it.

    UserError for a share that was not published.
    """
    share = published_share(filter)
    for source in published_sources(name):
        if source.name != (filter if share is None else share.kind) or bool(source.shares) != bool(share):
            continue
        if share is not None and share.number not in source.shares:
            known = ", ".join(f"{each:f}" for each in sorted(source.shares))
            raise UserError(f"'{filter}' has not been published; shares of {share.kind} are {known}")
        return source
    return None


def published_filters(
    dataset: Dataset, filter: str, source: FilterSource
) -> tuple[Sequence[Filter], RowAttributes]:
    """Return the filter of each query and the attribute that they are about, fetched if it is not there."""
    assert isinstance(dataset, PartsDataset)
    if not dataset.has_column(source.column):
        _store_column(dataset, source)
    attributes = dataset.columns([source.column])
    queries, share = len(dataset.test()), published_share(filter)
    if share is None:
        matrix = get_file(dataset.parts, source.of_queries, read_header)
        return _tag_filters(source.column, matrix, queries), attributes
    if source.of_rows == "id":
        return make_filters([(source.column, ">=")], [(share.first_id(dataset.rows),)] * queries), attributes
    return make_filters([(source.column, "=")], [(share.written_in(source.label),)] * queries), attributes


def _store_column(dataset: PartsDataset, source: FilterSource) -> None:
    """Write an attribute of all rows."""
    parts, name = dataset.parts, source.column
    if source.of_queries:
        matrix = get_file(parts, source.of_rows, read_header)
        path = column_path(dataset.name, name, dataset.data)
        with scratch_path(path.with_suffix(".tags")) as scratch:
            dataset.keep_column(_tag_column(name, matrix, dataset.rows, scratch))
        return
    first = parts.place(parts.train[0], dataset.data)
    attribute = _id_column(name, dataset.row_ids(), dataset.rows, first)
    if source.of_rows != "id":
        # The Parquet library is slow to import.
        from ..filters.columns import label_column

        labels = get_file(
            parts, source.of_rows, lambda path: label_column("labels", path, np.empty(0, np.int64))
        )
        attribute = label_column(name, labels, attribute.values)
    dataset.keep_column(attribute)


def _id_column(name: str, ids: Iterable[np.ndarray] | None, rows: int, path: Path) -> RowAttribute:
    """Make an attribute of the ids of all rows, given in blocks; None: of the numbers of the rows."""
    values = np.empty(rows, np.int64)
    start = 0
    for block in ids if ids is not None else [np.arange(rows)]:
        values[start : start + len(block)] = block[: rows - start]
        start += len(block)
    if start < rows:
        raise UserError(f"{path} and its other parts have {start:,} ids, but there are {rows:,} vectors")
    return RowAttribute(name, "integer", values)


def _tag_column(name: str, path: Path, rows: int, scratch: Path) -> RowAttribute:
    """Read the tags of all rows.

    They lie in the file `scratch`, which is mapped, so that memory has the ends of the rows and some of the
    tags alone. UserError where the file has another number of rows, or is damaged.
    """
    counts = [np.empty(0, np.int64)]
    with disk_errors(scratch), scratch.open("wb") as file:
        for some, tags in read_tags(path, rows):
            counts.append(some)
            file.write(tags.astype("<i4").data)
    ends = np.cumsum(np.concatenate(counts))
    values = np.memmap(scratch, np.int32, "r") if ends[-1:].any() else np.empty(0, np.int32)
    return RowAttribute(name, "labels", values, ends)


def _tag_filters(column: str, path: Path, queries: int) -> list[Filter]:
    """Read the tags of each query, all of which a row must have."""
    each: list[np.ndarray] = []
    for counts, tags in read_tags(path, queries):
        each += np.split(tags, np.cumsum(counts)[:-1])
    bare = next((number for number, tags in enumerate(each) if not len(tags)), None)
    if bare is not None:
        raise UserError(f"{path} row {bare} (from 0) has no tag, and a filter needs one; fetch it again")
    return make_filters([(column, "contains")], [(tuple(tags.tolist()),) for tags in each])


def compare_published(
    dataset: Dataset, found: TrueNeighbors, filters: Sequence[Filter], attributes: RowAttributes
) -> None:
    """Say how far the published neighbours agree with those found here; warn where they do not.

    Without them, or where they cannot be had, there is nothing to compare: a warning says so.
    """
    assert isinstance(dataset, PartsDataset)
    source, share = published_source(dataset.name, found.filter), published_share(found.filter)
    if source is None or not source.neighbors:
        return
    address = source.neighbors if share is None else share.written_in(source.neighbors)
    try:
        path = get_file(dataset.parts, address, read_neighbors)
        published = dataset.neighbors_in(path)
        if not (published >= 0).any() and (found.neighbors >= 0).any():
            raise UserError(f"{path} names no row")
    except UserError as error:
        warn(f"the published neighbours under '{found.filter}' are not compared: {error}")
        return
    shared, passed = row_agreement(found.neighbors, published, filters, attributes)
    text = (
        f"{found.filter}: {shared:.3%} of the published neighbours are among those found here;"
        f" {passed:.3%} pass their filter"
    )
    if min(shared, passed) < ENOUGH:
        warn(f"{text}; recall is of those found here")
    else:
        say(text)


def row_agreement(
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


def read_header(path: Path) -> tuple[int, int, int]:
    """Return the rows, tags and entries of a file; UserError where it is another one."""
    with reading(path), path.open("rb") as file:
        content = file.read(_HEADER)
    header = np.frombuffer(content, "<i8") if len(content) == _HEADER else np.array([-1])
    if (header < 0).any() or (header >= LARGEST).any() or not 0 < header[1] < 2**31:
        raise UserError(f"cannot read {path}: it does not begin as a matrix of tags does; fetch it again")
    rows, tags, entries = map(int, header)
    return rows, tags, entries


def read_tags(path: Path, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Give, for many rows at once, how many tags each row has, and the tags, ascending in each row.

    UserError where the file has another number of rows, or is damaged.
    """
    found, tags, entries = read_header(path)
    if found != rows:
        raise UserError(f"{path} has {found:,} rows, but there are {rows:,} vectors; fetch it again")
    at = _HEADER + 8 * (rows + 1)
    bounds = FlatRows(path, str(path), _HEADER, (rows + 1, 1), "<i8").read(0, rows + 1)[:, 0]
    if bounds[0] or bounds[-1] != entries or (np.diff(bounds) < 0).any():
        raise UserError(f"cannot read {path}: the bounds of its rows do not fit its {entries:,} entries")
    tag_of = FlatRows(path, str(path), at, (entries, 1), "<i4")
    value_of = FlatRows(path, str(path), at + 4 * entries, (entries, 1), "<f4")
    start = 0
    while start < rows:
        stop = int(np.searchsorted(bounds, bounds[start] + _AT_ONCE, "right")) - 1
        stop = min(max(stop, start + 1), rows, start + _AT_ONCE)
        part = int(bounds[start]), int(bounds[stop])
        tag, is_there = tag_of.read(*part)[:, 0].astype(np.int64), value_of.read(*part)[:, 0] != 0
        row = np.repeat(np.arange(stop - start), np.diff(bounds[start : stop + 1]))
        if (is_outside := (tag < 0) | (tag >= tags)).any():
            bad = start + int(row[np.argmax(is_outside)])
            raise UserError(f"{path} row {bad} (from 0) has a tag outside its {tags:,}; fetch it again")
        row, tag = np.divmod(np.unique(row[is_there] * tags + tag[is_there]), tags)
        yield np.bincount(row, minlength=stop - start), tag
        start = stop
