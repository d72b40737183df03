"""How fast a contender is at a recall: on the line between its neighbouring points, with its uncertainty.

The logarithm of the throughput is taken to be linear in the *effort*, minus the logarithm of the share of
neighbours that are missed. Where a contender's points show the slope of that line, it is used; else a typical
one, of which half is its doubt.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from ann_benchmarks.common.numbers import variance

from .differences import SESSIONS, Estimate
from .intervals import NORMAL, Interval

SLOPE, STEEPEST, SHALLOWEST = -0.7, -2.0, -0.3
SLOPE_DOUBT = 0.5  # its standard deviation as a share, where a line is continued
WIDE = 0.3  # of effort: closer neighbours show the noise of their throughput, and no slope
FAR = math.log(2)  # of effort: no line is continued further, to twice or half of what is missed
AS_GOOD = 3.0  # standard deviations within which the choice between two points was one by noise
ROUNDING = 1e-9  # by which the mean of shares may miss what it is
HALF_A_HIT = 8  # the lower bound of a recall of 1 misses four hits: an eighth of that is half of one
SMALLEST, LEAST_MISSED = 1e-6, 1e-4  # the latter where no interval says how few misses could have been seen

BETWEEN, AT, WITHIN, ABOVE, EXACT = "between", "at", "within", "above", "exact"
Levels = Mapping[int, float]  # logarithms of queries/s, by numbers of points or of rounds


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
    build: float = math.nan  # s that it took, to the last digit: no two builds take the same time

    @cached_property
    def level(self) -> float:
        """The logarithm of the mean throughput."""
        return math.log(fmean(self.rates))

    @cached_property
    def spread(self) -> float:
        """The variance of the runs' logarithms, NaN for a single run."""
        return variance(map(math.log, self.rates)) if len(self.rates) > 1 else math.nan

    @cached_property
    def round_levels(self) -> dict[int, float]:
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


@dataclass(frozen=True)
class Standing:
    """The speed of a contender at a recall, as the logarithm of queries/s, and what it is known from.

    The level is the mean of those of some of its points, by `weights`, and `shift`. `reach` says where the
    recall lies: BETWEEN two points, AT one or near it, WITHIN the interval of one that lies below it; ABOVE:
    all points have a higher recall, and their speed is a lower bound; EXACT: the algorithm has no other one.

    The best of several points looks faster than it is in the rounds that have chosen it, and not in others.
    """

    weights: Mapping[int, float]  # of points, by their numbers
    reach: str
    slope: float = SLOPE  # of its line
    slope_doubt: float = SLOPE_DOUBT  # its standard deviation as a share
    shift: float = 0.0
    doubt: float = 0.0  # standard deviation of the level for want of points nearer to the recall
    excess: float = 0.0  # effort beyond the recall, of one that is ABOVE it
    level: float = 0.0
    spread: float = math.nan  # variance of the level from run to run
    runs: int = 1
    own_recall: float = math.nan  # of the point that it is known from the most
    sampling: float = 0.0  # standard deviation of the level at its own recall: the queries are a sample
    shifts: Sequence[float] = ()  # by which each part of the queries shifts that level
    build: float = math.nan  # s that the index of the nearest point took
    choices: int = 1  # points that the chosen one may be the fastest of by noise alone
    mark: str = ""
    rounds: Levels | None = None  # the level in each round
    unchosen: Levels | None = None  # the same of the points that the other rounds would choose

    @property
    def chosen(self) -> list[int]:
        """The numbers of the points that it is known from, the nearest to the recall first."""
        return sorted(self.weights, key=lambda i: -self.weights[i])

    @property
    def estimate(self) -> Estimate:
        """The throughput with the noise of its runs."""
        return Estimate(math.exp(self.level), self.spread, self.runs)

    @property
    def recall_error(self) -> float:
        """Standard deviation of the level because the queries are a sample; 0 at a recall of its own."""
        return 0.0 if self.reach in (ABOVE, EXACT) else self.sampling

    @property
    def recall_shifts(self) -> Sequence[float]:
        """By how much each part of the queries shifts the level at the recall."""
        return () if self.reach in (ABOVE, EXACT) else self.shifts

    def level_of(self, levels: Levels) -> float:
        """Return the level that those of its points make."""
        return math.fsum(weight * levels[i] for i, weight in self.weights.items()) + self.shift


def single_standing(speed: Speed) -> Standing:
    """Return a point as it stands by itself, at whatever recall it has."""
    one = Standing({0: 1.0}, AT, level=speed.level, spread=speed.spread, runs=len(speed.rates))
    levels = speed.round_levels
    return replace(one, mark=speed.mark, rounds=levels, unchosen=levels, build=speed.build)


def find_standing(
    speeds: Sequence[Speed], target: float, mark: str = "", effects: Levels | None = None
) -> Standing | None:
    """Return how fast a contender with these points is at a recall, None if it does not reach it.

    With a `mark`, only what was measured in its rounds counts, and `effects` is what was common to all
    contenders in each of them.
    """
    numbers = [i for i, speed in enumerate(speeds) if not mark or (speed.mark == mark and speed.round_levels)]
    own = {i: speeds[i].level for i in numbers}
    levels = _round_means(speeds, numbers, effects or {}) if mark else own
    place = _best(speeds, levels, target)
    if place is None:
        return None
    nearest = max(place.weights, key=lambda i: place.weights[i])
    rivals = [i for i in numbers if i not in place.weights and speeds[i].may_reach(target)]
    slack = {i: AS_GOOD * _noise(speeds[nearest], speeds[i], mark) for i in rivals}
    weighted = [(speeds[i], weight) for i, weight in place.weights.items()]
    efforts = math.fsum(speed.effort_error * weight for speed, weight in weighted)
    found = replace(
        place,
        level=place.level_of(own),
        spread=math.fsum(weight**2 * speed.spread for speed, weight in weighted),
        runs=min(len(speed.rates) for speed, _ in weighted),
        own_recall=speeds[nearest].recall,
        build=speeds[nearest].build,
        sampling=-place.slope * efforts,
        shifts=_part_shifts(weighted, place.slope),
        choices=1 + sum(levels[i] >= levels[nearest] - slack[i] for i in rivals),
    )
    if not mark:
        return found
    shared = sorted(set.intersection(*(set(speed.round_levels) for speed, _ in weighted)))
    rounds = {n: place.level_of({i: speeds[i].round_levels[n] for i in place.weights}) for n in shared}
    unchosen = dict(rounds)
    for n in shared if found.choices > 1 else ():
        there = _best(speeds, _round_means(speeds, numbers, effects or {}, n), target) or place
        unchosen[n] = there.level_of({i: speeds[i].round_levels[n] for i in there.weights})
    return replace(found, mark=mark, rounds=rounds, unchosen=unchosen)


def _round_means(
    speeds: Sequence[Speed], numbers: Sequence[int], effects: Levels, but: int | None = None
) -> dict[int, float]:
    """Return the mean level of points over their rounds, `but` one that they have, less what all share."""
    found = {}
    for i in numbers:
        round_levels = speeds[i].round_levels
        levels = [level - effects.get(n, 0.0) for n, level in round_levels.items() if n != but]
        if levels and (but is None or but in round_levels):
            found[i] = fmean(levels)
    return found


def _noise(first: Speed, second: Speed, mark: str) -> float:
    """Return the standard deviation of the difference of two points' levels."""
    shared = first.round_levels.keys() & second.round_levels.keys() if mark else set()
    if len(shared) > 1:
        spread = variance(first.round_levels[number] - second.round_levels[number] for number in shared)
        return math.sqrt(spread / len(shared))
    spreads = (0.0 if math.isnan(one.spread) else one.spread for one in (first, second))
    return math.sqrt(math.fsum(spreads) + 2 * SESSIONS.variance)


def _part_shifts(weighted: Sequence[tuple[Speed, float]], slope: float) -> list[float]:
    """Return by how much each part of the queries, were it all of them, would shift the level.

    Parts without a miss do not show how rare misses are: there is nothing to return then.
    """
    parts = {len(speed.parts) for speed, _ in weighted}
    if len(parts) > 1 or any(1 - speed.recall <= ROUNDING for speed, _ in weighted):
        return []
    return [
        math.fsum(-slope * weight * (s.parts[n] - s.recall) / s.missed for s, weight in weighted)
        for n in range(*parts)
    ]


def _best(speeds: Sequence[Speed], levels: Levels, target: float) -> Standing | None:
    """Return the index on which the contender is the fastest at the target, as a place among its points."""
    indexes: dict[object, list[int]] = {}
    for i in levels:
        indexes.setdefault(speeds[i].index, []).append(i)
    places = [_place(speeds, _frontier(speeds, levels, group), levels, target) for group in indexes.values()]
    return max(filter(None, places), key=lambda place: place.level_of(levels), default=None)


def _frontier(speeds: Sequence[Speed], levels: Levels, group: Sequence[int]) -> list[int]:
    """Return the points that none with at least their recall is faster than, by ascending recall."""
    kept: list[int] = []
    for i in sorted(group, key=lambda i: (-speeds[i].recall, -levels[i])):
        if not kept or levels[i] > levels[kept[-1]]:
            kept.append(i)
    return kept[::-1]


def _place(
    speeds: Sequence[Speed], frontier: Sequence[int], levels: Levels, target: float
) -> Standing | None:
    """Return where a recall lies on a frontier, None where no point may reach it.

    A recall of 1 among a number of queries is a high one, like any other, unless the algorithm is exact.
    """
    aim = -math.log(max(1 - target, min(speeds[i].least_missed for i in frontier)))
    below = [i for i in frontier if not speeds[i].reaches(target)]
    above = [i for i in frontier if speeds[i].reaches(target)]
    slope = _slope([(speeds[i].effort, levels[i]) for i in frontier], aim)
    steep, unsure = (SLOPE, SLOPE_DOUBT) if slope is None else (slope, SLOPE_DOUBT / 2)
    exact = [i for i in frontier if speeds[i].is_exact and speeds[i].may_reach(target)]
    if exact:
        return Standing({max(exact, key=lambda i: levels[i]): 1.0}, EXACT, steep, unsure)
    if below and above:
        low, high = below[-1], above[0]
        gap = speeds[high].effort - speeds[low].effort
        share = min(max((aim - speeds[low].effort) / gap, 0.0), 1.0) if gap > 0 else 1.0
        reach = AT if share in (0.0, 1.0) else BETWEEN
        weights = {low: 1 - share, high: share}
        return Standing({i: w for i, w in weights.items() if w > 0}, reach, steep, unsure)
    if not above and not speeds[below[-1]].may_reach(target):
        return None
    nearest = above[0] if above else below[-1]
    rest = aim - speeds[nearest].effort
    if -rest > FAR:
        return Standing({nearest: 1.0}, ABOVE, steep, unsure, excess=-rest)
    doubt = abs(steep * rest) * unsure
    return Standing({nearest: 1.0}, AT if above else WITHIN, steep, unsure, steep * rest, doubt)


def _slope(frontier: Sequence[tuple[float, float]], aim: float) -> float | None:
    """Return the slope between the nearest two points that are far enough apart, None where no two are."""
    pairs = [
        (max(abs(aim - x), abs(aim - other_x)), (other - level) / (other_x - x))
        for place, (x, level) in enumerate(frontier)
        for other_x, other in frontier[place + 1 :]
        if other_x - x >= WIDE
    ]
    return min(max(min(pairs)[1], STEEPEST), SHALLOWEST) if pairs else None
