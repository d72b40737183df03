"""A tier as a condition that jobs are measured under: named, stored, watched and checked."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ann_benchmarks.common.errors import UserError

from .memory import ControlGroup
from .tier import Tier, amount
from .watch import Memory, MemoryWatch

TOLERANCE = 0.05  # of the memory that is available, in the middle of a run


@dataclass(frozen=True)
class SimulatedServer:
    """A tier, and how it is brought about; what is known only once that is done does not tell it apart."""

    tier: Tier
    method: str
    memory: Memory | None = field(default=None, compare=False)
    held: Mapping[str, Any] = field(default_factory=dict, compare=False)  # attributes of what was set

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
        """Raise UserError where the memory or shared_buffers were not those of the tier."""
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
