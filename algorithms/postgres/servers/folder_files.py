"""Files in a server's folder, handled as the account that owns it; and which accounts can change a path.

Paths are absolute. Nothing waits at a pipe or writes through a link in the place of a file. What another
account is to do, a fork of this process does that has given up its rights: whatever the account has put into
its folders, it reaches no further than the account itself.
"""

import errno
import gc
import json
import os
import re
import shutil
import signal
import socket
import stat
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from ..errors import PostgresError

PATIENCE_SECONDS = 600  # the account may stop its processes, and with them this call
_MOST_BYTES = 16 << 20  # of an answer
_MOST_LINKS = 40


class Descriptor(int):
    """A file descriptor, which a call may return: the caller gets one of its own."""


def call_as(uid: int, gid: int, action: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns when this user and group call it: what JSON can hold, or a Descriptor.

    Its OSError is raised here, too. PostgresError where it raises another exception, or gives no answer.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with warnings.catch_warnings():
            # Of threads: their locks stay locked in the fork, and nothing here takes one.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _answer(theirs, uid, gid, action, arguments)
        theirs.close()
        try:
            return _answer_of(ours)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _answer(
    pipe: socket.socket, uid: int, gid: int, action: Callable[..., Any], arguments: tuple[Any, ...]
) -> NoReturn:
    """Become the account, call, send the answer, and end."""
    with suppress(BaseException):
        gc.disable()  # what is collected here may close a connection that the parent uses
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        become(uid, gid)
        value, answer = None, {}
        try:
            value = action(*arguments)
            answer = {"value": value}
        except OSError as error:
            answer = {"errno": error.errno, "reason": error.strerror or str(error), "file": error.filename}
        except Exception as error:
            answer = {"problem": f"{type(error).__name__}: {error}"}
        text = json.dumps(answer, default=str).encode()
        socket.send_fds(pipe, [b"."], [value] if isinstance(value, Descriptor) else [])
        pipe.sendall(text)
    os._exit(0)


def become(uid: int, gid: int) -> None:
    """Be this user and group, and a member of no other, from now on; what is made is for nobody else."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    os.umask(0o077)


def _answer_of(pipe: socket.socket) -> Any:
    pipe.settimeout(PATIENCE_SECONDS)
    content = bytearray()
    try:
        started, descriptors, _, _ = socket.recv_fds(pipe, 1, 1)
        while started and len(content) < _MOST_BYTES and (piece := pipe.recv(1 << 16)):
            content += piece
        answer = json.loads(content)
    except (TimeoutError, ConnectionError, ValueError):
        raise PostgresError("a process of the server's account was ended or stopped: try again") from None
    if "errno" in answer:
        raise OSError(answer["errno"], answer["reason"], answer["file"])
    if "problem" in answer:
        raise PostgresError(f"as the server's account: {answer['problem']}")
    if descriptors:
        os.set_inheritable(descriptors[0], False)
        return Descriptor(descriptors[0])
    return answer["value"]


def place_for_root(path: Path) -> Path | None:
    """Return where an absolute path leads if nobody but root can change that, or make it where nothing is.

    In a folder that all may write, but where each account may remove its own files only, as /tmp, that is
    so for what belongs to root, and for a folder that root makes there.
    """
    passed, place = _walk(path)
    *way, (last, status) = passed
    if way and last == place and not way[-1][1].st_mode & 0o022:
        trusted = [each for _, each in way]  # whoever it belongs to, only root can put something in its place
    else:
        trusted = [*(each for _, each in way), status]
    return place if all(each.st_uid == 0 and not _others_write(each) for each in trusted) else None


def stranger_on(path: Path, trusted: Collection[int]) -> Path | None:
    """Find the first folder or link on the way to an absolute path that users beyond these can change."""
    for place, status in _walk(path)[0]:
        is_link = stat.S_ISLNK(status.st_mode)
        if place == path and not is_link:
            continue
        all_write = status.st_mode & 0o002 and not status.st_mode & stat.S_ISVTX and not is_link
        if status.st_uid not in trusted or all_write:
            return place
    return None


def open_made(path: Path) -> int:
    """Open a folder, made where it is not there, as those above it are; OSError where a link is on the way.

    Each is made in the one that has been opened: nobody can put a link in its place meanwhile. Other accounts
    can pass those above it, whatever the umask.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    handle = os.open("/", flags)
    for left, name in zip(range(len(path.parts) - 2, -1, -1), path.parts[1:], strict=True):
        above = handle
        try:
            try:
                handle = os.open(name, flags, dir_fd=above)
            except FileNotFoundError:
                is_new = False
                with suppress(FileExistsError):
                    os.mkdir(name, 0o755 if left else 0o700, dir_fd=above)
                    is_new = True
                handle = os.open(name, flags, dir_fd=above)
                if left and is_new:
                    os.fchmod(handle, os.fstat(handle).st_mode & 0o777 | 0o011)
        finally:
            os.close(above)
    return handle


def _others_write(status: os.stat_result) -> bool:
    """Whether others than the owner may remove what is not theirs."""
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return False
    by_group = status.st_mode & 0o020 and status.st_gid != 0
    return bool(by_group or status.st_mode & 0o002)


def _walk(path: Path) -> tuple[list[tuple[Path, os.stat_result]], Path]:
    """Return what is passed on the way, links themselves included, up to what is not there; and the end."""
    place, parts, links = Path("/"), list(path.parts[1:]), 0
    passed = [(place, place.lstat())]
    while parts:
        name = parts.pop(0)
        if name == "..":
            place = place.parent
            continue
        try:
            status = (place / name).lstat()
            links += stat.S_ISLNK(status.st_mode)
            target = (place / name).readlink() if stat.S_ISLNK(status.st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            return passed, place.joinpath(name, *parts)
        passed.append((place / name, status))
        if target is None:
            place /= name
        elif links > _MOST_LINKS:
            return passed, place.joinpath(name, *parts)
        else:
            place = Path("/") if target.is_absolute() else place
            parts = [*target.relative_to(target.anchor).parts, *parts]
    return passed, place


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(path))


def make_temporary(prefix: str) -> str:
    """Make a folder with a name of its own where temporary files are; return its path."""
    for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
        with suppress(OSError):
            return tempfile.mkdtemp(prefix=prefix, dir=parent)
    raise OSError(errno.EACCES, "no folder for temporary files can be written")


def open_file(path: Path, flags: int) -> Descriptor:
    """Open an ordinary file."""
    number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return Descriptor(number)


def end_of(path: Path, most: int) -> str:
    """Read at most this many bytes, the last ones."""
    with os.fdopen(open_file(path, os.O_RDONLY), "rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - most, 0))
        return file.read(most).decode(errors="replace")


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
        # It is root's own, and who unpacks it is not root.
        archive.extraction_filter = lambda member, path: member
        archive.extractall(partial)
    partial.rename(copy)
