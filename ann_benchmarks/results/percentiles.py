"""Percentiles of latencies: of which queries they are, how sure they are, and how many queries they take.

A percentile is that of the latencies of all runs of a point together, interpolated linearly. Plots, tables,
pages, comparisons and the terminal show this one.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ann_benchmarks.common.distributions import beta_quantile

from .intervals import CONFIDENCE, FEWEST_RUNS, Interval
from .worth import certain, worth, worth_of_runs

PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
QUERIES = "latency_queries"  # the attribute with the number of latencies that the percentiles are of
WORTH = "latency_worth"  # and with the number of independent queries that they are worth
TAIL = 90.0  # percentile whose queries show that: further out, they are too few to show how alike they are
RAREST_ALIKE = 99.0  # percentile up to which runs that are alike by chance do no harm
LEAST_BEYOND = 10  # queries; with fewer, benchmarks/honesty.py finds intervals that miss too often
LEAST_WORTH = 20.0  # of an interval
LEAST_WORTH_BEYOND = 0.5  # of those that are beyond a percentile
LEAST_RELAXATIONS_BEYOND = 1.8  # benchmarks/steady_state.py finds intervals that miss too often below
_ROUNDING = 1e-9
_ENDS = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2


def least_queries(name: str) -> int:
    """Return how many queries a percentile takes: at least 10 are expected beyond it, on either side."""
    percent = PERCENTILES[name]
    return math.ceil(100 * LEAST_BEYOND / min(percent, 100 - percent) - _ROUNDING)


def is_shown(name: str, queries: float) -> bool:
    """Whether a percentile of so many latencies says enough about others to be shown."""
    return queries >= least_queries(name)


def least_worth(name: str) -> float:
    """Return how many independent queries an interval of a percentile takes."""
    return max(LEAST_WORTH, LEAST_WORTH_BEYOND / (1 - PERCENTILES[name] / 100))


def least_relaxations(name: str) -> float:
    """Return how many times a queue has to forget what was before, for a percentile with an interval."""
    return max(LEAST_WORTH, LEAST_RELAXATIONS_BEYOND / (1 - PERCENTILES[name] / 100))


def known_percentile(attrs: Mapping[str, Any], name: str) -> float | None:
    """Return a stored percentile in s, None where too few queries are known to be behind it."""
    return attrs.get(f"latency_{name}") if is_shown(name, attrs.get(QUERIES, 0)) else None


def shown_percentile(times: np.ndarray, name: str) -> float | None:
    """Return a percentile of latencies, (n,) in s, None where they are too few to show it."""
    return float(np.percentile(times, PERCENTILES[name])) if is_shown(name, len(times)) else None


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


def stored_percentiles(
    runs: Sequence[np.ndarray], relaxations: float = math.inf
) -> dict[str, float | list[float]]:
    """Return what is stored of the latencies of runs, (n,) in s each, in the order of the queries' coming.

    These are the percentiles of all of them with their intervals, NaN for too few runs and where they are
    worth too little; their number, and what they are worth; and the median of each run, by which comparisons
    see how well runs repeat. All runs together last a number of `relaxations` of an open loop's queue: too
    short runs look as if they were worth more than they are.
    """
    every = np.sort(np.concatenate(runs))
    tail = float(np.percentile(every, TAIL))
    in_tail = [run > tail for run in runs]
    of_tail = worth(in_tail)
    # Few runs are alike by chance, too, and where that decides, intervals of what is rare are too narrow.
    surely = min(of_tail, certain(worth_of_runs(in_tail), len(runs) - 1)) if len(runs) > 1 else 0.0
    facts: dict[str, float | list[float]] = {
        QUERIES: len(every),
        WORTH: of_tail,
        "run_p50": [float(np.median(run)) for run in runs],
    }
    for name, percent in PERCENTILES.items():
        facts[f"latency_{name}"] = float(np.percentile(every, percent))
        interval = Interval(math.nan, math.nan)
        known = surely if percent > RAREST_ALIKE else of_tail
        is_long = known >= least_worth(name) and relaxations >= least_relaxations(name)
        if len(runs) >= FEWEST_RUNS and is_long:
            interval = percentile_interval(every, runs, percent, of_tail)
        facts[f"latency_{name}_low"], facts[f"latency_{name}_high"] = interval
    return facts


def percentile_interval(
    every: np.ndarray, runs: Sequence[np.ndarray], percent: float, of_tail: float
) -> Interval:
    """Interval of a percentile of all runs' latencies, of which `every` holds all in ascending order.

    They are worth a number of independent queries; in the tail, `of_tail` at most. Of so many, the share that
    is beyond the true percentile is beta-distributed about the share that it ought to be. The latencies where
    the sample has the ends of that distribution are the interval (Woodruff 1952). It contains the percentile
    of the sample, reaches further where latencies do, and knows nothing of what happens in none of the runs.
    """
    value = float(np.percentile(every, percent))
    beyond = [run > value for run in runs]
    by_runs = certain(worth_of_runs(beyond), len(runs) - 1)
    independent = min(worth(beyond), by_runs, of_tail if percent > TAIL else math.inf)
    rest = 1 - percent / 100
    few, many = (beta_quantile(end, rest * independent, (1 - rest) * independent) for end in _ENDS)
    last = len(every) - 1
    low, high = every[math.floor((1 - many) * last)], every[math.ceil((1 - few) * last)]
    return Interval(float(min(low, value)), float(max(high, value)))
