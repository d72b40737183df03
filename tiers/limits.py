"""Control groups of Linux, versions 1 and 2: groups made, and limits set and read back.

Version 1 has a tree of folders for each controller, version 2 one for all. A group is made below our own
one where that is possible, so that the limits of a container or a service hold for it, too.
"""

import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError

from . import groups
from .machine import ways_out

_FIXED = ("cpuset.cpus", "io.max", "blkio.throttle.*_device")  # files that nothing of ours changes later
_WHAT = {groups.MEMORY: "memory", groups.CPUS: "CPUs", groups.DISK: "disk"}
_RECLAIM_SECONDS = 10
_PAUSE = 0.1  # s
_SYSTEMD = Path("/run/systemd/system")  # is there where systemd manages the system
_MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_SYSTEMD_SECONDS = 30


@dataclass(frozen=True)
class Group(groups.ControlGroup):
    """A group to be made, or made; `home` is where processes belong that outlive it."""

    home: Path
    controllers: tuple[str, ...]

    def make(self) -> None:
        """Make it, empty and without limits."""
        groups.remove_group(self.folder, self.home, patience=0)  # by a process that had our pid
        try:
            self.folder.mkdir()  # the kernel makes its files
            if self.version == 1 and groups.CPUS in self.controllers:  # else no process may enter
                for name in ("cpuset.mems", "cpuset.cpus"):
                    groups.write(self.folder / name, (self.folder.parent / name).read_text())
        except OSError as error:
            raise _refused(self.controllers[0], self.folder, error) from None

    def limit_memory(self, size: int) -> None:
        """Set the limit, in bytes, and wait until what is in use fits it."""
        deadline = time.monotonic() + _RECLAIM_SECONDS
        while True:
            try:
                self.set_limit(size)
                return
            except OSError as error:  # EBUSY: not all could be reclaimed yet
                if time.monotonic() > deadline:
                    raise _refused(groups.MEMORY, self.folder, error) from None
            time.sleep(_PAUSE)

    def limit_cpus(self, number: int, server: int = 0) -> None:
        """Leave `number` CPUs of those that this process may use, other ones for each server, from 0 on.

        UserError where it may use fewer.
        """
        usable = sorted(os.sched_getaffinity(0))
        needed = (server + 1) * number
        chosen = set(usable[server * number : needed])
        if len(chosen) < number:
            raise UserError(
                f"{needed} CPUs were requested, but {len(usable)} may be used here: request fewer"
            )
        file = self.folder / ("cpuset.effective_cpus" if self.version == 1 else "cpuset.cpus.effective")
        try:
            groups.write(self.folder / "cpuset.cpus", ",".join(map(str, sorted(chosen))))
            held: set[int] = set()
            for part in file.read_text().strip().split(","):  # such as 0-3,8
                first, _, last = part.partition("-")
                held |= set(range(int(first), int(last or first) + 1))
        except OSError as error:
            raise _refused(groups.CPUS, self.folder, error) from None
        if held != chosen:
            raise UserError(f"{file} has CPUs {sorted(held)} where {sorted(chosen)} were set")

    def limit_disk(self, device: str, limits: Mapping[str, int | None]) -> None:
        """Set the limits of a disk, `bps` and `iops`, and read them back."""
        if self.version == 1:
            lines = [
                (f"blkio.throttle.{direction}_{name}_device", f"{device} {value}")
                for name, value in limits.items()
                for direction in ("read", "write")
                if value is not None
            ]
        else:
            both = [(f"{way}{name}", value) for name, value in limits.items() for way in "rw"]
            words = [f"{name}={'max' if value is None else value}" for name, value in both]
            lines = [("io.max", " ".join([device, *words]))]
        for name, line in lines:
            file = self.folder / name
            try:
                groups.write(file, line)
                held = file.read_text().splitlines()
            except OSError as error:
                raise _refused(groups.DISK, self.folder, error) from None
            if not any(set(line.split()) == set(each.split()) for each in held):
                raise UserError(
                    f"{file} does not hold what was set: {line} (it holds: {'; '.join(held) or 'nothing'})"
                )

    def fixed_limits(self) -> dict[Path, str]:
        """Return what the files of CPUs and disk hold, those without a limit left out."""
        files = [file for pattern in _FIXED for file in self.folder.glob(pattern)]
        return {file: text for file in files if (text := file.read_text()).strip()}

    def memory_limit_above(self) -> int | None:
        """Bytes that the groups above leave it; None: no limit."""
        limits = []
        for folder in self.folder.parents:
            for name in ("memory.limit_in_bytes", "memory.max"):
                with suppress(OSError, ValueError):  # not there, or "max"
                    limits.append(int((folder / name).read_text()))
        return min(limits, default=None)


def choose_groups(controllers: Iterable[str], name: str, processes: Path = groups.PROCESSES) -> list[Group]:
    """Return the groups that these controllers take, none of them made; UserError where one cannot be."""
    made, unified = [], []
    for controller in controllers:
        place = groups.find_place(controller, processes=processes)
        if place is None:
            raise UserError(
                f"this system has no control groups for the {_WHAT[controller]} (controller {controller}): "
                + ("use --tier-method hugepages" if controller == groups.MEMORY else "leave that limit out")
            )
        if place.version == 2:
            unified.append(place)
        elif os.access(place.folder, os.W_OK):
            made.append(Group(place.folder / name, 1, place.folder, (controller,)))
        else:
            raise _refused(controller, place.folder)
    if unified:
        names = tuple(place.controller for place in unified)
        parent = _parent_in_version_2(unified[0], names)
        made.append(Group(parent / name, 2, unified[0].folder, names))
    return made


def _parent_in_version_2(place: groups.Place, controllers: tuple[str, ...]) -> Path:
    """The nearest group, from our own upwards, that may have groups with these controllers.

    What is switched on there stays on: groups of others may rely on it by the time that ours is gone.
    """
    folder = place.folder
    while not (os.access(folder, os.W_OK) and _switch_on(folder, controllers)):
        if folder == place.top:
            has = groups.read_words(place.folder / "cgroup.controllers")
            lacking = next((name for name in controllers if name not in has), controllers[0])
            raise _refused(lacking, place.folder, advice=advice_for(lacking, place.folder))
        folder = folder.parent
    return folder


def _switch_on(folder: Path, controllers: tuple[str, ...]) -> bool:
    if not set(controllers) <= set(groups.read_words(folder / "cgroup.controllers")):
        return False
    # Below a group with processes, that of CPUs can be switched on, but no process may enter. Only the
    # system's own top group, which has no type, may have both.
    if (folder / "cgroup.type").exists() and groups.read_words(folder / "cgroup.procs"):
        return False
    file = folder / "cgroup.subtree_control"
    missing = [name for name in controllers if name not in groups.read_words(file)]
    try:
        if missing:
            groups.write(file, " ".join(f"+{name}" for name in missing))
    except OSError:  # a group with processes of its own may not have groups
        return False
    return True


def advice_for(controller: str, group: Path) -> str:
    """Return what to do where a group of version 2 may not be made below `group` with this controller."""
    if any(part.startswith("user@") for part in group.parts):  # systemd has handed it to the user
        return (
            f"have an administrator add {controller} to the line Delegate=cpu memory pids of user@.service "
            "(systemctl edit user@.service), and log in again; or leave that limit out"
        )
    return ways_out()


def _refused(controller: str, folder: Path, error: OSError | None = None, advice: str = "") -> UserError:
    reason = "no right to write there" if error is None else error.strerror
    return UserError(
        f"cannot limit the {_WHAT[controller]} by a control group at {folder}: {reason}; "
        + (advice or ways_out())
    )


def keep_controllers(pid: int, processes: Path = groups.PROCESSES) -> None:
    """Move a process into a delegated scope of systemd's, which ends with it, in the slice that we are in.

    Systemd switches a controller off when the last unit that requested it has ended, also for groups that
    are not its own, whose limits are gone with it. A delegated unit requests all of them for every group
    above it. Without systemd, or the right to that, nothing happens: limits that go are seen later.
    """
    place = groups.find_place(groups.MEMORY, processes=processes)
    if place is None or place.version == 1 or not _SYSTEMD.exists():
        return
    is_root = os.geteuid() == 0
    if not is_root and not any(part.startswith("user@") for part in place.folder.parts):
        return  # the user's systemd may not take processes out of the system's groups
    slice_name = next((part for part in reversed(place.folder.parts) if part.endswith(".slice")), "-.slice")
    call = ["busctl", "--system" if is_root else "--user", "call", *_MANAGER, "StartTransientUnit"]
    call += ["ssa(sv)a(sa(sv))", f"ann-benchmarks-tiers-{pid}.scope", "fail", "4"]
    call += ["PIDs", "au", "1", str(pid), "Delegate", "b", "true", "Slice", "s", slice_name]
    call += ["CollectMode", "s", "inactive-or-failed", "0"]
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            call, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SYSTEMD_SECONDS,
            start_new_session=True,
        )  # fmt: skip
