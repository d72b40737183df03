"""What is available while a run is on: sampled, stored, and compared with what was asked for."""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

CLOSE = 0.02  # share by which the available memory may be off when a run begins
_INTERVAL_SECONDS = 0.1
_SETTLING_SECONDS = 3.0


class Memory(Protocol):
    """What can say how much memory a server has."""

    def available(self) -> int:
        """Return shared_buffers and what the system can cache, in bytes."""


class MemoryWatch:
    """Samples the available memory in a run, from a thread."""

    def __init__(self, memory: Memory | None, wanted: int | None = None) -> None:
        """Take what is sampled, None: nothing; and the bytes that are to be available, None: any."""
        self._memory, self._wanted = memory, wanted
        self._seen: list[int] = []
        self._done = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample while the block runs, which begins when the memory is what it is to be."""
        self._settle()
        self._seen, self._done = [], threading.Event()
        thread = threading.Thread(target=self._sample, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()

    def facts(self, queries: int) -> dict[str, Any]:
        """Return the median, the least and the most that was seen, in bytes; nothing if nothing was."""
        if not self._seen:
            return {}
        return {
            "tier_available": int(statistics.median(self._seen)),
            "tier_available_low": min(self._seen),
            "tier_available_high": max(self._seen),
            "tier_samples": len(self._seen),
        }

    def close(self) -> None:
        """Nothing is open."""

    def _settle(self) -> None:
        """Wait for whoever keeps the memory: clients that have just come took some of it."""
        deadline = time.monotonic() + _SETTLING_SECONDS
        while self._memory is not None and self._wanted and time.monotonic() < deadline:
            with suppress(OSError, ValueError, KeyError):
                if abs(self._memory.available() / self._wanted - 1) < CLOSE:
                    return
            time.sleep(_INTERVAL_SECONDS)

    def _sample(self) -> None:
        memory = self._memory
        while memory is not None:
            with suppress(OSError, ValueError, KeyError):  # it has just been taken away: too few samples tell
                self._seen.append(memory.available())
            if self._done.wait(_INTERVAL_SECONDS):
                return
