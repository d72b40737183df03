"""How figures are written in a report."""

import math

from ann_benchmarks.common.numbers import KIB, figure_text, size_text
from ann_benchmarks.results.intervals import Interval
from ann_benchmarks.results.runs import Run, interval

UNKNOWN = "-"


def plain(value: float | None) -> str:
    """Write a figure with four digits, or all that are before the point."""
    return figure_text(value) if value is not None and math.isfinite(value) else UNKNOWN


def share(value: float | None) -> str:
    """Write a recall, which is told to the fourth digit."""
    return f"{value:.4f}" if value is not None and math.isfinite(value) else UNKNOWN


def size(kib: float | None) -> str:
    """Write a size that is given in KiB; 0 is one that nobody has told."""
    return size_text(kib * KIB) if kib is not None and math.isfinite(kib) and kib > 0 else UNKNOWN


def milliseconds(seconds: float | None) -> str:
    """Write a time that is given in s, in ms."""
    return plain(None if seconds is None else seconds * 1e3)


def factor(value: float) -> str:
    """Write how many times as much something is."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


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
