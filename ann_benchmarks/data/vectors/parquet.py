"""Vectors in Parquet files: a column of lists, decoded as a stream. Also published neighbours, and ids."""

import hashlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ann_benchmarks.common.errors import UserError

from .reading import choose, read_at, reading, require_vectors, row_range
from .rows import BLOCK_BYTES, Rows

USUAL_COLUMNS = ("emb", "neighbors_id")  # of the OpenAI and Cohere sets
READ_BUFFER = 2**18  # bytes; with one, pages are read as they are needed and not a whole row group
SAMPLES, SAMPLE_BYTES = 64, 2**16  # of each file, for its fingerprint
NUMPY_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}  # of Arrow's types
ID_BATCH = 2**16  # ids at once
MOST_DECODERS = 16  # kept for reads that go on where another ended: those of several connections, say
_IDLE: "list[_Decoder]" = []  # those that nobody uses just now, of any file
_LOCK = threading.Lock()


def open_parquet(path: Path, key: str = "") -> "ParquetRows":
    """Open a column of lists: `key`, else the only one, else that of USUAL_COLUMNS."""
    with reading(path), open_file(path) as file:
        lists = [field.name for field in file.schema_arrow if _is_list(field.type)]
        usual = [name for name in USUAL_COLUMNS if name in lists and not key]
        return ParquetRows(path, choose(path, "column of lists", lists, usual[0] if usual else key), file)


def read_parquet_neighbors(path: Path) -> np.ndarray:
    """Read ids (queries, k), in the order of the column `id` if there is one."""
    ids, keys = open_parquet(path)[:], parquet_ids([path])
    return ids if keys is None else ids[np.argsort(distinct_ids(path, keys), kind="stable")]


def open_file(path: Path) -> pq.ParquetFile:
    """Open a file so that no more of it is in memory than is being decoded."""
    return pq.ParquetFile(path, buffer_size=READ_BUFFER, pre_buffer=False)


class ParquetRows(Rows):
    """A column of lists of numbers, all of the length of the first.

    Ranges that follow one another, or skip ahead, are one pass of decoding; others begin at their row group.
    In memory is one batch of rows for each of a few places that are read from, however large the row groups.
    """

    def __init__(self, path: Path, column: str, file: pq.ParquetFile) -> None:
        self.label, self.paths = f"{path}:{column}", (path.absolute(),)
        self._column = column
        groups = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        self._starts = np.cumsum([0, *groups])
        kind = file.schema_arrow.field(column).type
        element = kind.value_type
        plain = pa.types.is_primitive(element) and not pa.types.is_temporal(element)
        # (Some versions of pyarrow name NumPy's type only where pandas is installed.)
        self.dtype = np.dtype(NUMPY_NAMES.get(str(element), str(element)) if plain else object)
        if sum(groups) != file.metadata.num_rows or min(groups, default=0) < 0:
            raise UserError(f"cannot read {path}: its row groups do not add up to its rows; fetch it again")
        self.shape = (sum(groups), self._dimension(file, kind))
        require_vectors(self.label, self.shape, self.dtype)

    def _dimension(self, file: pq.ParquetFile, kind: Any) -> int:
        if pa.types.is_fixed_size_list(kind):
            return int(kind.list_size)
        for batch in file.iter_batches(1, columns=[self._column], use_threads=False):
            if len(batch):
                dimension = pc.list_value_length(batch.column(0))[0].as_py()
                if not dimension:
                    found = "is null" if dimension is None else "is empty"
                    raise UserError(f"{self.row_name(0)} {found}; every row must be a vector")
                return int(dimension)
        return 0

    def read(self, start: int, stop: int) -> np.ndarray:
        rows = np.empty((stop - start, self.shape[1]), self.dtype)
        if not len(rows):
            return rows
        with reading(row_range(self.label, start, stop)):
            decoder = self._decoder_at(start)  # not used again after an error
            done = 0
            while done < len(rows):
                block = decoder.next(len(rows) - done)
                rows[done : done + len(block)] = block
                done += len(block)
        if stop < len(self):
            with _LOCK:
                _IDLE.append(decoder)
                del _IDLE[:-MOST_DECODERS]
        return rows

    def _decoder_at(self, start: int) -> "_Decoder":
        """Take the decoder that is nearest before the row, or begin at its row group."""
        group = int(np.searchsorted(self._starts, start, side="right")) - 1
        first = int(self._starts[group])
        with _LOCK:
            near = [one for one in _IDLE if one.rows is self and first <= one.row <= start]
            decoder = max(near, key=lambda decoder: decoder.row, default=None)
            if decoder is not None:
                _IDLE.remove(decoder)
        if decoder is None:
            batch_rows = max(1, BLOCK_BYTES // (self.shape[1] * self.dtype.itemsize))
            decoder = _Decoder(self, self._column, group, first, batch_rows)
        while decoder.row < start:
            decoder.next(start - decoder.row)
        return decoder

    def fingerprint(self) -> str:
        """Return a digest of shape, element type and a sample of the file's bytes: 64 times 64 KiB."""
        size = self.paths[0].stat().st_size
        digest = hashlib.blake2b(
            repr((self._column, self.shape, self.dtype.str, size)).encode(), digest_size=16
        )
        sample = np.empty(min(size, SAMPLE_BYTES), np.uint8)
        with reading(self.label):
            for offset in np.unique(np.linspace(0, size - len(sample), SAMPLES).astype(np.int64)):
                digest.update(sample.data[: read_at(self.paths[0], sample, int(offset))])
        return digest.hexdigest()

    def close(self) -> None:
        """Close the files of reads that have ended."""
        with _LOCK:
            _IDLE[:] = [decoder for decoder in _IDLE if decoder.rows is not self]


class _Decoder:
    """Decodes a column from the beginning of a row group on, batch by batch; `row` comes next."""

    def __init__(self, rows: ParquetRows, column: str, group: int, first: int, batch_rows: int) -> None:
        self.rows, self.row = rows, first
        file = open_file(rows.paths[0])
        groups = range(group, file.num_row_groups)
        self._batches = file.iter_batches(batch_rows, row_groups=groups, columns=[column], use_threads=False)
        self._left = np.empty((0, rows.shape[1]), rows.dtype)

    def next(self, count: int) -> np.ndarray:
        """Return at least one row and at most `count`."""
        while not len(self._left):
            batch = next(self._batches, None)
            if batch is None:
                raise UserError(
                    f"{self.rows.row_name(self.row)} is missing: the file has changed; fetch it again"
                )
            self._left = self._numbers(batch.column(0))
        block, self._left = self._left[:count], self._left[count:]
        self.row += len(block)
        return block

    def _numbers(self, column: pa.Array) -> np.ndarray:
        dimension = self.rows.shape[1]
        lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        wrong = np.flatnonzero(lengths != dimension)
        if len(wrong):
            length = lengths[wrong[0]]
            found = "is null" if length < 0 else f"has {length} numbers"
            raise UserError(
                f"{self.rows.row_name(self.row + int(wrong[0]))} {found} where row 0 has {dimension}; "
                "every vector must have the same length"
            )
        numbers = column.flatten()
        if numbers.null_count:
            row, place = divmod(int(np.argmax(numbers.is_null())), dimension)
            raise UserError(
                f"{self.rows.row_name(self.row + row)} has null as number {place} (from 0) where a number "
                "is expected; correct or remove the row"
            )
        array: np.ndarray = numbers.to_numpy(zero_copy_only=False)
        return array.reshape(-1, dimension)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def distinct_ids(path: Path, keys: Iterable[np.ndarray]) -> np.ndarray:
    """Return all ids of a file as one array; UserError where two rows have the same."""
    ids = np.concatenate([*keys])
    in_order = np.argsort(ids, kind="stable")
    twice = np.flatnonzero(ids[in_order][1:] == ids[in_order][:-1])
    if len(twice):
        row = int(in_order[twice[0] + 1])
        raise UserError(f"{path}:id row {row} (from 0) is {ids[row]}, as an earlier one; ids must differ")
    return ids


def parquet_ids(paths: Sequence[Path]) -> Iterator[np.ndarray] | None:
    """Give the columns `id` of Parquet files end to end, in blocks of int64; None without any."""
    have_ids = [_has_ids(path) for path in paths]
    if not any(have_ids):
        return None
    if not all(have_ids):
        path = paths[have_ids.index(False)]
        raise UserError(f"{path} has no column 'id', as other shards have; all shards must be alike")
    return _ids(paths)


def _has_ids(path: Path) -> bool:
    with reading(path), open_file(path) as file:
        index = file.schema_arrow.get_field_index("id")
        kind = file.schema_arrow.field(index).type if index >= 0 else None
    if kind is not None and not pa.types.is_integer(kind):
        raise UserError(
            f"{path} has a column 'id' of {kind}; ids must be integers: convert it, or rename the column"
        )
    return kind is not None


def _ids(paths: Sequence[Path]) -> Iterator[np.ndarray]:
    for path in paths:
        start = 0
        with reading(path):
            batches = open_file(path).iter_batches(ID_BATCH, columns=["id"], use_threads=False)
        # Only the reading is guarded: an error of whoever consumes the ids is not this file's.
        while True:
            with reading(path):
                batch = next(batches, None)
            if batch is None:
                break
            column = batch.column(0)
            if column.null_count:
                row = start + int(np.argmax(column.is_null()))
                raise UserError(f"{path}:id row {row} (from 0) is null; every row needs its id")
            values = np.asarray(column.to_numpy(zero_copy_only=False))
            if values.dtype == np.uint64 and values.size and values.max() > np.iinfo(np.int64).max:
                raise UserError(f"{path} has the id {values.max()}; ids must be below 2^63")
            yield values.astype(np.int64)
            start += len(column)
