"""Memory, CPUs and disk held back for one tier after the other, and given back whatever happens."""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

from ann_benchmarks.common.errors import UserError

from .control_groups import CPUS, DISK, MEMORY, Group, choose_groups, find_place, parent_memory_limit
from .disk import block_device, drop_caches, read_ahead
from .group_files import move_tree
from .keeper import Keeper, keep_limit
from .ledger import HeldGroup, Hold, Ledger, own_hold
from .locked_memory import LockedMemory, require_rights
from .memory import ControlGroup, SeveralGroups, WholeMachine, meminfo, readable, shared_memory_of
from .release import ENDING_SECONDS, empty, give_back, release_dead, start_guard
from .rights import require_linux
from .systemd import keep_controllers
from .tier import CONTROL_GROUP, HUGE_PAGES, Tier

METHODS = (HUGE_PAGES, CONTROL_GROUP)
TOLERANCE = 0.03  # share by which what is available may differ from the tier's
SERVER = "{server}"  # in a file's name: nothing for the first server, and -1, -2 ... for those beside it


class Holding:
    """What this process holds back of the machine, for servers that it starts after each apply().

    There is one, and in control groups there may be others, by their folders. Each has what the tier has.
    """

    def __init__(
        self,
        method: str,
        folder: Path | None,
        ledger: Ledger | None = None,
        other_folders: Sequence[Path] = (),
    ) -> None:
        """`method`: "hugepages" or "cgroup"; `folder` has the server's data, and its disk is limited.

        `other_folders` have the data of the servers beside it, numbered from 1 on.
        """
        if method not in METHODS:
            raise UserError(f"'{method}' is no way to hold memory back: use {' or '.join(METHODS)}")
        self.method = method
        self.folders = [folder, *other_folders]
        self.memory: WholeMachine | ControlGroup | None = None  # what a server's watch is to sample
        self.facts: dict[str, Any] = {}  # attributes of the results of the tier that is set
        self.limits: dict[Path, str] = {}  # what files of its groups are to hold
        self._ledger = ledger or Ledger()
        self._hold: Hold | None = None
        self._locked: LockedMemory | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._keepers: list[Keeper] = []
        self._servers: list[list[Group]] = []  # the groups of each
        self._tier = Tier()

    def __enter__(self) -> "Holding":
        require_linux()
        if self.method == HUGE_PAGES:
            require_rights()
            if meminfo()["SwapTotal"]:
                from ann_benchmarks.common.output import warn

                warn("swap is on: memory is pushed there, which falsifies what is measured (swapoff -a)")
        else:
            choose_groups([MEMORY], self._group_name)
        release_dead(self._ledger)
        hold = own_hold(self.method)
        with self._ledger.lock():
            for other in self._ledger.all():
                if other.pid == hold.pid and other.is_alive:
                    raise UserError("this process holds a tier already: end that first")
                if self.method == other.method == HUGE_PAGES and other.is_alive:
                    raise UserError(
                        f"huge pages are held by {other.owner}: wait for it, or use --tier-method cgroup"
                    )
            self._hold, self._locked = hold, LockedMemory(self._ledger, hold)
            self._ledger.write(hold)
        try:
            self._guard = start_guard(self._ledger, hold)
            keep_controllers(self._guard.pid)
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._give_back()
        finally:
            if self._guard is not None:
                assert self._guard.stdin is not None
                self._guard.stdin.close()  # it gives back what we could not
                with suppress(subprocess.TimeoutExpired):
                    self._guard.wait(2 * ENDING_SECONDS)

    def apply(self, tier: Tier) -> None:
        """Give back what was held, drop the caches, and hold what leaves this tier; no server may run.

        UserError when it cannot be held, or what was set is not what is there; then nothing is held.
        """
        self._stop_keepers()
        self._tier = tier
        try:
            self._empty()
            first, *others = self.folders
            for folder in others:
                drop_caches(folder, everything=False)
            drop_caches(first, everything=not self._has_company())
            shared_before = meminfo()["Shmem"]
            self._make_groups(tier)
            self.memory = self._view(tier, shared_before)
            self._hold_memory(tier)
            self.facts = self._measure(tier)
        except BaseException:
            self._stop_keepers()
            self._empty()
            raise

    @property
    def groups(self) -> list[Path]:
        """The files into which a server's process writes its pid before it becomes the server.

        Where there are others, the names have SERVER in them.
        """
        mark = SERVER if len(self.folders) > 1 else ""
        first = self._servers[0] if self._servers else []
        return [group.folder.with_name(f"{group.name}{mark}") / "cgroup.procs" for group in first]

    def memory_of(self, numbers: range) -> WholeMachine | ControlGroup | SeveralGroups | None:
        """Return what a watch of the servers of these numbers is to sample; the first one has 0."""
        if numbers == range(1) or self._tier.ram is None:
            return self.memory
        each = [self._servers[number] for number in numbers]
        return SeveralGroups(tuple(_memory_of(_group_of_memory(groups)) for groups in each), self._tier.ram)

    @property
    def trouble(self) -> str | None:
        """What went wrong since apply() while the tier's memory was kept; None if nothing did."""
        return next((keeper.error for keeper in self._keepers if keeper.error), None)

    def adopt(self, pid: int) -> None:
        """Move a running server, its postmaster and all that descends from it, into the groups.

        When they go, it is moved back to where it was. Its shared memory is its shared_buffers; what is
        available is set once more, since apply() did not see the machine without a server.
        """
        hold, _ = self._held
        with self._ledger.changing(hold):
            for group, held in zip(self._servers[0], hold.groups, strict=True):
                place = find_place(group.controllers[0], pid=pid)
                if place is not None and place.own != group.folder:
                    held.home, held.adopted = str(place.own), True
            self._ledger.write(hold)
        tree = move_tree([group.folder for group in self._servers[0]], pid)
        if isinstance(self.memory, WholeMachine):
            self._stop_keepers()
            self.memory = WholeMachine(meminfo()["Shmem"] - max(map(shared_memory_of, tree)))
            self._hold_memory(self._tier)
            self.facts = self._measure(self._tier)

    @property
    def _group_name(self) -> str:
        return f"ann-benchmarks-tier-{os.getpid()}"

    @property
    def _held(self) -> tuple[Hold, LockedMemory]:
        if self._hold is None or self._locked is None:
            raise UserError("nothing can be held yet, or any more: use Holding in a with block")
        return self._hold, self._locked

    def _has_company(self) -> bool:
        """Whether others measure here, who would lose their caches."""
        return any(other.is_alive and other.pid != os.getpid() for other in self._ledger.all())

    def _stop_keepers(self) -> None:
        while self._keepers:
            self._keepers.pop().stop()

    def _empty(self) -> None:
        hold, locked = self._held
        locked.ballast.resize(0)
        with self._ledger.changing(hold):
            empty(self._ledger, hold)
        self._servers, self.memory, self.facts, self.limits = [], None, {}, {}

    def _give_back(self) -> None:
        self._stop_keepers()
        if self._hold is None or self._locked is None:
            return
        self._locked.ballast.resize(0)
        with self._ledger.lock():
            if self._ledger.has(self._hold):
                give_back(self._ledger, self._hold)
        self._hold, self._servers, self.memory, self.facts = None, [], None, {}

    def _make_groups(self, tier: Tier) -> None:
        servers, device = [], ""
        for number, folder in enumerate(self.folders):
            groups, device = limiting(tier, self.method, folder, f"{self._group_name}{_mark(number)}")
            servers.append(groups)
        disk = tier.limited_disk
        hold, _ = self._held
        with self._ledger.changing(hold):
            hold.groups = [HeldGroup(str(each.folder), str(each.home)) for each in chain(*servers)]
            self._ledger.write(hold)
        self._servers = servers
        for number, groups in enumerate(servers):
            for group in groups:
                group.make()
                if CPUS in group.controllers and tier.cpus is not None:
                    group.limit_cpus(tier.cpus, number)
                if DISK in group.controllers and disk is not None:
                    group.limit_disk(device, disk)
        self.limits = {file: text for group in chain(*servers) for file, text in group.limits().items()}

    def _view(self, tier: Tier, shared_before: int) -> WholeMachine | ControlGroup:
        if _limits_memory(tier, self.method):
            return _memory_of(_group_of_memory(self._servers[0]))
        place = find_place(MEMORY)
        if tier.ram is None and place is not None:
            own = ControlGroup(place.own, place.version)
            with suppress(OSError):  # the topmost group of version 2 has no limit
                if own.limit() < meminfo()["MemTotal"]:  # a container's
                    return own
        return WholeMachine(shared_before)

    def _hold_memory(self, tier: Tier) -> None:
        if tier.ram is None or self.memory is None:
            return
        if isinstance(self.memory, ControlGroup):
            for groups in self._servers:
                group = _group_of_memory(groups)
                self._limit(group, tier.ram)
                self._keepers.append(Keeper(partial(keep_limit, _memory_of(group), tier.ram)))
        else:
            _, locked = self._held
            locked.reach(self.memory, tier.ram)
            self._keepers.append(Keeper(partial(locked.keep, self.memory, tier.ram)))

    def _limit(self, group: Group, target: int) -> None:
        most = parent_memory_limit(group)
        if most is not None and target > most:
            raise UserError(
                f"{readable(target)} are more than the {readable(most)} that the groups above leave"
            )
        group.limit_memory(target + _memory_of(group).overhead())

    def _measure(self, tier: Tier) -> dict[str, Any]:
        """Measure what is available, and compare it with what the tier is to have."""
        assert self.memory is not None
        available = self.memory.available()
        if tier.ram is not None and abs(available - tier.ram) > TOLERANCE * tier.ram:
            raise UserError(
                f"{readable(tier.ram)} were to be available, but {readable(available)} are: "
                "end other programs, or request less"
            )
        facts: dict[str, Any] = {"tier_method": self.method, "tier_available_at_start": available}
        if self.folders[0] is not None and (ahead := read_ahead(self.folders[0])) is not None:
            facts["disk_read_ahead"] = ahead
        if isinstance(self.memory, ControlGroup):
            facts["tier_memory_limit"] = self.memory.limit()  # ours, or our container's
        elif tier.ram is not None:
            _, locked = self._held
            facts |= locked.facts
        return facts


def limiting(tier: Tier, method: str, folder: Path | None, name: str) -> tuple[list[Group], str]:
    """Return the groups that are to limit what a tier has, none of them made, and the disk that they limit.

    `folder` is that of the server's data. UserError where one of the limits cannot be.
    """
    controllers, device = [], ""
    if _limits_memory(tier, method):
        controllers.append(MEMORY)
    if tier.cpus is not None:
        controllers.append(CPUS)
    if tier.limited_disk is not None:
        if folder is None:
            raise UserError(
                f"the disk of {tier} cannot be limited: where the server keeps its data is unknown"
            )
        device = block_device(folder)
        controllers.append(DISK)
    return choose_groups(controllers, name), device


def _mark(number: int) -> str:
    """Return what stands for SERVER in the names of a server's groups."""
    return f"-{number}" if number else ""


def _group_of_memory(groups: Sequence[Group]) -> Group:
    return next(group for group in groups if MEMORY in group.controllers)


def _memory_of(group: Group) -> ControlGroup:
    return ControlGroup(group.folder, group.version)


def _limits_memory(tier: Tier, method: str) -> bool:
    return method == CONTROL_GROUP and tier.ram is not None
