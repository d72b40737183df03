"""The search for private facts in every text of a file: HDF5, pictures, texts and the names of all three."""

import html
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError

from ..files import members_of, read_bytes
from ..private import Private
from .reading import opened_file

MOST_SEARCHED_BYTES = 64 << 20
_PNG, _PIXELS, _END = b"\x89PNG\r\n\x1a\n", b"IDAT", b"IEND"
_PARTS = {b"IHDR", b"PLTE", b"tRNS", b"pHYs", b"tEXt", _PIXELS, _END}  # of a picture; none is compressed text
_TEXT = re.compile(rb"(?:[\x20-\x7e]\0?){8,}")


def private_facts(folder: Path, name: str, private: Private, contact: str) -> list[tuple[str, str]]:
    """Return the kind of each private fact in a file and where it stands; the contact is there on purpose.

    UserError or an error of DAMAGE where it cannot be read.
    """
    found = {(kind, "in the name of the file") for kind in private.facts_in(name)}
    for where, text in _texts(folder / name):
        # Of UTF-16, every second byte is 0.
        for one in {text, html.unescape(text), "\n".join(_inner_texts(text)), text.replace("\0", "")}:
            found |= {(kind, where) for kind in private.facts_in(one, contact)}
    return sorted(found)


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each text of a file, and where it stands."""
    if path.suffix == ".hdf5":
        with opened_file(path) as file:
            yield from _hdf5_texts(path, file)
        return
    content = read_bytes(path, MOST_SEARCHED_BYTES)
    if path.suffix == ".png":
        for text in _png_texts(content):
            yield "in a text of the picture", text.decode(errors="replace")
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


def _png_texts(content: bytes) -> Iterator[bytes]:
    """Yield what a picture has beside its pixels; UserError if pictures of reports do not have it."""
    if not content.startswith(_PNG):
        raise UserError("must be a PNG picture")
    place, kind = len(_PNG), b""
    while kind != _END:
        size, kind = int.from_bytes(content[place : place + 4], "big"), content[place + 4 : place + 8]
        if kind not in _PARTS:
            raise UserError(f"has a part '{kind.decode(errors='replace')}', which no picture of a report has")
        if kind != _PIXELS:
            yield content[place + 8 : place + 8 + size]
        place += 12 + size
    if len(content) > place:
        raise UserError("has something behind the end of its picture")
