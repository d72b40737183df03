"""The simulated server of a point: whether it is the one of its name, and had the memory of it."""

import re
from collections.abc import Iterator

from .points import CheckedPoint

MEGABYTE = 10**6  # of bandwidths
SIZES = {"MB": 1 << 20, "GB": 1 << 30}  # of memory
# Operations and bytes per second of the disks that have names.
LIMITS = {"gp3": (3_000, 125 * MEGABYTE), "gp3-16k": (16_000, 1_000 * MEGABYTE), "nvme": (None, None)}
OFF, LEAST_OFF = 0.01, 2 << 20  # share and bytes of a tier's memory that are not corrected while it works
_LIMIT = re.compile(r"(\d+)(iops|MBps)")
_MEMORY = re.compile(r"(?:sb(\d+[MG]B)-)?ram(\d+[MG]B|all)")


def other_server(point: CheckedPoint) -> Iterator[str]:
    """Yield in what the simulated server of a point is another one than its series names."""
    attrs, series = point.attrs, point.series
    if not series.tier_method:
        return
    named = _MEMORY.fullmatch(series.tier_memory)
    parts = [f"{series.tier_cpus}cpus" if series.tier_cpus is not None else "", series.tier_disk]
    parts = [part for part in parts if part]
    if named or not parts:
        parts.insert(0, f"{named[1] or 'all'}:{named[2]}" if named else "all:all")
    if attrs.get("tier") != "+".join(parts):
        yield f"says tier {attrs.get('tier')}, and its series {'+'.join(parts)}"
    if named and named[1]:
        # What is stored of the server itself is of all shards, or replicas, together.
        several = series.shards or series.replicas or 1
        for name, servers in (("tier_shared_buffers", 1), ("shared_buffers", several)):
            if point.number(name) != servers * bytes_of(named[1]):
                yield f"says {name} {attrs.get(name)}, and its series {named[1]}"
    for name, limit in zip(("tier_iops", "tier_bandwidth"), limits_of(series.tier_disk), strict=True):
        if point.number(name) != limit:
            yield f"says {name} {attrs.get(name)}, and its series {series.tier_disk or 'no disk'}"


def of_memory(point: CheckedPoint) -> Iterator[str]:
    """Yield that a simulated server had another memory than its name says."""
    named = _MEMORY.fullmatch(point.series.tier_memory)
    if named is None or named[2] == "all":
        return
    promised = bytes_of(named[2])
    if (said := point.number("tier_ram")) != promised:
        yield f"is named by a tier of {named[2]}, and says tier_ram {said}"
    measured = point.number("tier_available")
    measured = measured if measured is not None else point.number("tier_available_at_start")
    if measured is None:
        yield "does not say how much memory its tier had (tier_available)"
    elif abs(measured - promised) > max(OFF * promised, LEAST_OFF):
        yield f"missed its tier: the memory was {measured / promised - 1:+.1%} of what it is named by"


def bytes_of(size: str) -> int:
    """Return the bytes of such as 2GB or 512MB, in powers of 1,024."""
    return int(size[:-2]) * SIZES[size[-2:]]


def limits_of(disk: str) -> tuple[int | None, int | None]:
    """Return the operations and bytes per second of a disk by its name, such as gp3 or 3000iops-125MBps."""
    if disk in LIMITS:
        return LIMITS[disk]
    found = {unit: int(number) for number, unit in _LIMIT.findall(disk)}
    bandwidth = found.get("MBps")
    return found.get("iops"), None if bandwidth is None else bandwidth * MEGABYTE
