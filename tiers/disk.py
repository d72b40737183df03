"""The disk that a folder is on, as the kernel numbers it, and what the system remembers of its files."""

import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path

from ann_benchmarks.common.errors import UserError

_MOUNTS = Path("/proc/self/mountinfo")
_DEVICES = Path("/sys/dev/block")
_DROP = Path("/proc/sys/vm/drop_caches")


def block_device(folder: Path) -> str:
    """Return MAJOR:MINOR of the whole disk; UserError where the folder is on none, as on a tmpfs."""
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    number = place.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    if os.major(number) == 0:  # a file system that hides its disk: btrfs, overlay, tmpfs, NFS
        kind, source = _mounted(place)
        try:
            number = Path(source).stat().st_rdev if source.startswith("/dev/") else 0
        except OSError:
            number = 0
        device = f"{os.major(number)}:{os.minor(number)}"
        if os.major(number) == 0:
            raise _not_on_a_disk(folder, kind)
    entry = _DEVICES / device
    if not entry.exists():
        raise _not_on_a_disk(folder, f"device {device}")
    if (entry / "partition").exists():
        device = (entry.resolve().parent / "dev").read_text().strip()
    return device


def device_name(device: str) -> str:
    """Return what a device, MAJOR:MINOR, is called in /dev."""
    lines = (_DEVICES / device / "uevent").read_text().splitlines()
    return next((line.removeprefix("DEVNAME=") for line in lines if line.startswith("DEVNAME=")), device)


def read_ahead(folder: Path) -> int | None:
    """Bytes that the kernel reads ahead on the disk of a folder, None where that is not known."""
    try:
        return int((_DEVICES / block_device(folder) / "queue" / "read_ahead_kb").read_text()) * 1024
    except (UserError, OSError, ValueError):
        return None


def _not_on_a_disk(folder: Path, kind: str) -> UserError:
    return UserError(
        f"{folder} is on no disk that can be limited ({kind}): put the server's data on a disk's own file "
        "system, such as ext4 or xfs (docs/tiers.md)"
    )


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
    if folder is not None:
        _forget(folder)
    if everything:
        os.sync()
        with suppress(OSError):
            _DROP.write_text("3")


def _forget(folder: Path) -> None:
    if sys.platform != "linux":
        return
    # Folders are opened one in the other, and links not followed: who owns them may change them meanwhile.
    for _, _, names, handle in os.fwalk(folder):
        for name in names:
            with suppress(OSError):
                if stat.S_ISREG(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                    _forget_file(name, handle)


def _forget_file(name: str, folder: int) -> None:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        os.fsync(file)  # only what is on the disk can be forgotten
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)
