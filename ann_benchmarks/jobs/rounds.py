"""Contenders in turn: how long a race goes on, who is out of it, and what it has shown.

A round measures every contender once, in random order. Two of them are compared by the ratios of their times
in the same rounds, so that a machine whose speed drifts cancels out.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.common.quantities import read_number
from ann_benchmarks.common.student import quantile

FEWEST_ROUNDS = 4  # before anything is said
MOST_ROUNDS = 200
CONFIDENCE = 0.95
STEP = 1.5  # a race is looked at when it has this many times as many rounds as at the last look
_MOST_CORRELATION = 0.9
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Rounds:
    """How long contenders are measured in turn: a number of rounds, until all is sure, or for a time.

    `until` is the half-width of intervals, as a share; `budget` is in s, for all rounds.
    """

    number: int | None = None
    until: float | None = None
    budget: float | None = None

    @property
    def most(self) -> int:
        """Rounds after which it ends in any case."""
        return self.number or MOST_ROUNDS

    def __str__(self) -> str:
        parts = [
            f"{self.number} rounds" if self.number else "",
            f"until {100 * self.until:.10g}%" if self.until else "",
            f"for {self.budget:.10g} s" if self.budget else "",
        ]
        return ", ".join(filter(None, parts))


def read_share(text: str) -> float:
    """Read such as "5%"; UserError says what is allowed."""
    number = read_number(text.removesuffix("%")) if text.endswith("%") else None
    if number is None or not 0.1 <= number <= 100:
        raise UserError(f"'{shown(text)}' is no precision: give a percentage from 0.1% to 100%, such as 5%")
    return number / 100


def read_time(text: str) -> float:
    """Read such as "20m", in s; UserError says what is allowed."""
    number = read_number(text[:-1]) if text[-1:] in _UNITS else None
    if number is None or not 1 <= number * _UNITS[text[-1]] <= 30 * 86400:
        raise UserError(f"'{shown(text)}' is no time: give such as 90s, 20m or 2h, of 30 days at most")
    return number * _UNITS[text[-1]]


@dataclass(frozen=True)
class TimesAsFast:
    """How many times as fast one contender is as another, with an interval; `rounds` have measured both."""

    value: float
    low: float
    high: float
    rounds: int

    @property
    def is_sure(self) -> bool:
        """Whether the interval excludes 1."""
        return not self.low <= 1 <= self.high

    def is_within(self, share: float) -> bool:
        """Whether the interval reaches at most so far beyond the value, as a share of it."""
        return self.high / self.value - 1 <= share

    def __str__(self) -> str:
        low, high = three_digits(self.low), three_digits(self.high)
        return f"{three_digits(self.value)} times as fast (interval {low} to {high})"


def times_as_fast(
    first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE
) -> TimesAsFast:
    """Compare the logarithms of times that were measured in the same rounds, by Student's interval.

    Where neighbouring rounds resemble each other (a first-order autocorrelation r), n of them count for
    n (1 - r) / (1 + r) independent ones (Bayley and Hammersley, 1946).
    """
    differences = [b - a for a, b in zip(first, second, strict=True)]
    mean, n = fmean(differences), len(differences)
    half = math.inf
    if n >= FEWEST_ROUNDS:
        r = _autocorrelation(differences)
        independent = max(n * (1 - r) / (1 + r), 2.0)
        half = quantile((1 + confidence) / 2, independent - 1) * stdev(differences) / math.sqrt(independent)
    low = math.exp(mean - half) if half < 700 else 0.0
    high = math.exp(mean + half) if half < 700 else math.inf
    return TimesAsFast(math.exp(mean), low, high, n)


def _autocorrelation(values: Sequence[float]) -> float:
    mean = fmean(values)
    whole = math.fsum((value - mean) ** 2 for value in values)
    if not whole:
        return 0.0
    found = math.fsum((a - mean) * (b - mean) for a, b in pairwise(values)) / whole
    return min(max(found, 0.0), _MOST_CORRELATION)


@dataclass(frozen=True)
class Contender:
    """A point in a race: `point` by its place in the job of this label, against others of its `field`.

    Where `is_at_target`, all of a field are measured at the same recall, so that the fastest is sought;
    else they are points of curves, each of which is to be known as surely as requested.
    """

    job: str
    point: int
    field: Hashable
    name: str
    is_at_target: bool


class Race:
    """The rounds so far, of all contenders."""

    def __init__(self, contenders: Sequence[Contender], rounds: Rounds) -> None:
        """Nothing is measured yet."""
        self.rounds = rounds
        self.running = list(contenders)  # who has a turn in the next round
        self.lost: dict[Contender, TimesAsFast] = {}  # who is out, and how many times as fast the leader was
        self.done = 0
        self._logs: dict[Contender, dict[int, float]] = {contender: {} for contender in contenders}
        self._looks, self._next_look = 0, FEWEST_ROUNDS

    def note(self, contender: Contender, number: int, seconds_per_query: float) -> None:
        """Take what a round has measured."""
        self._logs[contender][number] = math.log(seconds_per_query)

    def remove(self, contender: Contender) -> None:
        """Leave out one that has failed."""
        self.running.remove(contender)
        del self._logs[contender]

    def end_round(self) -> bool:
        """Note that a round is complete; return whether the race has shown what was requested.

        It is looked at now and then only, and a contender is out of it at an error rate that all looks share:
        who looks often enough finds any difference.
        """
        self.done += 1
        if self.rounds.until is None or self.done < self._next_look:
            return False
        self._looks += 1
        self._next_look = math.ceil(self.done * STEP)
        error = (
            (1 - CONFIDENCE) * 6 / (math.pi * self._looks) ** 2
        )  # whose sum over all looks is 1 - CONFIDENCE
        undecided = [field for field in self.fields() if not self._is_decided(field, error)]
        return not undecided

    def fields(self) -> list[Hashable]:
        """Return what is compared with each other."""
        return list(dict.fromkeys(contender.field for contender in self._logs))

    def standing(self, field: Hashable) -> tuple[Contender, dict[Contender, TimesAsFast]] | None:
        """Return the fastest of a field, and how many times as fast it is as each other one, nearest first.

        None where there is nobody to compare, or the field is of points at different recalls.
        """
        runners = self._of(field)
        if len(runners) < 2 or not runners[0].is_at_target:
            return None
        leader = self._leader(field)
        ratios = {other: self.compare(leader, other) for other in runners if other != leader}
        return leader, dict(sorted(ratios.items(), key=lambda item: item[1].value))

    def compare(self, first: Contender, second: Contender, confidence: float = CONFIDENCE) -> TimesAsFast:
        """Return how many times as fast the first is, over the rounds that have measured both."""
        a, b = self._logs[first], self._logs[second]
        both = sorted(a.keys() & b.keys())
        return times_as_fast([a[i] for i in both], [b[i] for i in both], confidence)

    def _of(self, field: Hashable) -> list[Contender]:
        return [contender for contender in self._logs if contender.field == field]

    def _leader(self, field: Hashable) -> Contender:
        alive = [contender for contender in self.running if contender.field == field]
        return min(alive or self._of(field), key=lambda contender: fmean(self._logs[contender].values()))

    def _is_decided(self, field: Hashable, error: float) -> bool:
        """Whether every ratio of a field that matters is sure or narrow; who is behind for sure is out."""
        assert self.rounds.until is not None
        runners = [contender for contender in self.running if contender.field == field]
        if not runners:
            return True
        if not runners[0].is_at_target:
            return all(self._of_round(one).is_within(self.rounds.until) for one in runners)
        leader = self._leader(field)
        others = [other for other in runners if other != leader]
        if not others:
            return bool(self.lost) or self._alone(leader).is_within(self.rounds.until)
        undecided = False
        for other in others:
            ratio = self.compare(leader, other, 1 - error / len(others))
            if ratio.low > 1:
                self.running.remove(other)
                self.lost[other] = ratio
            elif not self.compare(leader, other).is_within(self.rounds.until):
                undecided = True
        return not undecided

    def _alone(self, contender: Contender) -> TimesAsFast:
        logs = list(self._logs[contender].values())
        return times_as_fast(logs, [0.0] * len(logs))

    def _of_round(self, contender: Contender) -> TimesAsFast:
        """Return a point's time over the mean of its field in the same rounds."""
        field = self._of(contender.field)
        if len(field) < 2:
            return self._alone(contender)
        own = self._logs[contender]
        whole = [number for number in own if all(number in self._logs[other] for other in field)]
        means = [fmean(self._logs[other][number] for other in field) for number in whole]
        return times_as_fast([own[number] for number in whole], means)
