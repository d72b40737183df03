"""How many times as fast one contender is as another, and how sure that is: reports have it from here.

Contenders that were measured in the same rounds are compared round by round. Others were measured once, at
different times: what their runs show misses restarts and the hour, by which sessions are taken to differ.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

from ann_benchmarks.common.numbers import counted, three_digits, variance

from .differences import (
    BUILDS,
    ERROR_RATE,
    LOOKS_SHARE,
    RUNS,
    SESSIONS,
    Difference,
    Estimate,
    Noise,
    add_doubt,
    difference,
    difference_of_pairs,
)
from .intervals import Interval
from .speeds import ABOVE, AT, WIDE, Levels, Speed, Standing, find_standing

MEASURED_ONCE = "measured once, at different times"
FEWEST_ROUNDS = 4  # before anything is said, or a race is looked at or ended by its budget
FAR_BEHIND = 4.0  # times as slow, beyond the noise of a round
FEWEST_PARTS = 10  # of the queries, whose spread shows how alike two contenders miss


@dataclass(frozen=True)
class Ratio:
    """How many times as fast, with its interval.

    `rounds` is 0 where the two were measured once, at different times.

    Where not `is_fair`, the slower one was measured at a higher recall only, and may be faster at this one.
    Two that were measured at nearly the same higher `recall` are compared there. `through` is the contender
    that both were compared with, where that shows more than the rounds that both have.
    """

    value: float
    interval: Interval
    rounds: int = 0
    is_fair: bool = True
    how: str = MEASURED_ONCE  # it was measured, where not in the same rounds
    recall: float | None = None  # at which it is, where not at that for which both stand
    through: str = ""

    @property
    def is_noise(self) -> bool:
        """Whether the interval includes 1."""
        return self.interval.low <= 1 <= self.interval.high

    @property
    def is_sure(self) -> bool:
        """Whether the first is faster by more than noise, with an error rate that can be stated."""
        return self.rounds > 0 and self.is_fair and self.interval.low > 1

    @property
    def note(self) -> str:
        """At which recall it is, in words, where not at that for which both stand."""
        return "" if self.recall is None else f" at a recall of {self.recall:.3f}"

    @property
    def certainty(self) -> str:
        """How sure it is, in words."""
        low, high = map(three_digits, self.interval)
        rounds = f", {counted(self.rounds, 'round')}" if self.rounds else ""
        return f"95% interval {low} to {high}{rounds}" + (f", through {self.through}" if self.through else "")

    @property
    def is_of_rounds(self) -> bool:
        """Whether it was measured in the same rounds, at the recall for which both stand."""
        return self.rounds > 0 and self.is_fair and self.recall is None

    @property
    def whole_certainty(self) -> str:
        """The same where nothing else says how it was measured."""
        return self.certainty if self.rounds else f"{self.certainty}, {self.how}"


@dataclass(frozen=True)
class Contest:
    """Contenders at a recall, the fastest first."""

    standings: Mapping[str, Standing]

    def ratios(self, error_rate: float = ERROR_RATE) -> dict[str, Ratio]:
        """Return how many times as fast the first is as each of the others.

        All pairs are judged together (Bonferroni), because noise also chooses the first, and the point that
        stands for a contender: each that noise could have chosen is compared with each of the others.
        """
        pairs = sum(a.choices * b.choices for a, b in combinations(self.standings.values(), 2))
        rate = error_rate / max(pairs, 1)
        first, *others = self.standings.values()
        direct = {
            name: ratio(first, other, rate) for name, other in zip([*self.standings][1:], others, strict=True)
        }
        return {name: self._through_others(name, direct, rate) for name in direct}

    def _through_others(self, name: str, direct: Mapping[str, Ratio], rate: float) -> Ratio:
        """Return the ratio to a contender, or what another one that both were compared with shows beyond it.

        A race puts out who is behind the leader of that moment. If it is another one that wins, the two may
        share few rounds, and the winner may have been disturbed in these. As all pairs are judged together,
        the intervals of all of them hold at the same time, and those of two ratios multiply.
        """
        found = direct[name]
        if not (found.is_of_rounds and found.is_noise):
            return found
        best, least = found, found.interval.low
        for middle, to_middle in direct.items():
            if middle == name or not to_middle.is_of_rounds:
                continue
            from_middle = ratio(self.standings[middle], self.standings[name], rate)
            if not from_middle.is_of_rounds:
                continue
            both = _product(to_middle, from_middle, middle)
            if both.interval.low > least:
                best, least = both, both.interval.low
        return found if best.is_noise else best


def contest(contenders: Mapping[str, Sequence[Speed]], target: float) -> Contest:
    """Compare contenders, each with all of its points, at a recall; leave out those that do not reach it."""
    mark = common_mark(contenders, target)
    effects = _round_effects([speed for speeds in contenders.values() for speed in speeds], mark)
    found: dict[str, Standing] = {}
    for name, speeds in contenders.items():
        in_rounds = find_standing(speeds, target, mark, effects) if mark else None
        if one := in_rounds if in_rounds and in_rounds.rounds else find_standing(speeds, target):
            found[name] = one

    def pace(item: tuple[str, Standing]) -> float:
        levels = item[1].unchosen
        if not levels:
            return item[1].level
        return fmean(level - effects.get(number, 0.0) for number, level in levels.items())

    return Contest(dict(sorted(found.items(), key=pace, reverse=True)))


def ratio(
    first: Standing, second: Standing, error_rate: float = ERROR_RATE, sessions: Noise = SESSIONS
) -> Ratio:
    """Compare two at the recall for which they stand, with an interval that misses at the error rate.

    Two that have only higher recalls are compared at one that both have. Where the doubt about these hides
    which is faster, they are compared as they were measured, which is not fair.
    """
    as_measured = _ratio(first, second, error_rate, second.reach != ABOVE, sessions)
    is_first = first.level >= second.level
    equal = move_to_common_recall(first, second) if is_first else move_to_common_recall(second, first)
    if equal is None:
        return as_measured
    there = _ratio(*(equal if is_first else equal[::-1]), error_rate, True, sessions)
    is_fair = second.reach != ABOVE or (there.value >= 1) == is_first
    there = replace(there, is_fair=is_fair, recall=equal[0].own_recall)
    return as_measured if there.is_noise and not as_measured.is_noise else there


def _product(first: Ratio, second: Ratio, middle: str) -> Ratio:
    """Return the ratio of a to c, by those of a to the contender in the middle, and of that to c."""
    interval = Interval(first.interval.low * second.interval.low, first.interval.high * second.interval.high)
    rounds = min(first.rounds, second.rounds)
    return Ratio(first.value * second.value, interval, rounds, through=middle)


def move_to_common_recall(fast: Standing, slow: Standing) -> tuple[Standing, Standing] | None:
    """Return both at the recall of the faster one, where both are ABOVE; None where the slower is far beyond.

    From a slightly higher recall, the slower one's level is moved along its line. From a lower one it is not:
    at the recall of the faster one, it is as fast as that at most. Other queries would have other recalls,
    which is the doubt of such a comparison.
    """
    gap = slow.excess - fast.excess
    if (fast.reach, slow.reach) != (ABOVE, ABOVE) or gap > WIDE:
        return None
    fast, slow = replace(fast, reach=AT), replace(slow, reach=AT)
    if gap <= 0:
        return fast, slow
    more = -slow.slope * gap

    def moved(levels: Levels | None) -> Levels | None:
        return levels and {number: level + more for number, level in levels.items()}

    return fast, replace(
        slow,
        shift=slow.shift + more,
        level=slow.level + more,
        doubt=math.hypot(slow.doubt, slow.slope_doubt * more),
        rounds=moved(slow.rounds),
        unchosen=moved(slow.unchosen),
    )


def _ratio(first: Standing, second: Standing, error_rate: float, is_fair: bool, sessions: Noise) -> Ratio:
    """Compare the levels of two, each as it is: by rounds if they share enough, else as measured once.

    In rounds, the race may have been looked at before, and ended by what was seen: that has a part of the
    error rate. The ratio is that of rounds which have not chosen the points. Who is far behind has fewer
    rounds: their noise is then taken to be that of whole sessions, which is more. Rounds do not show what
    belongs to one build alone: two of them differ by `BUILDS`.
    """
    doubt = math.hypot(recall_doubt(first, second), first.doubt, second.doubt)
    rounds, others = first.rounds or {}, second.rounds or {}
    shared = sorted(rounds.keys() & others.keys()) if first.mark == second.mark else []
    if len(shared) < FEWEST_ROUNDS:
        once = ratio_once(first.estimate, second.estimate, error_rate, doubt, sessions)
        is_far = not FAR_BEHIND > once.value > 1 / FAR_BEHIND
        return replace(once, is_fair=is_fair, rounds=len(shared) if is_far else 0)
    builds = 0.0 if first.build == second.build else math.sqrt(2 * BUILDS.variance)
    pairs = difference_of_pairs([others[n] for n in shared], [rounds[n] for n in shared], "rounds")
    found = add_doubt(pairs, math.hypot(doubt, builds))
    interval = _interval(found, error_rate * (1 - LOOKS_SHARE))
    unchosen, others = first.unchosen or rounds, second.unchosen or others
    value = math.exp(fmean(unchosen[n] - others[n] for n in unchosen.keys() & others.keys()))
    return Ratio(min(max(value, interval.low), interval.high), interval, len(shared), is_fair)


def ratio_once(
    first: Estimate,
    second: Estimate,
    error_rate: float = ERROR_RATE,
    doubt: float = 0.0,
    sessions: Noise = SESSIONS,
) -> Ratio:
    """Compare two figures that were each measured once, at different times.

    A single run is taken to differ by `RUNS`.
    """
    known = [
        one._replace(variance=RUNS.variance, runs=round(RUNS.freedom)) if math.isnan(one.variance) else one
        for one in (second, first)
    ]
    found = add_doubt(difference(known[:1], known[1:], sessions=sessions), doubt)
    return Ratio(found.ratio, _interval(found, error_rate))


def _interval(found: Difference, error_rate: float) -> Interval:
    return Interval(*found.interval(error_rate))


def recall_doubt(first: Standing, second: Standing) -> float:
    """Return the standard deviation of the logarithm of their ratio because the queries are a sample.

    Both answered the same ones: what is hard for one is hard for the other, which the parts of the queries
    show. Without them the two are taken to be independent, which is more than they are.
    """
    parts = first.recall_shifts, second.recall_shifts
    if len(parts[0]) == len(parts[1]) >= FEWEST_PARTS:
        return math.sqrt(variance(a - b for a, b in zip(*parts, strict=True)) / len(parts[0]))
    return math.hypot(first.recall_error, second.recall_error)


def common_mark(contenders: Mapping[str, Sequence[Speed]], target: float) -> str:
    """Return the mark of the rounds that the most contenders share, "" where no two do."""
    marks: dict[str, set[str]] = {}
    rounds: dict[str, int] = {}
    for name, speeds in contenders.items():
        for speed in speeds:
            if speed.round_levels and speed.may_reach(target):
                marks.setdefault(speed.mark, set()).add(name)
                rounds[speed.mark] = max(rounds.get(speed.mark, 0), len(speed.rounds))
    whole = [mark for mark in marks if rounds[mark] >= FEWEST_ROUNDS]
    best = max(whole, key=lambda mark: (len(marks[mark]), rounds[mark], mark), default="")
    return best if len(marks.get(best, ())) > 1 else ""


def _round_effects(speeds: Sequence[Speed], mark: str) -> dict[int, float]:
    """Return by how much each round was faster than all of them, over the points with the most rounds."""
    in_rounds = [speed.round_levels for speed in speeds if mark and speed.mark == mark]
    most = max(map(len, in_rounds), default=0)
    whole = [of_point for of_point in in_rounds if len(of_point) == most]
    shared = set.intersection(*(set(of_point) for of_point in whole)) if whole else set()
    means = {number: fmean(of_point[number] for of_point in whole) for number in shared}
    mean = fmean(means.values()) if means else 0.0
    return {number: level - mean for number, level in means.items()}
