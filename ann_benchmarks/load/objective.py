"""The highest rate of arrivals at which the latencies keep an objective."""

import math
from collections.abc import Callable

CLOSE_ENOUGH = 1.05  # ratio between the lowest rate that failed and the highest that was kept
FIRST_SHARE = 0.5  # of the throughput of a closed loop, with which the search begins
FARTHEST = 1000  # times above and below that throughput is looked at


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
        else:  # which was disturbed, if it goes on so
            rate, growth = kept * growth, min(growth**2, 2.0)
