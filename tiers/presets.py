"""What has a name in --tiers: ladders of memory, and disks."""

from .tier import GIB, MIB, Disk

Memory = tuple[int | None, int | None]  # bytes of shared_buffers and of available RAM; None: all

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

_GB_OF_5M = ((2, 8), (4, 16), (8, 32), (16, 64), (32, 128), (64, 256))
_GB_OF_100M = ((16, 64), (32, 128), (64, 256), (128, 512), (256, 1024), (512, None))
_GB_OF_1B = ((32, 128), (64, 256), (128, 512), (256, 1024), (512, 1200), (750, None))

LADDERS: dict[str, list[Memory]] = {
    name: [(buffers * GIB, None if ram is None else ram * GIB) for buffers, ram in ladder]
    for name, ladder in (("5m", _GB_OF_5M), ("100m", _GB_OF_100M), ("1b", _GB_OF_1B))
}

_STEP = 32 * MIB
_LEAST_RAM = 96 * MIB


def mini(rows: int, dimension: int, memory: int) -> list[Memory]:
    """Scale the ladder of 5,000,000 × 768 to the index of other data, by the ratio of the two estimates.

    Rounded to 32 MB. The lowest rung has 96 MB of RAM at least, and at most an eighth of `memory`, which is
    the machine's, in bytes; the others are raised or lowered with it. Rungs of more than three quarters of
    `memory` are left out, and the last one has all of it.
    """
    scale = _index_bytes(rows, dimension) / _index_bytes(5_000_000, 768)
    scale = max(min(scale, memory / (64 * GIB)), _LEAST_RAM / (8 * GIB))
    *lower, (last_buffers, _) = [(_scaled(buffers, scale), _scaled(ram, scale)) for buffers, ram in _GB_OF_5M]
    fitting: list[Memory] = [(buffers, ram) for buffers, ram in lower if ram <= memory * 3 // 4]
    return [*fitting, (min(last_buffers, memory // 4 // _STEP * _STEP), None)]


def _scaled(gigabytes: int, scale: float) -> int:
    return round(gigabytes * GIB * scale / _STEP) * _STEP


def _index_bytes(rows: int, dimension: int, m: int = 16) -> int:
    """Estimate an HNSW index as the report does: the vectors, 8 bytes of links for each of m, 64 others."""
    return rows * (4 * dimension + 8 * m + 64)
