"""Memory locked away from a tier's server: huge pages, and a ballast of ordinary memory for what is left."""

import ctypes
import mmap
import os
import time
from contextlib import suppress
from pathlib import Path

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import MB, size_text

from .groups import dead_band, most_taken
from .ledger import PAGES_FILE, Hold, Ledger, total_pages
from .machine import WholeMachine, drop_caches, meminfo, system_reserve, ways_out

_COMPACT = Path("/proc/sys/vm/compact_memory")
_TRIES = 5  # to reserve pages
_ROUNDS = 8  # of reserving and measuring what is available
_ROUND_SECONDS = 0.2
_LAST_RESORT = 128 * MB  # of MemAvailable: below, memory is given back whatever the tier says
_PART = 4 * MB  # of ballast
_MOST_BALLAST = 0.05  # share of the machine's memory


def require_rights() -> None:
    """Raise UserError where pages cannot be reserved."""
    if not PAGES_FILE.exists():
        raise UserError("this system has no huge pages: use --tier-method cgroup")
    if not os.access(PAGES_FILE, os.W_OK):
        raise UserError(f"cannot reserve huge pages: no right to write {PAGES_FILE}; {ways_out()}")


def page_size() -> int:
    """Bytes of a huge page."""
    return meminfo()["Hugepagesize"]


class Ballast:
    """Memory of this process that cannot be pushed out, in parts of 4 MB. It goes with the process."""

    def __init__(self) -> None:
        self._parts: list[mmap.mmap] = []
        self.most = int(_MOST_BALLAST * meminfo()["MemTotal"])

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self._parts) * _PART

    def resize(self, size: int) -> None:
        """Hold about `size` bytes; UserError where the system does not allow it."""
        parts = max(round(size / _PART), 0)
        while len(self._parts) > parts:
            self._parts.pop().close()
        while len(self._parts) < parts:
            self._parts.append(_locked_part())


def _locked_part() -> mmap.mmap:
    part = mmap.mmap(-1, _PART, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = (ctypes.c_char * _PART).from_buffer(part)
    failed = ctypes.CDLL(None, use_errno=True).mlock(ctypes.byref(view), ctypes.c_size_t(_PART))
    reason = os.strerror(ctypes.get_errno())
    del view  # else the part could not be closed
    if failed:
        part.close()
        raise UserError(f"{size_text(_PART)} cannot be locked in memory: {reason}")
    return part


class LockedMemory:
    """The huge pages of a hold, and the ballast of this process."""

    def __init__(self, ledger: Ledger, hold: Hold, ballast: Ballast | None = None) -> None:
        self._ledger, self.hold = ledger, hold
        self.ballast = ballast or Ballast()

    def pages_in_use(self) -> int:
        """How many of the held pages some process uses as its memory; there should be none."""
        info = meminfo()
        return max(self.hold.pages - (info["HugePages_Free"] - info["HugePages_Rsvd"]), 0)

    def reserve(self, target: int) -> None:
        """Hold `target` pages, with some effort to find them; UserError where they are not."""
        with self._ledger.changing(self.hold):
            for attempt in range(_TRIES):
                if self._ledger.change_pages(self.hold, target) >= target:
                    return
                drop_caches()
                with suppress(OSError):
                    _COMPACT.write_text("1")
                time.sleep(0.2 * attempt)
        raise UserError(
            f"only {self.hold.pages:,} of {target:,} huge pages of {size_text(page_size())} could be"
            " reserved: the memory is fragmented or in use; end other programs, restart the machine, or use"
            " --tier-method cgroup"
        )

    def reach(self, machine: WholeMachine, target: int) -> None:
        """Lock away so much that `target` bytes stay available; UserError where it cannot be."""
        if target < system_reserve():
            raise UserError(
                f"{size_text(target)} available is less than the {size_text(system_reserve())} that the"
                " system keeps when memory is locked away: use --tier-method cgroup for so small a tier"
            )
        size = page_size()
        for _ in range(_ROUNDS):
            excess = machine.available() - target
            if abs(excess) <= dead_band(target) // 2:
                break
            pages = self.hold.pages + excess // size
            if pages < 0:
                break  # the machine has less than that: seen when it is measured
            try:
                self.reserve(pages)
            except UserError:
                missing = (pages - self.hold.pages) * size
                if self.ballast.size + missing > self.ballast.most:
                    raise
                self.ballast.resize(self.ballast.size + missing)
            time.sleep(_ROUND_SECONDS)
        self._require_unused()

    def keep(self, machine: WholeMachine, target: int) -> None:
        """Correct what is locked away so that `target` bytes are available. UserError where it cannot be.

        Ballast comes and goes first: huge pages that were given back are seldom found again.
        """
        excess = machine.available() - target
        left = meminfo()["MemAvailable"]
        if left < _LAST_RESORT:
            excess = min(excess, left - _LAST_RESORT)
        elif abs(excess) <= dead_band(target):
            excess = 0
        if excess:
            excess = min(excess, most_taken(target))
            in_ballast = min(max(self.ballast.size + excess, 0), self.ballast.most) - self.ballast.size
            try:
                with self._ledger.changing(self.hold):
                    self.ballast.resize(self.ballast.size + in_ballast)
                    if in_ballast != excess:
                        pages = self.hold.pages + (excess - in_ballast) // page_size()
                        self._ledger.change_pages(self.hold, max(pages, 0))
            except UserError:
                self.ballast.resize(0)
                raise
        self._require_unused()

    def _require_unused(self) -> None:
        if used := self.pages_in_use():
            raise UserError(
                f"{used:,} huge pages of {total_pages():,} that hold memory back are used by a process: "
                f"{size_text(used * page_size())} too much is available; have it use none (huge_pages = off)"
            )
