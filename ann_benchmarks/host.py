"""What is known of the machine without asking it for long."""

import os
import platform
from functools import cache
from pathlib import Path

import psutil

from .version import VERSION


@cache
def host_facts() -> dict[str, str | int]:
    """Attributes stored with each result: processor, usable cores, bytes of memory, kernel, versions."""
    return {
        "cpu": _processor(),
        "cores": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "framework_version": VERSION,
    }


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
