"""Read one's own vectors, block by block, from NPY, NPZ, HDF5 and Parquet."""

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from ..distance import rows_per_block
from ..errors import UserError

FORMATS = ".npy, .npz, .hdf5, .h5 or .parquet"


class Source(NamedTuple):
    """Vectors in a file: what errors call it, (rows, dimension), element type, and its rows in blocks."""

    label: str
    rows: int
    dimension: int
    dtype: np.dtype
    blocks: Callable[[], Iterator[np.ndarray]]


def open_source(text: str) -> Source:
    """Open FILE or FILE:KEY, where KEY names an array, HDF5 dataset or column; UserError if it cannot be."""
    path, key = Path(text), ""
    if not path.exists() and ":" in text:
        name, _, key = text.rpartition(":")
        path = Path(name)
    if not path.is_file():
        raise UserError(f"there is no file {path}; give the path of a file ending in {FORMATS}")
    suffix = path.suffix.lower()
    if suffix not in _OPENERS:
        raise UserError(f"{path} is of no known format; give a file ending in {FORMATS}")
    if key and suffix == ".npy":
        raise UserError(f"{path} holds one array; give its path without ':{key}'")
    with _reading(path):
        source = _OPENERS[suffix](path, key)
    if not source.rows or not source.dimension:
        raise UserError(
            f"{source.label} has {source.rows} rows of {source.dimension} numbers; it needs some of both"
        )
    return source._replace(blocks=lambda: _guarded(path, source.blocks))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"cannot read {path}: {reason}; is it whole, and what its name says?") from None


def _guarded(path: Path, blocks: Callable[[], Iterator[np.ndarray]]) -> Iterator[np.ndarray]:
    # Only the reading is guarded: an error of whoever consumes the blocks is not this file's.
    reader = blocks()
    while True:
        with _reading(path):
            block = next(reader, None)
        if block is None:
            return
        yield block


def _source(
    label: str, shape: tuple[int, ...], dtype: Any, blocks: Callable[[], Iterator[np.ndarray]]
) -> Source:
    if len(shape) != 2:
        raise UserError(f"{label} has shape {shape}; vectors are an array of two dimensions, one row each")
    dtype = np.dtype(dtype)
    if dtype.kind not in "fiub":
        raise UserError(f"{label} holds {dtype}, not numbers; rows of uneven length are saved that way too")
    return Source(label, shape[0], shape[1], dtype, blocks)


def _sliced(label: str, array: Any) -> Source:
    def blocks() -> Iterator[np.ndarray]:
        size = rows_per_block(array.shape[1])
        for start in range(0, array.shape[0], size):
            yield array[start : start + size]

    return _source(label, array.shape, array.dtype, blocks)


def _open_npy(path: Path, key: str) -> Source:
    return _sliced(str(path), np.load(path, mmap_mode="r", allow_pickle=False))


def _open_npz(path: Path, key: str) -> Source:
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    name = _choose(path, "array", names, key)

    def open_array(archive: zipfile.ZipFile) -> tuple[Any, tuple[tuple[int, ...], bool, np.dtype]]:
        member = archive.open(f"{name}.npy")
        version = np.lib.format.read_magic(member)
        read_header = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        return member, read_header(member)

    with zipfile.ZipFile(path) as archive:
        shape, by_column, dtype = open_array(archive)[1]
    label = f"{path}:{name}"
    if by_column and len(shape) == 2 and 1 not in shape:
        raise UserError(
            f"{label} is stored column by column; save numpy.ascontiguousarray(...) of it instead"
        )

    # Read as a stream: a compressed member has no memory map, and need not fit in memory.
    def blocks() -> Iterator[np.ndarray]:
        with zipfile.ZipFile(path) as archive, open_array(archive)[0] as member:
            size = rows_per_block(shape[1])
            for start in range(0, shape[0], size):
                count = min(size, shape[0] - start)
                data = member.read(count * shape[1] * dtype.itemsize)
                yield np.frombuffer(data, dtype).reshape(count, shape[1])

    return _source(label, shape, dtype, blocks)


def _open_hdf5(path: Path, key: str) -> Source:
    file = h5py.File(path, "r")  # open for as long as the blocks are read
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    if not key:
        tables = [name for name in names if file[name].ndim == 2]
        names = ["train"] if "train" in names else tables
    name = _choose(path, "two-dimensional dataset", names, key)
    return _sliced(f"{path}:{name}", file[name])


def _open_parquet(path: Path, key: str) -> Source:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    lists = [
        field.name
        for field in file.schema_arrow
        if pa.types.is_list(field.type)
        or pa.types.is_large_list(field.type)
        or pa.types.is_fixed_size_list(field.type)
    ]
    name = _choose(path, "column of lists", lists, key)
    label = f"{path}:{name}"

    def lists_of(rows: int) -> Iterator[Any]:
        with pq.ParquetFile(path) as reader:
            for batch in reader.iter_batches(rows, columns=[name]):
                yield batch.column(0)

    first = next(lists_of(1), None)
    dimension = 0 if first is None else pc.list_value_length(first)[0].as_py() or 0

    def blocks() -> Iterator[np.ndarray]:
        start = 0
        for column in lists_of(rows_per_block(dimension)):
            lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
            wrong = np.flatnonzero(lengths != dimension)
            if len(wrong):
                found = "is null" if lengths[wrong[0]] < 0 else f"has {lengths[wrong[0]]} numbers"
                raise UserError(
                    f"{label} row {start + wrong[0]} (from 0) {found} where row 0 has {dimension}; "
                    "every vector must have the same length"
                )
            yield column.flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)
            start += len(column)

    element = file.schema_arrow.field(name).type.value_type
    dtype = element.to_pandas_dtype() if pa.types.is_primitive(element) else np.dtype(object)
    return _source(label, (file.metadata.num_rows, dimension), dtype, blocks)


_OPENERS: dict[str, Callable[[Path, str], Source]] = {
    ".npy": _open_npy,
    ".npz": _open_npz,
    ".hdf5": _open_hdf5,
    ".h5": _open_hdf5,
    ".parquet": _open_parquet,
}


def _choose(path: Path, kind: str, names: list[str], key: str) -> str:
    if key in names:
        return key
    if not key and len(names) == 1:
        return names[0]
    if not names:
        raise UserError(f"{path} has no {kind}")
    problem = f"has no {kind} '{key}'" if key else f"has more than one {kind}"
    raise UserError(f"{path} {problem}; choose with {path}:KEY from {', '.join(names[:10])}")
