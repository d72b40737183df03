"""Contenders in turn: how long a race goes on, who is out of it, and what it has shown.

A round measures every contender once, in random order. Two of them are compared by the ratios of their times
in the same rounds, so that a machine whose speed drifts cancels out.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.numbers import read_number
from ann_benchmarks.statistics.contests import FAR_BEHIND, FEWEST_ROUNDS
from ann_benchmarks.statistics.differences import ERROR_RATE, LOOKS_SHARE, Difference, difference_of_pairs

FEWEST_OF_A_WIDTH = 9  # before the width of an interval is believed
MOST_ROUNDS = 200
LOOKS_RATE = LOOKS_SHARE * ERROR_RATE  # of putting one out who is not behind
STEP = 1.5  # a race is looked at when it has this many times as many rounds as at the last look
FIRST_WEIGHT, LAST_WEIGHT = 3, 2  # of a race's budget; 1 of those between
FINAL_SHARE = 0.25  # of the first race's budget, which one of its few best contenders has
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

    @property
    def final(self) -> "Rounds":
        """The rounds of the few best contenders, under other conditions."""
        return replace(self, budget=self.budget and FINAL_SHARE * self.budget)

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
        raise UserError(f"'{shown(text)}' must be a percentage from 0.1% to 100%, such as 5%")
    return number / 100


def read_time(text: str) -> float:
    """Read such as "20m", in s; UserError says what is allowed."""
    number = read_number(text[:-1]) if text[-1:] in _UNITS else None
    if number is None or not 1 <= number * _UNITS[text[-1]] <= 30 * 86400:
        raise UserError(f"'{shown(text)}' must be a time: give such as 90s, 20m or 2h, of 30 days at most")
    return number * _UNITS[text[-1]]


def shares_of_budget(races: int) -> list[float]:
    """Return what share of what is left of a budget each of several races gets, one after the other.

    Reports rank contenders under the first and the last conditions, with the most memory and with the least.
    """
    weights = [FIRST_WEIGHT, *[1] * (races - 2), LAST_WEIGHT][-races:] if races > 1 else [1]
    return [weight / sum(weights[place:]) for place, weight in enumerate(weights)]


@dataclass(frozen=True)
class Contender:
    """A point in a race: `point` by its place in the job of this label, against others of its `field`.

    Where `is_at_target`, all of a field are measured at the same recall, and the fastest is sought. Else they
    are points of curves, each of which is to be known as surely as requested.
    """

    job: str
    point: int
    field: Hashable
    is_at_target: bool


class Race:
    """The rounds so far, of all contenders."""

    def __init__(self, contenders: Sequence[Contender], rounds: Rounds) -> None:
        self.rounds = rounds
        self.running = list(contenders)  # they have a turn in the next round
        self.out: list[Contender] = []  # they are behind for sure
        self._short: set[Contender] = set()  # they do not reach the target recall
        self.done = 0
        self._logs: dict[Contender, dict[int, float]] = {contender: {} for contender in contenders}
        self._looks, self._next_look = 0, FEWEST_ROUNDS

    def note(self, contender: Contender, number: int, seconds_per_query: float) -> None:
        """Take what a round has measured."""
        self._logs[contender][number] = math.log(seconds_per_query)

    def resume(self, logs: Mapping[Contender, Mapping[int, float]]) -> None:
        """Go on with what earlier rounds have measured, in s per query; who was out of them stays out."""
        for contender, measured in logs.items():
            self._logs[contender] = {number: math.log(seconds) for number, seconds in measured.items()}
        self.done = max(number for measured in logs.values() for number in measured)
        self.out = [contender for contender in self.running if self.done not in logs[contender]]
        self.running = [contender for contender in self.running if contender not in self.out]
        while self.rounds.until and self._next_look <= self.done:
            self._looks, self._next_look = self._looks + 1, math.ceil(self._next_look * STEP)

    def exclude(self, contender: Contender) -> None:
        """Take note that one does not reach the target recall: nobody is compared with it."""
        self._short.add(contender)

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
        if self.rounds.until is None:
            return False
        for field in dict.fromkeys(contender.field for contender in self.running):
            self._drop_far_behind(field)
        if self.done < self._next_look:
            return False
        self._looks += 1
        self._next_look = math.ceil(self.done * STEP)
        self.running = [contender for contender in self.running if contender not in self._short]
        # Over all looks, 6 / (pi * look)^2 adds up to 1, and so the error rates to LOOKS_RATE.
        error_rate = LOOKS_RATE * 6 / (math.pi * self._looks) ** 2
        fields = dict.fromkeys(contender.field for contender in self._logs)
        undecided = [field for field in fields if not self._is_decided(field, error_rate)]
        return not undecided

    def _drop_far_behind(self, field: Hashable) -> None:
        """Put out who is slower by more than any noise: each round more would cost others theirs."""
        one_field = [one for one in self.running if one.field == field and one.is_at_target]
        runners = [one for one in one_field if one not in self._short]
        leaders = sorted(runners, key=lambda one: fmean(self._logs[one].values()))[:1]
        for other in runners:
            if any(self.compare(leader, other).ratio >= FAR_BEHIND for leader in leaders):
                self.running.remove(other)
                self.out.append(other)

    def compare(self, first: Contender, second: Contender) -> Difference:
        """Return how many times as fast the first is, over the rounds that have measured both."""
        a, b = self._logs[first], self._logs[second]
        both = sorted(a.keys() & b.keys())
        return difference_of_pairs([a[i] for i in both], [b[i] for i in both], "rounds")

    def _is_decided(self, field: Hashable, error_rate: float) -> bool:
        """Whether every ratio of a field that matters is sure or narrow; who is behind for sure is out."""
        runners = [contender for contender in self.running if contender.field == field]
        if not runners:
            return True
        if not runners[0].is_at_target:
            return all(self._is_narrow(self._compare_with_field(one)) for one in runners)
        leader = min(runners, key=lambda contender: fmean(self._logs[contender].values()))
        others = [other for other in runners if other != leader]
        if not others:
            has_won = any(contender.field == field for contender in self.out)
            return has_won or self._is_narrow(self._alone(leader))
        undecided = False
        for other in others:
            ratio = self.compare(leader, other)
            if ratio.interval(error_rate / len(others))[0] > 1:
                self.running.remove(other)
                self.out.append(other)
            elif not self._is_narrow(ratio):
                undecided = True
        return not undecided

    def _is_narrow(self, ratio: Difference) -> bool:
        """Whether an interval is as narrow as requested; in few rounds it may look so by chance."""
        assert self.rounds.until is not None
        half_width = ratio.interval(ERROR_RATE)[1] / ratio.ratio - 1
        return half_width <= self.rounds.until and self.done >= FEWEST_OF_A_WIDTH

    def _alone(self, contender: Contender) -> Difference:
        logs = list(self._logs[contender].values())
        return difference_of_pairs(logs, [0.0] * len(logs), "rounds")

    def _compare_with_field(self, contender: Contender) -> Difference:
        """Compare a point with the mean of its field in the same rounds."""
        field = [other for other in self.running if other.field == contender.field]
        if len(field) < 2:
            return self._alone(contender)
        own = self._logs[contender]
        whole = [number for number in own if all(number in self._logs[other] for other in field)]
        means = [fmean(self._logs[other][number] for other in field) for number in whole]
        return difference_of_pairs([own[number] for number in whole], means, "rounds")
