"""Files and folders: written whole or not at all, locked, read only if they end; and room on a disk.

Only regular files are read: a pipe waits for a writer, and a device may have no end. Anything else is an
OSError that says what it is: readers report it as they do a file that is missing.
"""

import errno
import fcntl
import glob
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

import psutil

from .errors import UserError
from .numbers import size_text

FilesOf = Callable[[Path], set[str] | None]
LEFTOVERS = ("partial", "replaced")  # hidden folders next to a folder, while it is written
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


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
    for left in _abandoned(path, "partial"):
        left.unlink(missing_ok=True)
    temporary = path.parent / f".{path.name}.partial-{os.getpid()}"
    try:
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _abandoned(path: Path, what: str) -> list[Path]:
    """Return what processes that were killed have left beside a path."""
    found = path.parent.glob(f".{glob.escape(path.name)}.{what}-*")
    owners = {left: left.name.rpartition("-")[2] for left in found}
    return [left for left, owner in owners.items() if owner.isdecimal() and not psutil.pid_exists(int(owner))]


@contextmanager
def whole_folder(folder: Path, files_of: FilesOf, what: str, option: str) -> Iterator[Path]:
    """Yield an empty folder next to it, which takes the place of an older one if the block succeeds.

    `files_of` says which files of a folder belong to a `what`, None for other folders; `option` is where the
    user names another. UserError where other files are there, or nothing can be written.
    """
    folder = folder.resolve()
    if folder == Path.cwd() or folder in Path.cwd().parents:
        raise UserError(f"{folder} is the folder you are in: name another with {option}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _clear_up(folder)
        _check_replaceable(folder, files_of, what, option)
        temporary, old = (folder.with_name(f".{folder.name}.{what}-{os.getpid()}") for what in LEFTOVERS)
        temporary.mkdir()
        try:
            yield temporary
            if folder.exists():
                folder.rename(old)
            temporary.rename(folder)
        except BaseException:
            if old.exists() and not folder.exists():
                old.rename(folder)
            raise
        finally:
            for left in (temporary, old):
                shutil.rmtree(left, ignore_errors=True)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}") from error


def _check_replaceable(folder: Path, files_of: FilesOf, what: str, option: str) -> None:
    """Raise UserError unless the folder is missing, empty, or holds an older `what` and nothing else."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder with {option}")
    there = sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    if not there:
        return
    if (ours := files_of(folder)) is None:
        raise UserError(f"{folder} holds something other than a {what}: name another folder with {option}")
    if others := [name for path in there if (name := path.relative_to(folder).as_posix()) not in ours]:
        raise UserError(f"{folder} holds {others[0]}, which is not part of the {what}: move it elsewhere")


def _clear_up(folder: Path) -> None:
    """Put back a folder that a killed process had moved away, and delete what one has left."""
    for what in reversed(LEFTOVERS):
        for left in _abandoned(folder, what):
            if what == "replaced" and not folder.exists():
                left.rename(folder)
            else:
                shutil.rmtree(left)


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


def unfinished_file(path: Path, doing: str) -> BinaryIO | None:
    """Open a file that is being written for this run alone, after any other run; None if it is gone by then.

    `doing` is what the other run does, as in "another run that is writing x".
    """
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "rb+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"waiting for another run that is {doing}", file=sys.stderr)
        fcntl.flock(file, fcntl.LOCK_EX)
    with suppress(FileNotFoundError):
        if os.path.samestat(path.stat(), os.fstat(file.fileno())):
            return file
    file.close()
    return None


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
        raise UserError(f"the file {path} does not exist; {advice}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {path}: {reason}; {advice}") from None


def _require(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(errno.EINVAL, f"it must be a regular file, but is {kind}", str(path))
