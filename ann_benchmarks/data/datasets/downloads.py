"""Bring the files of registered datasets here, each checked before it gets its name."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from ann_benchmarks.common.errors import UserError

from ..download import DownloadRequest, fetch
from ..vectors import open_rows, read_neighbors
from ..vectors.opening import big_ann_bytes
from .file import HDF5Dataset
from .parts import Parts, is_url

URL_VARIABLE = "ANN_BENCHMARKS_DATASET_URL"
HINT = f"name a mirror in {URL_VARIABLE}"
Check = Callable[[Path], object]


def get_hdf5(url: str, path: Path, distance: str) -> None:
    """Download a dataset of one file, whose metric is `distance` where the file does not say."""

    def check(arrived: Path) -> None:
        HDF5Dataset(arrived, distance).close()

    fetch([DownloadRequest(_mirrored(url, path.name), path, finish=_nameless(check))], HINT)


def get_parts(parts: Parts, data: Path) -> None:
    """Download what is not there yet of a dataset in several files; of a cropped set, its first rows only."""
    check = partial(_check_vectors, parts)
    files = []
    for address, path in zip(parts.train, parts.train_files(data), strict=False):
        file = _file(parts, address, path, check)
        if parts.whole_rows is not None and path.name.endswith(f".crop_nb_{parts.rows}"):
            assert parts.rows is not None and parts.dimension is not None
            size = big_ann_bytes(Path(address).suffix, parts.rows, parts.dimension)
            crop = _nameless(partial(_crop, parts))
            file = replace(file, size=None, first_bytes=size, finish=crop)
        files.append(file)
    if parts.test_rows() is None:
        files.append(_file(parts, parts.test, parts.place(parts.test, data), check))
    if parts.neighbors:
        files.append(_file(parts, parts.neighbors, parts.place(parts.neighbors, data), read_neighbors))
    _fetch_missing(parts, files)


def get_file(parts: Parts, address: str, check: Check) -> Path:
    """Download one more file of a dataset unless it is there, as those of filters are; return its path."""
    file = _file(parts, address, parts.place(address), check)
    _fetch_missing(parts, [file])
    return file.path


def _fetch_missing(parts: Parts, files: list[DownloadRequest]) -> None:
    missing = [file for file in files if not file.path.exists()]
    for file in missing:
        if not is_url(file.url):
            raise UserError(f"{file.path}, which '{parts.name}' needs, is not there; put it there")
    fetch(missing, HINT)


def _file(parts: Parts, address: str, path: Path, check: Check) -> DownloadRequest:
    mirrored = f"{parts.folder}/{address.rpartition('/')[2]}"
    return DownloadRequest(
        _mirrored(address, mirrored) if is_url(address) else address,
        path,
        parts.size_of(address),
        finish=_nameless(check),
    )


def _check_vectors(parts: Parts, path: Path) -> None:
    rows = open_rows(path)
    if parts.dimension is not None and rows.shape[1] != parts.dimension:
        raise UserError(f"{path} has {rows.shape[1]} dimensions where {parts.dimension} were expected")
    rows.close()


def _crop(parts: Parts, path: Path) -> None:
    """Make the header tell the rows that are there, having seen that it is the header of the whole file."""
    with path.open("rb+") as file:
        rows, dimension = np.frombuffer(file.read(8), "<u4")
        # It has been edited before where a run was killed right here.
        if dimension != parts.dimension or rows not in (parts.whole_rows, parts.rows):
            raise UserError(
                f"{path} says {rows:,} x {dimension} where {parts.whole_rows:,} x {parts.dimension}"
                " was expected"
            )
        file.seek(0)
        file.write(np.array([parts.rows], "<u4").tobytes())


def _nameless(check: Check) -> Callable[[Path], None]:
    """Leave the hidden file, which will be gone, out of what a failed check says."""

    def finish(path: Path) -> None:
        try:
            check(path)
        except UserError as error:
            reason = str(error).removeprefix(f"cannot read {path}: ").removeprefix(f"{path} ")
            raise UserError(re.sub(r"^dataset file .*? is damaged \((.*)\);.*", r"\1", reason)) from None

    return finish


def _mirrored(address: str, at_mirror: str) -> str:
    mirror = os.environ.get(URL_VARIABLE, "").rstrip("/")
    return f"{mirror}/{at_mirror}" if mirror else address
