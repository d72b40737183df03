"""The files of a bundle by their paths in its folder, which may be a stranger's: no link is followed."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import open_regular
from ann_benchmarks.common.names import LONGEST_FOLDER, name_problem
from ann_benchmarks.common.text import reason_of

EXPERIMENT, PRICES, REPORT = "experiment.yml", "prices.yml", "report"
LONGEST_FILE = LONGEST_FOLDER - 15  # bytes of a file's name: its copies have longer ones
LONGEST_PATH = 1000  # characters of a file's path in the folder
MOST_TEXT_BYTES = 256 << 20
MOST_MEMBERS = 5000  # of an HDF5 file
_BLOCK = 1 << 20
PLACEHOLDER = re.compile(r"\[(\w+(?:-\d+)?)\]")  # such as [host-1], in place of what is private


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content as 64 hexadecimal digits; UserError if it is not a file."""
    digest = hashlib.sha256()
    try:
        with open_regular(path, os.O_NOFOLLOW) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {reason_of(error)}") from None
    return digest.hexdigest()


def entries_in(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path in a bundle of everything but folders, the manifest included, and what it is.

    Links are not followed. UserError if a folder cannot be read.
    """
    try:
        for path in sorted(folder.rglob("*")):
            if not stat.S_ISDIR((status := path.lstat()).st_mode):
                yield path.relative_to(folder).as_posix(), status
    except (OSError, RecursionError) as error:
        raise UserError(f"{folder} cannot be read: {reason_of(error)}") from None


def files_in(folder: Path) -> list[str]:
    """Return the paths in a bundle of everything but folders, the manifest included, sorted."""
    return sorted(name for name, _ in entries_in(folder))


def is_path(name: str) -> bool:
    """Whether a manifest can name a file of its folder so."""
    *folders, last = name.split("/")  # an absolute path begins with an empty part
    parts = [*((part, LONGEST_FOLDER) for part in folders), (last, LONGEST_FILE)]
    return len(name) <= LONGEST_PATH and not any(name_problem(*part) for part in parts)


def remove_brackets(name: str) -> str:
    """Return the name of a file or folder as a bundle has it: placeholders in it have no brackets."""
    return PLACEHOLDER.sub(r"\1", name)


def read_bytes(path: Path, most: int) -> bytes:
    """Return what a file holds; UserError beyond `most` bytes, OSError where it cannot be read."""
    with open_regular(path, os.O_NOFOLLOW) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise UserError(f"has more than {most >> 20} MiB")
    return content


def read_text(path: Path) -> str:
    """Return a text; UserError where it cannot be read within bounds."""
    try:
        return read_bytes(path, MOST_TEXT_BYTES).decode()
    except (OSError, ValueError) as error:
        raise UserError(f"cannot be read: {reason_of(error)}") from None


def members_of(file: h5py.File) -> Iterator[tuple[str, h5py.Group | h5py.Dataset]]:
    """Yield each group and array of a file with its path in it, the root first.

    UserError where one is a link to something else, or there are too many.
    """
    waiting: list[tuple[str, Any]] = [("", file["/"])]
    for _ in range(MOST_MEMBERS):
        if not waiting:
            return
        path, member = waiting.pop(0)
        yield path, member
        for name in member if isinstance(member, h5py.Group) else ():
            if not isinstance(member.get(name, getlink=True), h5py.HardLink):
                raise UserError(f"has a link, '{name}'")
            waiting.append((f"{path}/{name}".lstrip("/"), member[name]))
    raise UserError(f"has more than {MOST_MEMBERS:,} members")


def truth_name(dataset: str, filter: str = "") -> str:
    """Return the path in a bundle of a dataset's true neighbours, or of those under a filter set."""
    return f"truth/{dataset}{'--' if filter else ''}{filter.replace(':', '-')}.hdf5"
