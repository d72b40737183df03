"""Searches: the highest rate that keeps an objective, the smallest argument that reaches a recall.

`overstatement` is what a recall that was searched for owes to the very queries that it was searched with.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CLOSE_ENOUGH = 1.05  # ratio between the lowest rate that failed and the highest that was kept
FIRST_SHARE = 0.5  # of the throughput of a closed loop, with which the search begins
FARTHEST = 1000  # times above and below that throughput is looked at
RESAMPLED = 400  # times, for what a search owes to its queries
_LEAST = 1e-4  # of a recall, from 0 and from 1


def highest_rate(is_kept_at: Callable[[float], bool], closed_loop_rate: float) -> tuple[float | None, int]:
    """Return the highest rate found at which the objective is kept, and how many rates were tried.

    None: it is not kept at a thousandth of what a closed loop gives; one that is kept at a thousand times as
    much is looked at no further. The higher the rate, the longer the latencies, is all that is supposed: the
    rate is halved, or raised by up to twice, until one is kept and one is not, and then the geometric middle
    is tried until the two are within 5%.
    """
    rate = closed_loop_rate * FIRST_SHARE
    kept, failed, trials = 0.0, math.inf, 0
    growth = CLOSE_ENOUGH
    while True:
        trials += 1
        if is_kept_at(rate):
            kept = rate
        else:
            failed = rate
        if failed <= kept * CLOSE_ENOUGH or failed < closed_loop_rate / FARTHEST:
            return kept or None, trials
        if kept > closed_loop_rate * FARTHEST:
            return kept or None, trials
        if not kept:
            rate = failed / 2
        elif failed < math.inf:
            rate = math.sqrt(kept * failed)
        elif kept < closed_loop_rate:
            rate = min(kept * 2, closed_loop_rate)
        else:  # it was disturbed if the next ones are the same
            rate, growth = kept * growth, min(growth**2, 2.0)


ROUNDING = 1e-9  # of a mean of recalls
FINEST = 0.01  # of the value's place: a smaller difference in effort does not show in the figures


@dataclass(frozen=True)
class Found:
    """The smallest value that reached the target, or, where none did, the largest there is."""

    value: Any
    recall: float
    is_reached: bool
    trials: int


def smallest_reaching(
    target: float, values: Sequence[Any], recall_of: Callable[[Any], float], granularity: float
) -> Found:
    """Search `values`, ascending, for the smallest, within 1%, of which `recall_of` is at least `target`.

    That recall grows with the value is all that is supposed. The next value is guessed where a straight line
    between the two nearest measurements meets the target, in the logarithm of the value's place and the
    logit of the recall, which is nearly one for indexes in use; a guess that takes too little off the
    interval is followed by its middle. `granularity` is the smallest step of a recall, as of one answer.
    """
    measured: dict[int, float] = {}

    def recall_at(place: int) -> float:
        if place not in measured:
            measured[place] = recall_of(values[place])
        return measured[place]

    low, high = -1, len(values)  # places known, or taken, to fail and to reach it
    place = _first(len(values))
    halve = False
    target -= ROUNDING
    while high - low > max(1, FINEST * high) or high == len(values) > low + 1:
        width = high - low
        if recall_at(place) >= target:
            high = place
        else:
            low = place
        halve = high - low > width / 2 and not halve
        place = _next(low, high, len(values), measured, target, granularity, halve)
    if high == len(values):
        return Found(values[-1], measured[len(values) - 1], False, len(measured))
    return Found(values[high], measured[high], True, len(measured))


def _first(places: int) -> int:
    return min(places - 1, max(0, round(math.sqrt(places))))


def _next(
    low: int,
    high: int,
    places: int,
    measured: dict[int, float],
    target: float,
    granularity: float,
    halve: bool,
) -> int:
    """Return a place strictly between two others, the first of them below 0 or the second at the end."""
    if high == places:  # nothing has reached it yet
        known = sorted(measured)[-2:]
        guess = _crossing(known, measured, target, granularity) if len(known) == 2 else None
        if guess is None or guess <= low:
            guess = 3 * (low + 1)
        return min(max(guess, low + 1), min(places - 1, 8 * (low + 1)))
    if low < 0:  # everything has reached it
        known = sorted(measured)[:2]
        guess = _crossing(known, measured, target, granularity) if len(known) == 2 else None
        if guess is None or halve or guess >= high:
            guess = high // 3
        return min(max(guess, 0), high - 1)
    guess = None if halve else _crossing([low, high], measured, target, granularity)
    if guess is None:
        guess = round(math.sqrt((low + 1) * (high + 1))) - 1
    return min(max(guess, low + 1), high - 1)


def _crossing(known: list[int], measured: dict[int, float], target: float, granularity: float) -> int | None:
    """Return the place at which the line through two measurements reaches the target; None if it does not."""
    logits = [_logit(measured[place], granularity) for place in known]
    rise = logits[1] - logits[0]
    if rise <= 0:
        return None
    logs = [math.log(place + 1) for place in known]
    at = logs[0] + (_logit(target, granularity) - logits[0]) * (logs[1] - logs[0]) / rise
    return math.ceil(math.exp(min(at, 60.0)) - 1 - 1e-9)


def _logit(recall: float, granularity: float) -> float:
    inside = float(np.clip(recall, granularity / 2, 1 - granularity / 2))
    return math.log(inside / (1 - inside))


def overstatement(target: float, places: Sequence[int], recalls: np.ndarray) -> float | None:
    """Return by how much a recall that a search has reached exceeds that of other queries, on average.

    `places` are those that were tried, ascending; `recalls` are of each query, (places, queries). The search
    is repeated on queries drawn with replacement from these, which are to these what these are to all that
    there could be (Efron's bootstrap, 1983): where it reaches the target on the drawn ones, the mean recall
    of these lies below it. Between two places the logit of the recall is linear in the logarithm of the
    place. None where the places do not enclose the target.
    """
    means = recalls.mean(axis=1)
    if len(places) < 2 or not np.min(means) < target <= np.max(means):
        return None
    queries = recalls.shape[1]
    counts = np.random.default_rng(queries).multinomial(queries, np.full(queries, 1 / queries), RESAMPLED)
    efforts, aim = np.log1p(np.asarray(places, dtype=float)), float(_logits(np.array(target)))
    of_all = _logits(means)
    found = [
        np.interp(np.interp(aim, np.maximum.accumulate(curve), efforts), efforts, of_all)
        for curve in _logits(counts @ recalls.T / queries)
    ]
    return target - float(np.mean(1 / (1 + np.exp(-np.array(found)))))


def _logits(recalls: np.ndarray) -> np.ndarray:
    inside = np.clip(recalls, _LEAST, 1 - _LEAST)
    return np.log(inside / (1 - inside))
