"""Files of attributes and filter sets, in a folder beside the dataset, which itself stays as it is.

    data/NAME.filters/SET.h5               filters, how many rows pass each, the true neighbours
    data/NAME.filters/columns/COLUMN.h5    an attribute of all rows

A set's file has the marks of the vectors and of the columns that it is true of.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.hdf5 import fits_in_memory, is_plain, lacking, open_hdf5_file, write_hdf5_file
from ann_benchmarks.common.text import DAMAGE, reason_of

from ..filters import KINDS_WITH_NUMBERS, Filter, FilterSet, RowAttribute, RowAttributes, canonical_filter
from ..filters.filter import KINDS, OPERATORS, make_filters
from .queries import TrueNeighbors, truth_problem

VERSION = 1
SUFFIX = ".h5"
_TYPES = {"integer": "int64", "timestamp": "int64", "labels": "int32", "text": "uint8"}


def filter_folder(name: str, data: Path) -> Path:
    """Where the filters of a dataset lie."""
    return data / f"{name}.filters"


def filter_path(name: str, filter: str, data: Path) -> Path:
    """Where a filter set of a dataset, with its true neighbours, lies or would lie."""
    return filter_folder(name, data) / f"{canonical_filter(filter).replace(':', '-')}{SUFFIX}"


def column_path(name: str, column: str, data: Path) -> Path:
    """Where an attribute of a dataset lies or would lie."""
    return filter_folder(name, data) / "columns" / f"{column}{SUFFIX}"


def stored_filters(name: str, data: Path) -> list[str]:
    """Names of the filter sets that a dataset has, as their files tell; of damaged ones, the files' names."""
    found = []
    for path in sorted(filter_folder(name, data).glob(f"*{SUFFIX}")):
        if not path.name.startswith("."):
            try:
                with open_hdf5_file(path) as file:
                    found.append(str(file.attrs["name"]))
            except DAMAGE:
                found.append(path.stem)
    return found


def attribute_mark(attribute: RowAttribute) -> str:
    """Tell values of one name apart: a digest of the kind and all values."""
    digest = hashlib.blake2b(f"{attribute.name} {attribute.kind}".encode(), digest_size=16)
    for array in _arrays(attribute).values():
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def write_attribute(path: Path, attribute: RowAttribute, mark: str) -> None:
    """Store an attribute of the rows of the dataset with this mark."""
    facts = {"version": VERSION, "name": attribute.name, "kind": attribute.kind, "rows": len(attribute)}
    marks = {"mark": mark, "values_mark": attribute_mark(attribute)}
    write_hdf5_file(path, facts | marks, _arrays(attribute))


@contextmanager
def _opened(path: Path, mark: str | None = None) -> Iterator[h5py.File]:
    """Open a file; UserError for all damage, and for another mark of the vectors than the one given."""
    try:
        with open_hdf5_file(path) as file:
            if file.attrs["version"] != VERSION:
                raise UserError(f"{path} is of another version of this program; delete it, and make it again")
            if mark is not None and file.attrs["mark"] != mark:
                raise UserError(
                    f"{path} is of other vectors; delete {path.parent}, and make the filters again"
                )
            yield file
    except DAMAGE as error:
        raise UserError(f"{path} is damaged ({reason_of(error)}); delete it, and make it again") from None


def read_attribute(path: Path, mark: str | None = None) -> tuple[RowAttribute, str]:
    """Read an attribute and the mark of its values; numbers and labels are mapped.

    UserError when the file is damaged, or is of a dataset with another mark than the one given.
    """
    with _opened(path, mark) as file:
        name, kind, rows = str(file.attrs["name"]), str(file.attrs["kind"]), int(file.attrs["rows"])
        if kind not in KINDS:
            raise ValueError(f"unknown kind of attribute '{kind}'")
        values = _mapped(file, path, "values", _TYPES[kind])
        ends = _mapped(file, path, "ends", "int64") if kind in ("text", "labels") else None
        counted = values if ends is None else ends
        if len(counted) != rows or (ends is not None and _are_wrong(ends, len(values))):
            raise ValueError("its values do not fit its rows")
        if kind == "text":
            assert ends is not None
            values, ends = _texts(values, ends), None
        return RowAttribute(name, kind, values, ends), str(file.attrs["values_mark"])


def read_attributes(name: str, columns: Sequence[str], data: Path, mark: str | None) -> RowAttributes:
    """Read columns of a dataset with this mark; UserError where one is missing."""
    found, marks = {}, {}
    for column in sorted(set(columns)):
        found[column], marks[column] = read_attribute(_present(name, column, data), mark)
    rows = {len(attribute) for attribute in found.values()}
    if len(rows) > 1:
        raise UserError(f"the columns of {filter_folder(name, data)} differ in length; {_remedy(name)}")
    return RowAttributes(found, rows.pop() if rows else 0, _mark_of(marks))


def attributes_mark(name: str, columns: Sequence[str], data: Path) -> str:
    """Return the mark that read_attributes would give, without reading any values."""
    marks = {}
    for column in sorted(set(columns)):
        with _opened(_present(name, column, data)) as file:
            marks[column] = str(file.attrs["values_mark"])
    return _mark_of(marks)


def _mark_of(marks: dict[str, str]) -> str:
    text = json.dumps(marks, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _present(name: str, column: str, data: Path) -> Path:
    path = column_path(name, column, data)
    if not path.exists():
        raise UserError(f"{path} is missing; {_remedy(name)}")
    return path


def write_filter_set(
    path: Path, filters: FilterSet, truth: TrueNeighbors, mark: str, columns_mark: str
) -> None:
    """Store a filter set and its truth; `mark` is the dataset's, `columns_mark` that of the attributes."""
    numbers: dict[Filter, int] = {}
    filter_numbers = [numbers.setdefault(filter, len(numbers)) for filter in filters.filters]
    content = {"shape": filters.filters[0].shape, "values": [filter.values for filter in numbers]}
    facts = {"version": VERSION, "name": filters.name, "rows": filters.rows, "mark": mark}
    arrays: dict[str, np.ndarray] = {
        "filters": np.frombuffer(json.dumps(content).encode(), np.uint8),
        "filter_of": np.array(filter_numbers, np.int64),
        "matches": filters.matches,
        "neighbors": truth.neighbors,
        "distances": truth.known_distances,
    }
    write_hdf5_file(path, {**facts, "columns": columns_mark}, arrays)


def read_filter_set(path: Path, name: str, mark: str | None = None) -> tuple[FilterSet, TrueNeighbors, str]:
    """Read a filter set of a dataset, its truth, and the mark of the attributes that these are true of.

    UserError when the file is missing or damaged, or is of a dataset with another mark than the one given.
    """
    if not path.exists():
        raise UserError(f"{path} is missing; {_remedy(name, path)}")
    with _opened(path, mark) as file:
        own_name, rows = str(file.attrs["name"]), int(file.attrs["rows"])
        arrays = [file[key] for key in ("neighbors", "distances")]
        if problem := truth_problem(file, arrays):
            raise ValueError(problem)
        truth = TrueNeighbors(arrays[0][()], arrays[1][()], name, own_name)
        matches, numbers = (_mapped(file, path, key, "int64") for key in ("matches", "filter_of"))
        distinct = _filters(json.loads(_mapped(file, path, "filters", "uint8").tobytes()))
        if len({len(truth.neighbors), len(truth.known_distances), len(matches), len(numbers)}) > 1:
            raise ValueError("its arrays are of different lengths")
        if numbers.min() < 0:
            raise ValueError("'filter_of' has numbers below 0")
        filters = [distinct[number] for number in numbers.tolist()]
        return FilterSet(own_name, filters, np.array(matches), rows), truth, str(file.attrs["columns"])


def _filters(content: Any) -> list[Filter]:
    """Make the filters of what a file says; what does not fit raises one of DAMAGE."""
    shape = [(str(column), str(operator)) for column, operator in content["shape"]]
    if not shape or any(operator not in OPERATORS for _, operator in shape):
        raise ValueError("its filters have unknown operators")
    return make_filters(
        shape,
        [
            tuple(tuple(value) if isinstance(value, list) else value for value in values)
            for values in content["values"]
        ],
    )


def _arrays(attribute: RowAttribute) -> dict[str, np.ndarray]:
    """Return what is stored of an attribute: texts are UTF-8, one after the other."""
    if attribute.kind == "text":
        encoded = [text.encode() for text in attribute.values]
        ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
        return {"values": np.frombuffer(b"".join(encoded), np.uint8), "ends": ends}
    values = attribute.values.astype(_TYPES[attribute.kind], copy=False)
    return {"values": values} if attribute.ends is None else {"values": values, "ends": attribute.ends}


def _texts(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    content = values.tobytes()
    texts = np.empty(len(ends), object)
    start = 0
    for row, end in enumerate(ends.tolist()):
        texts[row] = content[start:end].decode()
        start = end
    return texts


def _mapped(file: h5py.File, path: Path, key: str, item: str) -> np.ndarray:
    """Return an array of one dimension, mapped where it lies in one piece; ValueError where it is not."""
    array = file[key]
    if not isinstance(array, h5py.Dataset) or array.ndim != 1 or array.dtype != np.dtype(item):
        raise ValueError(f"'{key}' must be an array of {item}")
    if problem := lacking(file, array):
        raise ValueError(f"'{key}' {problem}")
    if is_plain(array):
        offset = array.id.get_offset()
        return np.asarray(np.memmap(path, array.dtype, "r", offset, array.shape))
    if not fits_in_memory(array):
        raise ValueError(f"'{key}' does not fit into memory")
    values: np.ndarray = array[()]
    return values


def _are_wrong(ends: np.ndarray, values: int) -> bool:
    return bool(len(ends)) and (ends[0] < 0 or bool((np.diff(ends) < 0).any()) or ends[-1] != values)


def _remedy(name: str, path: Path | None = None) -> str:
    kind, dash, number = ("" if path is None else path.stem).partition("-")
    sets = f"{kind}:{number}" if dash and kind in KINDS_WITH_NUMBERS else "SETS"
    return f"make it by: python create_dataset.py --add-filters {name} --filters {sets}"
