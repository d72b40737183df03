"""The files of control groups: read and written, memory limits set, processes moved, groups removed."""

import errno
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ann_benchmarks.common.errors import UserError

_LAST_SECONDS = 5  # for what has ended, or was moved, to be gone
_PAUSE = 0.1  # s
_MOVES = 20  # times that new processes of a tree are moved, too


def words_of(file: Path) -> list[str]:
    """Read the words of a file; none where it cannot be read."""
    try:
        return file.read_text().split()
    except OSError:
        return []


def write(file: Path, text: str) -> None:
    """Write to a file that is there: the kernel makes them, nobody else."""
    handle = os.open(file, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def set_memory_limit(folder: Path, version: int, size: int) -> None:
    """Set the limit of memory, swap included, in bytes. OSError where more than that cannot be given up."""
    if version == 2:
        write(folder / "memory.max", str(size))
        if (folder / "memory.swap.max").exists():
            write(folder / "memory.swap.max", "0")
        return
    limit, with_swap = folder / "memory.limit_in_bytes", folder / "memory.memsw.limit_in_bytes"
    files = [limit]
    if with_swap.exists():  # which may never be the smaller one
        files = [with_swap, limit] if size > int(with_swap.read_text()) else [limit, with_swap]
    for file in files:
        write(file, str(size))


def remove_group(folder: Path, home: Path, patience: float) -> None:
    """Remove a group if it is there. Processes have `patience` s to end; then they are moved to `home`."""
    _lift_memory_limit(folder)  # what ends needs memory for that
    patient_until = time.monotonic() + patience
    give_up = None
    while folder.exists():
        now = time.monotonic()
        members = words_of(folder / "cgroup.procs")
        if not members or now >= patient_until:
            give_up = give_up or now + _LAST_SECONDS
            try:
                if not members:
                    remove_folder(folder)
                for pid in members:
                    with suppress(ProcessLookupError):
                        write(home / "cgroup.procs", pid)
                if now > give_up:
                    raise OSError(errno.EBUSY, "processes are started in it all the time")
            except OSError:  # one that has ended is there for a moment more
                if now > give_up and folder.exists():
                    raise
        if folder.exists():
            time.sleep(_PAUSE)


def _lift_memory_limit(folder: Path) -> None:
    lifted = {"memory.memsw.limit_in_bytes": "-1", "memory.limit_in_bytes": "-1", "memory.max": "max"}
    for name, value in lifted.items():
        with suppress(OSError):
            write(folder / name, value)


def move_tree(folders: Iterable[Path], pid: int) -> set[int]:
    """Move a process and all its descendants, also those that are started meanwhile; return their pids."""
    import psutil  # which the guard does without

    files = [folder / "cgroup.procs" for folder in folders]
    moved: set[int] = set()
    for _ in range(_MOVES):
        try:
            root = psutil.Process(pid)
            tree = {pid} | {child.pid for child in root.children(recursive=True)}
        except psutil.NoSuchProcess:
            raise has_ended(pid) from None
        if tree <= moved:
            return moved
        for member in tree - moved:
            for file in files:
                with suppress(ProcessLookupError):  # it has just ended
                    write(file, str(member))
        moved |= tree
    raise UserError(f"process {pid} starts others faster than they can be moved: stop what uses the server")


def has_ended(pid: int | None) -> UserError:
    """Say that a server's process is gone."""
    return UserError(f"the server's process {pid} has ended: start the server again")


def make_folder(folder: Path) -> None:
    """Make a group."""
    folder.mkdir()


def remove_folder(folder: Path) -> None:
    """Remove a group; the kernel takes its files along."""
    folder.rmdir()
