"""The files of a bundle by their paths in its folder, which may be a stranger's: no link is followed."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.files import open_regular
from ann_benchmarks.common.names import LONGEST_FOLDER, name_problem
from ann_benchmarks.common.text import plain, reason_of

EXPERIMENT, PRICES, SYSTEM, REPORT = "experiment.yml", "prices.yml", "system.json", "report"
LONGEST_FILE = LONGEST_FOLDER - 15  # bytes of a file's name: its copies have longer ones
LONGEST_PATH = 1000  # characters of a file's path in the folder
MOST_TEXT_BYTES = 256 << 20
_BLOCK = 1 << 20
# On some system a device, an option, hidden, or a name that loses its end.
_UNPORTABLE = re.compile(r"(?i:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?|[-.].*|.*[. ]|.*[<>:\"|?*].*")
PLACEHOLDER = re.compile(r"\[(\w+(?:-\d+)?)\]")  # such as [host-1], in place of what is private


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content as 64 hexadecimal digits; UserError if it is not a file."""
    digest = hashlib.sha256()
    try:
        with opened(path) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {reason_of(error)}") from None
    return digest.hexdigest()


def files_in(folder: Path) -> Iterator[str]:
    """Yield the path in a bundle of everything but folders, the manifest included, sorted.

    Links are not followed: each is yielded, and `file_in` refuses it. UserError if a folder cannot be read.
    """

    def fail(error: OSError) -> NoReturn:
        raise UserError(f"{error.filename} cannot be read: {reason_of(error)}")

    found = []
    for place, folders, names in os.walk(folder, onerror=fail):
        links = [name for name in folders if Path(place, name).is_symlink()]
        found += [Path(place, name).relative_to(folder).as_posix() for name in (*names, *links)]
    yield from sorted(found)


def file_in(folder: Path, name: str) -> Path:
    """Return the path of a bundle's file by its path in the folder.

    UserError where it is missing or not a file, or a link leads to it or to a folder on the way.
    """
    path = folder
    for part in checked_path(name).split("/"):
        path = path / part
        try:
            mode = path.lstat().st_mode
        except OSError as error:
            raise UserError(f"{path} cannot be read: {reason_of(error)}") from None
        if stat.S_ISLNK(mode):
            raise UserError(f"{path} is a link: a bundle holds files alone")
    if not stat.S_ISREG(mode):
        raise UserError(f"{path} is not a regular file")
    return path


def path_problem(part: str, longest: int = LONGEST_FOLDER) -> str | None:
    """Say why a folder or file of a bundle cannot have a name, None if it can, on any system."""
    problem = name_problem(part, longest)
    return problem or ("is a name that some systems cannot have" if _UNPORTABLE.fullmatch(part) else None)


def checked_path(name: str) -> str:
    """Return the path of a file in the folder, as the manifest has it; UserError if it can lead elsewhere."""
    problem = f"has more than {LONGEST_PATH} characters" if len(name) > LONGEST_PATH else None
    *folders, last = name.split("/")  # an absolute path begins with an empty part
    for part in folders:
        problem = problem or path_problem(part)
    problem = problem or path_problem(last, LONGEST_FILE)
    if problem:
        raise UserError(f"'{shown(name)}' is not a path of a file in this folder: a part of it {problem}")
    return name


def remove_brackets(name: str) -> str:
    """Return the name of a file or folder as a bundle has it: placeholders in it have no brackets."""
    return PLACEHOLDER.sub(r"\1", name)


def opened(path: Path) -> IO[bytes]:
    """Open a file to read its bytes, but follow no link."""
    return open_regular(path, os.O_NOFOLLOW)


def read_bytes(path: Path, most: int) -> bytes:
    """Return what a file holds; UserError beyond `most` bytes, OSError where it cannot be read."""
    with opened(path) as file:
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


def read_json(path: Path, is_strict: bool = False) -> Any:
    """Return what a file holds as JSON; UserError where that cannot be read within bounds.

    If strict, each key stands once in an object, because readers choose either, and numbers are finite.
    """
    hooks: dict[str, Any] = {"object_pairs_hook": _each_once, "parse_constant": _refuse_number}
    try:
        text = read_text(path)
        return json.loads(text, **hooks) if is_strict else plain(json.loads(text))
    except RecursionError:
        raise UserError("is nested too deeply") from None
    except ValueError as error:
        raise UserError(f"is not JSON: {reason_of(error)}") from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise UserError(f"the key '{shown(next(key for key in keys if keys.count(key) > 1))}' stands twice")
    return found


def _refuse_number(word: str) -> NoReturn:
    raise UserError(f"{word} is not a number")


def truth_name(dataset: str, filter: str = "") -> str:
    """Return the path in a bundle of a dataset's true neighbours, or of those under a filter set."""
    return f"truth/{dataset}{'--' if filter else ''}{filter.replace(':', '-')}.hdf5"
