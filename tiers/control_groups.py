"""Control groups of Linux, versions 1 and 2: found, made and limited.

Version 1 has a tree of folders for each controller, version 2 one for all. A group is made below our own
one where that is possible, so that the limits of a container or a service hold for it, too.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ann_benchmarks.common.errors import UserError

from .group_files import has_ended, make_folder, remove_group, set_memory_limit, words_of, write
from .rights import advice_for, ways_out
from .tier import Disk

MEMORY, CPUS, DISK = "memory", "cpuset", "io"
_FIXED = ("cpuset.cpus", "io.max", "blkio.throttle.*_device")  # files that nothing of ours changes later
_NAMES_IN_VERSION_1 = {DISK: "blkio"}
_WHAT = {MEMORY: "memory", CPUS: "CPUs", DISK: "disk"}
_PROCESSES = Path("/proc")
_RECLAIM_SECONDS = 10
_PAUSE = 0.1  # s


@dataclass(frozen=True)
class Place:
    """Where a controller's groups are: the top folder, and that of a process's own group."""

    controller: str
    version: int
    top: Path
    own: Path


def find_place(controller: str, pid: int | None = None, processes: Path = _PROCESSES) -> Place | None:
    """Find a controller's folders for this process or another, None where there are none.

    `processes` is what /proc is.
    """
    try:
        own = _own_groups(processes / str(pid or "self"))
    except (FileNotFoundError, ProcessLookupError):
        if pid is None:  # a kernel without groups
            return None
        raise has_ended(pid) from None
    unified = None
    for line in (processes / "self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _source, options = right.split()[:3]
        top = Path(point)
        if kind == "cgroup":
            name = _NAMES_IN_VERSION_1.get(controller, controller)
            if name in options.split(","):
                return Place(controller, 1, top, _below(top, root, own.get(name)))
        elif kind == "cgroup2" and controller in words_of(top / "cgroup.controllers"):
            unified = Place(controller, 2, top, _below(top, root, own.get("")))
    return unified


def _own_groups(process: Path) -> Mapping[str, str]:
    """The process's group by controller; version 2 has no name."""
    found: dict[str, str] = {}
    for line in (process / "cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        found |= dict.fromkeys(names.split(","), path)
    return found


def _below(top: Path, root: str, own: str | None) -> Path:
    """The folder of a group, where only the part of the tree from `root` on is mounted."""
    if own is None or not Path(own).is_relative_to(root):
        return top
    return top / Path(own).relative_to(root)


@dataclass(frozen=True)
class Group:
    """A group to be made, or made; `home` is where processes belong that outlive it."""

    parent: Path
    home: Path
    name: str
    version: int
    controllers: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Its own folder."""
        return self.parent / self.name

    def make(self) -> None:
        """Make it, empty and without limits."""
        remove_group(self.folder, self.home, patience=0)  # by a process that had our pid
        try:
            make_folder(self.folder)
            if self.version == 1 and CPUS in self.controllers:  # else no process may enter
                for name in ("cpuset.mems", "cpuset.cpus"):
                    write(self.folder / name, (self.parent / name).read_text())
        except OSError as error:
            raise _refused(self.controllers[0], self.folder, error) from None

    def limit_memory(self, size: int) -> None:
        """Set the limit, in bytes, and wait until what is in use fits it."""
        deadline = time.monotonic() + _RECLAIM_SECONDS
        while True:
            try:
                set_memory_limit(self.folder, self.version, size)
                return
            except OSError as error:  # EBUSY: not all could be reclaimed yet
                if time.monotonic() > deadline:
                    raise _refused(MEMORY, self.folder, error) from None
            time.sleep(_PAUSE)

    def limit_cpus(self, number: int, server: int = 0) -> None:
        """Leave `number` CPUs of those that this process may use, other ones for each server, from 0 on.

        UserError where it may use fewer.
        """
        usable = sorted(os.sched_getaffinity(0))
        chosen = set(usable[server * number : (server + 1) * number])
        if len(chosen) < number:
            raise UserError(
                f"{(server + 1) * number} CPUs were requested, but {len(usable)} may be used here: request"
                " fewer"
            )
        file = self.folder / ("cpuset.effective_cpus" if self.version == 1 else "cpuset.cpus.effective")
        try:
            write(self.folder / "cpuset.cpus", ",".join(map(str, sorted(chosen))))
            held = _numbers(file.read_text())
        except OSError as error:
            raise _refused(CPUS, self.folder, error) from None
        if held != chosen:
            raise UserError(f"{file} has CPUs {sorted(held)} where {sorted(chosen)} were set")

    def limit_disk(self, device: str, disk: Disk) -> None:
        """Set the limits of a disk, and read them back."""
        limits = {"bps": disk.bandwidth, "iops": disk.iops}
        try:
            if self.version == 1:
                for name, value in limits.items():
                    for direction in ("read", "write"):
                        file = self.folder / f"blkio.throttle.{direction}_{name}_device"
                        if value is not None:
                            write(file, f"{device} {value}")
                            _require_line(file, f"{device} {value}")
            else:
                file = self.folder / "io.max"
                text = " ".join(
                    f"{direction}{name}={'max' if value is None else value}"
                    for name, value in limits.items()
                    for direction in "rw"
                )
                write(file, f"{device} {text}")
                _require_line(file, f"{device} {text}")
        except OSError as error:
            raise _refused(DISK, self.folder, error) from None

    def limits(self) -> dict[Path, str]:
        """Return what the files of CPUs and disk hold, those without a limit left out."""
        files = [file for pattern in _FIXED for file in self.folder.glob(pattern)]
        return {file: text for file in files if (text := file.read_text()).strip()}


def choose_groups(controllers: Iterable[str], name: str, processes: Path = _PROCESSES) -> list[Group]:
    """Return the groups that these controllers take, none of them made; UserError where one cannot be."""
    groups, unified = [], []
    for controller in controllers:
        place = find_place(controller, processes=processes)
        if place is None:
            raise UserError(
                f"this system has no control groups for the {_WHAT[controller]} (controller {controller}): "
                + ("use --tier-method hugepages" if controller == MEMORY else "leave that limit out")
            )
        if place.version == 2:
            unified.append(place)
        elif os.access(place.own, os.W_OK):
            groups.append(Group(place.own, place.own, name, 1, (controller,)))
        else:
            raise _refused(controller, place.own)
    if unified:
        names = tuple(place.controller for place in unified)
        parent = _parent_in_version_2(unified[0], names)
        groups.append(Group(parent, unified[0].own, name, 2, names))
    return groups


def _parent_in_version_2(place: Place, controllers: tuple[str, ...]) -> Path:
    """The nearest group, from our own upwards, that may have groups with these controllers.

    What is switched on there stays on: groups of others may rely on it by the time that ours is gone.
    """
    folder = place.own
    while True:
        if os.access(folder, os.W_OK) and _switch_on(folder, controllers):
            return folder
        if folder == place.top:
            missing = [name for name in controllers if name not in words_of(place.own / "cgroup.controllers")]
            raise _refused((missing or controllers)[0], place.own, advice=advice_for)
        folder = folder.parent


def _switch_on(folder: Path, controllers: tuple[str, ...]) -> bool:
    if not set(controllers) <= set(words_of(folder / "cgroup.controllers")):
        return False
    # Below a group with processes, that of CPUs can be switched on, but no process may enter. The system's
    # own top group, which alone has no type, is not such a one.
    if (folder / "cgroup.type").exists() and words_of(folder / "cgroup.procs"):
        return False
    file = folder / "cgroup.subtree_control"
    missing = [name for name in controllers if name not in words_of(file)]
    try:
        if missing:
            write(file, " ".join(f"+{name}" for name in missing))
    except OSError:  # a group with processes of its own may not have groups
        return False
    return True


def parent_memory_limit(group: Group) -> int | None:
    """Bytes that the groups above leave a new group; None: no limit."""
    limits = []
    for folder in (group.parent, *group.parent.parents):
        for name in ("memory.limit_in_bytes", "memory.max"):
            with suppress(OSError, ValueError):  # not there, or "max"
                limits.append(int((folder / name).read_text()))
    return min(limits, default=None)


def _require_line(file: Path, line: str) -> None:
    held = file.read_text().splitlines()
    if not any(set(line.split()) == set(each.split()) for each in held):
        raise UserError(
            f"{file} does not hold what was set: {line} (it holds: {'; '.join(held) or 'nothing'})"
        )


def _numbers(text: str) -> set[int]:
    """Read a list as the kernel writes it: 0-3,8."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def _refused(
    controller: str,
    folder: Path,
    error: OSError | None = None,
    advice: Callable[[str, Path], str] = lambda controller, folder: ways_out(),
) -> UserError:
    reason = "no right to write there" if error is None else error.strerror
    return UserError(
        f"cannot limit the {_WHAT[controller]} by a control group at {folder}: {reason}; "
        + advice(controller, folder)
    )
