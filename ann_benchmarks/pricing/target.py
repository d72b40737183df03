"""What a service must achieve - a recall, a latency, a rate - and how surely a measured figure does."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.load.request import Objective
from ann_benchmarks.results.intervals import Interval

from .prices import PriceList


class Kept(IntEnum):
    """Whether an objective is kept: beyond noise or not, or noise hides it."""

    NO = 0
    UNSURE = 1
    YES = 2

    def __str__(self) -> str:
        return ("no", "not sure", "yes")[self]


@dataclass(frozen=True)
class ServiceTarget:
    """A recall, the bound of a percentile of the latencies, and queries/s; None: no bound."""

    recall: float
    latency: Objective | None = None
    rate: float | None = None

    @property
    def is_recall_alone(self) -> bool:
        """Whether a server keeps it however slow it is."""
        return self.latency is None and self.rate is None

    def __str__(self) -> str:
        parts = [f"a recall of at least {self.recall:g}"]
        if self.latency is not None:
            bound = three_digits(1e3 * self.latency.seconds)
            parts.append(f"{self.latency.percentile} of at most {bound} ms")
        if self.rate is not None:
            parts.append(f"at least {three_digits(self.rate)} queries/s")
        return ", ".join(parts[:-1]) + (" and " if parts[1:] else "") + parts[-1]


@dataclass(frozen=True)
class CostRequest:
    """Prices, and what beside the recall a server must achieve that is priced with them."""

    prices: PriceList
    latency: Objective | None = None
    rate: float | None = None

    def target(self, recall: float) -> ServiceTarget:
        """Return all that must be achieved."""
        return ServiceTarget(recall, self.latency, self.rate)


def at_most(value: float, interval: Interval | None, bound: float) -> Kept:
    """Whether a figure is at most a bound, with its interval where that is known."""
    if interval is None:
        return Kept.UNSURE if value <= bound else Kept.NO
    if interval.low > bound:
        return Kept.NO
    return Kept.YES if interval.high <= bound else Kept.UNSURE


def at_least(value: float, interval: Interval | None, bound: float) -> Kept:
    """Whether a figure is at least a bound, with its interval where that is known."""
    opposite = None if interval is None else Interval(-interval.high, -interval.low)
    return at_most(-value, opposite, -bound)


def all_of(verdicts: Sequence[Kept]) -> Kept:
    """Whether everything is kept."""
    return min(verdicts, default=Kept.YES)
