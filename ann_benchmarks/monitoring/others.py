"""The share of this machine's CPUs that others took in a run: foreign processes, and the hypervisor (steal).

Two readings of /proc, one before and one after, are all that it costs. Others took the time that the CPUs
were neither idle nor serving interrupts, less the CPU time of our own processes. Ours are the command and all
that it has started, the server's processes, and the kernel's threads that serve disks and the network.
"""

import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.results.warnings import MOST_OTHERS

SHORTEST_RUN = 0.3  # s; the clocks of CPUs and processes tick 100 times a second
_PROC = Path("/proc")
_KERNEL = 2  # the parent of the kernel's threads, which a container does not see
_SERVING = ("kworker", "ksoftirqd", "kswapd", "jbd2", "loop", "dm", "nvme", "md")  # how names of theirs begin
_CLOCKS_AGREE = 0.25  # share by which the CPUs' times may differ from the clock's
_PARENT, _USED = 1, slice(11, 15)  # of a process's stat, behind its name: see proc(5)
_IDLE, _WAITING, _INTERRUPTS, _ALL = 3, 4, (5, 6), 8  # of a CPU's times, likewise


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

    `servers` are process ids of servers, whose children count too; empty where there is none, and None where
    one may be on this machine that cannot be found.
    """
    if servers is None:
        return None
    try:
        tick = 1 / os.sysconf("SC_CLK_TCK")
        own = tick * _ticks_of([_command(), *servers])
        usable = os.sched_getaffinity(0)
        lines = (_PROC / "stat").read_text().splitlines()
        moment = time.perf_counter()
    except (OSError, ValueError, KeyError, AttributeError):  # as on macOS
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


def _command() -> int:
    """Return the process that has started all of ours: the command's, where this is a worker of it."""
    parent = multiprocessing.parent_process()
    return os.getpid() if parent is None or parent.pid is None else parent.pid


def _ticks_of(roots: Sequence[int]) -> int:
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
