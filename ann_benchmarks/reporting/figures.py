"""How figures are written in a report."""

import math

from ann_benchmarks.common.numbers import plain, share
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.runs import Run, interval


def between(bounds: Interval | tuple[float | None, float | None] | None, write: object = plain) -> str:
    """Write an interval in brackets with a space before, nothing where it is not known."""
    if bounds is None or any(end is None or not math.isfinite(end) for end in bounds):
        return ""
    low, high = (write(end) for end in bounds)  # type: ignore[operator]
    return f" ({low} to {high})"


def with_interval(run: Run, metric: str) -> str:
    """Write a metric of a result with its 95% interval, where that is known."""
    write = share if metric == "k-nn" else plain
    return write(run.metrics[metric]) + between(interval(run, metric), write)
