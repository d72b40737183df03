"""How fast a contender is at a recall: on the line between its neighbouring points, with its uncertainty.

The logarithm of the throughput is taken to be linear in the *effort*, minus the logarithm of the share of
neighbours that are missed. Where a contender's points show the slope of that line, it is used; else a typical
one, of which half is its doubt.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance

from .judging import RESTARTED, Estimate
from .speeds import Speed

SLOPE, STEEPEST, SHALLOWEST = -0.7, -2.0, -0.3
SLOPE_DOUBT = 0.5  # its standard deviation as a share, where a line is continued
WIDE = 0.3  # of effort: closer neighbours show the noise of their throughput, and no slope
FAR = math.log(2)  # of effort: no line is continued further, to twice or half of what is missed
AS_GOOD = 3.0  # standard deviations within which the choice between two points was one by noise

BETWEEN, AT, WITHIN, ABOVE, EXACT = "between", "at", "within", "above", "exact"


@dataclass(frozen=True)
class Standing:
    """The speed of a contender at a recall, as the logarithm of queries/s, and what it is known from.

    The level is the mean of those of some of its points, by `weights`, and `shift`. `reach` says where the
    recall lies: BETWEEN two points, AT one or near it, WITHIN the interval of one that lies below it; ABOVE:
    all points have a higher recall, and their speed is a lower bound; EXACT: the algorithm has no other one.

    The best of several points looks faster than it is in the rounds that have chosen it, and not in others.
    """

    weights: Mapping[int, float]  # of points, by their numbers
    shift: float
    level: float
    estimate: Estimate
    reach: str
    doubt: float = 0.0  # standard deviation of the level for want of points nearer to the recall
    own_recall: float = math.nan  # of the point that it is known from the most
    excess: float = 0.0  # effort beyond the recall, of one that is ABOVE it
    slope: float = SLOPE  # of its line
    slope_doubt: float = SLOPE_DOUBT  # its standard deviation as a share
    recall_error: float = 0.0  # standard deviation of the level, because the queries are a sample
    recall_shifts: Sequence[float] = ()  # by which each part of the queries shifts the level
    own_error: float = 0.0  # the same of the level at its own recall, of one that is ABOVE
    own_shifts: Sequence[float] = ()
    choices: int = 1  # points that the chosen one may be the fastest of by noise alone
    mark: str = ""
    rounds: Mapping[int, float] | None = None  # the level in each round
    unchosen: Mapping[int, float] | None = None  # the same of the points that the other rounds would choose

    @property
    def chosen(self) -> list[int]:
        """The numbers of the points that it is known from, the nearest to the recall first."""
        return sorted(self.weights, key=lambda i: -self.weights[i])


@dataclass(frozen=True)
class _Place:
    """Where a recall lies among the points of one index: their weights, and what is added to the level."""

    weights: Mapping[int, float]
    reach: str
    slope: float
    slope_doubt: float
    shift: float = 0.0
    doubt: float = 0.0
    excess: float = 0.0

    def at(self, levels: Mapping[int, float]) -> float:
        return math.fsum(weight * levels[i] for i, weight in self.weights.items()) + self.shift


def standing(
    speeds: Sequence[Speed], target: float, mark: str = "", of_rounds: Mapping[int, float] | None = None
) -> Standing | None:
    """Return how fast a contender with these points is at a recall, None if it does not reach it.

    With a `mark`, only what was measured in its rounds counts, and `of_rounds` is what was common to all
    contenders in each of them.
    """
    numbers = [i for i, speed in enumerate(speeds) if not mark or (speed.mark == mark and speed.by_round)]
    levels = {i: speeds[i].level for i in numbers}
    if mark:
        levels = _levels(speeds, numbers, of_rounds or {})
    place = _best(speeds, levels, target)
    if place is None:
        return None
    best = max(place.weights, key=lambda i: place.weights[i])
    rivals = [i for i in numbers if i not in place.weights and speeds[i].may_reach(target)]
    slack = {i: AS_GOOD * _noise(speeds[best], speeds[i], mark) for i in rivals}
    choices = 1 + sum(levels[i] >= levels[best] - slack[i] for i in rivals)
    found = _standing(speeds, place, {i: speeds[i].level for i in numbers}, choices)
    if not mark:
        return found
    every = [speeds[i].by_round for i in place.weights]
    shared = sorted(set.intersection(*map(set, every)))
    rounds = {n: place.at({i: speeds[i].by_round[n] for i in place.weights}) for n in shared}
    if choices == 1:
        return replace(found, mark=mark, rounds=rounds, unchosen=rounds)
    unchosen = {}
    for n in shared:
        there = _best(speeds, _levels(speeds, numbers, of_rounds or {}, n), target) or place
        unchosen[n] = there.at({i: speeds[i].by_round[n] for i in there.weights})
    return replace(found, mark=mark, rounds=rounds, unchosen=unchosen)


def beside(fast: Standing, slow: Standing) -> tuple[Standing, Standing] | None:
    """Return both at the recall of the faster one, where both are ABOVE; None where the slower is far beyond.

    From a slightly higher recall, the slower one's level is moved along its line. From a lower one it is not:
    at the recall of the faster one, it is as fast as that at most. Other queries would have other recalls,
    which is the doubt of such a comparison.
    """
    gap = slow.excess - fast.excess
    if (fast.reach, slow.reach) != (ABOVE, ABOVE) or gap > WIDE:
        return None
    fast, slow = (
        replace(one, recall_error=one.own_error, recall_shifts=one.own_shifts) for one in (fast, slow)
    )
    if gap <= 0:
        return fast, slow
    more = -slow.slope * gap

    def moved(levels: Mapping[int, float] | None) -> Mapping[int, float] | None:
        return None if levels is None else {number: level + more for number, level in levels.items()}

    return fast, replace(
        slow,
        shift=slow.shift + more,
        level=slow.level + more,
        estimate=slow.estimate._replace(value=slow.estimate.value * math.exp(more)),
        doubt=math.hypot(slow.doubt, slow.slope_doubt * more),
        rounds=moved(slow.rounds),
        unchosen=moved(slow.unchosen),
    )


def _levels(
    speeds: Sequence[Speed], numbers: Sequence[int], of_rounds: Mapping[int, float], but: int | None = None
) -> dict[int, float]:
    """Return the mean level of points over their rounds, `but` one that they have, less what all share."""
    found = {}
    for i in numbers:
        by_round = speeds[i].by_round
        levels = [level - of_rounds.get(n, 0.0) for n, level in by_round.items() if n != but]
        if levels and (but is None or but in by_round):
            found[i] = fmean(levels)
    return found


def _noise(first: Speed, second: Speed, mark: str) -> float:
    """Return the standard deviation of the difference of two points' levels."""
    shared = first.by_round.keys() & second.by_round.keys() if mark else set()
    if len(shared) > 1:
        spread = variance(first.by_round[number] - second.by_round[number] for number in shared)
        return math.sqrt(spread / len(shared))
    spreads = (0.0 if math.isnan(one.spread) else one.spread for one in (first, second))
    return math.sqrt(math.fsum(spreads) + 2 * RESTARTED**2)


def _standing(speeds: Sequence[Speed], place: _Place, levels: Mapping[int, float], choices: int) -> Standing:
    level = place.at(levels)
    spread = math.fsum(weight**2 * speeds[i].spread for i, weight in place.weights.items())
    efforts = math.fsum(speeds[i].effort_error * weight for i, weight in place.weights.items())
    error, shifts = -place.slope * efforts, _shifts(speeds, place)
    is_bound = place.reach in (ABOVE, EXACT)
    return Standing(
        place.weights,
        place.shift,
        level,
        Estimate(math.exp(level), spread, min(len(speeds[i].rates) for i in place.weights)),
        place.reach,
        place.doubt,
        own_recall=speeds[max(place.weights, key=lambda i: place.weights[i])].recall,
        excess=place.excess,
        slope=place.slope,
        slope_doubt=place.slope_doubt,
        recall_error=0.0 if is_bound else error,
        recall_shifts=() if is_bound else shifts,
        own_error=error,
        own_shifts=shifts,
        choices=choices,
    )


def _shifts(speeds: Sequence[Speed], place: _Place) -> list[float]:
    """Return by how much each part of the queries, were it all of them, would shift the level.

    Parts without a miss do not show how rare misses are: there is nothing to return then.
    """
    if len({len(speeds[i].parts) for i in place.weights}) > 1 or any(
        speeds[i].is_perfect for i in place.weights
    ):
        return []
    weighted = [(speeds[i], weight) for i, weight in place.weights.items()]
    return [
        math.fsum(-place.slope * weight * (s.parts[n] - s.recall) / s.missed for s, weight in weighted)
        for n in range(len(weighted[0][0].parts))
    ]


def _best(speeds: Sequence[Speed], levels: Mapping[int, float], target: float) -> _Place | None:
    """Return the index on which the contender is the fastest at the target, as a place among its points."""
    indexes: dict[object, list[int]] = {}
    for i in levels:
        indexes.setdefault(speeds[i].index, []).append(i)
    places = [_place(speeds, _frontier(speeds, levels, group), levels, target) for group in indexes.values()]
    return max(filter(None, places), key=lambda place: place.at(levels), default=None)


def _frontier(speeds: Sequence[Speed], levels: Mapping[int, float], group: Sequence[int]) -> list[int]:
    """Return the points that none with at least their recall is faster than, by ascending recall."""
    kept: list[int] = []
    for i in sorted(group, key=lambda i: (-speeds[i].recall, -levels[i])):
        if not kept or levels[i] > levels[kept[-1]]:
            kept.append(i)
    return kept[::-1]


def _place(
    speeds: Sequence[Speed], frontier: Sequence[int], levels: Mapping[int, float], target: float
) -> _Place | None:
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
        return _Place({max(exact, key=lambda i: levels[i]): 1.0}, EXACT, steep, unsure)
    if below and above:
        low, high = below[-1], above[0]
        gap = speeds[high].effort - speeds[low].effort
        share = min(max((aim - speeds[low].effort) / gap, 0.0), 1.0) if gap > 0 else 1.0
        reach = AT if share in (0.0, 1.0) else BETWEEN
        weights = {low: 1 - share, high: share}
        return _Place({i: w for i, w in weights.items() if w > 0}, reach, steep, unsure)
    if not above and not speeds[below[-1]].may_reach(target):
        return None
    nearest = above[0] if above else below[-1]
    rest = aim - speeds[nearest].effort
    if -rest > FAR:
        return _Place({nearest: 1.0}, ABOVE, steep, unsure, excess=-rest)
    doubt = abs(steep * rest) * unsure
    return _Place({nearest: 1.0}, AT if above else WITHIN, steep, unsure, steep * rest, doubt)


def _slope(frontier: Sequence[tuple[float, float]], aim: float) -> float | None:
    """Return the slope between the nearest two points that are far enough apart, None where no two are."""
    pairs = [
        (max(abs(aim - x), abs(aim - other_x)), (other - level) / (other_x - x))
        for place, (x, level) in enumerate(frontier)
        for other_x, other in frontier[place + 1 :]
        if other_x - x >= WIDE
    ]
    return min(max(min(pairs)[1], STEEPEST), SHALLOWEST) if pairs else None
