"""The tiers that --tiers names, and which of them this machine can hold.

`mini`, `short`, `2:8,4:16`, `5m+4cpus`, `4:16+4cpus+gp3`, `gp3,nvme`, `mini+3000iops+125MBps`: an element
stands between commas, a part between plus signs.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import psutil

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.host import memory_bytes, usable_cores

from .memory import GIB, MIB, readable, system_reserve
from .servers import Servers
from .tier import HUGE_PAGES, Disk, Tier

MemorySizes = tuple[int | None, int | None]  # bytes of shared_buffers and of available RAM; None: all

# Limits of disks are in cloud vendors' units: 1 MB/s is 10^6 bytes a second.
MEGABYTE = 10**6

# gp3-16k has the most bandwidth that AWS sells with 16,000 IOPS, so that it is the IOPS that limit it.
DISKS = {
    disk.name: disk
    for disk in (
        Disk("gp3", iops=3_000, bandwidth=125 * MEGABYTE),
        Disk("gp3-16k", iops=16_000, bandwidth=1_000 * MEGABYTE),
        Disk("nvme"),
    )
}

_M = 16  # of the index whose size scales a ladder
_GB_OF_5M = ((2, 8), (4, 16), (8, 32), (16, 64), (32, 128), (64, 256))
_GB_OF_100M = ((16, 64), (32, 128), (64, 256), (128, 512), (256, 1024), (512, None))
_GB_OF_1B = ((32, 128), (64, 256), (128, 512), (256, 1024), (512, 1200), (750, None))

LADDERS: dict[str, list[MemorySizes]] = {
    name: [(buffers * GIB, None if ram is None else ram * GIB) for buffers, ram in ladder]
    for name, ladder in (("5m", _GB_OF_5M), ("100m", _GB_OF_100M), ("1b", _GB_OF_1B))
}

_STEP = 32 * MIB
_LEAST_MINI = 96 * MIB
_LEAST_BUFFERS = 16 * MIB
_LEAST_RAM = 64 * MIB
_COUNTS = {"cpus": 1, "iops": 10, "MBps": 1}  # what is counted, and the least of it that makes sense
_EXAMPLES = (
    "write 2:8 (GB of shared_buffers:RAM), 256MB:1GB or 512:all, "
    f"one of {', '.join(LADDERS)}, mini, short, {', '.join(DISKS)}, or 4cpus, 3000iops, 125MBps; joined by +"
)


def parse_tiers(text: str, rows: int, dimension: int, memory: int | None = None) -> list[Tier]:
    """Return the tiers, each once, those with the most RAM first; UserError names what is wrong.

    `rows` and `dimension` are of the data and `memory` is the machine's (None: this one's), in bytes: `mini`
    and `short` are made for them.
    """
    size = (rows, dimension, memory_bytes() if memory is None else memory)
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
        raise UserError(f"--tiers: '{shown(element)}': {error}") from None
    for buffers, ram in found.get("memory", [(None, None)]):
        yield Tier(buffers, ram, found.get("cpus"), disk)


def _part(part: str, size: tuple[int, int, int]) -> tuple[str, Any]:
    """Return which of memory, disk, cpus, iops, MBps a part names, and its value."""
    name = part.lower()
    if name == "mini":
        return "memory", mini(*size)
    if name == "short":
        return "memory", short(*size)
    if name in LADDERS:
        return "memory", LADDERS[name]
    if name in DISKS:
        return "disk", DISKS[name]
    if ":" in part:
        return "memory", [_pair(part)]
    counted = re.fullmatch(r"([0-9]{1,9})(cpus?|iops|MBps)", part)
    if counted is None:
        what = f"'{shown(part)}' is not known" if part else "something is missing"
        raise ValueError(f"{what}: {_EXAMPLES}")
    number, kind = int(counted[1]), "cpus" if counted[2] == "cpu" else counted[2]
    if number < _COUNTS[kind]:
        raise ValueError(f"{part} is too few: write {_COUNTS[kind]}{kind} or more")
    return kind, number


def _pair(part: str) -> MemorySizes:
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
        raise ValueError(f"'{shown(text)}' is not a size: {_EXAMPLES}")
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


def mini(rows: int, dimension: int, memory: int) -> list[MemorySizes]:
    """Scale the ladder of 5,000,000 × 768 to the index of other data, by the ratio of the two estimates.

    Rounded to 32 MB. The lowest rung has 96 MB of RAM at least, and at most an eighth of `memory`, which is
    the machine's, in bytes; the others are raised or lowered with it. Rungs of more than three quarters of
    `memory` are left out, and the last one has all of it.
    """
    scale = _index_bytes(rows, dimension) / _index_bytes(5_000_000, 768)
    scale = max(min(scale, memory / (64 * GIB)), _LEAST_MINI / (8 * GIB))
    *lower, (last_buffers, _) = [(_scaled(buffers, scale), _scaled(ram, scale)) for buffers, ram in _GB_OF_5M]
    fitting: list[MemorySizes] = [(buffers, ram) for buffers, ram in lower if ram <= memory * 3 // 4]
    return [*fitting, (min(last_buffers, memory // 4 // _STEP * _STEP), None)]


def short(rows: int, dimension: int, memory: int) -> list[MemorySizes]:
    """Return the lowest four rungs of `mini`, and all memory: on a rung between, everything fits, too."""
    *lower, last = mini(rows, dimension, memory)
    return [*lower[:4], last]


def _scaled(gigabytes: int, scale: float) -> int:
    return round(gigabytes * GIB * scale / _STEP) * _STEP


def _index_bytes(rows: int, dimension: int) -> int:
    """Estimate an HNSW index as the report does: the vectors, 8 bytes of links for each of m, 64 others."""
    return rows * (4 * dimension + 8 * _M + 64)


def check_capacity(tiers: Sequence[Tier], method: str | None = None, servers: Servers | None = None) -> None:
    """Raise UserError that names all tiers which this machine, or container, cannot hold now.

    Each of several servers that holds rows has the memory of the tier, and each has CPUs of its own, also
    one that asks shards. None: there is one server.
    """
    available = available_memory()
    cpus = usable_cores()
    servers = servers or Servers()
    with_rows = len(servers.with_rows)
    for_rows, for_all = (f" for {text}" if text else "" for text in (servers.holders, servers.everyone))
    problems = [
        _left_out(
            f"{available / GIB:.1f} GB of memory available{for_rows}",
            [tier for tier in tiers if with_rows * max(tier.ram or 0, tier.shared_buffers or 0) > available],
            "use mini" if servers.total == 1 else "",
        ),
        _left_out(
            f"{cpus} CPU{'s' * (cpus > 1)}{for_all}",
            [tier for tier in tiers if servers.total * (tier.cpus or 0) > cpus],
        ),
    ]
    if method == HUGE_PAGES:
        reserve = system_reserve()
        problems.append(
            _left_out(
                f"to keep {readable(reserve)} that huge pages never take",
                [tier for tier in tiers if tier.ram is not None and tier.ram < reserve],
                "use --tier-method cgroup",
            )
        )
    if any(problems):
        raise UserError(f"--tiers: this machine has {'; and '.join(filter(None, problems))}")


def available_memory() -> int:
    """Bytes that this machine, or container, has for servers now."""
    return min(int(psutil.virtual_memory().available), memory_bytes())


def _left_out(has: str, tiers: Sequence[Tier], instead: str = "") -> str:
    """Say what the machine has, and which tiers to leave out for it; nothing where there are none."""
    if not tiers:
        return ""
    return f"{has}: leave out {', '.join(map(str, tiers))}" + (f", or {instead}" if instead else "")
