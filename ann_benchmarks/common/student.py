"""Student's t distribution, also with fractions of degrees of freedom."""

import math
from functools import cache

from .beta import incomplete_beta


def two_sided(t: float, freedom: float) -> float:
    """Return the chance of a value at least as far from 0 as t."""
    if math.isinf(t):
        return 0.0
    return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


@cache
def quantile(share: float, freedom: float) -> float:
    """Return the value that a share, between 0.5 and 1, of all values do not exceed."""
    low, high = 0.0, 1.0
    while 1 - two_sided(high, freedom) / 2 < share:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - two_sided(middle, freedom) / 2 < share else (low, middle)
    return high
