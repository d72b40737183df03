"""Keeps the available RAM of a tier while its server works: processes come, and take memory of their own."""

import threading
from collections.abc import Callable

from ann_benchmarks.common.errors import UserError, describe

from .ballast import Ballast
from .control_groups import set_memory_limit
from .huge_pages import change_pages, page_size, total_pages, used_by_others
from .meminfo import meminfo, readable
from .memory import ControlGroup, WholeMachine
from .records import Record, Records
from .tier import MIB

SECONDS = 0.5  # between two looks
_LAST_RESORT = 128 * MIB  # of MemAvailable: below, memory is given back whatever the tier says
_ROOM = 16 * MIB  # of a group above what cannot be taken from it


class Keeper:
    """A thread that calls `correct` twice a second; an error of one call does not end it."""

    def __init__(self, correct: Callable[[], None]) -> None:
        self.error: str | None = None  # of the last call that failed
        self._correct = correct
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tier keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it, and wait until nothing is changed any more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(SECONDS):
            try:
                self._correct()
            except Exception as error:
                self.error = describe(error)


def dead_band(wanted: int) -> int:
    """Bytes of a deviation that is left alone."""
    return max(wanted // 100, 2 * MIB)


def _most_taken(wanted: int) -> int:
    """Bytes that are taken away at a time; what is missing is given at once."""
    return max(wanted // 10, 64 * MIB)


def keep_limit(group: ControlGroup, wanted: int, set_limit: Callable[[int], None] | None = None) -> None:
    """Correct a group's limit so that `wanted` bytes are available in it; `set_limit` is another way to."""
    overhead, limit = group.overhead(), group.limit()
    target = max(wanted, group.shared() + _ROOM) + overhead
    if abs(target - limit) > dead_band(wanted):
        size = max(target, limit - _most_taken(wanted))
        if set_limit is None:
            set_memory_limit(group.folder, group.version, size)
        else:
            set_limit(size)


def keep_pages(
    records: Records, record: Record, ballast: Ballast, machine: WholeMachine, wanted: int
) -> None:
    """Correct what is locked away so that `wanted` bytes are available. UserError where it cannot be.

    Ballast comes and goes first: huge pages that were given back are seldom found again.
    """
    excess = machine.available() - wanted
    left = meminfo()["MemAvailable"]
    if left < _LAST_RESORT:
        excess = min(excess, left - _LAST_RESORT)
    elif abs(excess) <= dead_band(wanted):
        excess = 0
    if excess:
        excess = min(excess, _most_taken(wanted))
        in_ballast = min(max(ballast.size + excess, 0), ballast.most) - ballast.size
        try:
            with records.changing(record):
                ballast.resize(ballast.size + in_ballast)
                if in_ballast != excess:
                    pages = record.pages + (excess - in_ballast) // page_size()
                    change_pages(records, record, max(pages, 0))
        except UserError:
            ballast.resize(0)
            raise
    used = used_by_others(record)
    if used:
        raise UserError(
            f"{used:,} huge pages of {total_pages():,} that hold memory back are used by a process: "
            f"{readable(used * page_size())} too much is available; set huge_pages = off there"
        )
