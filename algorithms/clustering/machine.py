"""What processes here may use of the machine: its memory and its cores."""

import os
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
