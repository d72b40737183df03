"""Room on a disk, what to say when there is none, and files that one process at a time may hold."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .errors import UserError
from .numbers import size_text


def require_space(folder: Path, size: int) -> None:
    """Raise UserError unless `size` bytes are free in `folder`, which is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {folder}: {error.strerror}") from None
    free = shutil.disk_usage(folder).free
    if free < size:
        raise UserError(
            f"{size_text(size)} are needed in {folder.absolute()} but {size_text(free)} are free; "
            "free some space, or make the folder a link to a larger disk"
        )


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a failed write into the UserError that names the file."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # h5py raises either, with the cause in the text
        if (isinstance(error, OSError) and error.errno == errno.ENOSPC) or "No space left" in str(error):
            reason = "the disk is full; free some space and run again"
        else:
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError(f"cannot write {path}: {reason}") from error


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk: what was renamed or deleted stays so after a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def locked_file(path: Path, advice: str, waits: bool = False) -> IO[str]:
    """Open a file and lock it until it is closed, here and in processes that inherit it.

    UserError, which ends in `advice`, where it cannot be opened, and where another process holds it: the file
    names that. With `waits`, this process waits for the other.
    """
    try:
        file = path.open("a+")
    except OSError as error:
        raise UserError(f"{path} cannot be opened: {error.strerror}; {advice}") from None
    try:
        if waits:
            fcntl.flock(file, fcntl.LOCK_EX)
            return file
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
    except BlockingIOError:
        file.seek(0)
        with file:
            holder = file.read().strip() or "unknown"
        raise UserError(f"{path} is in use by process {holder}: wait for it, or {advice}") from None
    except BaseException:
        file.close()
        raise
    return file
