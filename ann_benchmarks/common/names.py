"""Names that people give, and that become names of files and folders."""

from pathlib import Path

from .errors import UserError, shown

# File systems take 255 bytes; while it is written, a file has a longer name.
LONGEST_NAME = 200


def name_problem(name: str) -> str | None:
    """Say why no file or folder can have a name, None if one can: "is empty", "has a '/' in it"."""
    if not name.strip():
        return "is empty"
    if name in (".", ".."):
        return f"is '{name}', which stands for a folder"
    if size_problem := too_long(name):
        return size_problem
    bad = next((c for c in name if c in "/\\" or not c.isprintable()), None)
    return None if bad is None else f"has {bad!r} in it"


def too_long(name: str, most: int = LONGEST_NAME) -> str | None:
    """Say that a name has more bytes than this, None if it has not."""
    size = len(name.encode(errors="surrogateescape"))
    return f"has {size:,} bytes, more than {most}" if size > most else None


def checked_name(name: str, kind: str) -> str:
    """Return the name of a `kind` of thing that is kept in files; UserError if no file can have it."""
    if problem := name_problem(name):
        raise UserError(f"'{shown(name)}' cannot be the name of a {kind}: it {problem}")
    return name


def exists(path: Path) -> bool:
    """Whether there is something of this name; False also where no file can have it."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
