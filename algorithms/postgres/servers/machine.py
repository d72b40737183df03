"""What the machine offers a server of our own, and what a server uses of its CPUs and disks."""

import ipaddress
import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg

from ...clustering.settings import cores as cores
from ...clustering.settings import memory_bytes as memory_bytes
from .libpq import backend_of

_PROGRAMS = {"postgres", "postmaster"}
_NEW_SECONDS = 60


class ServerProcesses:
    """The postmaster and all its children, except one backend: our own connection's."""

    def __init__(self, postmaster: psutil.Process, own_backend: int) -> None:
        """Take the postmaster's process and the backend not to count."""
        self._postmaster, self._own_backend = postmaster, own_backend

    @property
    def postmaster(self) -> int:
        """Its process id."""
        return self._postmaster.pid

    def used(self) -> dict[str, float]:
        """Add up what all have used since they began; those that have ended count in their parent's.

        server_cpu_seconds, of user and system, and server_disk_bytes_read, if this user may know. Raises
        psutil.Error where they cannot be seen, or the server has ended.
        """
        children = [child for child in self._postmaster.children() if child.pid != self._own_backend]
        cpu_seconds = 0.0
        disk_bytes: int | None = 0
        for process in [*children, self._postmaster]:
            with suppress(psutil.NoSuchProcess):  # it has just ended
                cpu_seconds += sum(process.cpu_times()[:4])  # its own, and its ended children's
                read = _disk_bytes_read(process)
                disk_bytes = None if disk_bytes is None or read is None else disk_bytes + read
        used = {"server_cpu_seconds": cpu_seconds, "server_disk_bytes_read": disk_bytes}
        return {name: value for name, value in used.items() if value is not None}


def server_processes(connection: psycopg.Connection[Any]) -> ServerProcesses | None:
    """Find the server's processes by a connection just opened; None if they are not on this machine.

    A container or a tunnel may listen on this machine, too: the backend has to be a new process here, and
    PostgreSQL's. Raises psutil.Error where processes cannot be seen.
    """
    address = connection.info.hostaddr  # none with a Unix socket
    if address and not ipaddress.ip_address(address).is_loopback:
        return None
    try:
        backend = psutil.Process(backend_of(connection))
        postmaster = backend.parent()
        is_new = abs(time.time() - backend.create_time()) < _NEW_SECONDS
        if postmaster is None or not is_new or not {backend.name(), postmaster.name()} <= _PROGRAMS:
            return None
    except psutil.NoSuchProcess:
        return None
    return ServerProcesses(postmaster, backend.pid)


def busy_share(before: tuple[float, float], now: tuple[float, float]) -> float | None:
    """Return the share of the time between two readings of machine_cpu that was not idle; None: too short."""
    total, idle = now[0] - before[0], now[1] - before[1]
    return min(max(1 - idle / total, 0.0), 1.0) if total > 0 else None


def machine_cpu() -> tuple[float, float]:
    """Return the CPU seconds, all and idle, of the cores that this process may use, since the machine began.

    Waiting for a disk is idle; what a hypervisor takes away is not.
    """
    cores = psutil.cpu_times(percpu=True)
    if hasattr(os, "sched_getaffinity"):
        usable = os.sched_getaffinity(0)
        cores = [times for number, times in enumerate(cores) if number in usable] or cores
    total = idle = 0.0
    for times in cores:
        # On Linux, the times of guests are a part of user and nice.
        total += sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        idle += times.idle + getattr(times, "iowait", 0.0)
    return total, idle


def _disk_bytes_read(process: psutil.Process) -> int | None:
    try:
        return int(process.io_counters().read_bytes)
    except (AttributeError, NotImplementedError, psutil.AccessDenied):  # not on this system, or not for us
        return None


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
