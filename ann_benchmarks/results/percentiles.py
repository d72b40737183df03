"""Percentiles of latencies: of which queries they are, how sure they are, and how many queries they take.

A percentile is that of the latencies of all runs of a point together, interpolated linearly. Plots, tables,
pages, comparisons and the terminal show this one.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ann_benchmarks.common.student import quantile

from .intervals import CONFIDENCE, Interval

PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
QUERIES = "latency_queries"  # the attribute with the number of latencies that the percentiles are of
LEAST_BEYOND = 10  # queries; with fewer, benchmarks/honesty.py finds intervals that miss too often
_ROUNDING = 1e-9


def least_queries(name: str) -> int:
    """Return how many queries a percentile takes: at least 10 are expected beyond it, on either side."""
    percent = PERCENTILES[name]
    return math.ceil(100 * LEAST_BEYOND / min(percent, 100 - percent) - _ROUNDING)


def is_shown(name: str, queries: float) -> bool:
    """Whether a percentile of so many latencies says enough about others to be shown."""
    return queries >= least_queries(name)


def known_percentile(attrs: Mapping[str, Any], name: str) -> float | None:
    """Return a stored percentile in s, None where too few queries are known to be behind it."""
    return attrs.get(f"latency_{name}") if is_shown(name, attrs.get(QUERIES, 0)) else None


def shown_percentiles(attrs: Mapping[str, Any], times: np.ndarray) -> dict[str, float]:
    """Return the percentiles of a result by name, in s; NaN where it has too few queries for one.

    They are those that the file states. One of ann-benchmarks states none: there they are those of `times`,
    (n,) in s, its last run.
    """
    if "latency_p50" in attrs:
        queries = attrs.get(QUERIES, len(times) * attrs.get("run_count", 1))
        values = {name: attrs.get(f"latency_{name}", math.nan) for name in PERCENTILES}
    else:
        queries = len(times)
        found = np.percentile(times, list(PERCENTILES.values())) if queries else [math.nan] * len(PERCENTILES)
        values = dict(zip(PERCENTILES, map(float, found), strict=True))
    return {name: value if is_shown(name, queries) else math.nan for name, value in values.items()}


def stored_percentiles(runs: Sequence[np.ndarray]) -> dict[str, float | list[float]]:
    """Return what is stored of the latencies of runs, (n,) in s each.

    These are the percentiles of all of them with their intervals, NaN for one run; their number; and the
    median of each run, by which comparisons see how well runs repeat.
    """
    every = np.sort(np.concatenate(runs))
    facts: dict[str, float | list[float]] = {
        QUERIES: len(every),
        "run_p50": [float(np.median(run)) for run in runs],
    }
    for name, percent in PERCENTILES.items():
        facts[f"latency_{name}"] = value = float(np.percentile(every, percent))
        interval = percentile_interval(every, runs, percent / 100, value)
        facts[f"latency_{name}_low"], facts[f"latency_{name}_high"] = interval
    return facts


def percentile_interval(
    every: np.ndarray, runs: Sequence[np.ndarray], share: float, value: float
) -> Interval:
    """Interval of a percentile of all runs' latencies: of the `share` of them up to `value`.

    `every` holds those of all `runs` in ascending order. Runs are the independent units: neighbouring queries
    are not, and one run says nothing about another. From run to run the share of queries beyond the value
    varies, which gives the interval of that share (Wilson's, with Student's quantile, and no narrower than
    independent queries would make it); the latencies at its ends are the interval of the percentile
    (Woodruff 1952). It contains the percentile, reaches further where latencies do, and knows nothing of what
    happens in none of the runs.
    """
    if len(runs) < 2:
        return Interval(math.nan, math.nan)
    sizes = np.array([len(run) for run in runs])
    beyond = np.array([np.count_nonzero(run > value) for run in runs])
    n, rest = len(every), 1 - share
    deviations = beyond - sizes * beyond.sum() / n
    of_runs = len(runs) / (len(runs) - 1) * float((deviations**2).sum()) / n**2
    variance = max(of_runs, share * rest / n)
    t2 = quantile((1 + CONFIDENCE) / 2, len(runs) - 1) ** 2
    per_query = t2 * variance / (share * rest)  # t squared over the number of independent queries
    middle = (rest + per_query / 2) / (1 + per_query)
    half = math.sqrt(per_query * (rest * share + per_query / 4)) / (1 + per_query)
    low, high = 1 - middle - half, 1 - middle + half
    # The nearest latencies further out.
    ends = every[[math.floor(max(low, 0.0) * (n - 1)), math.ceil(min(high, 1.0) * (n - 1))]]
    return Interval(float(min(ends[0], value)), float(max(ends[1], value)))
