"""How many times as fast one result is as another, and whether that is more than noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ann_benchmarks.comparing.judging import difference
from ann_benchmarks.comparing.measurements import Figure
from ann_benchmarks.results.intervals import CONFIDENCE, Interval
from ann_benchmarks.results.runs import Run


@dataclass(frozen=True)
class Ratio:
    """A ratio of two means, with its 95% interval, None where one run alone tells one of them."""

    value: float
    interval: Interval | None

    @property
    def is_noise(self) -> bool:
        """Whether it may as well be 1."""
        return self.interval is not None and self.interval.low <= 1 <= self.interval.high


def rates(run: Run) -> list[float]:
    """Return the throughput of each run of a result; that of the best one where nothing else is stored."""
    seconds = run.attrs.get("run_seconds")
    told = seconds if isinstance(seconds, list) else [seconds]
    known = [1 / s for s in told if isinstance(s, (int, float)) and math.isfinite(s) and s > 0]
    return known or [run.metrics["qps"]]


def ratio(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """Compare the means of the runs of two results, by the noise that compare.py takes them to have."""
    found = difference([figure(second)], [figure(first)])
    interval = Interval(*found.interval(1 - CONFIDENCE)) if found.is_judged else None
    return Ratio(found.ratio, interval)


def figure(sample: Sequence[float]) -> Figure:
    """Return the mean of the runs, and how much they differ."""
    spread = float(np.var(np.log(sample), ddof=1)) if len(sample) > 1 else math.nan
    return Figure(float(np.mean(sample)), spread, len(sample))
