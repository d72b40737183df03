"""From the times of single queries or writes to what is kept of a phase."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ann_benchmarks.load.request import PERCENTILES
from ann_benchmarks.results.intervals import mean_interval
from ann_benchmarks.results.records import Rate

PIECES = 20  # of a phase, about: the spread of their rates makes the interval


@dataclass(frozen=True)
class Times:
    """Operations of one kind: when each ended, in s from the start of its segment, and how long it took."""

    ends: np.ndarray
    seconds: np.ndarray
    failed: int = 0


@dataclass(frozen=True)
class Span:
    """A segment in which operations were measured, and how many of them a second."""

    seconds: float
    times: Times
    per_second: float


def rate_of(spans: Sequence[Span], waited: np.ndarray | None = None) -> Rate:
    """Put together what a phase has measured.

    The interval is Student's, of the rates in equal pieces of the time, about 20 in all. Percentiles are of
    all operations, and of the seconds that those which were late have `waited`.
    """
    late = np.empty(0) if waited is None else waited
    latencies = np.concatenate([span.times.seconds for span in spans] + [late])
    seconds = sum(span.seconds for span in spans)
    per_second = sum(span.per_second * span.seconds for span in spans) / seconds
    pieces = [rate for span in spans for rate in _pieces(span, max(PIECES // len(spans), 2))]
    interval = mean_interval(pieces)
    found = np.percentile(latencies, list(PERCENTILES.values())) if len(latencies) else np.zeros(4)
    return Rate(
        count=sum(len(span.times.seconds) for span in spans),
        per_second=per_second,
        low=min(interval.low, per_second),
        high=max(interval.high, per_second),
        **{name: float(value) for name, value in zip(PERCENTILES, found, strict=True)},
        failed=sum(span.times.failed for span in spans),
        late=len(late),
    )


def _pieces(span: Span, number: int) -> list[float]:
    counts, _ = np.histogram(span.times.ends, number, (0, span.seconds))
    return [float(count) * number / span.seconds for count in counts]
