"""Names that people give, and that become names of files and folders."""

import glob
import re
from pathlib import Path

from .errors import UserError, shown

# File systems take 255 bytes; while it is written, a file has a longer name.
LONGEST_NAME = 200
LONGEST_FOLDER = 255


def name_problem(name: str, longest: int = LONGEST_NAME) -> str | None:
    """Say why no file or folder can have a name, None if one can: "is empty", "has a '/' in it"."""
    if not name.strip():
        return "is empty"
    if name in (".", ".."):
        return f"is '{name}', which stands for a folder"
    if size_problem := too_long(name, longest):
        return size_problem
    bad = next((c for c in name if c in "/\\" or not c.isprintable()), None)
    return None if bad is None else f"has {bad!r} in it"


def too_long(name: str, most: int = LONGEST_NAME) -> str | None:
    """Say that a name has more bytes than this, None if it has not."""
    size = len(name.encode(errors="surrogateescape"))
    return f"has {size:,} bytes, more than {most}" if size > most else None


def checked_name(name: str, kind: str, longest: int = LONGEST_NAME) -> str:
    """Return the name of a `kind` of thing that is kept in files; UserError if no file can have it."""
    if problem := name_problem(name, longest):
        raise UserError(f"'{shown(name)}' cannot be the name of a {kind}: it {problem}")
    return name


def path_text(text: str) -> str:
    """Return a path, or a pattern of paths, as it is written; UserError if no file can have it."""
    if not text or "\0" in text:
        raise UserError(f"'{shown(text)}' must be the path of a file")
    return text


def checked_path(text: str) -> Path:
    """Return the path of a file or folder; UserError if none can have it."""
    return Path(path_text(text))


def exists(path: Path) -> bool:
    """Whether there is something of this name; False also where no file can have it."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def matching(text: str) -> list[Path]:
    """Return what a path means, or a pattern, in natural order: what a * stands for is never hidden.

    An existing path is taken as it is; in a pattern, * is the only wildcard.
    """
    if exists(Path(text)):
        return [Path(text)]
    names = glob.glob(star_pattern(text)) if "*" in text else []  # noqa: PTH207, Path.glob finds hidden files too
    return [Path(name) for name in sorted(names, key=natural_order)]


def star_pattern(text: str) -> str:
    """Return a pattern for `glob` and `fnmatch` in which no character but * is one."""
    return "*".join(map(glob.escape, text.split("*")))


def natural_order(name: str) -> list[str | int]:
    """Make part_2 come before part_10."""
    return [int(piece) if piece.isdecimal() else piece for piece in re.split(r"([0-9]+)", name)]
