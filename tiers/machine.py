"""The machine at hand: its memory, disks and caches as the kernel shows them, and what this user may do."""

import os
import re
import shutil
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import GB, MB

_MEMINFO = Path("/proc/meminfo")
_MOUNTS = Path("/proc/self/mountinfo")
_DEVICES = Path("/sys/dev/block")
_DROP = Path("/proc/sys/vm/drop_caches")
_LEAST_RESERVE, _MOST_RESERVE = 512 * MB, 2 * GB
_SCOPE = "systemd-run --user --scope -p Delegate=yes"


def meminfo() -> dict[str, int]:
    """Read /proc/meminfo: sizes in bytes, and numbers of pages for HugePages_*."""
    found = {}
    for line in _MEMINFO.read_text().splitlines():
        name, _, value = line.partition(":")
        number, *unit = value.split()
        found[name] = int(number) * (1024 if unit else 1)
    return found


def system_reserve() -> int:
    """Bytes that stay available whatever is locked: 2% of the memory, within 512 MB and 2 GB."""
    return min(max(_LEAST_RESERVE, meminfo()["MemTotal"] // 50), _MOST_RESERVE)


@dataclass(frozen=True)
class WholeMachine:
    """All that the machine has left, for a server that was started after it was made.

    `shared_before` is the Shmem of /proc/meminfo when no such server ran, in bytes: what came on top is
    shared_buffers, which MemAvailable does not count, up to the size of these, `buffers`, where it is known.
    """

    shared_before: int
    buffers: int | None = None

    def available(self) -> int:
        """Bytes."""
        info = meminfo()
        shared = max(info["Shmem"] - self.shared_before, 0)
        return info["MemAvailable"] + (shared if self.buffers is None else min(shared, self.buffers))

    def kills(self) -> int:
        """0: nobody counts them for a machine."""
        return 0


def block_device(folder: Path) -> str:
    """Return MAJOR:MINOR of the whole disk of a folder; UserError on a tmpfs or the like."""
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    number, kind = place.stat().st_dev, ""
    if os.major(number) == 0:  # a file system that hides its disk: btrfs, overlay, tmpfs, NFS
        number, (kind, source) = 0, _mounted(place)
        with suppress(OSError):
            number = Path(source).stat().st_rdev if source.startswith("/dev/") else 0
    device = f"{os.major(number)}:{os.minor(number)}"
    entry = _DEVICES / device
    if os.major(number) == 0 or not entry.exists():
        raise UserError(
            f"{folder} is not on a disk that can be limited ({kind or f'device {device}'}): put the server's"
            " data on a disk's own file system, such as ext4 or xfs (docs/tiers.md)"
        )
    return (entry.resolve().parent / "dev").read_text().strip() if (entry / "partition").exists() else device


def device_name(device: str) -> str:
    """Return what a device, MAJOR:MINOR, is called in /dev."""
    lines = (_DEVICES / device / "uevent").read_text().splitlines()
    return next((line.removeprefix("DEVNAME=") for line in lines if line.startswith("DEVNAME=")), device)


def _mounted(place: Path) -> tuple[str, str]:
    """Return the type and the source of the file system that a place is on; the last mount hides others."""
    best, found = -1, ("unknown", "")
    for line in _MOUNTS.read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), left.split()[4]))
        if place.is_relative_to(point) and len(point.parts) >= best:
            kind, source = right.split()[:2]
            best, found = len(point.parts), (kind, source)
    return found


def drop_caches(folder: Path | None = None, everything: bool = True) -> None:
    """Write back and forget the files of a folder; with `everything` all files, where that is allowed."""
    if folder is not None and sys.platform == "linux":
        # Folders are opened one in the other, and links not followed: their owner may change them meanwhile.
        for _, _, names, handle in os.fwalk(folder):
            for name in names:
                with suppress(OSError):
                    _forget_file(name, handle)
    if everything:
        os.sync()
        with suppress(OSError):
            _DROP.write_text("3")


def _forget_file(name: str, folder: int) -> None:
    if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        return
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        os.fsync(file)  # only what is on the disk can be forgotten
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def require_linux() -> None:
    """Raise UserError on any other system."""
    if sys.platform != "linux":
        raise UserError("tiers need Linux, the only system that can hold memory, CPUs and disks back")


def ways_out() -> str:
    """Return what a user without the right to hold anything back can do, as the end of a message."""
    if os.geteuid() == 0:
        return "start the container with --privileged, or leave --local out, to measure in containers"
    scope = ""
    if shutil.which("systemd-run") is not None:  # after `su`, it would be for the session of another account
        scope = f"log in as this user, not by su or sudo, and run it by `{_SCOPE} python ...`, or "
    return f"{scope}leave --local out, to measure in containers, or run it as root"
