"""Whether two sets of figures differ by more than noise, and which difference could have been seen.

Everything is done with logarithms: a difference is a ratio, and noise a share of the figure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import NamedTuple

from ann_benchmarks.common.student import quantile, two_sided

from .measurements import Figure

POWER = 0.8  # the chance to see the difference that is said to be visible
RESTARTED = 0.03  # standard deviation of what another start, build and hour alone do, where nothing tells it

HIGHER, LOWER, ALIKE, NOISY, UNJUDGED = "higher", "lower", "no difference", "too noisy", "not judged"


class Noise(NamedTuple):
    """The variance of one measurement's logarithm among repetitions, and the degrees of freedom of that."""

    variance: float
    freedom: float


@dataclass(frozen=True)
class Difference:
    """B over A. The error is that of the ratio's logarithm, NaN where nothing tells it.

    `by` says where the noise is known from: repetitions, pairs of them, noise (of others), runs. `p` is the
    chance of such a difference where there is none; `adjusted` is it among all that are judged together.
    """

    a: float  # geometric mean of the side's figures
    b: float
    repetitions: tuple[int, int]
    error: float = math.nan
    freedom: float = math.nan
    by: str = ""
    adjusted: float = math.nan

    @property
    def ratio(self) -> float:
        """B / A."""
        return self.b / self.a

    @property
    def is_judged(self) -> bool:
        """Whether anything is known of the noise."""
        return not math.isnan(self.error)

    @property
    def is_sure(self) -> bool:
        """Whether repetitions tell the noise, without which no error rate can be stated."""
        return self.is_judged and self.by != "runs"

    @property
    def p(self) -> float:
        """The chance of a difference at least so large, had nothing changed."""
        shift = math.log(self.ratio)
        if not self.is_judged:
            return math.nan
        if self.error == 0:
            return float(shift == 0)
        return two_sided(shift / self.error, self.freedom)

    def interval(self, error_rate: float) -> tuple[float, float]:
        """Return the bounds of the ratio, which miss it at the error rate."""
        if not self.is_judged:
            return math.nan, math.nan
        half = quantile(1 - error_rate / 2, self.freedom) * self.error if self.error else 0.0
        return self.ratio * math.exp(-half), self.ratio * math.exp(half)

    def visible(self, error_rate: float) -> float:
        """Return the smallest increase, as a share, that is seen in about 8 of 10 such comparisons."""
        if not self.is_judged or not self.error:
            return math.nan if not self.is_judged else 0.0
        steps = quantile(1 - error_rate / 2, self.freedom) + quantile(POWER, self.freedom)
        return math.expm1(min(steps * self.error, 50.0))

    def verdict(self, error_rate: float, worth: float) -> str:
        """Say whether it is more than noise and, if not, whether a difference of `worth` would have been."""
        if not self.is_judged:
            return UNJUDGED
        if self.adjusted <= error_rate and self.ratio != 1:
            return HIGHER if self.ratio > 1 else LOWER
        return ALIKE if self.visible(error_rate) <= worth else NOISY


def difference(a: Sequence[Figure], b: Sequence[Figure], noise: Noise | None = None) -> Difference:
    """Compare two sides, each of one measurement or of several that are repetitions.

    - Both have repetitions: Welch's test (1947), by the spread of each.
    - One has: the spread of that one, of both sides alike (Student's).
    - `noise`, from other repetitions, is pooled with what spread there is.
    - None of it: a measurement as a whole is taken to repeat no better than a single one of its runs, and
      than `RESTARTED` besides.
    """
    sides = [[math.log(figure.value) for figure in side] for side in (a, b)]
    counts = (len(a), len(b))
    means = [math.fsum(side) / len(side) for side in sides]
    plain = Difference(math.exp(means[0]), math.exp(means[1]), counts)
    squares = [math.fsum((x - mean) ** 2 for x in side) for side, mean in zip(sides, means, strict=True)]
    own = sum(counts) - 2
    if noise is not None or 1 in counts:
        if noise is None and not own:
            return _by_runs(plain, a[0], b[0])
        other = noise or Noise(0.0, 0.0)
        variance = (math.fsum(squares) + other.variance * other.freedom) / (own + other.freedom)
        error = math.sqrt(variance * sum(1 / count for count in counts))
        return replace(
            plain, error=error, freedom=own + other.freedom, by="noise" if noise else "repetitions"
        )
    parts = [square / (count - 1) / count for square, count in zip(squares, counts, strict=True)]
    return _welch(plain, parts, [count - 1 for count in counts], "repetitions")


def paired_difference(a: Sequence[Figure], b: Sequence[Figure]) -> Difference:
    """Compare repetitions of which the i-th of A and of B were measured next to each other (Student's).

    What changes from pair to pair, such as the load of the machine, then is no noise.
    """
    ratios = [math.log(y.value / x.value) for x, y in zip(a, b, strict=True)]
    means = [math.exp(fmean(math.log(figure.value) for figure in side)) for side in (a, b)]
    plain = Difference(means[0], means[1], (len(a), len(b)))
    if len(ratios) < 2:
        return plain
    return replace(
        plain, error=math.sqrt(variance(ratios) / len(ratios)), freedom=len(ratios) - 1, by="pairs"
    )


def _by_runs(plain: Difference, a: Figure, b: Figure) -> Difference:
    if math.isnan(a.variance) or math.isnan(b.variance):
        return plain
    parts = [figure.variance + RESTARTED**2 for figure in (a, b)]
    return _welch(plain, parts, [a.runs - 1, b.runs - 1], "runs")


def _welch(plain: Difference, parts: Sequence[float], freedoms: Sequence[float], by: str) -> Difference:
    """Add variances of the two means, each known with so many degrees of freedom (Satterthwaite, 1946)."""
    whole = math.fsum(parts)
    if not whole:
        return replace(plain, error=0.0, freedom=float(sum(freedoms)), by=by)
    freedom = whole**2 / math.fsum(part**2 / free for part, free in zip(parts, freedoms, strict=True))
    return replace(plain, error=math.sqrt(whole), freedom=freedom, by=by)


def adjusted(differences: Sequence[Difference]) -> list[Difference]:
    """Judge them together, so that the chance of any false one is the error rate (Holm, 1979)."""
    judged = sorted((d.p, i) for i, d in enumerate(differences) if d.is_judged)
    result, least = list(differences), 0.0
    for place, (p, i) in enumerate(judged):
        least = max(least, min(p * (len(judged) - place), 1.0))
        result[i] = replace(differences[i], adjusted=least)
    return result


def together(differences: Sequence[Difference], of_repetitions: Difference | None = None) -> Difference:
    """Return the geometric mean of the ratios of many points.

    `of_repetitions` is the same of whole repetitions, by whose spread it is judged, as what slows one point
    down slows its neighbours, too. Without it, all points are taken to err alike: the error is the mean one.
    """
    if of_repetitions is not None:
        return replace(of_repetitions, adjusted=of_repetitions.p)
    n = len(differences)
    a, b = (
        math.exp(math.fsum(map(math.log, side)) / n)
        for side in zip(*((d.a, d.b) for d in differences), strict=True)
    )
    first = differences[0]
    if not all(d.is_judged for d in differences):
        return Difference(a, b, first.repetitions)
    error = math.fsum(d.error for d in differences) / n
    mean = Difference(a, b, first.repetitions, error, min(d.freedom for d in differences), first.by)
    return replace(mean, adjusted=mean.p)
