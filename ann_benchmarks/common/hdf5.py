"""HDF5 files, and whether one itself holds all of an array, as it is declared."""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import psutil
from h5py import h5d, h5o, h5t, h5z

from .files import atomic_path, disk_errors, regular


def open_hdf5_file(path: Path) -> h5py.File:
    """Open a file for reading, without a lock: others may read too."""
    return h5py.File(regular(path), "r", locking=False)


def write_hdf5_file(path: Path, attributes: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write a file that is whole or absent; UserError where the disk does not take it."""
    with disk_errors(path), atomic_path(path) as temporary, h5py.File(temporary, "w") as file:
        file.attrs.update(attributes)
        for key, array in arrays.items():
            file[key] = array


def is_plain(array: h5py.Dataset) -> bool:
    """Whether all bytes of an array lie one after the other in its file, in the form that numpy has."""
    return (
        array.id.get_offset() is not None
        and array.id.get_storage_size() == array.size * array.dtype.itemsize > 0
        and h5t.py_create(array.dtype) == array.id.get_type()
    )


def lacking(file: h5py.File, array: h5py.Dataset) -> str | None:
    """Say why not all of an array can be read from this file, None if it can.

    HDF5 gives fill values for whatever is not there, without an error: for what was never written, and for
    what lies in other files that are missing.
    """
    if h5o.get_info(array.id).fileno != h5o.get_info(file.id).fileno:
        return "is a link into another file"
    stored, promised = array.id.get_storage_size(), (array.size or 0) * array.dtype.itemsize
    if array.id.get_offset() is not None and stored >= promised:
        return None
    promised = (array.size or 0) * array.id.get_type().get_size()  # it may be less than numpy's
    made = array.id.get_create_plist()
    if made.get_layout() == h5d.VIRTUAL or made.get_external_count():
        return "lies in other files; write it into one"
    if made.get_layout() != h5d.CHUNKED:
        return None if stored >= promised else f"has {stored:,} of {promised:,} bytes; write it again"
    return _lacking_chunks(array, made, promised)


def _lacking_chunks(array: h5py.Dataset, made: h5py.h5p.PropDCID, promised: int) -> str | None:
    chunks = prod(-(-length // size) for length, size in zip(array.shape, array.chunks, strict=True))
    stored = array.id.get_num_chunks()
    if stored < chunks:
        return f"has {stored:,} of {chunks:,} chunks; write it again"
    for number in range(made.get_nfilters()):
        code, _, _, name = made.get_filter(number)
        if not h5z.filter_avail(code):
            return f"is compressed by a filter that is not installed, {code} {name.decode(errors='replace')}"
    return None


def fits_in_memory(array: h5py.Dataset) -> bool:
    """Whether an array can be read whole: a few bytes may be the compressed form of any number of them."""
    size = array.size * array.dtype.itemsize
    return size <= array.id.get_storage_size() or size < psutil.virtual_memory().available // 2


def is_of_numbers(dtype: "np.dtype[Any]", kinds: str = "fiu") -> bool:
    """Whether elements are numbers of at most 64 bits."""
    return dtype.kind in kinds and dtype.itemsize <= 8
