"""The speed of a point as comparisons need it: the throughput of its runs, their rounds, and its recall."""

import hashlib
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, variance
from typing import Any

import numpy as np

from .intervals import NORMAL, Interval
from .judging import Estimate

ROUNDING = 1e-9  # by which the mean of shares may miss what it is
MARK, ROUNDS = "rounds", "run_rounds"  # attributes: what was measured in turn, and the round of each run
CHAIN, TURNS = "rounds_chain", "rounds_turns"  # attributes: a link for each round, and how many had a turn
PARTS = "recall_parts"  # attribute: the mean recall of every n-th query, from the first, the second...
EXACT_SEARCH = "is_exact"  # attribute: all answers are the true ones, by the algorithm
OVERSTATED = "target_overstated"  # attribute: by how much a recall exceeds that of other queries
MOST_PARTS = 50
HALF_A_HIT = 8  # the lower bound of a recall of 1 misses four hits: an eighth of that is half of one
SMALLEST = 1e-6
LEAST_MISSED = 1e-4  # of the neighbours, where no interval says how few could have been seen


def next_link(before: str, seconds: Iterable[float]) -> str:
    """Return the link of a round, of the link before it and the seconds per query of each contender."""
    content = " ".join([before, *(repr(float(one)) for one in sorted(seconds))])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Speed:
    """One point. `index` is what its query arguments were used on; `rates` are queries/s, one a run.

    `rounds` are the numbers of each run's round, of those with this `mark`; `parts` are the recalls of equal
    parts of the queries, the same parts for every point of a dataset.
    """

    index: Hashable
    recall: float
    interval: Interval | None
    rates: Sequence[float]
    mark: str = ""
    rounds: Sequence[int] = ()
    parts: Sequence[float] = ()
    is_exact: bool = False  # by its algorithm, and not because no miss was seen

    @cached_property
    def level(self) -> float:
        """The logarithm of the mean throughput."""
        return math.log(fmean(self.rates))

    @cached_property
    def spread(self) -> float:
        """The variance of the runs' logarithms, NaN for a single run."""
        return variance(map(math.log, self.rates)) if len(self.rates) > 1 else math.nan

    @cached_property
    def by_round(self) -> dict[int, float]:
        """The logarithm of the throughput in each round; empty where it was not measured in rounds."""
        if not self.mark or len(self.rounds) != len(self.rates):
            return {}
        return {number: math.log(rate) for number, rate in zip(self.rounds, self.rates, strict=True)}

    @property
    def estimate(self) -> Estimate:
        """The throughput with the noise of its runs."""
        return Estimate(math.exp(self.level), self.spread, len(self.rates))

    @property
    def least_missed(self) -> float:
        """The share of neighbours below which none can be seen to be missed: half a hit."""
        return max((1 - self.interval.low) / HALF_A_HIT if self.interval else LEAST_MISSED, SMALLEST)

    @property
    def missed(self) -> float:
        """The share of neighbours that were missed."""
        return max(1 - self.recall, self.least_missed)

    @property
    def is_perfect(self) -> bool:
        """Whether no miss was seen."""
        return 1 - self.recall <= ROUNDING

    @property
    def effort(self) -> float:
        """Minus the logarithm of what was missed: that of the throughput falls with it in a line, nearly."""
        return -math.log(self.missed)

    @property
    def effort_error(self) -> float:
        """The standard deviation of the effort, because these are not all queries there could be."""
        return (self.interval.high - self.interval.low) / (2 * NORMAL) / self.missed if self.interval else 0.0

    def reaches(self, target: float) -> bool:
        """Whether the recall is the target, or more."""
        return self.recall >= target - ROUNDING

    def may_reach(self, target: float) -> bool:
        """Whether the interval of the recall allows the target."""
        return self.reaches(target) or (self.interval is not None and self.interval.high >= target)


def speed_of(attrs: Mapping[str, Any], recall: float, qps: float, index: Hashable = None) -> Speed:
    """Return the speed of a point by its attributes; `qps` is that of the only run where none are stored."""
    low, high = attrs.get("recall_low"), attrs.get("recall_high")
    is_known = isinstance(low, (int, float)) and isinstance(high, (int, float)) and low <= recall <= high
    seconds, rounds = numbers(attrs.get("run_seconds")), numbers(attrs.get(ROUNDS))
    known = [(place, 1 / s) for place, s in enumerate(seconds) if s > 0]
    is_whole = len(known) == len(rounds) == len(set(rounds))
    return Speed(
        index,
        recall,
        Interval(float(low), float(high)) if is_known else None,  # type: ignore[arg-type]
        [rate for _, rate in known] or [qps],
        str(attrs.get(MARK, "")) if is_whole else "",
        [int(number) for number in rounds] if is_whole else (),
        numbers(attrs.get(PARTS)),
        bool(attrs.get(EXACT_SEARCH)),
    )


def recall_parts(recalls: np.ndarray) -> list[float]:
    """Return the mean recall of each part of the queries, (queries,), which that takes every n-th of them."""
    parts = min(MOST_PARTS, len(recalls))
    return [float(recalls[first::parts].mean().round(6)) for first in range(parts)]


def numbers(value: Any) -> list[float]:
    """Return the finite numbers of an attribute that is a number or a list of them."""
    stored = value if isinstance(value, list) else [value]
    return [float(one) for one in stored if isinstance(one, (int, float)) and math.isfinite(one)]
