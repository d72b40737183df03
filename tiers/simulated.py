"""A tier as a condition that jobs are measured under: named, stored, watched and checked."""

import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ann_benchmarks.common.errors import UserError

from .memory import ControlGroup
from .tier import Tier, amount

CLOSE = 0.02  # share by which the available memory may be off when a run begins
_INTERVAL_SECONDS = 0.1
_PATIENCE_SECONDS = 3.0  # for the memory to be what it is to be
TOLERANCE = 0.05  # of the memory that is available, in the middle of a run


class AvailableMemory(Protocol):
    """What can say how much memory a server has."""

    def available(self) -> int:
        """Return shared_buffers and what the system can cache, in bytes."""


class MemoryWatch:
    """Samples the available memory in a run, from a thread."""

    def __init__(self, memory: AvailableMemory | None, target: int | None = None) -> None:
        """Take what is sampled, None: nothing; and the bytes that are to be available, None: any."""
        self._memory, self._target = memory, target
        self._samples: list[int] = []
        self._done = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Sample while the block runs, which begins when the memory is what it is to be."""
        self._wait_for_target()
        self._samples, self._done = [], threading.Event()
        thread = threading.Thread(target=self._sample_all, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()

    def facts(self, queries: int) -> dict[str, Any]:
        """Return the median, the least and the most of the samples, in bytes; nothing without samples."""
        if not self._samples:
            return {}
        return {
            "tier_available": int(statistics.median(self._samples)),
            "tier_available_low": min(self._samples),
            "tier_available_high": max(self._samples),
            "tier_samples": len(self._samples),
        }

    def close(self) -> None:
        """Nothing is open."""

    def _wait_for_target(self) -> None:
        """Wait until the keeper has corrected the memory: clients that have just come took some of it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._memory is not None and self._target and time.monotonic() < deadline:
            with suppress(OSError, ValueError, KeyError):
                if abs(self._memory.available() / self._target - 1) < CLOSE:
                    return
            time.sleep(_INTERVAL_SECONDS)

    def _sample_all(self) -> None:
        memory = self._memory
        while memory is not None:
            with suppress(OSError, ValueError, KeyError):  # just taken away: one sample fewer
                self._samples.append(memory.available())
            if self._done.wait(_INTERVAL_SECONDS):
                return


@dataclass(frozen=True)
class SimulatedServer:
    """A tier, and how it is brought about; what is known only after that is not compared."""

    tier: Tier
    method: str
    memory: AvailableMemory | None = field(default=None, compare=False)
    held: Mapping[str, Any] = field(default_factory=dict, compare=False)  # attributes of what was set
    limits: Mapping[Path, str] = field(default_factory=dict, compare=False)  # what files are to hold

    def __str__(self) -> str:
        return f"{self.tier} by {self.method}"

    @property
    def series(self) -> Mapping[str, Any]:
        """The fields of the series that is measured on it."""
        return {"tier_method": self.method, **self.tier.series}

    @property
    def facts(self) -> Mapping[str, Any]:
        """Attributes of a point that is measured on it."""
        return {**self.tier.facts, "tier_method": self.method, **self.held}

    def watch(self) -> MemoryWatch:
        """See how much memory is available in a run."""
        return MemoryWatch(self.memory, self.tier.ram)

    def kills(self) -> int:
        """How many processes the system has ended so far because the memory was used up."""
        with suppress(OSError, ValueError):
            if isinstance(self.memory, ControlGroup):
                return self.memory.kills()
        return 0

    def check(self, facts: Mapping[str, Any]) -> None:
        """Raise UserError where the limits, the memory or shared_buffers were not those of the tier."""
        for file, text in self.limits.items():
            if not file.exists() or file.read_text() != text:
                raise UserError(
                    f"tier {self.tier} was not kept: its limit in {file} was removed, most likely by"
                    " systemd: run it in a unit of its own, by systemd-run --scope -p Delegate=yes"
                )
        buffers = facts.get("shared_buffers")
        if self.tier.shared_buffers is not None and buffers != self.tier.shared_buffers:
            has = "an unknown size" if buffers is None else amount(buffers)
            raise UserError(f"tier {self.tier} was not kept: shared_buffers is {has}")
        if self.tier.ram is None:
            return
        if "tier_available" not in facts:
            raise UserError(f"tier {self.tier} was not kept: what is available could not be measured")
        off = facts["tier_available"] / self.tier.ram - 1
        if abs(off) > TOLERANCE:
            raise UserError(
                f"tier {self.tier} was not kept: {amount(facts['tier_available'])} were available,"
                f" {abs(off):.0%} {'more' if off > 0 else 'less'} than {amount(self.tier.ram)}"
            )
