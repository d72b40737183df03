"""Memory, CPUs and disk held back for one tier after the other, and given back whatever happens."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from ann_benchmarks.common.errors import UserError

from . import huge_pages
from .ballast import Ballast
from .block_device import block_device, read_ahead
from .caches import drop_caches
from .control_groups import (
    CPUS,
    DISK,
    MEMORY,
    Group,
    choose_groups,
    find_place,
    move_tree,
    parent_memory_limit,
)
from .guard import start_guard
from .keeper import Keeper, dead_band, keep_limit, keep_pages
from .meminfo import meminfo, readable, system_reserve
from .memory import ControlGroup, WholeMachine, shared_memory_of
from .records import GroupRecord, Record, Records, own_record
from .releasing import ENDING_SECONDS, empty, release, release_dead
from .tier import Tier

HUGE_PAGES, CONTROL_GROUP = METHODS = ("hugepages", "cgroup")
TOLERANCE = 0.03  # share by which what is available may differ from what was asked
_TRIES = 8
_SETTLING_SECONDS = 0.2


class Holding:
    """What this process holds back of the machine, for servers that it starts after each apply()."""

    def __init__(self, method: str, folder: Path | None, records: Records | None = None) -> None:
        """`method`: "hugepages" or "cgroup"; `folder`: of the server's data, whose disk is limited."""
        if method not in METHODS:
            raise UserError(f"'{method}' is no way to hold memory back: use {' or '.join(METHODS)}")
        self.method = method
        self.folder = folder
        self.memory: WholeMachine | ControlGroup | None = None  # what a server's watch is to sample
        self.facts: dict[str, Any] = {}  # attributes of the results of the tier that is set
        self._records = records or Records()
        self._record: Record | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._keeper: Keeper | None = None
        self._groups: list[Group] = []
        self._ballast = Ballast()
        self._tier = Tier()

    def __enter__(self) -> "Holding":
        if sys.platform != "linux":
            raise UserError("tiers need Linux: it is the one that can hold memory, CPUs and disks back")
        if self.method == HUGE_PAGES:
            huge_pages.require_rights()
            if meminfo()["SwapTotal"]:
                from ann_benchmarks.common.output import warn

                warn("swap is on: memory is pushed there, which falsifies what is measured (swapoff -a)")
        else:
            choose_groups([MEMORY], self._group_name)
        release_dead(self._records)
        record = own_record(self.method)
        with self._records.lock():
            for other in self._records.all():
                if other.pid == record.pid and other.is_alive:
                    raise UserError("this process holds a tier already: end that first")
                if self.method == other.method == HUGE_PAGES and other.is_alive:
                    raise UserError(
                        f"huge pages are held by {other.owner}: wait for it, or use --tier-method cgroup"
                    )
            self._record = record
            self._records.write(record)
        try:
            self._guard = start_guard(self._records, record)
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
        self._stop_keeper()
        self._tier = tier
        try:
            self._empty()
            drop_caches(self.folder, everything=not self._has_company())
            shared_before = meminfo()["Shmem"]
            self._make_groups(tier)
            self.memory = self._view(tier, shared_before)
            self._hold_memory(tier)
            self.facts = self._measured(tier)
        except BaseException:
            self._stop_keeper()
            self._empty()
            raise

    @property
    def groups(self) -> list[Path]:
        """The files into which a server's process writes its pid before it becomes the server."""
        return [group.folder / "cgroup.procs" for group in self._groups]

    @property
    def trouble(self) -> str | None:
        """What went wrong since apply() while the tier's memory was kept; None if nothing did."""
        return None if self._keeper is None else self._keeper.error

    def adopt(self, pid: int) -> None:
        """Move a running server, its postmaster and all that descends from it, into the groups.

        When they go, it is moved back to where it was. Its shared memory is its shared_buffers; what is
        available is set once more, since apply() did not see the machine without a server.
        """
        with self._records.changing(self._held):
            for group, noted in zip(self._groups, self._held.groups, strict=True):
                place = find_place(group.controllers[0], pid=pid)
                if place is not None and place.own != group.folder:
                    noted.home, noted.adopted = str(place.own), True
            self._records.write(self._held)
        tree = move_tree([group.folder for group in self._groups], pid)
        if isinstance(self.memory, WholeMachine):
            self._stop_keeper()
            self.memory = WholeMachine(meminfo()["Shmem"] - max(map(shared_memory_of, tree)))
            self._hold_memory(self._tier)
            self.facts = self._measured(self._tier)

    @property
    def _group_name(self) -> str:
        return f"ann-benchmarks-tier-{os.getpid()}"

    @property
    def _held(self) -> Record:
        if self._record is None:
            raise UserError("nothing can be held yet, or any more: use Holding in a with block")
        return self._record

    def _has_company(self) -> bool:
        """Whether others measure here, who would lose their caches."""
        return any(other.is_alive and other.pid != os.getpid() for other in self._records.all())

    def _stop_keeper(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()
            self._keeper = None

    def _empty(self) -> None:
        self._ballast.resize(0)
        with self._records.changing(self._held):
            empty(self._records, self._held)
        self._groups, self.memory, self.facts = [], None, {}

    def _give_back(self) -> None:
        self._stop_keeper()
        self._ballast.resize(0)
        if self._record is None:
            return
        with self._records.lock():
            if self._records.has(self._record):
                release(self._records, self._record)
        self._record, self._groups, self.memory, self.facts = None, [], None, {}

    def _make_groups(self, tier: Tier) -> None:
        controllers = [MEMORY] if self._is_limit(tier) else []
        controllers += [] if tier.cpus is None else [CPUS]
        disk = tier.disk if tier.disk is not None and (tier.disk.iops or tier.disk.bandwidth) else None
        device = ""
        if disk is not None:
            if self.folder is None:
                raise UserError(
                    f"the disk of {tier} cannot be limited: where the server keeps its data is unknown"
                )
            device = block_device(self.folder)
            controllers.append(DISK)
        groups = choose_groups(controllers, self._group_name)
        with self._records.changing(self._held):
            self._held.groups = [GroupRecord(str(each.folder), str(each.home)) for each in groups]
            self._records.write(self._held)
        self._groups = groups
        for group in groups:
            group.make()
            if CPUS in group.controllers and tier.cpus is not None:
                group.limit_cpus(tier.cpus)
            if DISK in group.controllers and disk is not None:
                group.limit_disk(device, disk)

    def _is_limit(self, tier: Tier) -> bool:
        return self.method == CONTROL_GROUP and tier.ram is not None

    def _view(self, tier: Tier, shared_before: int) -> WholeMachine | ControlGroup:
        if self._is_limit(tier):
            group = next(group for group in self._groups if MEMORY in group.controllers)
            return ControlGroup(group.folder, group.version)
        place = find_place(MEMORY)
        if tier.ram is None and place is not None:
            own = ControlGroup(place.own, place.version)
            with suppress(OSError):  # the topmost group of version 2 has no limit
                if own.limit() < meminfo()["MemTotal"]:  # a container's
                    return own
        return WholeMachine(shared_before)

    def _hold_memory(self, tier: Tier) -> None:
        if tier.ram is None:
            return
        if isinstance(self.memory, ControlGroup):
            self._limit(self.memory, tier.ram)
            self._keeper = Keeper(partial(keep_limit, self.memory, tier.ram))
        elif self.memory is not None:
            self._lock_away(self.memory, tier.ram)
            held = (self._records, self._held, self._ballast)
            self._keeper = Keeper(partial(keep_pages, *held, self.memory, tier.ram))

    def _limit(self, view: ControlGroup, wanted: int) -> None:
        group = next(group for group in self._groups if MEMORY in group.controllers)
        most = parent_memory_limit(group)
        if most is not None and wanted > most:
            raise UserError(
                f"{readable(wanted)} are more than the {readable(most)} that the groups above leave"
            )
        group.limit_memory(wanted + view.overhead())

    def _lock_away(self, view: WholeMachine, wanted: int) -> None:
        if wanted < system_reserve():
            raise UserError(
                f"{readable(wanted)} available is less than the {readable(system_reserve())} that the system "
                "keeps when memory is locked away: use --tier-method cgroup for so small a tier"
            )
        size = huge_pages.page_size()
        for _ in range(_TRIES):
            excess = view.available() - wanted
            if abs(excess) <= dead_band(wanted) // 2:
                break
            pages = self._held.pages + excess // size
            if pages < 0:
                break  # there is not as much: seen when it is measured
            try:
                with self._records.changing(self._held):
                    huge_pages.reserve(self._records, self._held, pages)
            except UserError:
                missing = (pages - self._held.pages) * size
                if self._ballast.size + missing > self._ballast.most:
                    raise
                self._ballast.resize(self._ballast.size + missing)
            time.sleep(_SETTLING_SECONDS)
        used = huge_pages.used_by_others(self._held)
        if used:
            raise UserError(f"{used:,} of the huge pages that hold memory back are used by a process: end it")

    def _measured(self, tier: Tier) -> dict[str, Any]:
        """Measure what is available and compare it with what was asked."""
        assert self.memory is not None
        available = self.memory.available()
        if tier.ram is not None and abs(available - tier.ram) > TOLERANCE * tier.ram:
            raise UserError(
                f"{readable(tier.ram)} were to be available, but {readable(available)} are: "
                "end other programs, or ask for less"
            )
        facts: dict[str, Any] = {"tier_method": self.method, "tier_available_at_start": available}
        if self.folder is not None and (ahead := read_ahead(self.folder)) is not None:
            facts["disk_read_ahead"] = ahead
        if isinstance(self.memory, ControlGroup):
            facts["tier_memory_limit"] = self.memory.limit()  # ours, or our container's
        elif tier.ram is not None:
            facts["tier_huge_pages"] = self._held.pages
            facts["tier_locked"] = self._ballast.size
        return facts
