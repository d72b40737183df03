"""Whether two sets of estimates differ by more than noise, and which difference could have been seen.

Everything is done with logarithms: a difference is a ratio, and noise is a share of the value.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from ann_benchmarks.common.numbers import variance

from .distributions import student_quantile, student_two_sided
from .intervals import independent_count

ERROR_RATE = 0.05
LOOKS_SHARE = 0.2  # of the error rate, which the looks at a race have: what is said in the end has the rest
POWER = 0.8  # the chance to see the difference that is said to be visible

WIDEST = 50.0  # half of an interval of a ratio's logarithm: nothing is known
PIECES = 20  # of a time, that the interval of a rate is of
MANY = 1e6  # degrees of freedom, of what is as good as known

HIGHER, LOWER, ALIKE, NOISY, UNJUDGED = "higher", "lower", "no difference", "too noisy", "not judged"


class Estimate(NamedTuple):
    """A positive number, and the variance of its logarithm from run to run; NaN where unknown."""

    value: float
    variance: float
    runs: int


def estimate_of_rate(value: float, interval: tuple[float, float]) -> Estimate:
    """Return a rate over time as an estimate, by its 95% interval, which is of equal pieces of the time."""
    low, high = interval
    if not 0 < low <= high < math.inf:
        return Estimate(value, math.nan, 1)
    half = math.log(high / low) / 2
    return Estimate(value, (half / student_quantile(0.975, PIECES - 1)) ** 2, PIECES)


class Noise(NamedTuple):
    """The variance of one measurement's logarithm among repetitions, and its degrees of freedom."""

    variance: float
    freedom: float


# What another start of the server and another hour change, where nothing shows it: repetitions on a shared
# machine differ by 16% (docs/comparing.md).
SESSIONS = Noise(0.16**2, MANY)
RUNS = Noise(0.09**2, MANY)  # of one measurement there, for a single one
# Two builds of one index keep this in all rounds of a race: where their pages lie, and how the graph or the
# lists turned out (docs/measured.md).
BUILDS = Noise(0.025**2, MANY)


@dataclass(frozen=True)
class Difference:
    """B over A. The error is that of the ratio's logarithm, NaN where the noise is unknown.

    `by` names the source of the noise: repetitions, pairs of them, rounds, blocks (of repetitions, one side
    after the other), runs. `p` is the chance of such a difference where both are equal;
    `adjusted` is it among all that are judged together. `paired_ratio` is the ratio of what was measured side
    by side, where the values are those of more than that.
    """

    a: float  # geometric mean of the side's values
    b: float
    repetitions: tuple[int, int]
    error: float = math.nan
    freedom: float = math.nan
    by: str = ""
    adjusted: float = math.nan
    paired_ratio: float = math.nan

    @property
    def ratio(self) -> float:
        """B / A."""
        return self.b / self.a if math.isnan(self.paired_ratio) else self.paired_ratio

    @property
    def is_judged(self) -> bool:
        """Whether anything is known of the noise."""
        return not math.isnan(self.error)

    @property
    def is_sure(self) -> bool:
        """Whether what was measured shows all of the noise, without which no error rate can be stated."""
        return self.is_judged and self.by not in ("runs", "blocks")

    @property
    def p(self) -> float:
        """The chance of a difference at least this large, had nothing changed."""
        shift = math.log(self.ratio)
        if not self.is_judged:
            return math.nan
        return student_two_sided(shift / self.error, self.freedom) if self.error else float(shift == 0)

    def interval(self, error_rate: float) -> tuple[float, float]:
        """Return the bounds of the ratio, which miss it at the error rate."""
        if not self.is_judged:
            return math.nan, math.nan
        half = student_quantile(1 - error_rate / 2, self.freedom) * self.error if self.error else 0.0
        half = min(half, WIDEST)
        return self.ratio * math.exp(-half), self.ratio * math.exp(half)

    def visible(self, error_rate: float) -> float:
        """Return the smallest increase, as a share, that about 8 of 10 such comparisons see."""
        if not self.is_judged or not self.error:
            return math.nan if not self.is_judged else 0.0
        steps = student_quantile(1 - error_rate / 2, self.freedom) + student_quantile(POWER, self.freedom)
        return math.expm1(min(steps * self.error, WIDEST))

    def verdict(self, error_rate: float, worth: float) -> str:
        """Say whether it is more than noise and, if not, whether a difference of `worth` would have been."""
        if not self.is_judged:
            return UNJUDGED
        if self.adjusted <= error_rate and self.ratio != 1:
            return HIGHER if self.ratio > 1 else LOWER
        return ALIKE if self.visible(error_rate) <= worth else NOISY


def difference(a: Sequence[Estimate], b: Sequence[Estimate], sessions: Noise = SESSIONS) -> Difference:
    """Compare two sides, each of one measurement or of several that are repetitions.

    - Both have repetitions: Welch's test (1947), by the spread of each.
    - One has: the spread of that one, for both sides alike (Student's).
    - None of it: a measurement as a whole is assumed to repeat no better than a single one of its runs, and
      to differ as `sessions` do.
    """
    sides = [[math.log(estimate.value) for estimate in side] for side in (a, b)]
    counts = (len(a), len(b))
    means = [fmean(side) for side in sides]
    plain = Difference(math.exp(means[0]), math.exp(means[1]), counts)
    squares = [math.fsum((x - mean) ** 2 for x in side) for side, mean in zip(sides, means, strict=True)]
    own = sum(counts) - 2
    if not own:
        if math.isnan(a[0].variance) or math.isnan(b[0].variance):
            return plain
        parts = [a[0].variance, b[0].variance, 2 * sessions.variance]
        return _welch(plain, parts, [a[0].runs - 1, b[0].runs - 1, sessions.freedom], "runs")
    if 1 in counts:
        error = math.sqrt(math.fsum(squares) / own * sum(1 / count for count in counts))
        return replace(plain, error=error, freedom=float(own), by="repetitions")
    parts = [square / (count - 1) / count for square, count in zip(squares, counts, strict=True)]
    return _welch(plain, parts, [count - 1 for count in counts], "repetitions")


def paired_difference(a: Sequence[Estimate], b: Sequence[Estimate]) -> Difference:
    """Compare repetitions where the i-th of A and of B were measured next to each other (Student's).

    Changes from pair to pair, such as the load of the machine, are then no noise.
    """
    before, after = ([math.log(estimate.value) for estimate in side] for side in (a, b))
    return difference_of_pairs(before, after, "pairs")


def difference_of_pairs(a: Sequence[float], b: Sequence[float], by: str) -> Difference:
    """Compare logarithms that were measured next to each other, in the order of time.

    What is left of a drift makes neighbouring differences alike.
    """
    plain = Difference(math.exp(fmean(a)), math.exp(fmean(b)), (len(a), len(b)))
    shifts = [y - x for x, y in zip(a, b, strict=True)]
    if len(shifts) < 2:
        return plain
    worth = independent_count(shifts)
    return replace(plain, error=math.sqrt(variance(shifts) / worth), freedom=worth - 1, by=by)


def add_doubt(found: Difference, deviation: float) -> Difference:
    """Add the standard deviation of something else that the logarithm of the ratio depends on."""
    if not found.is_judged or not deviation:
        return found
    whole = found.error**2 + deviation**2
    freedom = found.freedom * (whole / found.error**2) ** 2 if found.error else MANY
    return replace(found, error=math.sqrt(whole), freedom=min(freedom, MANY))


def _welch(plain: Difference, parts: Sequence[float], freedoms: Sequence[float], by: str) -> Difference:
    """Add the variances of the two means, each with its degrees of freedom (Satterthwaite, 1946)."""
    whole = math.fsum(parts)
    if not whole:
        return replace(plain, error=0.0, freedom=float(sum(freedoms)), by=by)
    freedom = whole**2 / math.fsum(part**2 / free for part, free in zip(parts, freedoms, strict=True))
    return replace(plain, error=math.sqrt(whole), freedom=freedom, by=by)


def adjust(differences: Sequence[Difference]) -> list[Difference]:
    """Judge them together, so that the chance of any false one is the error rate (Holm, 1979)."""
    judged = sorted((d.p, i) for i, d in enumerate(differences) if d.is_judged)
    result, least = list(differences), 0.0
    for place, (p, i) in enumerate(judged):
        least = max(least, min(p * (len(judged) - place), 1.0))
        result[i] = replace(differences[i], adjusted=least)
    return result


def mean_difference(differences: Sequence[Difference], repeated: Difference | None = None) -> Difference:
    """Return the geometric mean of the ratios of many points.

    `repeated` is the same for whole repetitions. Their spread judges it, because what slows one point
    slows its neighbours, too. Without it, all points are assumed to err alike: the error is the mean one.
    """
    if repeated is not None:
        return replace(repeated, adjusted=repeated.p)
    first = differences[0]
    a, b = (
        math.exp(fmean(map(math.log, side))) for side in zip(*((d.a, d.b) for d in differences), strict=True)
    )
    plain = Difference(a, b, first.repetitions)
    if not all(math.isnan(d.paired_ratio) for d in differences):
        plain = replace(plain, paired_ratio=math.exp(fmean(math.log(d.ratio) for d in differences)))
    if not all(d.is_judged for d in differences):
        return plain
    error, freedom = fmean(d.error for d in differences), min(d.freedom for d in differences)
    by = next((d.by for d in differences if not d.is_sure), first.by)
    mean = replace(plain, error=error, freedom=freedom, by=by)
    return replace(mean, adjusted=mean.p)
