"""The tail of the recall: how many queries found how much, of results next to a recall.

Two results are compared only where their mean recalls are nearly equal: a higher mean alone makes a better
tail.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.statistics.distributions import incomplete_beta
from ann_benchmarks.statistics.intervals import ONE_IN

from .at_recall import find_at_recall
from .measurement import COUNTS
from .runs import Run


@dataclass(frozen=True)
class RecallTail:
    """The queries of one result: `counts` of them by recall, first those that found nothing, last all."""

    run: Run
    counts: Sequence[int]

    @property
    def mean(self) -> float:
        """The mean recall."""
        return self.run.metrics["recall"]

    @property
    def steps(self) -> int:
        """In how many steps recall is counted: k, or 100 if that is less."""
        return len(self.counts) - 1

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return sum(self.counts)

    @cached_property
    def below(self) -> list[tuple[float, float]]:
        """Recalls above 0, ascending, each with the share of queries below it; without shares of 0."""
        found, under = [], 0
        for place, number in enumerate(self.counts[:-1], 1):
            under += number
            if under:
                found.append((place / self.steps, under / self.queries))
        return found

    def count_in_ranges(self, most: int) -> list[tuple[int, int, int]]:
        """Return (least step, largest step, queries): first of those with all steps, then of others.

        The others are in at most this many ranges, from the one with the most steps on.
        """
        width = math.ceil(self.steps / most)
        ranges = [(self.steps, self.steps, self.counts[-1])]
        for end in range(self.steps, 0, -width):
            least = max(end - width, 0)
            ranges.append((least, end - 1, sum(self.counts[least:end])))
        return ranges


def counts_of(run: Run) -> list[int]:
    """Return how many queries of a result have each recall, nothing where that cannot be used."""
    stored = run.attrs.get(COUNTS)
    if not isinstance(stored, list) or len(stored) < 2 or not all(type(one) is int for one in stored):
        return []
    return stored if min(stored) >= 0 and sum(stored) > 0 else []


def tails_at(runs: Iterable[Run], target: float) -> list[RecallTail]:
    """Return the tail of each series that reaches a recall, of its result next to it, by name.

    UserError, which names the highest recall, where none reaches it.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if counts_of(run):
            groups.setdefault(run.algorithm, []).append(run)
    found = find_at_recall(groups, target)
    if not found:
        known = [run.metrics["recall"] for group in groups.values() for run in group]
        highest = f"; the highest is {max(known):.4f}" if known else ""
        raise UserError(f"no result reaches a recall of {target:g}{highest}")
    return [RecallTail(found[name].run, counts_of(found[name].run)) for name in sorted(found)]


def evenly_missed(count: int, mean: float) -> int:
    """Return how many of `count` neighbours the 5th percentile has where misses are spread evenly.

    That is the percentile of a binomial distribution: each neighbour of each query is found with the chance
    `mean`, whatever the query is.
    """
    chances = (1 - incomplete_beta(mean, found + 1, count - found) for found in range(count))
    return next((found for found, chance in enumerate(chances) if chance >= 1 / ONE_IN), count)
