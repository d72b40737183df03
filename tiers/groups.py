"""Control groups that exist: where they are, their memory read, limited and kept, and how they are removed.

Version 1 of control groups names the files differently from version 2.
"""

import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ann_benchmarks.common.errors import UserError, describe
from ann_benchmarks.common.numbers import MB

from .machine import meminfo

MEMORY, CPUS, DISK = "memory", "cpuset", "io"
PROCESSES = Path("/proc")
_NAMES_IN_VERSION_1 = {DISK: "blkio"}
UNLIMITED = (1 << 63) - 1
KEEPER_SECONDS = 0.5  # between two corrections
_ROOM = 16 * MB  # of a group above what cannot be taken from it
_LAST_SECONDS = 5  # for what has ended, or was moved, to be gone
_PAUSE = 0.1  # s
_KERNEL_PARTS = ("slab", "kernel_stack", "pagetables", "sec_pagetables", "percpu", "vmalloc")


def read_words(file: Path) -> list[str]:
    """Read the words of a file; none where it cannot be read."""
    try:
        return file.read_text().split()
    except OSError:
        return []


def write(file: Path, text: str) -> None:
    """Write to a file that is there: the kernel makes them, nobody else."""
    handle = os.open(file, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


@dataclass(frozen=True)
class ControlGroup:
    """A control group and its memory; `version` is 1 or 2.

    `buffers` are the bytes of shared_buffers; what else is shared, such as what connections take, holds no
    data. None: all shared memory does.
    """

    folder: Path
    version: int
    buffers: int | None = field(default=None, kw_only=True)

    def available(self) -> int:
        """Bytes for shared_buffers and cache: of the limit, or less where the machine itself has less."""
        return min(self.limit() - self.overhead(), meminfo()["MemAvailable"] + self.filled_buffers())

    def limit(self) -> int:
        """Bytes that the group may use in all; UNLIMITED, or about as much, where nothing is set."""
        name = "memory.limit_in_bytes" if self.version == 1 else "memory.max"
        text = (self.folder / name).read_text().strip()
        return UNLIMITED if text == "max" else int(text)

    def set_limit(self, size: int) -> None:
        """Set the limit, swap included, in bytes. OSError where so much cannot be given up."""
        if self.version == 2:
            write(self.folder / "memory.max", str(size))
            if (self.folder / "memory.swap.max").exists():
                write(self.folder / "memory.swap.max", "0")
            return
        files = [self.folder / "memory.limit_in_bytes"]
        with_swap = self.folder / "memory.memsw.limit_in_bytes"
        if with_swap.exists():  # it may never be smaller than the other limit
            files.insert(0 if size > int(with_swap.read_text()) else 1, with_swap)
        for file in files:
            write(file, str(size))

    def overhead(self) -> int:
        """Bytes that are neither cache nor shared_buffers: of processes, and of the kernel for them."""
        found = self.numbers("memory.stat")
        others = self.shared() - self.filled_buffers()
        if self.version == 1:
            kernel = int((self.folder / "memory.kmem.usage_in_bytes").read_text())
            return found.get("total_rss", 0) + kernel + others
        kernel = found.get("kernel", sum(found.get(part, 0) for part in _KERNEL_PARTS))
        return found.get("anon", 0) + kernel + others

    def shared(self) -> int:
        """Bytes of shared memory that were touched."""
        return self.numbers("memory.stat").get("total_shmem" if self.version == 1 else "shmem", 0)

    def filled_buffers(self) -> int:
        """Bytes of it that are shared_buffers, as far as they may be."""
        return self.shared() if self.buffers is None else min(self.shared(), self.buffers)

    def kills(self) -> int:
        """How many processes the system has ended because the limit was reached, since the group was made."""
        return self.numbers("memory.oom_control" if self.version == 1 else "memory.events").get("oom_kill", 0)

    def numbers(self, name: str) -> dict[str, int]:
        """Read a file of names with numbers."""
        lines = (self.folder / name).read_text().splitlines()
        return {key: int(value) for key, value in map(str.split, lines)}


@dataclass(frozen=True)
class Place(ControlGroup):
    """A process's own group for a controller, and the topmost one above it."""

    controller: str
    top: Path


@dataclass(frozen=True)
class OwnGroup:
    """The memory that this process's own group leaves it: of a container, from inside."""

    buffers: int | None = None

    def available(self) -> int:
        """Bytes; OSError where the groups cannot be seen."""
        place = find_place(MEMORY)
        if place is None:
            raise OSError("no control group of the memory can be seen")
        return replace(place, buffers=self.buffers).available()

    def kills(self) -> int:
        """0: the engine says of a container whether its memory was used up."""
        return 0


def find_place(controller: str, pid: int | None = None, processes: Path = PROCESSES) -> Place | None:
    """Find a controller's folders for this process or another, None if they are missing.

    `processes` is what /proc is.
    """
    own: dict[str, str] = {}  # the process's group by controller; version 2 has no name
    try:
        for line in (processes / str(pid or "self") / "cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            own |= dict.fromkeys(names.split(","), path)
    except (FileNotFoundError, ProcessLookupError):
        if pid is None:  # a kernel without groups
            return None
        raise UserError(f"the server's process {pid} has ended: start the server again") from None
    unified = None
    for line in (processes / "self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _source, options = right.split()[:3]
        top = Path(point)
        if kind == "cgroup":
            name = _NAMES_IN_VERSION_1.get(controller, controller)
            if name in options.split(","):
                return Place(_below(top, root, own.get(name)), 1, controller, top)
        elif kind == "cgroup2" and controller in read_words(top / "cgroup.controllers"):
            unified = Place(_below(top, root, own.get("")), 2, controller, top)
    return unified


def _below(top: Path, root: str, own: str | None) -> Path:
    """The folder of a group, where only the part of the tree from `root` on is mounted."""
    if own is None or not Path(own).is_relative_to(root):
        return top
    return top / Path(own).relative_to(root)


@dataclass(frozen=True)
class SeveralGroups:
    """The groups of several servers, each of which is to have `target` bytes."""

    groups: tuple[ControlGroup, ...]
    target: int

    def available(self) -> int:
        """Bytes of the server that is the furthest from the target."""
        return max((group.available() for group in self.groups), key=lambda size: abs(size - self.target))

    def kills(self) -> int:
        """How many processes the system has ended in all of them."""
        return sum(group.kills() for group in self.groups)


class Keeper:
    """A thread that calls `correct` twice a second: a server's processes come, and take memory of their own.

    An error of one call does not end it.
    """

    def __init__(self, correct: Callable[[], None]) -> None:
        self.error: str | None = None  # of the last call that failed
        self._correct = correct
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tier keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it, and wait until nothing is changed any more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(KEEPER_SECONDS):
            try:
                self._correct()
            except Exception as error:
                self.error = describe(error)


def dead_band(target: int) -> int:
    """Bytes of a deviation from the target that is left alone."""
    return max(target // 100, 2 * MB)


def most_taken(target: int) -> int:
    """Bytes that are taken away at a time; what is missing is given at once."""
    return max(target // 10, 64 * MB)


def keep_limit(group: ControlGroup, target: int, set_limit: Callable[[int], None] | None = None) -> None:
    """Correct a group's limit so that `target` bytes are available in it; `set_limit` is another way to."""
    overhead, limit = group.overhead(), group.limit()
    needed = max(target, group.filled_buffers() + _ROOM) + overhead
    if abs(needed - limit) > dead_band(target):
        (set_limit or group.set_limit)(max(needed, limit - most_taken(target)))


def remove_group(folder: Path, home: Path, patience: float) -> None:
    """Remove a group if it is there. Processes have `patience` s to end; then they are moved to `home`."""
    for name in ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes", "memory.max"):
        with suppress(OSError):  # what ends needs memory for that
            write(folder / name, "max" if name == "memory.max" else "-1")
    patient_until = time.monotonic() + patience
    give_up = None
    while folder.exists():
        now = time.monotonic()
        members = read_words(folder / "cgroup.procs")
        if not members or now >= patient_until:
            give_up = give_up or now + _LAST_SECONDS
            try:
                if not members:
                    folder.rmdir()  # the kernel takes its files along
                for pid in members:
                    with suppress(ProcessLookupError):
                        write(home / "cgroup.procs", pid)
                if now > give_up:
                    raise OSError(errno.EBUSY, "processes are started in it all the time")
            except OSError:  # one that has ended is there for a moment more
                if now > give_up and folder.exists():
                    raise
        if folder.exists():
            time.sleep(_PAUSE)
