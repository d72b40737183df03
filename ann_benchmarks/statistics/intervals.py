"""95% intervals of recalls and throughputs, and whether runs agree with each other."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

import numpy as np

from ann_benchmarks.common.numbers import figure_text, variance

from .distributions import incomplete_beta, student_quantile

CONFIDENCE = 0.95
ONE_IN = 20  # queries: 5%
FEWEST_FOR_LAG = 8  # values, from which on their autocorrelation can be estimated at all
FEWEST_RUNS = 3  # of two, Student's interval is 12.7 standard errors wide either way: it says nothing
NORMAL = 1.959964  # its two-sided quantile of the normal distribution
_PIECES = 20  # of a run, whose means show its noise: neighbouring queries are not independent
_BEYOND_NOISE = 3.0902  # normal quantile of 1 in 1,000
_WORTH_TELLING = 0.05  # of the mean
_ROUNDING = 1e-9


class Interval(NamedTuple):
    """The bounds within which a value lies with 95% confidence; NaN where too little was measured."""

    low: float
    high: float


def interval_text(bounds: Sequence[float | None] | None, write: Callable[[float], str] = figure_text) -> str:
    """Write an interval in brackets with a space before, nothing where it is not known."""
    if bounds is None or any(end is None or not math.isfinite(end) for end in bounds):
        return ""
    low, high = (write(end) for end in bounds if end is not None)
    return f" ({low} to {high})"


def share_interval(shares: np.ndarray) -> Interval:
    """Interval of the mean of shares between 0 and 1, one a query, as of the recall over all such queries.

    Wilson's score interval (1927), which holds near 1 where most recalls are. The k answers of one query
    count for as many independent ones as their spread over the queries says, and for one at least.
    """
    n = len(shares)
    if not n:
        return Interval(math.nan, math.nan)
    mean, spread = float(np.mean(shares)), float(np.var(shares, ddof=1)) if n > 1 else 0.0
    independent = n * max(1.0, mean * (1 - mean) / spread) if spread > 0 else n
    z2 = NORMAL**2 / independent
    middle = (mean + z2 / 2) / (1 + z2)
    half = math.sqrt(z2 * (mean * (1 - mean) + z2 / 4)) / (1 + z2)
    return Interval(max(middle - half, 0.0), min(middle + half, 1.0))


def fifth_percentile(recalls: np.ndarray) -> float:
    """Return the recall at the 5th percentile of queries, (queries,); NaN with fewer than 20 of them.

    It is the lower percentile, a value that occurred: at least 5% of the queries have this recall or a lower
    one, and at least 95% have this recall or a higher one.
    """
    if len(recalls) < ONE_IN:
        return math.nan
    place = (len(recalls) - 1) // ONE_IN
    return float(np.partition(recalls, place)[place])


def fifth_interval(recalls: np.ndarray) -> Interval:
    """Interval of the recall at the 5th percentile of all such queries; NaN with fewer than 20 of them.

    Its ends are order statistics: however recalls are distributed, the number of queries at most as good as
    the true percentile is at least binomial, and that of worse ones at most (David and Nagaraja, Order
    Statistics, 7.1). Where no query bounds it, the lower end is 0.
    """
    if len(recalls) < ONE_IN:
        return Interval(math.nan, math.nan)
    low, high = _ends(len(recalls))
    in_order = np.sort(recalls)
    return Interval(float(in_order[low - 1]) if low else 0.0, float(in_order[high - 1]))


@cache
def _ends(queries: int) -> tuple[int, int]:
    """Return the ranks of the ends, from 1 on; the lower one is 0 where no rank is low enough."""
    rest, share = (1 - CONFIDENCE) / 2, 1 / ONE_IN

    def find_chance(rank: int) -> float:
        """Return the chance that this many queries or more are within the percentile."""
        return 1.0 if rank <= 0 else incomplete_beta(share, rank, queries - rank + 1)

    def first(limit: float) -> int:
        """Return the first rank whose chance is at most this."""
        low, high = 0, queries
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if find_chance(middle) <= limit else (middle, high)
        return high

    return first(1 - rest - _ROUNDING) - 1, first(rest)


def independent_count(values: Sequence[float]) -> float:
    """Return for how many independent values these count, in the order of time: two at least.

    A drift makes neighbours alike: n count for n (1 - r) / (1 + r), with r their autocorrelation at lag 1, if
    it is above 0 (Bayley and Hammersley 1946). Its estimate from n values lies 1 / n too low; few values show
    none.
    """
    n = len(values)
    if n < FEWEST_FOR_LAG or not (spread := variance(values)):
        return float(n)
    mean = fmean(values)
    products = math.fsum((x - mean) * (y - mean) for x, y in pairwise(values))
    lag = min(max(products / (spread * (n - 1)) + 1 / n, 0.0), 0.9)
    return max(n * (1 - lag) / (1 + lag), 2.0)


def mean_interval(values: Sequence[float], are_independent: bool = False) -> Interval:
    """Student's interval of the mean of values in the order of time, none negative, as of throughputs."""
    n = len(values)
    if n < 2:
        return Interval(math.nan, math.nan)
    mean, worth = fmean(values), float(n) if are_independent else independent_count(values)
    half = student_quantile((1 + CONFIDENCE) / 2, worth - 1) * math.sqrt(variance(values) / worth)
    return Interval(max(mean - half, 0.0), mean + half)


def runs_disagree(runs: Sequence[np.ndarray]) -> bool:
    """Whether the mean times of runs differ by more than the noise within them explains, and by over 5%.

    `runs` holds the seconds of each query, in the order in which they were sent. The noise of a run's mean
    is that of the means of 20 pieces of it; the sum of the squared deviations is compared with the
    chi-squared distribution (Wilson and Hilferty's approximation of 1931) at 1 in 1,000.
    """
    if len(runs) < 2 or min(map(len, runs)) < 2 * _PIECES:
        return False
    means = np.array([np.mean(run) for run in runs])
    noise = np.array([_variance_of_mean(run) for run in runs])
    if np.ptp(means) <= _WORTH_TELLING * means.mean():
        return False
    if not noise.all():
        return False  # times that are all the same were not measured query by query
    weights = 1 / noise
    centre = np.average(means, weights=weights)
    statistic = float((weights * (means - centre) ** 2).sum())
    freedom = len(runs) - 1
    part = 2 / (9 * freedom)
    return statistic > freedom * (1 - part + _BEYOND_NOISE * math.sqrt(part)) ** 3


def _variance_of_mean(times: np.ndarray) -> float:
    pieces = np.array([piece.mean() for piece in np.array_split(times, _PIECES)])
    return float(pieces.var(ddof=1)) / _PIECES
