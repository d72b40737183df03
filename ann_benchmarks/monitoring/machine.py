"""What this machine does: its CPUs, memory, disks and network, as psutil sees them."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import psutil

# What systems lack, or keep from a user or a container.
_UNAVAILABLE = (psutil.Error, OSError, RuntimeError, NotImplementedError, AttributeError, ValueError)
_BLOCK_DEVICES, _INTERFACES = Path("/sys/block"), Path("/sys/class/net")
_IN_MEMORY = ("loop", "ram", "zram")  # a loop device's file lies on a disk, which counts it already
_T = TypeVar("_T")


def cpu_times() -> np.ndarray | None:
    """Seconds of each core: busy, waiting for a disk, taken away by a hypervisor, in all; (cores, 4)."""
    cores = _had(lambda: psutil.cpu_times(percpu=True))
    if not cores:
        return None
    rows = []
    for times in cores:
        waiting, taken = getattr(times, "iowait", 0.0), getattr(times, "steal", 0.0)
        # On Linux, the times of guests are a part of user and nice.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        rows.append((total - times.idle - waiting - taken, waiting, taken, total))
    return np.array(rows)


def levels() -> dict[str, float]:
    """Bytes of memory; the page cache contains what processes share, as a database's buffers."""
    found: dict[str, float] = {}
    if memory := _had(psutil.virtual_memory):
        found["machine.memory_used_bytes"] = memory.used
        found["machine.memory_available_bytes"] = memory.available
        more = memory._asdict()  # which depend on the operating system
        if "cached" in more:
            found["machine.page_cache_bytes"] = more["cached"] + more.get("buffers", 0)
        if "shared" in more:
            found["machine.memory_shared_bytes"] = more["shared"]
    return found


def totals() -> dict[str, float]:
    """Bytes swapped, bytes and operations of each disk, bytes over the network; since the machine began."""
    found: dict[str, float] = {}
    if _had(has_swap) and (swap := _had(psutil.swap_memory)):
        found |= {"machine.swap_in_bytes": swap.sin, "machine.swap_out_bytes": swap.sout}
    for name, disk in (_had(lambda: psutil.disk_io_counters(perdisk=True, nowrap=False)) or {}).items():
        if is_disk(name):
            found[f"disk.{name}.read_bytes"] = disk.read_bytes
            found[f"disk.{name}.write_bytes"] = disk.write_bytes
            found[f"disk.{name}.reads"] = disk.read_count
            found[f"disk.{name}.writes"] = disk.write_count
    interfaces = _had(lambda: psutil.net_io_counters(pernic=True, nowrap=False)) or {}
    chosen = network_interfaces(tuple(interfaces))
    if chosen:
        found["network.received_bytes"] = sum(interfaces[name].bytes_recv for name in chosen)
        found["network.sent_bytes"] = sum(interfaces[name].bytes_sent for name in chosen)
    return found


@cache
def has_swap() -> bool:
    """Whether there is any; asking how much it is used costs more than all else here."""
    return psutil.swap_memory().total > 0


@cache
def is_disk(name: str) -> bool:
    """Whether it is a whole device that stores, and not one that lies on others, which count the same."""
    if name.startswith(_IN_MEMORY):
        return False
    if not _BLOCK_DEVICES.is_dir():
        return True  # not Linux, where psutil names disks only
    place = _BLOCK_DEVICES / name.replace("/", "!")
    try:
        return place.is_dir() and not any((place / "slaves").iterdir())
    except OSError:
        return place.is_dir()


@cache
def network_interfaces(names: tuple[str, ...]) -> tuple[str, ...]:
    """Choose those of a device, else (as in a container) all but the loopback."""
    real = tuple(name for name in names if (_INTERFACES / name / "device").exists())
    return real or tuple(name for name in names if name not in ("lo", "lo0"))


def _had(get: Callable[[], _T]) -> _T | None:
    try:
        return get()
    except _UNAVAILABLE:
        return None
