"""Result files as ann-benchmarks has them: results/DATASET/COUNT/ALGORITHM[-batch]/ARGS.hdf5, one a point."""

import glob
import hashlib
import io
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import atomic_path
from ann_benchmarks.common.hdf5 import fits_in_memory, is_of_numbers, lacking, open_hdf5_file
from ann_benchmarks.common.names import LONGEST_FOLDER, checked_name
from ann_benchmarks.common.text import DAMAGE, LARGEST, reason_of, shortened

from .attributes import checked_attributes, read_attributes_of, write_attributes

RESULTS_FOLDER = "results"
LONGEST_NAME = 230  # file systems take 255 bytes; while it is written, a file has a longer name
TRUTH_ATTRIBUTE = "truth"
RESULT_FORMAT = 2  # with a chain of rounds; without this attribute, it is the first
UNUSABLE = "distances_unusable"  # the attribute that a result gets here: how many were no numbers
NO_NEIGHBOR = -1  # fewer were found than requested
ARRAYS = ("times", "neighbors", "distances")
KINDS_OF_NUMBERS = ("fiu", "iu", "fiu")  # of the arrays
SETTLED_NS = 2_000_000_000  # the coarsest time stamps of file systems in use (FAT) are 2 s apart

Stamp = list[str | int]


@dataclass(frozen=True)
class Result:
    """One point: attributes, `times` (n,) in s, `neighbors` (n, count), -1 for none, `distances` alike."""

    path: Path
    attrs: dict[str, Any]
    times: np.ndarray
    neighbors: np.ndarray
    distances: np.ndarray


def result_path(dataset: str, count: int, folder: str, arguments: list[Any]) -> Path:
    """Where the result of a point lies; the same place as in ann-benchmarks, except for very long names.

    `folder` is that of the series, `arguments` are the build arguments and the query arguments.
    """
    checked_name(dataset, "dataset")
    checked_name(folder, "folder of results", LONGEST_FOLDER)
    text = json.dumps(arguments, sort_keys=True)
    name = re.sub(r"\W+", "_", text).strip("_")
    if len(name) > LONGEST_NAME:
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        name = f"{name[: LONGEST_NAME - len(digest) - 1]}_{digest}"
    return Path(RESULTS_FOLDER, dataset, str(count), folder, f"{name}.hdf5")


def iter_result_paths(dataset: str | None = None, count: int | None = None) -> Iterator[Path]:
    """Every result file, of one dataset and count or of all, sorted; files being written are left out."""
    pattern = f"{'*' if dataset is None else glob.escape(dataset)}/{count or '*'}/*/*.hdf5"
    for path in sorted(Path(RESULTS_FOLDER).glob(pattern)):
        if path.is_file() and path.stat().st_size > 0:
            yield path


def write_result(
    path: Path,
    attrs: Mapping[str, Any],
    times: np.ndarray,
    neighbors: np.ndarray,
    distances: np.ndarray,
    more: Mapping[str, np.ndarray | Callable[[h5py.Group], None]] | None = None,
) -> None:
    """Write one point, whole or not at all; `more` are datasets that ann-benchmarks does not know, and
    what writes a group.

    The file is made in memory: HDF5 reports a full disk in ways that look like other errors.
    """
    id_type = np.int32 if neighbors.size == 0 or neighbors.max() <= np.iinfo(np.int32).max else np.int64
    content = io.BytesIO()
    # Attributes over 64 KiB (all settings of a server) need the format of HDF5 1.8.
    with h5py.File(content, "w", libver=("earliest", "v108")) as file:
        write_attributes(file, attrs)
        file["times"] = times.astype(np.float32)
        file["neighbors"] = neighbors.astype(id_type)
        file["distances"] = distances.astype(np.float32)
        for name, values in (more or {}).items():
            if callable(values):
                values(file.create_group(name))
            else:
                file[name] = values
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def read_result(path: Path, with_neighbors: bool = True) -> Result:
    """Read one point, with attributes of the kinds that their names say and times that can be.

    Without the neighbours, which no metric needs, `neighbors` is empty. UserError when the file is damaged,
    not complete, or no result.
    """
    with _opened(path) as (file, (times, neighbors, distances)):
        attrs = _attributes(file)
        rows = neighbors[()] if with_neighbors else np.empty((0, neighbors.shape[1]), neighbors.dtype)
        seconds = times[()]
        if not 0 <= float(seconds.min()) <= float(seconds.max()) < LARGEST:  # NaN fails this
            raise UserError(f"{path} is not a result: its times must be seconds of at least 0")
        if with_neighbors and rows.min() < NO_NEIGHBOR:
            raise UserError(f"{path} is not a result: its neighbours must be at least {NO_NEIGHBOR}")
        found = distances[()]
        unusable = np.isnan(found) | np.isneginf(found)
        if count := np.count_nonzero(unusable):
            attrs[UNUSABLE] = int(count)
            found[unusable] = np.inf  # the value of a neighbor that was not found
        return Result(path, attrs, seconds, rows, found)


def read_attributes(path: Path) -> dict[str, Any]:
    """Read what is said of one point; UserError when the file is damaged, not complete, or no result."""
    with _opened(path) as (file, _):
        return _attributes(file)


def read_more(path: Path, *names: str) -> list[np.ndarray] | None:
    """Read arrays of numbers that ann-benchmarks does not know; None where one is not there.

    UserError when the file is damaged.
    """
    with _opened(path) as (file, _):
        arrays = [file.get(name) for name in names]
        if None in arrays:
            return None
        for name, array in zip(names, arrays, strict=True):
            if problem := array_problem(file, array, "fiu"):
                raise UserError(f"{path} is not complete: '{name}' {problem}")
        return [array[()] for array in arrays]


def file_stamp(path: Path) -> Stamp:
    """Return what changes whenever a file's content does: real path, size, times of change, inode."""
    status = path.stat()
    return [os.path.realpath(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def is_settled(*stamps: Stamp) -> bool:
    """Whether a later write is sure to change the stamps: a file this young may change within one tick."""
    return all(time.time_ns() - int(stamp[2]) > SETTLED_NS for stamp in stamps)


def truth_mark(distances: np.ndarray) -> str:
    """Identify a dataset by the true distances, (n_queries, count), that recall is counted against."""
    content = np.ascontiguousarray(distances, dtype=np.float64)
    return hashlib.sha256(content.data).hexdigest()[:16]


def damage(path: Path, truth: str = "") -> str | None:
    """Why a file is not a finished point on the data with this mark, None if it is.

    Files of ann-benchmarks, which have no mark, are taken at their word.
    """
    try:
        measured_on = read_result(path, with_neighbors=False).attrs.get(TRUTH_ATTRIBUTE, truth)
    except UserError as error:
        return str(error)
    return (
        f"{path} was measured on other vectors of the same name" if truth not in ("", measured_on) else None
    )


@contextmanager
def _opened(path: Path) -> Iterator[tuple[h5py.File, list[h5py.Dataset]]]:
    """Open and check a result file and its arrays; whatever is wrong with it becomes a UserError."""
    try:
        with open_hdf5_file(path) as file:
            arrays = [_array(file, name) for name in ARRAYS]
            problem = _problem(file, arrays)
            if problem:
                raise UserError(f"{path} is not complete: {problem}")
            yield file, arrays
    except DAMAGE as error:
        raise UserError(f"{path} cannot be read: {reason_of(error)}") from None


def _attributes(file: h5py.File) -> dict[str, Any]:
    try:
        return checked_attributes(read_attributes_of(file))
    except UserError as error:
        raise UserError(f"{file.filename} is not a result: {error}") from None


def _array(file: h5py.File, name: str) -> h5py.Dataset | None:
    try:
        found = h5d.open(file.id, name.encode())
    except KeyError:
        return None
    return h5py.Dataset(found)


def array_problem(file: h5py.File, array: Any, kinds: str) -> str | None:
    """Say why an array of numbers cannot be read, None if it can; without reading it."""
    if not isinstance(array, h5py.Dataset):
        return "is not an array"
    if array.shape is None or not is_of_numbers(array.dtype, kinds):
        return f"holds {shortened(array.dtype)}, not numbers of up to 64 bits"
    return lacking(file, array) or (None if fits_in_memory(array) else "does not fit into memory")


def _problem(file: h5py.File, arrays: list[Any]) -> str | None:
    if missing := [name for name, array in zip(ARRAYS, arrays, strict=True) if array is None]:
        return f"it has no {', '.join(missing)}"
    for name, array, kinds in zip(ARRAYS, arrays, KINDS_OF_NUMBERS, strict=True):
        if problem := array_problem(file, array, kinds):
            return f"'{name}' {problem}"
    times, neighbors, distances = arrays
    shape = neighbors.shape
    n = len(times) if times.ndim == 1 else 0
    if n == 0 or len(shape) != 2 or 0 in shape or shape != distances.shape:
        return "its arrays do not fit together"
    # Clients send each query as often as its turn comes.
    if shape[0] != n and "clients" not in file.attrs:
        return "its arrays do not fit together"
    # ann-benchmarks fills a file query by query: one that was ended on the way has zeros in the last row.
    if times[-1] == 0 and not neighbors[-1].any() and not distances[-1].any():
        return "the last query has no answer"
    return None
