"""Available RAM as it is now: shared_buffers and what the system can cache. Read only, and picklable."""

from dataclasses import dataclass
from pathlib import Path

GIB = 1 << 30
MIB = 1 << 20
UNLIMITED = (1 << 63) - 1
_MEMINFO = Path("/proc/meminfo")
_LEAST_RESERVE, _MOST_RESERVE = 512 * MIB, 2 * GIB
_KERNEL_PARTS = ("slab", "kernel_stack", "pagetables", "sec_pagetables", "percpu", "vmalloc")


def meminfo() -> dict[str, int]:
    """Read /proc/meminfo: sizes in bytes, and numbers of pages for HugePages_*."""
    found = {}
    for line in _MEMINFO.read_text().splitlines():
        name, _, value = line.partition(":")
        number, *unit = value.split()
        found[name] = int(number) * (1024 if unit else 1)
    return found


def system_reserve() -> int:
    """Bytes that stay available whatever is locked: 2% of the memory, within 512 MiB and 2 GiB."""
    return min(max(_LEAST_RESERVE, meminfo()["MemTotal"] // 50), _MOST_RESERVE)


def dead_band(target: int) -> int:
    """Bytes of a deviation from the target that is left alone."""
    return max(target // 100, 2 * MIB)


def most_taken(target: int) -> int:
    """Bytes that are taken away at a time; what is missing is given at once."""
    return max(target // 10, 64 * MIB)


def readable(size: int) -> str:
    """Write bytes for a message, in GB or MB (2^30 and 2^20 bytes)."""
    return f"{size / GIB:,.2f} GB" if abs(size) >= GIB else f"{size / MIB:,.0f} MB"


@dataclass(frozen=True)
class WholeMachine:
    """All that the machine has left, for a server that was started after it was made.

    `shared_before` is the Shmem of /proc/meminfo when no such server ran, in bytes: what came on top is
    shared_buffers, which MemAvailable does not count.
    """

    shared_before: int

    def available(self) -> int:
        """Bytes."""
        info = meminfo()
        return info["MemAvailable"] + max(info["Shmem"] - self.shared_before, 0)

    def kills(self) -> int:
        """0: nobody counts them for a machine."""
        return 0


@dataclass(frozen=True)
class ControlGroup:
    """What a control group's limit leaves; `version` is 1 or 2, and decides the names of its files."""

    folder: Path
    version: int

    def available(self) -> int:
        """Bytes: of the limit, or less where the machine itself has less."""
        info = meminfo()
        return min(self.limit() - self.overhead(), info["MemAvailable"] + self.shared())

    def limit(self) -> int:
        """Bytes that the group may use in all; UNLIMITED, or about as much, where nothing is set."""
        name = "memory.limit_in_bytes" if self.version == 1 else "memory.max"
        text = (self.folder / name).read_text().strip()
        return UNLIMITED if text == "max" else int(text)

    def overhead(self) -> int:
        """Bytes that are neither cache nor shared_buffers: of processes, and of the kernel for them."""
        found = self._statistics()
        if self.version == 1:
            kernel = int((self.folder / "memory.kmem.usage_in_bytes").read_text())
            return found.get("total_rss", 0) + kernel
        kernel = found.get("kernel", sum(found.get(part, 0) for part in _KERNEL_PARTS))
        return found.get("anon", 0) + kernel

    def shared(self) -> int:
        """Bytes of shared memory, such as shared_buffers that were touched."""
        return self._statistics().get("total_shmem" if self.version == 1 else "shmem", 0)

    def kills(self) -> int:
        """How many processes the system has ended because the limit was reached, since the group was made."""
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        lines = (self.folder / name).read_text().splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines)}.get("oom_kill", 0)

    def members(self) -> set[int]:
        """Every process of the group, by its pid."""
        return {int(line) for line in (self.folder / "cgroup.procs").read_text().split()}

    def _statistics(self) -> dict[str, int]:
        lines = (self.folder / "memory.stat").read_text().splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines)}


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


def shared_memory_of(pid: int) -> int:
    """Bytes of shared memory that a process has touched; 0 where it has ended."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssShmem:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
