"""What is known of the machine without asking it for long."""

import os
import platform
import resource
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

from . import VERSION

# A control group's memory limit on Linux: version 2, then version 1.
_MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

# All processes and threads of Linux, and of a control group.
_PROCESS_LIMITS = (
    Path("/proc/sys/kernel/pid_max"),
    Path("/proc/sys/kernel/threads-max"),
    Path("/sys/fs/cgroup/pids.max"),
)
_FILES = 65536  # a process may have so many open


@cache
def host_facts() -> dict[str, str | int]:
    """Attributes stored with each result: processor, usable cores, bytes of memory, kernel, versions, disk.

    The disk is that of the current folder, where data and, if nothing else is said, the server's files lie.
    """
    return {
        "cpu": _processor(),
        "cores": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "framework_version": VERSION,
        **_disk(),
    }


def _disk() -> dict[str, str]:
    here = Path.cwd()
    try:
        mounts = [part for part in psutil.disk_partitions(all=True) if here.is_relative_to(part.mountpoint)]
        mount = max(mounts, key=lambda part: len(part.mountpoint))
    except (OSError, ValueError):
        return {}
    name = Path(mount.device).name
    device = Path("/sys/class/block", name)
    # A partition's folder lies in its disk's.
    folders = [device, device.resolve().parent] if device.exists() else []
    models = [text for folder in folders if (text := _line(folder / "device" / "model"))]
    return {"disk": " ".join([name, *models[:1]]), "file_system": mount.fstype}


def _line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def usable_cores() -> int:
    """Cores that this process may run on."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def most_processes() -> int:
    """Return how many processes and threads this account can have at most, those of others included."""
    limits = []
    for file in _PROCESS_LIMITS:
        with suppress(OSError, ValueError):  # absent, or "max"
            limits.append(int(file.read_text()))
    own = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if own != resource.RLIM_INFINITY and os.geteuid() != 0:  # root has no such limit
        limits.append(own)
    return min(limits, default=sys.maxsize)


def allow_files() -> None:
    """Let this process, and all that it starts, open many files where they may, and the default is few.

    Clients have some each, and so has the server that they are connected to.
    """
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _FILES if most == resource.RLIM_INFINITY else min(_FILES, most)
    if now == resource.RLIM_INFINITY or now >= files:
        return
    with suppress(ValueError, OSError):  # macOS has a lower limit than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))


def memory_bytes() -> int:
    """Memory that processes here may use: the machine's, or less where a container limits it."""
    limits = [psutil.virtual_memory().total]
    for file in _MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # absent, or "max"
            limits.append(int(file.read_text()))
    return min(limits)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
