"""Files that are either whole or not there."""

import errno
import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it there if the block succeeds, else delete it.

    The content reaches the disk before the name does, so that a power cut leaves the old file or the new.
    The temporary name starts with a dot and has no known suffix: no reader takes it for a finished file.
    OSError where `path` is a folder or a device.
    """
    if path.exists() and not path.is_file():
        # Also a device such as /dev/null, which root could replace.
        raise OSError(errno.EISDIR, "is not a file that can be replaced; name another", str(path))
    with scratch_path(path) as temporary:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)


@contextmanager
def scratch_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, whose file is deleted in the end, by a later run if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for abandoned in path.parent.glob(f".{glob.escape(path.name)}.partial-*"):
        owner = abandoned.suffix.removeprefix(".partial-")
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            abandoned.unlink(missing_ok=True)  # by a process that was killed
    temporary = path.parent / f".{path.name}.partial-{os.getpid()}"
    try:
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
