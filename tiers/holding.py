"""Memory, CPUs and disk held back for one tier after the other, and given back whatever happens."""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import size_text
from ann_benchmarks.common.text import warn

from . import groups, machine
from .groups import CPUS, DISK, MEMORY, ControlGroup, Keeper, SeveralGroups
from .ledger import ENDING_SECONDS, HeldGroup, Ledger, own_hold, start_guard
from .limits import Group, choose_groups, keep_controllers
from .locked_memory import LockedMemory, require_rights
from .machine import WholeMachine, meminfo
from .tier import CONTROL_GROUP, HUGE_PAGES, Tier

TOLERANCE = 0.03  # share by which what is available may differ from the tier's
SERVER = "{server}"  # in a file's name: nothing for the first server, and -1, -2 ... for those beside it


class Holding:
    """What this process holds back of the machine, for servers that it starts after each apply().

    There is one, and in control groups there may be others, by their folders. Each has what the tier has.
    """

    def __init__(self, method: str, folders: Sequence[Path], ledger: Ledger | None = None) -> None:
        """`method`: "hugepages" or "cgroup"; `folders` have the data of the servers, whose disk is limited.

        The first is that of the server which all others stand beside, numbered from 1 on.
        """
        self.method, self.folders = method, folders
        self.memory: WholeMachine | ControlGroup | None = None  # what a server's watch is to sample
        self.facts: dict[str, Any] = {}  # attributes of the results of the tier that is set
        self.limits: dict[Path, str] = {}  # what files of its groups are to hold
        self._ledger = ledger or Ledger()
        self._locked: LockedMemory | None = None  # with the hold; None: nothing can be held
        self._guard: subprocess.Popen[bytes] | None = None
        self._keepers: list[Keeper] = []
        self._servers: list[list[Group]] = []  # the groups of each
        self._tier = Tier()

    def __enter__(self) -> "Holding":
        machine.require_linux()
        if self.method == HUGE_PAGES:
            require_rights()
            if meminfo()["SwapTotal"]:
                warn("swap is on: memory is pushed there, which falsifies what is measured (swapoff -a)")
        else:
            choose_groups([MEMORY], self._group_name)
        self._ledger.release_dead()
        hold = own_hold(self.method)
        with self._ledger.lock():
            for other in self._ledger.all():
                if other.pid == hold.pid and other.is_alive:
                    raise UserError("this process holds a tier already: end that first")
                if self.method == other.method == HUGE_PAGES and other.is_alive:
                    raise UserError(
                        f"huge pages are held by {other.owner}: wait for it, or use --tier-method cgroup"
                    )
            self._locked = LockedMemory(self._ledger, hold)
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
        self._tier = tier
        try:
            self._empty()
            first, *others = self.folders
            for folder in others:
                machine.drop_caches(folder, everything=False)
            # Others who measure here would lose their caches.
            company = any(other.is_alive and other.pid != os.getpid() for other in self._ledger.all())
            machine.drop_caches(first, everything=not company)
            shared_before = meminfo()["Shmem"]
            self._make_groups(tier)
            self.memory = self._view(tier, shared_before)
            self._hold_memory()
        except BaseException:
            self._empty()
            raise

    @property
    def groups(self) -> list[Path]:
        """The files into which a server's process writes its pid before it becomes the server.

        Where there are others, the names have SERVER in them.
        """
        mark = SERVER if len(self.folders) > 1 else ""
        first = self._servers[0] if self._servers else []
        return [group.folder.with_name(f"{group.folder.name}{mark}") / "cgroup.procs" for group in first]

    def memory_of(self, numbers: range) -> WholeMachine | ControlGroup | SeveralGroups | None:
        """Return what a watch of the servers of these numbers is to sample; the first one has 0."""
        if numbers == range(1) or self._tier.ram is None:
            return self.memory
        return SeveralGroups(tuple(self._memory_groups[number] for number in numbers), self._tier.ram)

    @property
    def trouble(self) -> str | None:
        """What went wrong since apply() while the tier's memory was kept; None if nothing did."""
        return next((keeper.error for keeper in self._keepers if keeper.error), None)

    @property
    def _group_name(self) -> str:
        return f"ann-benchmarks-tier-{os.getpid()}"

    @property
    def _held(self) -> LockedMemory:
        if self._locked is None:
            raise UserError("nothing can be held yet, or any more: use Holding in a with block")
        return self._locked

    @property
    def _memory_groups(self) -> list[Group]:
        """The group of each server that limits its memory."""
        return [group for group in chain(*self._servers) if MEMORY in group.controllers]

    def _stop_keepers(self) -> None:
        while self._keepers:
            self._keepers.pop().stop()

    def _empty(self) -> None:
        self._stop_keepers()
        self._held.ballast.resize(0)
        with self._ledger.changing(self._held.hold):
            self._ledger.empty(self._held.hold)
        self._servers, self.memory, self.facts, self.limits = [], None, {}, {}

    def _give_back(self) -> None:
        self._stop_keepers()
        if self._locked is None:
            return
        self._locked.ballast.resize(0)
        with self._ledger.lock():
            if self._ledger.has(self._locked.hold):
                self._ledger.give_back(self._locked.hold)
        self._locked, self._servers, self.memory, self.facts = None, [], None, {}

    def _make_groups(self, tier: Tier) -> None:
        servers, device = [], ""
        for number, folder in enumerate(self.folders):
            mark = f"-{number}" if number else ""  # what stands for SERVER
            groups, device = choose_limits(tier, self.method, folder, f"{self._group_name}{mark}")
            servers.append([replace(group, buffers=tier.shared_buffers) for group in groups])
        hold = self._held.hold
        with self._ledger.changing(hold):
            hold.groups = [HeldGroup(str(each.folder), str(each.home)) for each in chain(*servers)]
            self._ledger.write(hold)
        self._servers = servers
        for number, groups in enumerate(servers):
            for group in groups:
                group.make()
                if CPUS in group.controllers and tier.cpus is not None:
                    group.limit_cpus(tier.cpus, number)
                if DISK in group.controllers and tier.disk is not None:
                    group.limit_disk(device, tier.disk.limits)
        self.limits = {file: text for each in chain(*servers) for file, text in each.fixed_limits().items()}

    def _view(self, tier: Tier, shared_before: int) -> WholeMachine | ControlGroup:
        if self._memory_groups:
            return self._memory_groups[0]
        place = groups.find_place(MEMORY)
        if tier.ram is None and place is not None:
            with suppress(OSError):  # the topmost group of version 2 has no limit
                if place.limit() < meminfo()["MemTotal"]:  # a container's
                    return replace(place, buffers=tier.shared_buffers)
        return WholeMachine(shared_before, tier.shared_buffers)

    def _hold_memory(self) -> None:
        """Hold back what leaves the tier's memory, measure what is available, and compare."""
        assert self.memory is not None
        target = self._tier.ram
        if target is not None and isinstance(self.memory, ControlGroup):
            for group in self._memory_groups:
                most = group.memory_limit_above()
                if most is not None and target > most:
                    raise UserError(
                        f"{size_text(target)} are more than the {size_text(most)} that the groups above leave"
                    )
                group.limit_memory(target + group.overhead())
                self._keepers.append(Keeper(partial(groups.keep_limit, group, target)))
        elif target is not None and isinstance(self.memory, WholeMachine):
            self._held.reach(self.memory, target)
            self._keepers.append(Keeper(partial(self._held.keep, self.memory, target)))
        available = self.memory.available()
        if target is not None and abs(available - target) > TOLERANCE * target:
            raise UserError(
                f"{size_text(target)} were to be available, but {size_text(available)} are: "
                "end other programs, or request less"
            )
        self.facts = {"tier_method": self.method, "tier_available_at_start": available}


def choose_limits(tier: Tier, method: str, folder: Path, name: str) -> tuple[list[Group], str]:
    """Return the groups that are to limit what a tier has, none of them made, and the disk that they limit.

    `folder` is that of the server's data. UserError where one of the limits cannot be.
    """
    controllers, device = [], ""
    if method == CONTROL_GROUP and tier.ram is not None:
        controllers.append(MEMORY)
    if tier.cpus is not None:
        controllers.append(CPUS)
    if tier.limited_disk is not None:
        device = machine.block_device(folder)
        controllers.append(DISK)
    return choose_groups(controllers, name), device
