"""The way to a file: which folders and links are passed, and who can change them."""

import os
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_MOST_LINKS = 40


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
