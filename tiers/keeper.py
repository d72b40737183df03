"""Keeps the available RAM of a tier while its server works: processes come, and take memory of their own."""

import threading
from collections.abc import Callable

from ann_benchmarks.common.errors import describe

from .group_files import set_memory_limit
from .memory import MIB, ControlGroup, dead_band, most_taken

SECONDS = 0.5  # between two corrections
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


def keep_limit(group: ControlGroup, target: int, set_limit: Callable[[int], None] | None = None) -> None:
    """Correct a group's limit so that `target` bytes are available in it; `set_limit` is another way to."""
    overhead, limit = group.overhead(), group.limit()
    needed = max(target, group.shared() + _ROOM) + overhead
    if abs(needed - limit) > dead_band(target):
        size = max(needed, limit - most_taken(target))
        if set_limit is None:
            set_memory_limit(group.folder, group.version, size)
        else:
            set_limit(size)
