"""Copies of files for a bundle without what is private, and the search for what is left.

An HDF5 file is written anew: one that is changed in place keeps the old texts in its unused space.
"""

import html
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import open_regular
from ann_benchmarks.common.hdf5 import open_hdf5_file
from ann_benchmarks.common.text import DAMAGE, reason_of

from .files import files_in, members_of, read_bytes
from .patterns import IN_WORDS
from .private import Private

LARGEST_LOG = 1 << 20  # bytes; of a longer one, the end is kept
_PNG = b"\x89PNG\r\n\x1a\n"
_PIXELS, _TEXT = b"IDAT", re.compile(rb"(?:[\x20-\x7e]\0?){8,}")
_UNPACKED = 1 << 20  # bytes of a text that are looked at
MOST_SEARCHED_BYTES = 64 << 20
OpenFile = Callable[[Path], AbstractContextManager[h5py.File]]


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
    except (UserError, *DAMAGE) as error:
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
        for name, member in members_of(found):
            new_name = "/".join(private.text(part) for part in name.split("/")) or "/"
            if isinstance(member, h5py.Group):
                copied = made.require_group(new_name)
            elif member.dtype.kind in "biuf":
                found.copy(member, made, name=new_name, without_attrs=True)
                copied = made[new_name]
            elif h5py.check_string_dtype(member.dtype):
                copied = made.create_dataset(new_name, data=_remove_private(member[()], private))
            else:
                raise UserError(f"'{name}' holds neither numbers nor texts")
            _copy_attributes(member, copied, private)
    return content.getvalue()


def _copy_attributes(found: Any, made: Any, private: Private) -> None:
    for name, value in found.attrs.items():
        is_text = isinstance(value, str)
        made.attrs[private.text(name)] = (
            private.member(name, value) if is_text else _remove_private(value, private)
        )


def _remove_private(value: Any, private: Private) -> Any:
    """Return what HDF5 holds, numbers as they are; texts in the same number."""
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
        changed = private.value(text)
        return value if changed == text else changed
    if isinstance(value, np.ndarray) and value.dtype.kind in "OS":
        texts = [_remove_private(one, private) for one in value.ravel().tolist()]
        texts = [one.decode(errors="replace") if isinstance(one, bytes) else one for one in texts]
        return np.array(texts, dtype=h5py.string_dtype()).reshape(value.shape)
    return private.value(value) if isinstance(value, str) else value


def search(folder: Path, private: Private, contact: str = "") -> None:
    """Raise UserError, which says where, if something private is in a file; `contact` is there on purpose."""
    for name in files_in(folder):
        names = ((kind, "in the name of the file") for kind in private.facts_in(name))
        try:
            found = next(chain(names, private_in_file(folder / name, private, contact, open_hdf5_file)), None)
        except DAMAGE as error:
            raise UserError(f"{name} of the bundle cannot be searched: {reason_of(error)}") from None
        if found:
            raise UserError(
                f"the bundle is not written: {name} would hold something private, {found[1]}"
                f" ({IN_WORDS[found[0]]}); take it out of what is bundled, or report this as a mistake of"
                " this project"
            )


def private_in_file(
    path: Path, private: Private, contact: str, open_hdf5: OpenFile
) -> Iterator[tuple[str, str]]:
    """Yield the kind of each private fact in a file, and where it stands; the contact is there on purpose.

    UserError or an error of DAMAGE where it cannot be read.
    """
    if path.suffix == ".hdf5":
        with open_hdf5(path) as file:
            texts = list(_hdf5_texts(path, file))
    else:
        texts = list(_texts(path, read_bytes(path, MOST_SEARCHED_BYTES)))
    for where, text in texts:
        # Of UTF-16, every second byte is 0.
        for one in {text, html.unescape(text), "\n".join(_inner_texts(text)), text.replace("\0", "")}:
            yield from ((kind, where) for kind in private.facts_in(one, contact))


def _texts(path: Path, content: bytes) -> Iterator[tuple[str, str]]:
    """Yield each text of a file that is not HDF5, and where it stands."""
    if path.suffix == ".png":
        if not content.startswith(_PNG):
            raise UserError("must be a PNG picture")
        yield from (("in a text of the picture", text) for text in _png_texts(content))
    else:
        yield "in its text", content.decode(errors="replace")


def _inner_texts(value: Any) -> Iterator[str]:
    """Yield every text of what a text holds as JSON, those inside of texts in JSON and the keys included."""
    if isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                yield from _inner_texts(json.loads(value))
    elif isinstance(value, dict | list):
        for inner in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _inner_texts(inner)


def _hdf5_texts(path: Path, file: h5py.File) -> Iterator[tuple[str, str]]:
    """Yield each text of a file and where it stands, also in bytes that are of no array of numbers."""
    content = bytearray(path.read_bytes())
    for place, member in members_of(file):
        yield "in the name of an array", place
        for name, value in member.attrs.items():
            yield "in the name of an attribute", name
            yield from ((f"in its attribute '{name}'", text) for text in _values(value))
        if isinstance(member, h5py.Dataset) and member.dtype.kind in "OSU" and member.size:
            yield from (("in an array", text) for text in _values(member[()]))
        elif isinstance(member, h5py.Dataset) and member.dtype.kind in "biuf":
            for start, size in _stored_parts(member):
                content[start : start + size] = bytes(size)
    yield "among its bytes", "\n".join(one.decode() for one in _TEXT.findall(content))


def _stored_parts(array: h5py.Dataset) -> Iterator[tuple[int, int]]:
    """Yield where the bytes of an array begin in its file, and their number."""
    if array.chunks is None:
        yield array.id.get_offset() or 0, array.id.get_storage_size()
        return
    for number in range(array.id.get_num_chunks()):
        chunk = array.id.get_chunk_info(number)
        yield chunk.byte_offset, chunk.size


def _values(value: Any) -> Iterator[str]:
    """Yield the texts of what h5py returns."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "OSU":
        for one in value.ravel().tolist():
            yield from _values(one)
    elif isinstance(value, str | bytes):
        yield value.decode(errors="replace") if isinstance(value, bytes) else value


def _png_texts(content: bytes) -> Iterator[str]:
    """Yield the texts of a picture, which may be compressed, and what stands behind its end."""
    place = len(_PNG)
    while place + 8 <= len(content):
        size, kind = int.from_bytes(content[place : place + 4], "big"), content[place + 4 : place + 8]
        data = content[place + 8 : place + 8 + size]
        place += 12 + size
        if kind == _PIXELS:
            continue
        if kind == b"IEND":
            data = content[place:]
            place = len(content)
        yield data.decode(errors="replace")
        for start in range(len(data)):  # a compressed text begins behind keywords of any length
            if data[start : start + 1] == b"\x78":
                with suppress(zlib.error):
                    text = zlib.decompressobj().decompress(data[start:], _UNPACKED)
                    yield text.decode(errors="replace")
