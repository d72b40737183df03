"""Copies of files for a bundle, without what is private.

An HDF5 file is written anew: one that is changed in place keeps the old texts in its unused space.
"""

import io
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import open_regular
from ann_benchmarks.common.hdf5 import open_hdf5_file
from ann_benchmarks.common.text import DAMAGE, reason_of

from .private import Private

LARGEST_LOG = 1 << 20  # bytes; of a longer one, the end is kept


def copy_file(source: Path, target: Path, private: Private) -> None:
    """Copy a result, a record of a workload, a log or another text; UserError where it cannot be read."""
    try:
        if source.suffix == ".hdf5":
            content = _hdf5(source, private)
        elif source.suffix == ".json":
            value = json.loads(source.read_text(encoding="utf-8"))
            content = (json.dumps(private.value(value)) + "\n").encode()
        else:
            content = private.text(_end_of(source)).encode(errors="replace")
    except UserError:
        raise
    except DAMAGE as error:
        raise UserError(f"{source} cannot be copied into the bundle: {reason_of(error)}") from None
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)


def _end_of(source: Path) -> str:
    with open_regular(source) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - LARGEST_LOG))
        text = file.read().decode(errors="replace")
    if size <= LARGEST_LOG:
        return text
    return f"({size - LARGEST_LOG:,} bytes before this are left out)\n{text.partition(chr(10))[2]}"


def _hdf5(source: Path, private: Private) -> bytes:
    content = io.BytesIO()
    with (
        open_hdf5_file(source) as found,
        # Attributes over 64 KiB need the format of HDF5 1.8.
        h5py.File(content, "w", libver=("earliest", "v108")) as made,
    ):
        _copy_group(found, made, private, source)
    return content.getvalue()


def _copy_group(found: h5py.Group, made: h5py.Group, private: Private, source: Path) -> None:
    _copy_attributes(found, made, private)
    for name in found:
        if not isinstance(found.get(name, getlink=True), h5py.HardLink):
            raise UserError(
                f"{source} cannot be copied into the bundle: '{name}' is a link to something else"
            )
        member, new_name = found[name], private.text(name)
        if isinstance(member, h5py.Group):
            _copy_group(member, made.create_group(new_name), private, source)
        elif member.dtype.kind in "biuf":
            found.copy(member, made, name=new_name, without_attrs=True)
            _copy_attributes(member, made[new_name], private)
        elif h5py.check_string_dtype(member.dtype):
            made[new_name] = _without_private(member[()], private)
            _copy_attributes(member, made[new_name], private)
        else:
            raise UserError(
                f"{source} cannot be copied into the bundle: '{name}' holds neither numbers nor texts"
            )


def _copy_attributes(found: Any, made: Any, private: Private) -> None:
    for name, value in found.attrs.items():
        made.attrs[private.text(name)] = _without_private(value, private)


def _without_private(value: Any, private: Private) -> Any:
    """Return what HDF5 holds, numbers as they are; texts in the same number."""
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
        changed = private.value(text)
        return value if changed == text else changed
    if isinstance(value, np.ndarray) and value.dtype.kind in "OS":
        texts = [_without_private(one, private) for one in value.ravel().tolist()]
        texts = [one.decode(errors="replace") if isinstance(one, bytes) else one for one in texts]
        return np.array(texts, dtype=h5py.string_dtype()).reshape(value.shape)
    return private.value(value) if isinstance(value, str) else value
