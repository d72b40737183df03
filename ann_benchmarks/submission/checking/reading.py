"""A stranger's HDF5 files, read within bounds: what they declare is checked before any of it is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5a

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.hdf5 import is_of_numbers, lacking, open_hdf5_file
from ann_benchmarks.common.text import DAMAGE, from_json, reason_of
from ann_benchmarks.results.attributes import ALL, LONGEST_TEXT, plain_attributes

MOST_BYTES = 1 << 30  # of an array
MOST_CHUNK_BYTES = 64 << 20
MOST_COMPRESSED = 100  # bytes that one byte stands for, in an array that is not small
SMALL = 1 << 20  # bytes
MOST_ATTRIBUTE_BYTES = 16 << 20  # of all attributes
MOST_ATTRIBUTES = 2000
MOST_MEMBERS = 5000  # of a file
SAME = 1e-12  # relative difference of one number as HDF5 and JSON hold it
ARRAYS = {"times": "f", "neighbors": "iu", "distances": "f"}
HISTOGRAM = ("latency_histogram_edges", "latency_histogram")


@dataclass(frozen=True)
class StoredPoint:
    """A result file: `times` (n,) in s, `neighbors` (queries, k), -1 for none, `distances` alike.

    `contradictions` are attributes that the file holds twice, with two values. `edges` (n + 1,) in s and
    `counts` (n,) are the histogram of the latencies of all runs; empty where there is none.
    """

    attrs: dict[str, Any]
    times: np.ndarray
    neighbors: np.ndarray
    distances: np.ndarray
    edges: np.ndarray = field(default_factory=lambda: np.empty(0))
    counts: np.ndarray = field(default_factory=lambda: np.empty(0))
    contradictions: tuple[str, ...] = ()


@contextmanager
def opened_file(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file whose members are all within bounds; UserError for whatever is wrong with it."""
    try:
        with open_hdf5_file(path) as file:
            _check_members(file)
            yield file
    except DAMAGE as error:
        raise UserError(f"cannot be read: {reason_of(error)}") from None


def read_point(path: Path, queries: int, count: int) -> StoredPoint:
    """Read a result with answers of this shape, (queries, neighbours); UserError if it is none."""
    with opened_file(path) as file:
        attrs, contradictions = _attributes(file)
        shapes = {"times": None, "neighbors": (queries, count), "distances": (queries, count)}
        found = {name: array_of(file, name, kinds, shapes[name]) for name, kinds in ARRAYS.items()}
        if found["times"].ndim != 1 or not len(found["times"]):
            raise UserError("has no times of queries")
        edges, counts = np.empty(0), np.empty(0)
        if any(name in file for name in HISTOGRAM):
            edges, counts = array_of(file, HISTOGRAM[0], "f"), array_of(file, HISTOGRAM[1], "iu")
        return StoredPoint(attrs, **found, edges=edges, counts=counts, contradictions=contradictions)


def array_of(file: h5py.File, name: str, kinds: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Read an array of numbers of these kinds; UserError where there is none, or it has another shape."""
    array = file.get(name)
    if not isinstance(array, h5py.Dataset) or not is_of_numbers(array.dtype, kinds):
        raise UserError(f"has no numbers '{name}'")
    if shape is not None and array.shape != shape:
        raise UserError(f"has '{name}' of {array.shape}, not of {shape} as the manifest says")
    return np.asarray(array[()])


def attributes_of(file: h5py.File) -> dict[str, Any]:
    """Return the attributes, each by itself."""
    return {name: file.attrs[name] for name in file.attrs}


def _check_members(file: h5py.File) -> None:
    waiting, seen = [file["/"]], 0
    while waiting:
        group = waiting.pop()
        _check_attributes(group)
        for name in group:
            seen += 1
            if seen > MOST_MEMBERS:
                raise UserError(f"has more than {MOST_MEMBERS:,} members")
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise UserError(f"has a link, '{name}'")
            member = group[name]
            if isinstance(member, h5py.Group):
                waiting.append(member)
            elif not isinstance(member, h5py.Dataset) or (problem := _problem(file, member)):
                raise UserError(f"'{name}' {problem if isinstance(member, h5py.Dataset) else 'is no array'}")
            else:
                _check_attributes(member)


def _problem(file: h5py.File, array: h5py.Dataset) -> str | None:
    if array.shape is None:
        return "is empty"
    size, stored = array.size * array.dtype.itemsize, array.id.get_storage_size()
    if size > MOST_BYTES or (size > SMALL and size > MOST_COMPRESSED * stored):
        return f"declares {size:,} bytes and has {stored:,}"
    if array.chunks is not None and prod(array.chunks) * array.dtype.itemsize > MOST_CHUNK_BYTES:
        return "has chunks that are too large"
    return lacking(file, array) if array.size else None


def _check_attributes(member: h5py.Group | h5py.Dataset) -> None:
    number = h5a.get_num_attrs(member.id)
    if number > MOST_ATTRIBUTES:
        raise UserError(f"has {number:,} attributes")
    size = sum(h5a.open(member.id, index=place).get_storage_size() for place in range(number))
    if size > MOST_ATTRIBUTE_BYTES:
        raise UserError(f"has attributes of {size:,} bytes")


def _attributes(file: h5py.File) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the attributes, and the names of those that the text of all of them gives another value."""
    single = plain_attributes(attributes_of(file))
    together = single.pop(ALL, None)
    if together is None or len(together) > LONGEST_TEXT:
        return single, ()
    from_text = plain_attributes(from_json(file.attrs[ALL], dict[str, Any]()))
    names = sorted(from_text.keys() | single.keys())
    wrong = [name for name in names if not _same(from_text.get(name), single.get(name))]
    return single, tuple(wrong)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list) or isinstance(other, list):
        ones, others = np.atleast_1d(np.asarray(one, object)), np.atleast_1d(np.asarray(other, object))
        return len(ones) == len(others) and all(map(_same, ones, others))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= SAME * max(abs(one), abs(other))
    return bool(one == other)
