"""The tiers that --tiers names, for how many servers, and which of them this machine can hold.

`mini`, `short`, `auto`, `2:8,4:16`, `5m+4cpus`, `4:16+4cpus+gp3`, `gp3,nvme`, `mini+3000iops+125MBps`: an
element stands between commas, a part between plus signs.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import psutil

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.host import memory_bytes, usable_cores
from ann_benchmarks.common.numbers import GB, MB, counted, size_text
from ann_benchmarks.definitions.servers import ONE_SERVER, Servers

from .machine import system_reserve
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
LADDERS = {  # named for the number of rows that they suit
    "5m": "2:8 4:16 8:32 16:64 32:128 64:256",
    "100m": "16:64 32:128 64:256 128:512 256:1024 512:all",
    "1b": "32:128 64:256 128:512 256:1024 512:1200 750:all",
}
AUTO = "auto"  # beside the machine as it is, the servers that are smaller than the data, if any
MOST_SMALL = 2  # of them
_STEP = 32 * MB
_LEAST_MINI, _LEAST_BUFFERS, _LEAST_RAM = 96 * MB, 16 * MB, 64 * MB
_COUNTS = {"cpus": 1, "iops": 10, "MBps": 1}  # what is counted, and the least of it that makes sense
_EXAMPLES = (
    "write 2:8 (GB of shared_buffers:RAM), 256MB:1GB or 512:all, "
    f"one of {', '.join(LADDERS)}, mini, short, auto, {', '.join(DISKS)}, or 4cpus, 3000iops, 125MBps;"
    " joined by +"
)


def parse_tiers(text: str, rows: int, dimension: int, memory: int | None = None) -> list[Tier]:
    """Return the tiers, each once, those with the most RAM first; UserError names what is wrong.

    `rows` and `dimension` are of the data and `memory` is the machine's (None: this one's), in bytes: `mini`,
    `short` and `auto` are made for them. `auto` is empty where each server would be larger than the data.
    """
    ladder = mini_ladder(rows, dimension, memory_bytes() if memory is None else memory)
    lowered = {"mini": ladder, "short": [*ladder[:-1][:4], ladder[-1]]}  # on a rung between, all fits, too
    small = [rung for rung in ladder[:-1] if (rung[1] or 0) < data_bytes(rows, dimension)]
    lowered[AUTO] = small[-MOST_SMALL:]
    tiers = [tier for element in text.split(",") for tier in _read_element(element.strip(), lowered)]
    return sorted(dict.fromkeys(tiers), key=lambda tier: -(tier.ram or float("inf")))


def _read_element(element: str, lowered: Mapping[str, list[MemorySizes]]) -> Iterator[Tier]:
    """Give what one element means: a tier, or one for each rung of its ladder."""
    found: dict[str, Any] = {}
    try:
        # A disk of one's own is called 3000iops-125MBps: that is understood, too.
        for part in element.replace("iops-", "iops+").split("+"):
            kind, value = _read_part(part.strip(), lowered)
            if kind in found:
                raise ValueError(f"two of {kind}: write 2:8+4cpus+gp3")
            found[kind] = value
        disk, iops, megabytes = (found.get(kind) for kind in ("disk", "iops", "MBps"))
        if (iops or megabytes) and disk:
            raise ValueError(f"two disks: write {disk.name}, or the limits of another")
    except ValueError as error:
        raise UserError(f"--tiers: '{shown(element)}': {error}") from None
    if iops or megabytes:  # the name of such a disk says its limits
        name = "-".join(f"{limit}{unit}" for limit, unit in ((iops, "iops"), (megabytes, "MBps")) if limit)
        disk = Disk(name, iops, megabytes and megabytes * MEGABYTE)
    for buffers, ram in found.get("memory", [(None, None)]):
        yield Tier(buffers, ram, found.get("cpus"), disk)


def _read_part(part: str, lowered: Mapping[str, list[MemorySizes]]) -> tuple[str, Any]:
    """Return which of memory, disk, cpus, iops, MBps a part names, and its value."""
    name = part.lower()
    if name in lowered:
        return "memory", lowered[name]
    if name in DISKS:
        return "disk", DISKS[name]
    if name in LADDERS or ":" in part:
        return "memory", [_read_sizes(rung) for rung in LADDERS.get(name, part.replace(" ", "")).split()]
    counted_part = re.fullmatch(r"([0-9]{1,9})(cpus?|iops|MBps)", part)
    if counted_part is None:
        what = f"'{shown(part)}' is not known" if part else "something is missing"
        raise ValueError(f"{what}: {_EXAMPLES}")
    number, kind = int(counted_part[1]), counted_part[2].replace("cpus", "cpu").replace("cpu", "cpus")
    if number < _COUNTS[kind]:
        raise ValueError(f"{part} is too few: write {_COUNTS[kind]}{kind} or more")
    return kind, number


def _read_sizes(part: str) -> MemorySizes:
    buffers, ram = (_read_size(text) for text in part.split(":", 1))
    if buffers is not None and buffers < _LEAST_BUFFERS:
        raise ValueError(f"shared_buffers is too small: write {_LEAST_BUFFERS // MB}MB:1GB or more")
    if ram is not None and ram < _LEAST_RAM:
        raise ValueError(f"RAM is too small: write 16MB:{_LEAST_RAM // MB}MB or more")
    if ram is not None and (buffers is None or buffers >= ram):
        raise ValueError("shared_buffers must be smaller than RAM: write 2:8")
    return buffers, ram


def _read_size(text: str) -> int | None:
    """Read a size in GB, if it does not name its unit; None for all."""
    if text.lower() == "all":
        return None
    size = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(MB|GB)?", text, re.IGNORECASE)
    if size is None:
        raise ValueError(f"'{shown(text)}' is not a size: {_EXAMPLES}")
    megabytes = Decimal(size[1]) * (1 if (size[2] or "").upper() == "MB" else 1024)
    if megabytes % 1:
        raise ValueError(f"'{text}' is not a whole number of MB: write {max(round(megabytes), 1)}MB")
    return int(megabytes) * MB


def mini_ladder(rows: int, dimension: int, memory: int) -> list[MemorySizes]:
    """Scale the ladder of 5,000,000 × 768 to the index of other data, by the ratio of the two estimates.

    Rounded to 32 MB. The lowest rung has 96 MB of RAM at least, and at most an eighth of `memory`, the
    machine's, in bytes; the others are raised or lowered with it. Rungs of more than three quarters of
    `memory` are left out, and the last one has all of it.
    """
    scale = index_bytes(rows, dimension) / index_bytes(5_000_000, 768)
    scale = max(min(scale, memory / (64 * GB)), _LEAST_MINI / (8 * GB))
    *lower, (last_buffers, _) = (
        [round(int(size) * GB * scale / _STEP) * _STEP for size in rung.split(":")]
        for rung in LADDERS["5m"].split()
    )
    fitting: list[MemorySizes] = [(buffers, ram) for buffers, ram in lower if ram <= memory * 3 // 4]
    return [*fitting, (min(last_buffers, memory // 4 // _STEP * _STEP), None)]


def index_bytes(rows: int, dimension: int) -> int:
    """Estimate an HNSW index of m = 16 as the report does: vectors, 8 bytes a link, 64 others."""
    return rows * (4 * dimension + 8 * 16 + 64)


def data_bytes(rows: int, dimension: int) -> int:
    """Estimate such an index and its table, whose rows have 40 bytes beside the vector."""
    return index_bytes(rows, dimension) + rows * (4 * dimension + 40)


def memory_note(rows: int, dimension: int) -> str:
    """Say that no simulated server is smaller than the data, and from how many rows on one is."""
    data = data_bytes(rows, dimension)
    enough = math.ceil(_LEAST_MINI * rows / data / 1000) * 1000
    return (
        f"memory does not decide below about {enough:,} rows: table and index take about {size_text(data)},"
        f" and the smallest simulated server has {size_text(_LEAST_MINI)}"
    )


def check_capacity(tiers: Sequence[Tier], method: str | None = None, servers: Servers | None = None) -> None:
    """Raise UserError that names all tiers which this machine, or container, cannot hold now.

    Each of several servers that holds rows has the memory of the tier, and each has CPUs of its own, also
    one that asks shards. None: there is one server.
    """
    available, cpus, reserve = available_memory(), usable_cores(), system_reserve()
    servers = servers or ONE_SERVER
    row_holders = len(servers.row_holders)
    for_rows, for_all = (f" for {text}" if text else "" for text in (servers.holders, servers.everyone))
    rows: list[tuple[str, Callable[[Tier], bool], str]] = [  # what is there, too much, and instead
        (
            f"{available / GB:.1f} GB of memory available{for_rows}",
            lambda tier: row_holders * max(tier.ram or 0, tier.shared_buffers or 0) > available,
            ", or use mini" if len(servers.numbers) == 1 else "",
        ),
        (
            f"{counted(cpus, 'CPU')}{for_all}",
            lambda tier: len(servers.numbers) * (tier.cpus or 0) > cpus,
            "",
        ),
        (
            f"to keep {size_text(reserve)} that huge pages never take",
            lambda tier: method == HUGE_PAGES and tier.ram is not None and tier.ram < reserve,
            ", or use --tier-method cgroup",
        ),
    ]
    problems = [
        f"{has}: leave out {', '.join(str(tier) for tier in tiers if is_too_much(tier))}{instead}"
        for has, is_too_much, instead in rows
        if any(map(is_too_much, tiers))
    ]
    if problems:
        raise UserError(f"--tiers: this machine has {'; and '.join(problems)}")


def available_memory() -> int:
    """Bytes that this machine, or container, has for servers now."""
    return min(int(psutil.virtual_memory().available), memory_bytes())
