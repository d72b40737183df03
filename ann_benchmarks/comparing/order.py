"""In which order the repetitions of A and B were measured, by their times: in turn, or in blocks.

A machine whose speed drifts makes the side that was measured later look slower, or faster. Where the sides
take turns, the drift is in the spread of each; where they do not, nothing shows it.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise

from ann_benchmarks.results.speeds import numbers

from .measurements import MeasuredPoint

LONG = 3  # repetitions to a stretch of one side, on average; 17% of random orders of five and five have it


def are_in_blocks(a: Sequence[MeasuredPoint], b: Sequence[MeasuredPoint]) -> bool:
    """Whether repetitions of a side were measured in long stretches, such as all of A before all of B.

    False where a side has no time, or neither has repetitions.
    """
    times = [(at, name) for name, side in (("A", a), ("B", b)) for at in _starts(side)]
    if len(times) < 3 or any(math.isnan(at) for at, _ in times):
        return False
    names = [name for _, name in sorted(times)]
    stretches = 1 + sum(one != other for one, other in pairwise(names))
    return stretches <= max(2, round(len(names) / LONG))


def _starts(side: Iterable[MeasuredPoint]) -> list[float]:
    """Return when each repetition began, in UNIX seconds, NaN where that is not known."""
    starts: dict[int, float] = {}
    for point in side:
        at = started(point)
        known = starts.setdefault(point.source, at)
        starts[point.source] = at if math.isnan(known) else min(known, at)
    return list(starts.values())


def started(point: MeasuredPoint) -> float:
    """Return when a point's first run began, else when the point did; NaN where it does not say so."""
    if runs := numbers(point.attrs.get("run_started")):
        return min(runs)
    try:
        return datetime.fromisoformat(str(point.attrs.get("started_at"))).timestamp()
    except ValueError:
        return math.nan
