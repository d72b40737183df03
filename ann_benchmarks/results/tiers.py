"""Results on tiers: what memory a result had, and the line that it belongs to."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from ann_benchmarks.common.numbers import KIB

from .at_recall import AtRecall, Key, at_recall
from .runs import Run, number


@dataclass(frozen=True)
class TierRun:
    """A result whose tier has an amount of memory; sizes in bytes.

    `ram` is None where the tier has all of the machine's; `available` is what was measured.
    """

    run: Run
    ram: int | None
    available: int | None
    shared_buffers: int | None
    index_size: float | None

    @property
    def algorithm(self) -> str:
        """What a comparison is between."""
        return self.run.series.family

    @property
    def name(self) -> str:
        """The name of its line: the curve's without the memory, which of several servers is that of each."""
        return self.run.series.without("tier_memory").label + of_each(self.run)

    @property
    def clients(self) -> int:
        """The number of clients; an algorithm's own process is one."""
        return self.run.series.clients or 1


def of_each(run: Run) -> str:
    """Return what follows a name where several servers have the memory beside it, each of them."""
    return " (each server)" if run.series.has_several_servers else ""


def as_tier_run(run: Run) -> TierRun | None:
    """Return a result as one on a tier, None if it is none or its tier leaves the memory alone."""
    ram, measured, at_start, limit, buffers = (
        int(value) if (value := number(run, name)) and value > 0 else None
        for name in ("tier_ram", "tier_available", "tier_available_at_start", "container_memory_bytes",
                     "tier_shared_buffers")
    )  # fmt: skip
    available = measured or at_start or limit
    if not run.attrs.get("tier") or (ram is None and (buffers is None or available is None)):
        return None
    index_size = run.metrics["indexsize"] * KIB
    return TierRun(run, ram, available, buffers, index_size if index_size > 0 else None)


@dataclass(frozen=True)
class TierAtRecall(TierRun):
    """The result that stands for others with the same memory at a recall, and their throughput there."""

    at: AtRecall


def tiers_at_recall(
    runs: Iterable[TierRun], key: Callable[[TierRun], Key], target: float
) -> list[TierAtRecall]:
    """Return what stands at a recall for the results of each key, the fastest first.

    Left out is what does not reach it.
    """
    groups: dict[Key, list[TierRun]] = {}
    for tier_run in runs:
        groups.setdefault(key(tier_run), []).append(tier_run)
    found = at_recall({name: [one.run for one in group] for name, group in groups.items()}, target)
    of_run = {id(one.run): one for group in groups.values() for one in group}
    ranked = sorted(found.values(), key=lambda at: -at.qps)
    return [TierAtRecall(**vars(of_run[id(at.run)]), at=at) for at in ranked]


def whole_machine(runs: Iterable[TierRun]) -> int | None:
    """Return where tiers with all of the machine's RAM are drawn: the median of what was measured."""
    measured = [tier_run.available for tier_run in runs if tier_run.ram is None and tier_run.available]
    return round(median(measured)) if measured else None
