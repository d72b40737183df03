"""The search for private facts in every text of a file: of HDF5, of other files and in their names."""

import html
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..files import MOST_TEXT_BYTES, members_of, read_bytes
from ..private import Private
from .reading import opened_file


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
    """Yield each text of a file, and where it stands; pictures have the texts of the report."""
    if path.suffix == ".hdf5":
        with opened_file(path) as file:
            yield from _hdf5_texts(file)
        return
    if path.suffix != ".png":
        yield "in its text", read_bytes(path, MOST_TEXT_BYTES).decode(errors="replace")


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


def _hdf5_texts(file: h5py.File) -> Iterator[tuple[str, str]]:
    """Yield each text of a file and where it stands."""
    for place, member in members_of(file):
        yield "in the name of an array", place
        for name, value in member.attrs.items():
            yield "in the name of an attribute", name
            yield from ((f"in its attribute '{name}'", text) for text in _values(value))
        if isinstance(member, h5py.Dataset) and member.dtype.kind in "OSU" and member.size:
            yield from (("in an array", text) for text in _values(member[()]))


def _values(value: Any) -> Iterator[str]:
    """Yield the texts of what h5py returns."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "OSU":
        for one in value.ravel().tolist():
            yield from _values(one)
    elif isinstance(value, str | bytes):
        yield value.decode(errors="replace") if isinstance(value, bytes) else value
