"""A tier: what a simulated server has; as a condition of jobs: named, stored, watched and checked.

`TieredServer` is what tiers need of a database's server, whatever is measured on them.
"""

import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import GB, MB, size_text

from .groups import ControlGroup, OwnGroup, SeveralGroups
from .machine import WholeMachine

Memory = WholeMachine | ControlGroup | SeveralGroups | OwnGroup  # what can say how much of it a server has

HUGE_PAGES, CONTROL_GROUP, CONTAINER = "hugepages", "cgroup", "container"  # how memory is held back
CLOSE = 0.02  # share by which the available memory may be off when a run begins
_INTERVAL_SECONDS = 0.1
_PATIENCE_SECONDS = 3.0  # for the memory to be what it is to be
TOLERANCE = 0.05  # of the memory that is available, in the middle of a run


@dataclass(frozen=True)
class Disk:
    """Limits of a disk, of reads and of writes alike; None: as fast as it is."""

    name: str
    iops: int | None = None  # operations a second
    bandwidth: int | None = None  # bytes a second

    @property
    def limits(self) -> dict[str, int | None]:
        """The limits by the names that the kernel gives them."""
        return {"bps": self.bandwidth, "iops": self.iops}


@dataclass(frozen=True)
class Tier:
    """What a simulated server has; None: what this machine has.

    `ram` is the available RAM: shared_buffers and what the system can cache, in bytes.
    """

    shared_buffers: int | None = None
    ram: int | None = None
    cpus: int | None = None
    disk: Disk | None = None

    def __str__(self) -> str:
        """Write it as --tiers reads it."""
        parts = [] if self.cpus is None else [f"{self.cpus}cpus"]
        parts += [] if self.disk is None else [self.disk.name]
        if self.shared_buffers is not None or self.ram is not None or not parts:
            parts.insert(0, f"{amount(self.shared_buffers)}:{amount(self.ram)}")
        return "+".join(parts)

    @property
    def limited_disk(self) -> Disk | None:
        """The disk where it has limits, None where it is as fast as it is."""
        return self.disk if self.disk is not None and (self.disk.iops or self.disk.bandwidth) else None

    @property
    def memory(self) -> str:
        """The memory as the label of a series has it, such as sb2GB-ram8GB; "" for all of the machine's."""
        if self.shared_buffers is None and self.ram is None:
            return ""
        buffers = "" if self.shared_buffers is None else f"sb{amount(self.shared_buffers)}-"
        return f"{buffers}ram{amount(self.ram)}"

    @property
    def series(self) -> dict[str, Any]:
        """The fields of a series that is measured on it."""
        disk = "" if self.disk is None else self.disk.name
        return {"tier_cpus": self.cpus, "tier_disk": disk, "tier_memory": self.memory}

    @property
    def facts(self) -> Mapping[str, Any]:
        """Attributes of a result: sizes in bytes, and none for what is not limited."""
        facts: dict[str, Any] = {
            "tier": str(self),
            "tier_shared_buffers": self.shared_buffers,
            "tier_ram": self.ram,
            "tier_cpus": self.cpus,
            "tier_memory_series": f"-{self.memory}" if self.memory else "",
        }
        if self.disk is not None:
            facts |= {
                "tier_disk": self.disk.name,
                "tier_iops": self.disk.iops,
                "tier_bandwidth": self.disk.bandwidth,
            }
        return {name: value for name, value in facts.items() if value is not None}


def amount(size: int | None) -> str:
    """Write bytes as GB, else as MB, 2^30 and 2^20 bytes as in PostgreSQL; None is "all"."""
    if size is None:
        return "all"
    return f"{size // GB}GB" if size % GB == 0 and size else f"{size // MB}MB"


class MemoryWatch:
    """Samples the available memory in a run, from a thread."""

    def __init__(self, memory: Memory | None, target: int | None = None) -> None:
        """Take what is sampled, None: nothing; and the bytes that are to be available, None: any."""
        self._memory, self._target = memory, target
        self._samples: list[int] = []
        self._done = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample while the block runs, which begins when the memory is what it is to be."""
        self._wait_for_target()
        self._samples, self._done = [], threading.Event()
        thread = threading.Thread(target=self._sample_all, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()

    def facts(self, queries: int) -> dict[str, Any]:
        """Return the median of the samples, in bytes; nothing without samples."""
        return {"tier_available": int(statistics.median(self._samples))} if self._samples else {}

    def close(self) -> None:
        """Nothing is open."""

    def _wait_for_target(self) -> None:
        """Wait until the keeper has corrected the memory: clients that have just come took some of it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._memory is not None and self._target and time.monotonic() < deadline:
            with suppress(OSError, ValueError, KeyError):
                if abs(self._memory.available() / self._target - 1) < CLOSE:
                    return
            time.sleep(_INTERVAL_SECONDS)

    def _sample_all(self) -> None:
        memory = self._memory
        while memory is not None:
            with suppress(OSError, ValueError, KeyError):  # just taken away: one sample fewer
                self._samples.append(memory.available())
            if self._done.wait(_INTERVAL_SECONDS):
                return


@dataclass(frozen=True)
class SimulatedServer:
    """A tier, and how it is brought about; what is known only after that is not compared."""

    tier: Tier
    method: str
    memory: Memory | None = field(default=None, compare=False)
    held: Mapping[str, Any] = field(default_factory=dict, compare=False)  # attributes of what was set
    limits: Mapping[Path, str] = field(default_factory=dict, compare=False)  # what files are to hold
    queried: int = field(default=1, compare=False)  # servers; their shared_buffers are known as a sum

    def __str__(self) -> str:
        return f"{self.tier} by {self.method}"

    @property
    def series(self) -> Mapping[str, Any]:
        """The fields of the series that is measured on it."""
        return {"tier_method": self.method, **self.tier.series}

    @property
    def facts(self) -> Mapping[str, Any]:
        """Attributes of a point that is measured on it."""
        return {**self.tier.facts, "tier_method": self.method, **self.held}

    def watch(self) -> MemoryWatch:
        """See how much memory is available in a run."""
        return MemoryWatch(self.memory, self.tier.ram)

    def kills(self) -> int:
        """How many processes the system has ended so far because the memory was used up."""
        with suppress(OSError, ValueError):
            if self.memory is not None:
                return self.memory.kills()
        return 0

    def shortage(self) -> str:
        """Say which memory was used up, and what to do."""
        memory = "the memory" if self.tier.ram is None else f"the {size_text(self.tier.ram)} of RAM"
        return (
            f"{memory} of tier {self.tier} did not suffice, and the system ended a process: choose a tier"
            " with more RAM, or with less of it as shared_buffers"
        )

    def check(self, facts: Mapping[str, Any]) -> None:
        """Raise UserError where the limits, the memory or shared_buffers were not those of the tier."""
        for file, text in self.limits.items():
            if not file.exists() or file.read_text() != text:
                raise UserError(
                    f"tier {self.tier} was not kept: its limit in {file} was removed, most likely by"
                    " systemd: run it in a unit of its own, by systemd-run --scope -p Delegate=yes"
                )
        buffers = facts.get("shared_buffers")
        if self.tier.shared_buffers is not None and buffers != self.queried * self.tier.shared_buffers:
            has = "an unknown size" if buffers is None else size_text(buffers)
            raise UserError(f"tier {self.tier} was not kept: shared_buffers is {has}")
        if self.tier.ram is None:
            return
        if "tier_available" not in facts:
            raise UserError(f"tier {self.tier} was not kept: what is available could not be measured")
        off = facts["tier_available"] / self.tier.ram - 1
        if abs(off) > TOLERANCE:
            raise UserError(
                f"tier {self.tier} was not kept: {size_text(facts['tier_available'])} were available,"
                f" {abs(off):.0%} {'more' if off > 0 else 'less'} than {size_text(self.tier.ram)}"
            )


class TieredServer(Protocol):
    """A server, with any beside it, that workers start with what a tier has.

    Methods raise RuntimeError, whose text is one line for the user, where that cannot be.
    """

    def check(self, tiers: Sequence[Tier]) -> None:
        """Refuse tiers that the server cannot be given, before anything is changed."""

    def folders(self, kind: str, count: int) -> Sequence[Path]:
        """Return the folder of its data, and those of `count` servers beside it, shards or replicas."""

    def environment(self, tier: Tier | None, groups: Sequence[Path] = ()) -> Mapping[str, str]:
        """Return the variables of a worker, or a container, whose server is to have what a tier has.

        None: it builds, with all the machine's memory. `groups` are the files that take the pids of its
        processes; where they have SERVER in their names, each server has files of its own.
        """


@contextmanager
def plugin_errors() -> Iterator[None]:
    """Turn the errors of plug-ins, which know no UserError, into that."""
    try:
        yield
    except RuntimeError as error:
        raise UserError(str(error)) from None
