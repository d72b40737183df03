"""What this machine does: its CPUs, memory, disks and network, and the share of its CPUs that others take.

Others are foreign processes, and the hypervisor (steal). They took the time that the CPUs were neither idle
nor serving interrupts between two readings of /proc, less the CPU time of our own processes: the command and
all that it has started, the server's processes, and the kernel's threads that serve disks and the network.
"""

import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import psutil

from ann_benchmarks.results.remarks import MOST_OTHERS

# What systems lack, or keep from a user or a container.
_UNAVAILABLE = (psutil.Error, OSError, RuntimeError, NotImplementedError, AttributeError, ValueError)
_BLOCK_DEVICES, _INTERFACES = Path("/sys/block"), Path("/sys/class/net")
_NODES = Path("/sys/devices/system/node")
_IN_MEMORY = ("loop", "ram", "zram")  # a loop device's file lies on a disk, which counts it already
SHORTEST_RUN = 0.3  # s; the clocks of CPUs and processes tick 100 times a second
_PROC = Path("/proc")
_KERNEL = 2  # the parent of the kernel's threads, which a container does not see
_SERVING = ("kworker", "ksoftirqd", "kswapd", "jbd2", "loop", "dm", "nvme", "md")  # how names of theirs begin
_CLOCKS_AGREE = 0.25  # share by which the CPUs' times may differ from the clock's
_PARENT, _USED = 1, slice(11, 15)  # of a process's stat, behind its name: see proc(5)
_IDLE, _WAITING, _INTERRUPTS, _ALL = 3, 4, (5, 6), 8  # of a CPU's times, likewise
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
        more = memory._asdict()  # depends on the operating system
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
    return found | (_had(numa_pages) or {})


def numa_pages() -> dict[str, float]:
    """Pages from another node than was intended, and for a CPU of another node; nothing with one node."""
    nodes = [
        dict(line.split() for line in file.read_text().splitlines())
        for file in _NODES.glob("node[0-9]*/numastat")
    ]
    if len(nodes) < 2:
        return {}
    kinds = {"misplaced": "numa_miss", "remote": "other_node"}
    return {
        f"machine.numa_{name}_pages": sum(int(node[key]) for node in nodes) for name, key in kinds.items()
    }


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


@dataclass(frozen=True)
class CPUReading:
    """One moment, all in s: the clock, what the CPUs had left or spent on interrupts, in all, and ours."""

    moment: float
    cpus: int
    left: float
    total: float
    own: float


def read_cpu(servers: Sequence[int] | None) -> CPUReading | None:
    """Read the clocks of the CPUs that this process may use; None where they, or the server, are not known.

    `servers` are process ids of servers, whose children count too; empty without a server, and None where
    one may be on this machine that cannot be found.
    """
    if servers is None:
        return None
    try:
        tick = 1 / os.sysconf("SC_CLK_TCK")
        # Where this is a worker, the command has started all of ours.
        parent = multiprocessing.parent_process()
        command = os.getpid() if parent is None or parent.pid is None else parent.pid
        own = tick * _count_ticks([command, *servers])
        usable = os.sched_getaffinity(0)
        lines = (_PROC / "stat").read_text().splitlines()
        moment = time.perf_counter()
    except (OSError, ValueError, KeyError, AttributeError):  # for example on macOS
        return None
    rows = [line.split() for line in lines if line.startswith("cpu") and line[3].isdigit()]
    cores = [[int(field) for field in row[1:]] for row in rows if int(row[0][3:]) in usable]
    left = sum(core[_IDLE] + core[_WAITING] + sum(core[place] for place in _INTERRUPTS) for core in cores)
    return CPUReading(moment, len(cores), tick * left, tick * sum(sum(core[:_ALL]) for core in cores), own)


def share_of_others(before: CPUReading | None, after: CPUReading | None) -> float | None:
    """Return the share of the CPUs that others took between two readings, 0 to 1; None: it is not known.

    A run may be too short for these clocks, and in some sandboxes they stand still.
    """
    if before is None or after is None or before.cpus != after.cpus or not after.cpus:
        return None
    seconds = after.moment - before.moment
    offered = seconds * after.cpus
    if seconds < SHORTEST_RUN or abs(after.total - before.total - offered) > _CLOCKS_AGREE * offered:
        return None
    taken = offered - (after.left - before.left) - (after.own - before.own)
    return min(max(taken / offered, 0.0), 1.0)


def is_disturbed(share: float | None) -> bool:
    """Whether others took so much in a run that its figures say something about them; not if unknown."""
    return share is not None and share > MOST_OTHERS


def _count_ticks(roots: Sequence[int]) -> int:
    """Add up the ticks of processes, of all that they have started, and of the kernel's threads that serve.

    The time of children that have ended counts in their parent's. KeyError: a root is not there.
    """
    used: dict[int, int] = {}
    children: dict[int, list[int]] = defaultdict(list)
    ours = 0
    for place in _PROC.iterdir():
        if not place.name.isdigit():
            continue
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            start, _, rest = (place / "stat").read_text().rpartition(")")
            fields = rest.split()
            process, parent, ticks = int(place.name), int(fields[_PARENT]), sum(map(int, fields[_USED]))
            used[process] = ticks
            children[parent].append(process)
            if parent == _KERNEL and start.partition("(")[2].startswith(_SERVING):
                ours += ticks
    found, counted = [*roots], set[int]()
    while found:
        process = found.pop()
        if process not in counted:
            counted.add(process)
            ours += used[process]
            found += children[process]
    return ours
