"""What the machine offers a server of our own: memory, cores, disk, and a cache of files."""

import os
import shutil
import stat
from pathlib import Path

from ...clustering.settings import cores as cores
from ...clustering.settings import memory_bytes as memory_bytes


def free_disk_bytes(folder: Path) -> int:
    """Space left on the disk of a folder that exists or whose nearest parent does."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def posix_shared_memory_bytes() -> int | None:
    """Space in /dev/shm, which parallel builds use; None where the system has no such folder."""
    try:
        return shutil.disk_usage("/dev/shm").free
    except OSError:
        return None


def drop_from_cache(folder: Path) -> bool:
    """Have the system drop the files in a folder from its cache; return whether it could for all of them.

    Nobody may be writing to them meanwhile.
    """
    if not hasattr(os, "posix_fadvise"):
        return False
    dropped = True
    # Folders are opened one in the other, and links not followed: who owns them may change them meanwhile.
    for _, _, names, handle in os.fwalk(folder):
        for name in names:
            dropped = _drop(name, handle) and dropped
    return dropped


def _drop(name: str, folder: int) -> bool:
    """Drop a file of an opened folder; anything but a file cannot be dropped, and counts as dropped."""
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return True
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return False
    try:
        os.fsync(file)  # only what is on the disk can be dropped
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        return False
    finally:
        os.close(file)
    return True
