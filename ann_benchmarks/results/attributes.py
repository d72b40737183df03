"""The attributes of a result: all of them as one text, besides each by itself.

ann-benchmarks reads an attribute of each name. h5py needs a dozen calls for each, which for a hundred of them
takes longer than reading the answers to 10,000 queries; one text takes a tenth of that.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import h5py
import numpy as np

from ann_benchmarks.common.text import DAMAGE, clean_text, from_json, plain

ALL = "attributes"  # the attribute that holds the others as JSON
LONGEST_TEXT = 60_000  # bytes; HDF5 takes no attribute of 64 KiB and more
LONGEST = 256  # elements; an attribute that is a longer array is data, not a property
MOST = 2000  # attributes of a file
MOST_CHARACTERS = 2**24  # of all of them; what is stored once may be the text of many
_VERSION_NAMES = "version_names"  # of a result: NAME -> what people call it, as its plug-in says
_VERSION = "_version"
_OTHERS = ("framework_version", "pgbench_version")
# Where none were stored:
_EARLIER = {"postgres": "PostgreSQL", "vector": "pgvector", "vchord": "VectorChord"}


def write_attributes(file: h5py.File, attrs: Mapping[str, Any]) -> None:
    """Write each attribute that is not None, and all but long arrays also as one JSON text."""
    stored = {name: _encode_hdf5(value) for name, value in attrs.items() if value is not None}
    for name, value in stored.items():
        file.attrs[name] = value
    text = json.dumps({name: value for name, value in map(_encode_json, stored.items()) if name})
    if len(text.encode()) <= LONGEST_TEXT:
        file.attrs[ALL] = text


def read_attributes_of(file: h5py.File) -> dict[str, Any]:
    """Return the attributes: as JSON holds them, or of a file without that text as h5py returns them.

    ValueError where there are too many.
    """
    with suppress(*DAMAGE):
        found = json.loads(file.attrs[ALL])
        if isinstance(found, dict):
            return found
    if len(file.attrs) > MOST:
        raise ValueError(f"it has {len(file.attrs):,} attributes; the most that are read is {MOST:,}")
    found, characters = {}, 0
    for name, value in file.attrs.items():
        characters += len(value) if isinstance(value, str | bytes) else 0
        if characters > MOST_CHARACTERS:
            raise ValueError(f"its attributes have more than {MOST_CHARACTERS:,} characters")
        found[name] = value
    return found


def _encode_hdf5(value: Any) -> Any:
    """Return a value as HDF5 can hold it: numbers and arrays of numbers as they are, all else as text."""
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, bool | float | np.bool_ | np.number):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, list | tuple | np.ndarray):
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different lengths
            return json.dumps(value, default=str)
        if array.dtype.kind in "biuf" and array.size:
            return array
        value = array.tolist() if isinstance(value, np.ndarray) else value
    return json.dumps(value, default=str)


def _encode_json(item: tuple[str, Any]) -> tuple[str, Any]:
    """Return an attribute as JSON holds it, without its name where it is a long array."""
    name, value = item
    if isinstance(value, (np.generic, np.ndarray)):
        return (name if value.size <= LONGEST else ""), value.tolist()
    return name, value


def plain_attributes(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are numbers, strings or short arrays, as JSON holds them.

    What is empty or not finite is not known, and left out. ValueError where lists are nested too deeply.
    """
    found: dict[str, Any] = {}
    for name, value in map(_encode_json, attrs.items()):
        if not name or isinstance(value, h5py.Empty) or (isinstance(value, list) and len(value) > LONGEST):
            continue
        value = plain(value)
        if value is not None:
            found[clean_text(name)] = clean_text(value) if isinstance(value, dict) else value
    return found


def version_names(attrs: Mapping[str, Any]) -> dict[str, str]:
    """Return what people call each version of a result, by its attribute."""
    known = _EARLIER | from_json(attrs.get(_VERSION_NAMES), dict[str, Any]())
    stems = (name.removesuffix(_VERSION) for name in attrs if name.endswith(_VERSION) and name not in _OTHERS)
    return {f"{stem}{_VERSION}": str(known.get(stem, stem)) for stem in stems}
