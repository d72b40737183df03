"""The beta distribution, and from it Student's t: quantiles, and chances of what is beyond a value."""

import math
from collections.abc import Callable
from functools import cache
from statistics import NormalDist

_SMALL = 1e-300
_PRECISION = 1e-14
_NORMAL_FROM = 500.0  # parameters, from which on its skewness is below a tenth
_STEPS = 100
_CLOSE = 1e-12


def incomplete_beta(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(1 - x, b, a)
    size = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return size / a / _fraction(x, a, b)


def beta_quantile(share: float, a: float, b: float) -> float:
    """Return the value that a share of all values do not exceed; a and b are above 0."""
    mean = a / (a + b)
    spread = math.sqrt(mean * (1 - mean) / (a + b + 1))
    if min(a, b) >= _NORMAL_FROM:
        return mean + NormalDist().inv_cdf(share) * spread
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)

    def find_density(x: float) -> float:
        return math.exp(logarithm + (a - 1) * math.log(x) + (b - 1) * math.log1p(-x))

    return _find(float(share), lambda x: incomplete_beta(x, a, b), find_density, (0.0, mean, 1.0))


def student_two_sided(t: float, freedom: float) -> float:
    """Return the chance of a value of Student's t distribution that is at least as far from 0 as t."""
    if math.isinf(t):
        return 0.0
    return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


@cache
def student_quantile(share: float, freedom: float) -> float:
    """Return the value of Student's t that a share, between 0.5 and 1, of all values do not exceed.

    `freedom` may be a fraction; large ones take the expansion of Abramowitz and Stegun, 26.7.5.
    """
    if freedom >= _NORMAL_FROM:
        z = NormalDist().inv_cdf(share)
        return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    low, high = 0.0, 1.0
    while 1 - student_two_sided(high, freedom) / 2 < share:
        low, high = high, 2 * high
    logarithm = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(math.pi * freedom) / 2

    def find_density(t: float) -> float:
        return math.exp(logarithm - (freedom + 1) / 2 * math.log1p(t * t / freedom))

    places = (low, (low + high) / 2, high)
    return _find(share, lambda t: 1 - student_two_sided(t, freedom) / 2, find_density, places)


def _find(
    share: float,
    find_chance: Callable[[float], float],
    find_density: Callable[[float], float],
    places: tuple[float, float, float],
) -> float:
    """Return the value with a chance, which lies between the first and the last of three places."""
    low, found, high = places
    for _ in range(_STEPS):  # Newton's, or a halving where it would lead out
        error = find_chance(found) - share
        low, high = (low, found) if error > 0 else (found, high)
        before, found = found, found - error / max(find_density(found), _SMALL)
        if found != before and not low < found < high:
            found = (low + high) / 2
        if abs(found - before) <= _CLOSE * found:
            break
    return found


def _fraction(x: float, a: float, b: float) -> float:
    """Evaluate 1 + d1/(1 + d2/(1 + ...)) from its beginning (Lentz's method of 1976)."""
    value = c = 1.0
    d = 0.0
    for step in range(1, 10_000):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + term * d or _SMALL)
        c = 1 + term / c or _SMALL
        value *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return value
