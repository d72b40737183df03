"""The way to a file: which folders and links are passed, and who can change them."""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

_MOST_LINKS = 40


def is_safe_for_root(path: Path) -> bool:
    """Whether nobody but root can change what an absolute path names, or make it where it does not exist.

    In a folder that all may write, but where each account may remove its own files only, as /tmp, that is
    so for what belongs to root, and for a folder that root makes there.
    """
    *way, (last, status) = _passed(path)
    if way and last == path.resolve() and not way[-1][1].st_mode & 0o022:
        passed = [each for _, each in way]  # whoever it belongs to, only root can put something in its place
    else:
        passed = [*(each for _, each in way), status]
    return all(each.st_uid == 0 and not _others_write(each) for each in passed)


def stranger_on(path: Path, trusted: Collection[int]) -> Path | None:
    """Find the first folder or link on the way to an absolute path that users beyond these can change."""
    for place, status in _passed(path):
        is_link = stat.S_ISLNK(status.st_mode)
        if place == path and not is_link:
            continue
        all_write = status.st_mode & 0o002 and not status.st_mode & stat.S_ISVTX and not is_link
        if status.st_uid not in trusted or all_write:
            return place
    return None


def _others_write(status: os.stat_result) -> bool:
    """Whether others than the owner may remove what is not theirs."""
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return False
    by_group = status.st_mode & 0o020 and status.st_gid != 0
    return bool(by_group or status.st_mode & 0o002)


def _passed(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield what is passed on the way to a path, links themselves included, up to what does not exist."""
    place, parts, links = Path("/"), list(path.parts[1:]), 0
    with suppress(FileNotFoundError, NotADirectoryError):
        yield place, place.lstat()
        while parts:
            name = parts.pop(0)
            if name == "..":
                place = place.parent
                continue
            status = (place / name).lstat()
            yield place / name, status
            if not stat.S_ISLNK(status.st_mode):
                place /= name
                continue
            links += 1
            target = (place / name).readlink()
            if links > _MOST_LINKS:
                return
            if target.is_absolute():
                place, target = Path("/"), target.relative_to("/")
            parts = [*target.parts, *parts]
