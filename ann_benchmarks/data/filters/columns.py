"""Columns of Parquet files as attributes of rows, and lists of values for filters."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.files import regular
from ann_benchmarks.common.names import too_long

from ..vectors.reading import reading
from .filter import RowAttribute
from .named import RESERVED_COLUMNS

LONGEST_COLUMN = 63  # bytes of a name that PostgreSQL keeps
LABEL_COLUMNS = ("labels", "id")  # of VectorDBBench's scalar_labels.parquet
_KINDS = "whole numbers, texts, dates or timestamps, or lists of whole numbers, which are labels"


def attribute_names(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    with reading(path):
        return [str(name) for name in pq.read_schema(regular(path)).names]


def read_columns(path: Path, columns: list[str], rows: int) -> dict[str, RowAttribute]:
    """Read columns as attributes; UserError where they are not of `rows` rows, or have nulls or no kind."""
    for name in columns:
        problem = too_long(name, LONGEST_COLUMN)
        if problem or not name.isprintable() or "/" in name or not name.strip(". "):
            raise UserError(f"{path}: '{shown(name)}' cannot be the name of an attribute; rename the column")
        if re.fullmatch(RESERVED_COLUMNS, name):
            raise UserError(f"{path}: '{name}' is a column of other filters; rename yours")
    with reading(path):
        table = pq.read_table(path, columns=columns)
    if table.num_rows != rows:
        raise UserError(
            f"{path} has {table.num_rows:,} rows, but there are {rows:,} vectors; attributes are one row a"
            " vector, in the same order"
        )
    return {name: _attribute(path, name, table.column(name)) for name in columns}


def value_list(place: Path) -> list[Any]:
    """Read one value a query from FILE.npy, FILE.parquet or FILE.parquet:COLUMN."""
    name, _, key = place.name.partition(":")
    path = place.parent / name
    if path.suffix == ".npy":
        with reading(path):
            array = np.load(regular(path), allow_pickle=False)
            if array.dtype.kind == "M":  # integers of it would have its own unit
                return list(array.astype("datetime64[us]"))
            return list(array.tolist())
    if path.suffix != ".parquet":
        raise UserError(f"cannot read values from {path}: use an NPY or a Parquet file")
    names = attribute_names(path)
    if not key and len(names) == 1:
        key = names[0]
    if key not in names:
        raise UserError(f"{path} has the columns {', '.join(names[:10])}; choose one with {path.name}:COLUMN")
    with reading(path):
        column = pq.read_table(path, columns=[key]).column(key)
        if _is_time(column.type):
            _refuse_nulls(path, key, column)
            return list(_microseconds(column).view("datetime64[us]"))
        return list(column.to_pylist())


def _attribute(path: Path, name: str, column: pa.ChunkedArray) -> RowAttribute:
    _refuse_nulls(path, name, column)
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_integer(kind):
        return RowAttribute(name, "integer", _whole_numbers(path, name, column, pa.int64()))
    if _is_text(kind):
        texts = np.array(column.to_pylist(), object)
        bad = [row for row, text in enumerate(texts) if "\0" in text]
        if bad:
            raise UserError(f"{path}:{name} row {bad[0]} (from 0) holds the character 0; remove it")
        return RowAttribute(name, "text", texts)
    if _is_time(kind):
        with reading(f"{path}:{name}"):
            return RowAttribute(name, "timestamp", _microseconds(column))
    if (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and pa.types.is_integer(kind.value_type):
        return _labels(path, name, column)
    raise UserError(f"{path}:{name} holds {kind}; an attribute has {_KINDS}")


def _microseconds(column: pa.ChunkedArray) -> np.ndarray:
    """Return times in microseconds since 1970 UTC, int64; servers have no finer ones: the rest is dropped."""
    kind = column.type
    is_instant = pa.types.is_timestamp(kind)
    if is_instant and kind.unit == "ns":
        return np.asarray(column.cast(pa.int64()).to_numpy() // 1000)
    unit = pa.timestamp("us", kind.tz if is_instant else None)
    return np.asarray(column.cast(unit).cast(pa.int64()).to_numpy())


def _labels(path: Path, name: str, column: pa.ChunkedArray) -> RowAttribute:
    counts = pc.list_value_length(column).to_numpy().astype(np.int64)
    flat = pc.list_flatten(column)
    rows = np.repeat(np.arange(len(counts)), counts)
    if flat.null_count:
        row = rows[int(np.argmax(flat.is_null().to_numpy()))]
        raise UserError(f"{path}:{name} row {row} (from 0) holds null; remove it")
    values = _whole_numbers(path, name, flat, pa.int32()).astype(np.int64)
    order = np.lexsort((values, rows))
    values = values[order]
    is_first = np.ones(len(values), bool)
    is_first[1:] = (values[1:] != values[:-1]) | (rows[1:] != rows[:-1])  # a label counts once
    counts = np.bincount(rows[is_first], minlength=len(counts))
    return RowAttribute(name, "labels", values[is_first].astype(np.int32), np.cumsum(counts))


def _whole_numbers(path: Path, name: str, column: Any, kind: pa.DataType) -> np.ndarray:
    try:
        numbers: np.ndarray = column.cast(kind).to_numpy()
    except pa.ArrowInvalid:
        raise UserError(f"{path}:{name} must have whole numbers of {kind.bit_width} bits at most") from None
    return numbers


def _refuse_nulls(path: Path, name: str, column: pa.ChunkedArray) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise UserError(
            f"{path}:{name} row {row} (from 0) is null, as {column.null_count:,} in all are; give each a"
            " value"
        )


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def label_column(name: str, path: Path, ids: np.ndarray) -> RowAttribute:
    """Read the label of each row, whose ids are given, from a Parquet file of labels by id.

    Without a column `id`, the ids are the places in the file. A null is an empty text. All rows with one
    label share one text: 8 bytes a row.
    """
    wanted, key = LABEL_COLUMNS
    with reading(path):
        names = pq.read_schema(regular(path)).names
        table = pq.read_table(path, columns=[name for name in LABEL_COLUMNS if name in names])
    if wanted not in names or not _is_text(table.column(wanted).type):
        raise UserError(f"{path} has no column '{wanted}' of texts; fetch it again")
    all_ids = np.arange(len(table))
    if key in names:
        if table.column(key).null_count:
            raise UserError(f"{path} has null among its ids; fetch it again")
        with reading(path):
            all_ids = table.column(key).cast(pa.int64()).to_numpy()
    found = pc.fill_null(table.column(wanted).cast(pa.string()), "").dictionary_encode().combine_chunks()
    all_codes = found.indices.to_numpy()
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
    return RowAttribute(name, "text", np.array(found.dictionary.to_pylist(), object)[all_codes[at]])


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
