"""What the machine offers a server of our own: memory, cores, disk, and a cache of files."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import psutil

# Where Linux shows a control group's memory limit: version 2, then version 1.
_MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory_bytes() -> int:
    """Memory that processes here may use: the machine's, or less where a container limits it."""
    limits = [psutil.virtual_memory().total]
    for file in _MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # absent, or "max"
            limits.append(int(file.read_text()))
    return min(limits)


def cores() -> int:
    """CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        try:
            file = os.open(path, os.O_RDONLY)
        except OSError:
            dropped = False
            continue
        try:
            os.fsync(file)  # only what is on the disk can be dropped
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
    return dropped
