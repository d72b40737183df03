"""A tier: what a simulated server has."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GIB = 1 << 30
MIB = 1 << 20
HUGE_PAGES, CONTROL_GROUP, CONTAINER = "hugepages", "cgroup", "container"  # how memory is held back


@dataclass(frozen=True)
class Disk:
    """Limits of a disk, of reads and of writes alike; None: as fast as it is."""

    name: str
    iops: int | None = None  # operations a second
    bandwidth: int | None = None  # bytes a second


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
    """Write bytes as GB, else as MB, which are 2^30 and 2^20 bytes as PostgreSQL has it; None is "all"."""
    if size is None:
        return "all"
    return f"{size // GIB}GB" if size % GIB == 0 and size else f"{size // MIB}MB"
