"""Files that are read: regular ones, which end. A pipe waits for a writer, and a device may have no end.

Anything else is an OSError that says what it is: readers report it as they do a file that is missing.
"""

import errno
import os
import stat
from pathlib import Path
from typing import IO

from .errors import UserError

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def regular(path: Path) -> Path:
    """Return the path of a regular file, for a library that opens it itself."""
    _require(path.stat().st_mode, path)
    return path


def open_regular(path: Path, flags: int = 0) -> IO[bytes]:
    """Open a file to read its bytes; a pipe that takes its place meanwhile does not wait for a writer."""
    if not flags & os.O_NOFOLLOW:
        regular(path)  # to open a device may do something already
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    try:
        _require(os.fstat(handle).st_mode, path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, most: int) -> bytes:
    """Return what a file holds; it may grow meanwhile, and files of /proc do not tell their sizes."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return content


def require_file(path: Path, advice: str) -> None:
    """Raise UserError, which ends in `advice`, unless there is a regular file of this name."""
    try:
        regular(path)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}; {advice}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {path}: {reason}; {advice}") from None


def _require(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(errno.EINVAL, f"it must be a regular file, but is {kind}", str(path))
