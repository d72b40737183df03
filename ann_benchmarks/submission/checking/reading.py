"""A stranger's folder and its files, read within bounds: what they declare is checked before it is read."""

import re
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5a

from ann_benchmarks.common.errors import UserError, one_line, shown
from ann_benchmarks.common.hdf5 import open_hdf5_file
from ann_benchmarks.common.text import DAMAGE, from_json, reason_of
from ann_benchmarks.monitoring.stored import read_monitoring
from ann_benchmarks.results.attributes import ALL, LONGEST_TEXT, plain_attributes
from ann_benchmarks.results.file import array_problem

from ..files import entries_in, is_path, members_of, sha256_of
from ..manifest import MANIFEST, Manifest
from .rules import Findings

MOST_FILES = 50_000
MOST_BYTES = 50 << 30
# Paths in a bundle; system.json and logs are of earlier versions.
_KNOWN = re.compile(
    r"README\.md|experiment\.yml|prices\.yml|(?:results|truth|report)/.+|system\.json|logs/.+\.log"
)
MOST_ARRAY_BYTES = 1 << 30
MOST_ATTRIBUTE_BYTES = 16 << 20  # of all attributes
MOST_ATTRIBUTES = 2000


def check_folder(folder: Path, manifest: Manifest, findings: Findings) -> list[str]:
    """Compare what lies in the folder with the manifest; return the paths of files that can be read."""
    there = regular_files(folder, findings)
    named = manifest.files.keys()
    for path in sorted(named - there.keys() - {finding.file for finding in findings.refused}):
        findings.refuse(path, "files", "is in the manifest and not in the folder")
    for path in sorted(there.keys() - manifest.files.keys() - {MANIFEST}):
        findings.refuse(path, "files", "is in the folder and not in the manifest")
    there_and_named = sorted(named & there.keys())
    for path in there_and_named:
        if not _KNOWN.fullmatch(path):
            findings.refuse(path, "files", "does not belong to a bundle")
        promised = manifest.files[path]
        if there[path] != promised.bytes or sha256_of(folder / path) != promised.sha256:
            findings.refuse(path, "files", "has another size or SHA-256 than in the manifest")
    return there_and_named  # a changed file is read, too: what else is wrong with it is said


def regular_files(folder: Path, findings: Findings) -> dict[str, int]:
    """Return the size of each file in a folder by its path; refuse what is not one, or has a wrong name."""
    found: dict[str, int] = {}
    for path, status in islice(entries_in(folder), MOST_FILES):
        printable = one_line(path.encode(errors="replace").decode())
        if stat.S_ISLNK(status.st_mode):
            findings.refuse(printable, "paths", "is a link")
        elif not is_path(path):
            findings.refuse(printable, "paths", "has a name that a manifest cannot have")
        elif not stat.S_ISREG(status.st_mode):
            findings.refuse(printable, "paths", "is not a regular file")
        else:
            found[path] = status.st_size
    if len(found) >= MOST_FILES or sum(found.values()) > MOST_BYTES:
        findings.refuse(".", "files", "has too many files or bytes: hand in parts of it")
    return found


@contextmanager
def opened_file(path: Path, known: Collection[str] | None = None) -> Iterator[h5py.File]:
    """Open an HDF5 file whose members are all within bounds; UserError for whatever is wrong with it.

    It has no other arrays and groups than those `known`, if they are given.
    """
    try:
        with open_hdf5_file(path) as file:
            if known is not None and (surplus := sorted({*file} - {*known})):
                raise UserError(f"has '{shown(surplus[0])}', which does not belong there")
            for name, member in members_of(file):
                _check_attributes(member)
                if isinstance(member, h5py.Dataset) and _size(member) > MOST_ARRAY_BYTES:
                    raise UserError(f"'{name}' declares {_size(member):,} bytes")
            yield file
    except DAMAGE as error:
        raise UserError(f"cannot be read: {reason_of(error)}") from None


def array_of(file: h5py.File, name: str, kinds: str) -> np.ndarray:
    """Read an array of numbers of these kinds; UserError if it cannot be read."""
    array = file.get(name)
    if problem := array_problem(file, array, kinds):
        raise UserError(f"'{name}' {problem}")
    return np.asarray(array[()])


def _size(array: h5py.Dataset) -> int:
    """Return how many bytes reading an array takes, or one of its chunks."""
    return max(array.size or 0, prod(array.chunks or ())) * array.dtype.itemsize


def _check_attributes(member: h5py.Group | h5py.Dataset) -> None:
    number = h5a.get_num_attrs(member.id)
    if number > MOST_ATTRIBUTES:
        raise UserError(f"has {number:,} attributes")
    size = sum(h5a.open(member.id, index=place).get_storage_size() for place in range(number))
    if size > MOST_ATTRIBUTE_BYTES:
        raise UserError(f"has attributes of {size:,} bytes")


def contradictions(file: h5py.File) -> tuple[str, ...]:
    """Return the names of attributes that the text of all of them gives another value."""
    single = plain_attributes(file.attrs)
    together = single.pop(ALL, None)
    if together is None or len(together) > LONGEST_TEXT:
        return ()
    from_text = plain_attributes(from_json(file.attrs[ALL], dict[str, Any]()))
    names = sorted(from_text.keys() | single.keys())
    return tuple(name for name in names if from_text.get(name) != single.get(name))


def sampled_totals(path: Path) -> dict[str, float] | None:
    """Return what monitoring has sampled while a point was measured, None without any; rates are per s."""
    if (sampled := read_monitoring(path)) is None:
        return None
    measured = [part for phase, part in sampled.stretches() if phase == "measure"]
    commits = sampled.columns.get("postgresql.commits", np.zeros(len(sampled.seconds)))
    spans = [(np.diff(sampled.seconds[part]), commits[part][1:]) for part in measured]
    return {"seconds": float(sum(seconds.sum() for seconds, _ in spans)),
            "commits": float(sum(np.nansum(seconds * rates) for seconds, rates in spans)),
            "fastest": max((float(np.nanmax(rates, initial=0)) for _, rates in spans), default=0.0),
            "longest": max((float(seconds.max(initial=0)) for seconds, _ in spans), default=0.0)}  # fmt: skip
