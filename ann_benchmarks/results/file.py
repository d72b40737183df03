"""Result files as ann-benchmarks has them: results/DATASET/COUNT/ALGORITHM[-batch]/ARGS.hdf5, one a point."""

import glob
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d

from ann_benchmarks.common.atomic import atomic_path
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.names import LONGEST_FOLDER, checked_name

from .attributes import read_attributes_of, write_attributes

RESULTS_FOLDER = "results"
LONGEST_NAME = 230  # file systems take 255 bytes; while it is written, a file has a longer name
TRUTH_ATTRIBUTE = "truth"
ARRAYS = ("times", "neighbors", "distances")
REQUIRED_ATTRIBUTES = ("best_search_time", "count", "name")


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
    """Read one point; UserError when the file is damaged or not complete.

    Without the neighbours, which no metric needs, `neighbors` is empty.
    """
    with _opened(path) as (file, (times, neighbors, distances)):
        rows = neighbors[()] if with_neighbors else np.empty((0, neighbors.shape[1]), neighbors.dtype)
        return Result(path, read_attributes_of(file), times[()], rows, distances[()])


def read_attributes(path: Path) -> dict[str, Any]:
    """Read what is said of one point; UserError when the file is damaged or not complete."""
    with _opened(path) as (file, _):
        return read_attributes_of(file)


def truth_mark(distances: np.ndarray) -> str:
    """Identify a dataset by the true distances, (n_queries, count), that recall is counted against."""
    content = np.ascontiguousarray(distances, dtype=np.float64)
    return hashlib.sha256(content.data).hexdigest()[:16]


def damage(path: Path, truth: str = "") -> str | None:
    """Why a file is no finished point on the data with this mark, None if it is one.

    Files of ann-benchmarks, which have no mark, are taken at their word.
    """
    try:
        with _opened(path) as (file, _):
            if truth and file.attrs.get(TRUTH_ATTRIBUTE, truth) != truth:
                return f"{path} was measured on other vectors of the same name"
            return None
    except UserError as error:
        return str(error)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[h5py.File, list[h5py.Dataset]]]:
    """Open and check a result file and its arrays; whatever is wrong with it becomes a UserError."""
    try:
        # A file is whole once it has its name, so that no lock is needed, which some file systems refuse.
        with h5py.File(path, "r", locking=False) as file:
            arrays = [_array(file, name) for name in ARRAYS]
            problem = _problem(file, arrays)
            if problem:
                raise UserError(f"{path} is not complete: {problem}")
            yield file, arrays
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {' '.join(str(error).split()):.150}") from None


def _array(file: h5py.File, name: str) -> h5py.Dataset | None:
    try:
        return h5py.Dataset(h5d.open(file.id, name.encode()))
    except KeyError:
        return None


def _problem(file: h5py.File, arrays: list[Any]) -> str | None:
    missing = [name for name, array in zip(ARRAYS, arrays, strict=True) if array is None]
    attrs = file.attrs  # which takes long to make
    missing += [name for name in REQUIRED_ATTRIBUTES if name not in attrs]
    if missing:
        return f"it has no {', '.join(missing)}"
    times, neighbors, distances = arrays
    n = len(times) if times.ndim == 1 else 0
    # Clients send each query as often as its turn comes.
    is_one_each = "clients" in attrs or len(neighbors) == n
    if n == 0 or neighbors.ndim != 2 or neighbors.shape != distances.shape or not is_one_each:
        return "its arrays do not fit together"
    # ann-benchmarks fills a file query by query: one that was ended on the way has zeros in the last row.
    if times[-1] == 0 and not neighbors[-1].any() and not distances[-1].any():
        return "the last query has no answer"
    return None
