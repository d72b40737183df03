"""How sure a number is: 95% intervals of recall and throughput, and whether runs agree with each other."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ann_benchmarks.common.distributions import student_quantile
from ann_benchmarks.common.numbers import figure_text

CONFIDENCE = 0.95
FEWEST_RUNS = 3  # of two, Student's interval is 12.7 standard errors wide either way: it says nothing
NORMAL = 1.959964  # its two-sided quantile of the normal distribution
_PIECES = 20  # of a run, whose means show its noise: neighbouring queries are not independent
_BEYOND_NOISE = 3.0902  # normal quantile of 1 in 1,000
_WORTH_TELLING = 0.05  # of the mean


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


def mean_interval(values: Sequence[float]) -> Interval:
    """Student's interval of the mean of independent values, none negative, as the throughput of each run."""
    n = len(values)
    if n < 2:
        return Interval(math.nan, math.nan)
    mean = float(np.mean(values))
    half = student_quantile((1 + CONFIDENCE) / 2, n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n)
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
        return False  # times that are all the same are no measurements of each query
    weights = 1 / noise
    centre = np.average(means, weights=weights)
    statistic = float((weights * (means - centre) ** 2).sum())
    freedom = len(runs) - 1
    part = 2 / (9 * freedom)
    return statistic > freedom * (1 - part + _BEYOND_NOISE * math.sqrt(part)) ** 3


def _variance_of_mean(times: np.ndarray) -> float:
    pieces = np.array([piece.mean() for piece in np.array_split(times, _PIECES)])
    return float(pieces.var(ddof=1)) / _PIECES
