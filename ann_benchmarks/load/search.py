"""Searches: the highest rate that keeps an objective, the smallest argument that reaches a recall.

`overstatement` is what a recall that was searched for owes to the very queries that it was searched with.
"""

import math
from collections.abc import Callable, Mapping, Sequence
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
USUAL_SLOPE = 1.5  # of the logit of a recall, by the logarithm of the place
MOST_SLOW = 3  # guesses
FINEST = 0.01  # of the value's place: a smaller difference in effort does not show in the figures


@dataclass(frozen=True)
class Found:
    """The smallest value that reached the target, or, where none did, the largest there is."""

    value: Any
    recall: float
    is_reached: bool
    trials: int


def smallest_reaching(
    target: float,
    values: Sequence[Any],
    recall_of: Callable[[Any], float],
    granularity: float,
    first: int | None = None,
) -> Found:
    """Search `values`, ascending, for the smallest, within 1%, of which `recall_of` is at least `target`.

    That recall grows with the value is all that is supposed. The next value is guessed where a straight line
    between the two nearest measurements meets the target, in the logarithm of the value's place and the
    logit of the recall, which is nearly one for indexes in use; after two guesses that take too little off
    the interval comes its middle. `granularity` is the smallest step of a recall, as of one answer. `first`
    is the place that is tried first, if a likely one is known.
    """
    measured: dict[int, float] = {}
    target -= ROUNDING

    def recall_at(place: int) -> float:
        if place not in measured:
            measured[place] = recall_of(values[place])
        return measured[place]

    low, high = -1, len(values)  # places known, or taken, to fail and to reach it
    place = min(high - 1, round(math.sqrt(high))) if first is None else first
    slow = 0  # guesses in a row that took less than half off the interval
    while high - low > max(1, FINEST * high) or high == len(values) > low + 1:
        width = high - low
        if recall_at(place) >= target:
            high = place
        else:
            low = place
        slow = slow + 1 if high - low > width / 2 else 0
        if slow < MOST_SLOW:
            guess = _crossing(low, high, measured, target, granularity)
        else:
            slow = 0
            ends = low + 1, 9 * (low + 1) if high == len(values) else high + 1
            guess = round(math.sqrt(ends[0] * ends[1] or ends[1] / 9)) - 1
        farthest = min(len(values) - 1, 8 * (low + 1)) if high == len(values) else high - 1
        place = min(max(guess, low + 1), farthest)
    if high == len(values):
        return Found(values[-1], measured[len(values) - 1], False, len(measured))
    return Found(values[high], measured[high], True, len(measured))


def _crossing(low: int, high: int, measured: Mapping[int, float], target: float, granularity: float) -> int:
    """Return the place at which the line through the two nearest measurements reaches the target.

    A single measurement, or two of the same recall, have a line of the usual slope through the nearest one.
    """
    known = sorted(measured)
    known = known[:2] if low < 0 else known[-2:] if high not in measured else [low, high]
    logs = [math.log(place + 1) for place in known]
    logits = [_logit(measured[place], granularity) for place in known]
    nearest = 0 if low < 0 else -1
    rise = logits[-1] - logits[0]
    slope = rise / (logs[-1] - logs[0]) if rise > 0 else USUAL_SLOPE
    at = logs[nearest] + (_logit(target, granularity) - logits[nearest]) / slope
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
