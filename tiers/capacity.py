"""What this machine can hold, before anything starts."""

from collections.abc import Sequence

import psutil

from ann_benchmarks.algorithms.postgres import machine
from ann_benchmarks.common.errors import UserError

from .holding import HUGE_PAGES
from .meminfo import readable, system_reserve
from .tier import GIB, Tier


def check_capacity(tiers: Sequence[Tier], method: str | None = None) -> None:
    """Raise UserError that names all tiers which this machine, or container, cannot hold now."""
    available = min(psutil.virtual_memory().available, machine.memory_bytes())
    cpus = machine.cores()
    problems = [
        _left_out(
            f"{available / GIB:.1f} GB of memory available",
            [tier for tier in tiers if max(tier.ram or 0, tier.shared_buffers or 0) > available],
            "use mini",
        ),
        _left_out(f"{cpus} CPU{'s' * (cpus > 1)}", [tier for tier in tiers if (tier.cpus or 0) > cpus]),
    ]
    if method == HUGE_PAGES:
        reserve = system_reserve()
        problems.append(
            _left_out(
                f"to keep {readable(reserve)} that huge pages never take",
                [tier for tier in tiers if tier.ram is not None and tier.ram < reserve],
                "use --tier-method cgroup",
            )
        )
    if any(problems):
        raise UserError(f"--tiers: this machine has {'; and '.join(filter(None, problems))}")


def _left_out(has: str, tiers: Sequence[Tier], instead: str = "") -> str:
    """Say what the machine has, and which tiers to leave out for it; nothing where there are none."""
    if not tiers:
        return ""
    return f"{has}: leave out {', '.join(map(str, tiers))}" + (f", or {instead}" if instead else "")
