"""Attributes in the files in which others publish them: ids, labels by id, and sparse matrices of tags."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.common.disk import disk_errors
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.regular import regular

from ..vectors.reading import reading
from ..vectors.sparse import SparseRows, open_csr
from .attributes import RowAttribute
from .filter import Filter, Predicate

LABEL_COLUMNS = ("labels", "id")  # of VectorDBBench's scalar_labels.parquet
BATCH = 2**16  # rows of a Parquet file at once


def id_column(name: str, ids: Iterable[np.ndarray] | None, rows: int, path: Path) -> RowAttribute:
    """Make an attribute of the ids of all rows, given in blocks; None: of the numbers of the rows."""
    values = np.empty(rows, np.int64)
    start = 0
    for block in ids if ids is not None else [np.arange(rows)]:
        if block.dtype.kind not in "iu":
            raise UserError(f"{path} has texts as ids, and the filters '{name}' compare numbers")
        values[start : start + len(block)] = block[: rows - start]
        start += len(block)
    if start < rows:
        raise UserError(f"{path} and its other parts have {start:,} ids, but there are {rows:,} vectors")
    return RowAttribute(name, "integer", values)


def label_column(name: str, path: Path, ids: np.ndarray) -> RowAttribute:
    """Read the label of each row, whose ids are given, from a Parquet file of labels by id.

    Without a column `id`, the ids are the places in the file. A null is an empty text. All rows with one
    label share one text: 8 bytes a row.
    """
    codes: list[np.ndarray] = []
    of: list[np.ndarray] = []
    known: dict[str, int] = {"": 0}
    for found_ids, found in _label_batches(path):
        start = sum(map(len, of))
        of.append(np.arange(start, start + len(found)) if found_ids is None else found_ids)
        texts = [text or "" for text in found.dictionary.to_pylist()]
        numbers = np.array([known.setdefault(text, len(known)) for text in texts] or [0], np.int32)
        codes.append(numbers[found.indices.fill_null(0).to_numpy(zero_copy_only=False)])
        codes[-1][found.indices.is_null().to_numpy(zero_copy_only=False)] = 0
    all_ids, all_codes = (np.concatenate(parts or [np.empty(0, np.int64)]) for parts in (of, codes))
    order = np.argsort(all_ids, kind="stable")
    all_ids, all_codes = all_ids[order], all_codes[order]
    twice = (all_ids[1:] == all_ids[:-1]) & (all_codes[1:] != all_codes[:-1])
    if twice.any():
        raise UserError(f"{path} has two labels for id {all_ids[np.argmax(twice)]}; fetch it again")
    at = np.minimum(np.searchsorted(all_ids, ids), max(len(all_ids) - 1, 0))
    lacking = np.ones(len(ids), bool) if not len(all_ids) else all_ids[at] != ids
    if lacking.any():
        row = int(np.argmax(lacking))
        raise UserError(f"{path} has no label for id {ids[row]} of row {row} (from 0); fetch it again")
    texts_of = np.array([*known], object)
    return RowAttribute(name, "text", texts_of[all_codes[at]])


def _label_batches(path: Path) -> Iterator[tuple[np.ndarray | None, Any]]:
    """Give ids, or None where the file has none, and labels, some rows at a time."""
    import pyarrow as pa  # which plots and reports, that need no such files, do not wait for
    import pyarrow.parquet as pq

    with reading(path):
        file = pq.ParquetFile(regular(path))
        names = file.schema_arrow.names
        labels, of = LABEL_COLUMNS
        if labels not in names or not _is_text(file.schema_arrow.field(labels).type):
            raise UserError(f"{path} has no column '{labels}' of texts; fetch it again")
        columns = [name for name in LABEL_COLUMNS if name in names]
        for batch in file.iter_batches(BATCH, columns=columns):
            found = batch.column(batch.schema.get_field_index(labels)).cast(pa.string()).dictionary_encode()
            numbers = None
            if of in columns:
                column = batch.column(batch.schema.get_field_index(of))
                if column.null_count:
                    raise UserError(f"{path} has null among its ids; fetch it again")
                numbers = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            yield numbers, found


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def tag_column(name: str, path: Path, rows: int, scratch: Path) -> RowAttribute:
    """Read the tags of all rows from a sparse matrix, rows by tags, whose entries are not 0.

    The tags lie in the file `scratch`, which is mapped, so that memory has the ends of the rows and some
    blocks alone. UserError where the matrix has another number of rows, or is damaged.
    """
    ends = np.empty(rows, np.int64)
    with disk_errors(scratch), scratch.open("wb") as file:
        matrix = _matrix(path, rows)
        last = 0
        for start, block in matrix.blocks():
            ends[start : start + len(block)] = last + block.indptr[1:]
            last += int(block.indptr[-1])
            file.write(np.ascontiguousarray(block.indices, "<i4").data)
        matrix.close()
    values = np.memmap(scratch, np.int32, "r") if last else np.empty(0, np.int32)
    return RowAttribute(name, "labels", values, ends)


def tag_filters(column: str, path: Path, queries: int) -> list[Filter]:
    """Read the tags of each query, all of which a row must have; equal filters are one object."""
    matrix = _matrix(path, queries)
    every = matrix.read(0, queries)
    matrix.close()
    made: dict[tuple[int, ...], Filter] = {}
    found = []
    for query in range(queries):
        tags = tuple(every.indices[every.indptr[query] : every.indptr[query + 1]].tolist())
        if not tags:
            raise UserError(f"{path} row {query} (from 0) has no tag, which a filter needs; fetch it again")
        found.append(made.setdefault(tags, Filter((Predicate(column, "contains", tags),))))
    return found


def _matrix(path: Path, rows: int) -> SparseRows:
    matrix = open_csr(path)
    if len(matrix) != rows:
        raise UserError(f"{path} has {len(matrix):,} rows, but there are {rows:,} vectors; fetch it again")
    return matrix
