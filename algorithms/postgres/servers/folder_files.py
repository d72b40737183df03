"""What is done in a server's folder, called as the account that the server runs as: it owns the folder.

Paths are absolute. Nothing waits at a pipe or writes through a link in the place of a file.
"""

import errno
import fcntl
import os
import re
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from .acting import Descriptor


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(path))


def make_temporary(prefix: str) -> str:
    """Make a folder with a name of its own where temporary files are; return its path."""
    for parent in _temporary_folders():
        with suppress(OSError):
            return tempfile.mkdtemp(prefix=prefix, dir=parent)
    raise OSError(errno.EACCES, "no folder for temporary files can be written")


def remove_left(prefix: str) -> None:
    """Remove the temporary folders with this prefix that nobody has locked: their processes were killed."""
    for parent in map(Path, _temporary_folders()):
        found: list[Path] = []
        with suppress(OSError):  # one that we may not enter
            found = list(parent.glob(f"{prefix}*"))
        for path in found:
            with suppress(OSError):
                handle = lock_folder(path)
                remove(path)
                os.close(handle)


def lock_folder(path: Path) -> Descriptor:
    """Lock a folder of ours until what is returned is closed; OSError where it is in use, or gone."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            raise OSError(errno.EPERM, "it belongs to another account", str(path))
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.lstat()  # who had locked it may have removed it
    except OSError:
        os.close(handle)
        raise
    return Descriptor(handle)


def _temporary_folders() -> list[str]:
    return list(dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")))


def open_file(path: Path, flags: int) -> Descriptor:
    """Open a file; one that version 0.1.0 made as root is replaced where it is to be written."""
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        number = os.open(path, flags, 0o600)
    except PermissionError:
        if not flags & os.O_CREAT or path.lstat().st_uid == os.geteuid():
            raise
        path.unlink()
        number = os.open(path, flags | os.O_EXCL, 0o600)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
    return Descriptor(number)


def end_of(path: Path, most: int) -> str:
    """Read at most this many bytes, the last ones."""
    with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - most, 0))
        return file.read(most).decode(errors="replace")


def files_in(folder: Path) -> list[str]:
    """Name what is in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())


def rename(path: Path, target: Path) -> None:
    """Give it another name."""
    path.rename(target)


def remove(path: Path) -> None:
    """Remove a folder with all that is in it, or a file, or a link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_relations(folder: Path, known: Collection[str]) -> None:
    """Remove the files of relations other than these, which are named by their file nodes."""
    for file in folder.iterdir():
        relation = re.fullmatch(r"(\d+)(_[a-z]+)?(\.\d+)?", file.name)
        if relation and relation[1] not in known:
            file.unlink(missing_ok=True)


def unpack_programs(packed: int, copy: Path) -> None:
    """Unpack an archive, given as a file descriptor, in place of all copies of programs that are there."""
    for old in copy.parent.glob("install-*"):
        remove(old)
    partial = copy.with_name(f"{copy.name}.partial")
    with os.fdopen(os.dup(packed), "rb") as file, tarfile.open(fileobj=file) as archive:
        archive.extraction_filter = _as_it_is  # it is root's own, and who unpacks it is not root
        archive.extractall(partial)
    partial.rename(copy)


def _as_it_is(member: tarfile.TarInfo, path: Any) -> tarfile.TarInfo:
    return member
