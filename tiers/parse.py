"""What --tiers says: `mini`, `2:8,4:16`, `5m+4cpus`, `4:16+4cpus+gp3`, `gp3,nvme`, `mini+3000iops+125MBps`.

An element stands between commas, a part between plus signs.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from ann_benchmarks.algorithms.postgres import machine
from ann_benchmarks.common.errors import UserError

from .presets import DISKS, LADDERS, MEGABYTE, Memory, mini
from .tier import MIB, Disk, Tier

_LEAST_BUFFERS = 16 * MIB
_LEAST_RAM = 64 * MIB
_COUNTS = {"cpus": 1, "iops": 10, "MBps": 1}  # what is counted, and the least of it that makes sense
_EXAMPLES = (
    "write 2:8 (GB of shared_buffers:RAM), 256MB:1GB or 512:all, "
    f"one of {', '.join(LADDERS)}, mini, {', '.join(DISKS)}, or 4cpus, 3000iops, 125MBps; joined by +"
)


def parse_tiers(text: str, rows: int, dimension: int, memory: int | None = None) -> list[Tier]:
    """Return the tiers, each once, those with the most RAM first; UserError names what is wrong.

    `rows` and `dimension` are of the data and `memory` is the machine's (None: this one's), in bytes: `mini`
    is made for them.
    """
    size = (rows, dimension, machine.memory_bytes() if memory is None else memory)
    tiers = [tier for element in text.split(",") for tier in _tiers(element.strip(), size)]
    return sorted(dict.fromkeys(tiers), key=lambda tier: -(tier.ram or float("inf")))


def _tiers(element: str, size: tuple[int, int, int]) -> Iterator[Tier]:
    """Give what one element means: a tier, or one for each rung of its ladder."""
    found: dict[str, Any] = {}
    try:
        # A disk of one's own is called 3000iops-125MBps: that is understood, too.
        for part in element.replace("iops-", "iops+").split("+"):
            kind, value = _part(part.strip(), size)
            if kind in found:
                raise ValueError(f"two of {kind}: write 2:8+4cpus+gp3")
            found[kind] = value
        disk = _disk(found)
    except ValueError as error:
        raise UserError(f"--tiers: '{element}': {error}") from None
    for buffers, ram in found.get("memory", [(None, None)]):
        yield Tier(buffers, ram, found.get("cpus"), disk)


def _part(part: str, size: tuple[int, int, int]) -> tuple[str, Any]:
    """Return which of memory, disk, cpus, iops, MBps a part names, and its value."""
    name = part.lower()
    if name == "mini":
        return "memory", mini(*size)
    if name in LADDERS:
        return "memory", LADDERS[name]
    if name in DISKS:
        return "disk", DISKS[name]
    if ":" in part:
        return "memory", [_pair(part)]
    counted = re.fullmatch(r"([0-9]{1,9})(cpus?|iops|MBps)", part)
    if counted is None:
        what = f"'{part}' is not known" if part else "something is missing"
        raise ValueError(f"{what}: {_EXAMPLES}")
    number, kind = int(counted[1]), "cpus" if counted[2] == "cpu" else counted[2]
    if number < _COUNTS[kind]:
        raise ValueError(f"{part} is too few: write {_COUNTS[kind]}{kind} or more")
    return kind, number


def _pair(part: str) -> Memory:
    buffers, ram = (_bytes(text.strip()) for text in part.split(":", 1))
    if buffers is None and ram is not None:
        raise ValueError("shared_buffers is to be smaller than RAM: write 2:8")
    if buffers is not None and buffers < _LEAST_BUFFERS:
        raise ValueError(f"shared_buffers is too small: write {_LEAST_BUFFERS // MIB}MB:1GB or more")
    if ram is not None and ram < _LEAST_RAM:
        raise ValueError(f"RAM is too small: write 16MB:{_LEAST_RAM // MIB}MB or more")
    if buffers is not None and ram is not None and buffers >= ram:
        raise ValueError("shared_buffers is to be smaller than RAM: write 2:8")
    return buffers, ram


def _bytes(text: str) -> int | None:
    """Read a size in GB, if it does not name its unit; None for all."""
    if text.lower() == "all":
        return None
    size = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(MB|GB)?", text, re.IGNORECASE)
    if size is None:
        raise ValueError(f"'{text}' is not a size: {_EXAMPLES}")
    megabytes = Decimal(size[1]) * (1 if (size[2] or "").upper() == "MB" else 1024)
    if megabytes % 1:
        raise ValueError(f"'{text}' is not a whole number of MB: write {max(round(megabytes), 1)}MB")
    return int(megabytes) * MIB


def _disk(found: dict[str, Any]) -> Disk | None:
    """Return the disk that has a name, or that whose limits are given; its name says them."""
    iops, megabytes = found.get("iops"), found.get("MBps")
    if iops is None and megabytes is None:
        return found.get("disk")
    if "disk" in found:
        raise ValueError(f"two disks: write {found['disk'].name}, or the limits of another")
    limits = [f"{limit}{unit}" for limit, unit in ((iops, "iops"), (megabytes, "MBps")) if limit is not None]
    return Disk("-".join(limits), iops, None if megabytes is None else megabytes * MEGABYTE)
