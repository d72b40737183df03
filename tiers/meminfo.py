"""What the system says of its memory."""

from pathlib import Path

from .tier import GIB, MIB

_FILE = Path("/proc/meminfo")
_LEAST_RESERVE, _MOST_RESERVE = 512 * MIB, 2 * GIB


def meminfo() -> dict[str, int]:
    """Read /proc/meminfo: sizes in bytes, and numbers of pages for HugePages_*."""
    found = {}
    for line in _FILE.read_text().splitlines():
        name, _, value = line.partition(":")
        number, *unit = value.split()
        found[name] = int(number) * (1024 if unit else 1)
    return found


def system_reserve() -> int:
    """Bytes that stay available whatever is locked: 2% of the memory, within 512 MiB and 2 GiB."""
    return min(max(_LEAST_RESERVE, meminfo()["MemTotal"] // 50), _MOST_RESERVE)


def readable(size: int) -> str:
    """Write bytes for a message, in GB or MB (2^30 and 2^20 bytes)."""
    return f"{size / GIB:,.2f} GB" if abs(size) >= GIB else f"{size / MIB:,.0f} MB"
