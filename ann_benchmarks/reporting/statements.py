"""What the sentences of an answer share: their form, and how many times as fast one result is as another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from ann_benchmarks.common.numbers import three_digits
from ann_benchmarks.comparing.judging import Estimate, difference
from ann_benchmarks.results.intervals import CONFIDENCE, Interval
from ann_benchmarks.results.runs import Run


@dataclass(frozen=True)
class Statement:
    """One answer: what it is about, and a sentence or more."""

    about: str
    text: str


@dataclass(frozen=True)
class Ratio:
    """A ratio of two means, with its 95% interval, None where either mean is that of a single run."""

    value: float
    interval: Interval | None

    @property
    def is_noise(self) -> bool:
        """Whether the interval includes 1."""
        return self.interval is not None and self.interval.low <= 1 <= self.interval.high

    @property
    def certainty(self) -> str:
        """How sure the ratio is, in words."""
        if self.interval is None:
            return "from single runs: noise is not ruled out"
        low, high = map(three_digits, self.interval)
        return f"95% interval {low} to {high}"


def rates(run: Run) -> list[float]:
    """Return the throughput of each run of a result in queries/s, or of the best if no other is stored."""
    seconds = run.attrs.get("run_seconds")
    stored = seconds if isinstance(seconds, list) else [seconds]
    known = [1 / s for s in stored if isinstance(s, (int, float)) and math.isfinite(s) and s > 0]
    return known or [run.metrics["qps"]]


def mean_rate(run: Run) -> float:
    """Return the mean throughput of the runs of a result, in queries/s."""
    return fmean(rates(run))


def pace(run: Run) -> str:
    """Write the mean throughput of the runs of a result."""
    return three_digits(mean_rate(run))


def ratio(first: Run, second: Run) -> Ratio:
    """Compare the mean throughputs of two results, with the noise that compare.py assumes."""
    samples = [rates(run) for run in (second, first)]
    spreads = [variance(map(math.log, sample)) if len(sample) > 1 else math.nan for sample in samples]
    a, b = (Estimate(fmean(one), spread, len(one)) for one, spread in zip(samples, spreads, strict=True))
    found = difference([a], [b])
    return Ratio(found.ratio, Interval(*found.interval(1 - CONFIDENCE)) if found.is_judged else None)


def listed(texts: Sequence[str]) -> str:
    """Join texts as in a sentence."""
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
