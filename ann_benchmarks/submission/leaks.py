"""A last search of a finished bundle for what this machine and its user are called."""

import html
import json
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.hdf5 import open_hdf5_file
from ann_benchmarks.common.text import DAMAGE, reason_of

from .files import files_in
from .private import IN_WORDS, Private

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_TEXTS = (b"tEXt", b"zTXt", b"iTXt", b"eXIf")
_ENDS_OF_BINARY = (".hdf5", ".png")
_UNPACKED = 1 << 20  # bytes of a text that are looked at


def search(folder: Path, private: Private, contact: str = "") -> None:
    """Raise UserError, which says where, if something private is in a file; `contact` is there on purpose."""
    for name in files_in(folder):
        kind = private.own_in(name)
        where = "in the name of the file"
        if not kind:
            try:
                found = next(_found(folder / name, private, contact), None)
            except DAMAGE as error:
                raise UserError(f"{name} of the bundle cannot be searched: {reason_of(error)}") from None
            kind, where = found or (None, "")
        if kind:
            raise UserError(
                f"the bundle is not written: {name} would hold something private, {where} ({IN_WORDS[kind]});"
                " take it out of what is bundled, or report this as a mistake of this project"
            )


def _found(path: Path, private: Private, contact: str) -> Iterator[tuple[str, str]]:
    """Yield the kind of each private fact, and where it stands."""
    content = path.read_bytes()
    for where, text in _texts(path, content):
        if kind := private.own_in(text.replace(contact, "") if contact else text):
            yield kind, where
    if path.suffix in _ENDS_OF_BINARY and (kind := private.own_in_bytes(content)):
        yield kind, "among its bytes"


def _texts(path: Path, content: bytes) -> Iterator[tuple[str, str]]:
    if path.suffix == ".hdf5":
        with open_hdf5_file(path) as file:
            yield from _of_hdf5(file)
    elif content.startswith(_PNG):
        yield from _of_png(content)
    else:
        text = content.decode(errors="replace")
        if path.suffix == ".json":
            yield from (("in its values", one) for one in _of_json(json.loads(text)))
        else:
            yield from (("in its text", one) for one in {text, html.unescape(text)})


def _of_json(value: Any) -> Iterator[str]:
    """Yield every text, those inside of texts in JSON and the keys included."""
    if isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                yield from _of_json(json.loads(value))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _of_json(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _of_json(inner)


def _of_hdf5(group: h5py.Group) -> Iterator[tuple[str, str]]:
    yield from _of_attributes(group)
    for name, member in group.items():
        yield "in the name of an array", name
        if isinstance(member, h5py.Group):
            yield from _of_hdf5(member)
        else:
            yield from _of_attributes(member)
            if h5py.check_string_dtype(member.dtype):
                yield from (("in an array", text) for text in _of_value(member[()]))


def _of_attributes(member: Any) -> Iterator[tuple[str, str]]:
    for name, value in member.attrs.items():
        yield "in the name of an attribute", name
        yield from ((f"in its attribute '{name}'", text) for text in _of_value(value))


def _of_value(value: Any) -> Iterator[str]:
    if isinstance(value, np.ndarray):
        for one in value.ravel().tolist() if value.dtype.kind in "OSU" else ():
            yield from _of_value(one)
    elif isinstance(value, bytes):
        yield from _of_json(value.decode(errors="replace"))
    elif isinstance(value, str):
        yield from _of_json(value)


def _of_png(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield the texts of a picture, which may be compressed."""
    place = len(_PNG)
    while place + 8 <= len(content):
        size, kind = int.from_bytes(content[place : place + 4], "big"), content[place + 4 : place + 8]
        data = content[place + 8 : place + 8 + size]
        place += 12 + size
        if kind not in _PNG_TEXTS:
            continue
        yield "in a text of the picture", data.decode(errors="replace")
        for start in range(len(data)):  # a compressed text begins behind keywords of any length
            if data[start : start + 1] == b"\x78":
                try:
                    unpacked = zlib.decompressobj().decompress(data[start:], _UNPACKED)
                except zlib.error:
                    continue
                yield "in a text of the picture", unpacked.decode(errors="replace")
