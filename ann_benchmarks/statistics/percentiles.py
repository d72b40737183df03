"""Percentiles of latencies: of which queries they are, how sure they are, and how many queries they take.

A percentile is that of the latencies of all runs of a point together, interpolated linearly. Plots, tables,
pages, comparisons and the terminal show this one.

Its interval rests on the *effective size* of the sample: as how many queries that know nothing of each other
the latencies count. Queries that wait in the same queue are alike, and so are those of a run on a machine
whose speed changes.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .distributions import beta_quantile, student_quantile
from .intervals import CONFIDENCE, FEWEST_RUNS, NORMAL, Interval, independent_count

PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
QUERIES = "latency_queries"  # the attribute with the number of latencies that the percentiles are of
EFFECTIVE_SIZE = "latency_worth"  # and with the number of independent queries that they count as
TAIL = 90.0  # percentile whose queries show the effective size: further out, they are too few
RAREST_ALIKE = 99.0  # percentile up to which runs that are alike by chance do no harm
LEAST_BEYOND = 10  # queries; with fewer, intervals miss too often in simulated queues
LEAST_SIZE = 20.0  # of an interval
LEAST_SIZE_BEYOND = 0.5  # of those that are beyond a percentile
LEAST_RELAXATIONS_BEYOND = 1.8  # below, intervals miss too often in simulated queues
MANY_RUNS = 10  # from here on, their differences show all that there is
BLOCKS = 16  # of each of fewer runs, whose means show how long queries stay alike
MOST_LAG = 0.95
AMPLE = 1.1  # times what is needed: a run ends with its last query, not on the second
RARE = 1.0  # beyond something, queries come so many at a time: it is the less certain_size how alike they are
_ROUNDING = 1e-9
_ENDS = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2


def least_queries(name: str) -> int:
    """Return how many queries a percentile takes: at least 10 are expected beyond it, on either side."""
    percent = PERCENTILES[name]
    return math.ceil(100 * LEAST_BEYOND / min(percent, 100 - percent) - _ROUNDING)


def is_shown(name: str, queries: float) -> bool:
    """Whether a percentile of so many latencies says enough about others to be shown."""
    return queries >= least_queries(name)


def least_size(name: str) -> float:
    """Return how many independent queries an interval of a percentile takes."""
    return max(LEAST_SIZE, LEAST_SIZE_BEYOND / (1 - PERCENTILES[name] / 100))


def least_relaxations(name: str) -> float:
    """Return how many times a queue has to forget what was before, for a percentile with an interval."""
    return max(LEAST_SIZE, LEAST_RELAXATIONS_BEYOND / (1 - PERCENTILES[name] / 100))


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
    tail_size = effective_size(in_tail)
    # Few runs are alike by chance, too, and where that decides, intervals of what is rare are too narrow.
    surely = min(tail_size, certain_size_by_runs(in_tail)) if len(runs) > 1 else 0.0
    facts: dict[str, float | list[float]] = {
        QUERIES: len(every),
        EFFECTIVE_SIZE: tail_size,
        "run_p50": [float(np.median(run)) for run in runs],
    }
    for name, percent in PERCENTILES.items():
        facts[f"latency_{name}"] = float(np.percentile(every, percent))
        interval = Interval(math.nan, math.nan)
        known = surely if percent > RAREST_ALIKE else tail_size
        is_long = known >= least_size(name) and relaxations >= least_relaxations(name)
        if len(runs) >= FEWEST_RUNS and is_long:
            interval = percentile_interval(every, runs, percent, tail_size)
        facts[f"latency_{name}_low"], facts[f"latency_{name}_high"] = interval
    return facts


def percentile_interval(
    every: np.ndarray, runs: Sequence[np.ndarray], percent: float, tail_size: float
) -> Interval:
    """Interval of a percentile of all runs' latencies, of which `every` holds all in ascending order.

    They count as a number of independent queries; in the tail, `tail_size` at most. Of so many, the share
    that is beyond the true percentile is beta-distributed about the share that it ought to be. The latencies
    where the sample has the ends of that distribution are the interval (Woodruff 1952). It contains the
    percentile of the sample, reaches further where latencies do, and knows nothing of what happens in none
    of the runs.
    """
    value = float(np.percentile(every, percent))
    beyond = [run > value for run in runs]
    most = tail_size if percent > TAIL else math.inf
    independent = min(effective_size(beyond), certain_size_by_runs(beyond), most)
    rest = 1 - percent / 100
    few, many = (beta_quantile(end, rest * independent, (1 - rest) * independent) for end in _ENDS)
    last = len(every) - 1
    low, high = every[math.floor((1 - many) * last)], every[math.ceil((1 - few) * last)]
    return Interval(float(min(low, value)), float(max(high, value)))


def effective_size(beyond: Sequence[np.ndarray]) -> float:
    """Return as how many independent queries these show the share that is beyond something.

    `beyond`, (n,) each, says of the queries of each run, in the order of their coming, whether they are.
    Many runs show that by how they differ; few of them by that and by their blocks, whichever is less.
    """
    by_runs = size_by_runs(beyond) if len(beyond) > 1 else math.inf
    return by_runs if len(beyond) >= MANY_RUNS else min(size_by_blocks(beyond), by_runs)


def size_by_runs(beyond: Sequence[np.ndarray]) -> float:
    """Return what they are worth by how the share varies from run to run, which tells everything.

    Runs that resemble the next count for fewer, as in a mean.
    """
    sizes = np.array([len(run) for run in beyond])
    counts = np.array([np.count_nonzero(run) for run in beyond])
    n, share = int(sizes.sum()), counts.sum() / sizes.sum()
    deviations = counts - sizes * share
    variance = len(beyond) / (len(beyond) - 1) * float((deviations**2).sum()) / n**2
    variance *= len(beyond) / independent_runs(beyond)
    return min(float(n), share * (1 - share) / variance) if variance else float(n)


def independent_runs(beyond: Sequence[np.ndarray]) -> float:
    """Return for how many independent runs these count, by their shares."""
    return independent_count([float(run.mean()) for run in beyond])


def certain_size_by_runs(beyond: Sequence[np.ndarray]) -> float:
    """Return the size by runs, less what few runs leave uncertain."""
    return certain_size(size_by_runs(beyond), independent_runs(beyond) - 1)


def size_by_blocks(beyond: Sequence[np.ndarray]) -> float:
    """Return what they are worth by how the share varies from block to block of each run.

    Neighbouring blocks that resemble each other say less than others, by (1 - r) / (1 + r) with r their
    autocorrelation. Its estimate from m blocks around their mean lies (1 + 3 r) / m too low (Kendall 1954).
    """
    n, share = sum(map(len, beyond)), float(np.mean(np.concatenate(beyond)))
    if min(map(len, beyond)) < BLOCKS:
        return float(n)
    blocks = np.array([_means(run) for run in beyond])
    deviations = blocks - blocks.mean(axis=1, keepdims=True)
    squares = float((deviations**2).sum())
    if not squares:
        return float(n)
    products = float((deviations[:, 1:] * deviations[:, :-1]).sum())
    lag = (products / squares * BLOCKS / (BLOCKS - 1) + 1 / BLOCKS) / (1 - 3 / BLOCKS)
    lag = min(max(lag, 0.0), MOST_LAG)
    variance = squares / (len(beyond) * (BLOCKS - 1))
    alone = blocks.size * (1 - lag) / (1 + lag)  # blocks that would say as much
    size = min(float(n), share * (1 - share) * alone / variance)
    freedom = 1 / (1 / alone + RARE / (share * (1 - share) * size))
    return certain_size(size, max(round(freedom), 1))


def _means(run: np.ndarray) -> np.ndarray:
    """Return the share of each block of a run that is beyond, (BLOCKS,)."""
    ends = np.linspace(0, len(run), BLOCKS + 1).astype(int)
    return np.add.reduceat(run.astype(float), ends[:-1]) / np.diff(ends)


def certain_size(size: float, freedom: float) -> float:
    """Return by how many independent queries an interval is as wide as by those of an uncertain number."""
    return size * (NORMAL / student_quantile((1 + CONFIDENCE) / 2, freedom)) ** 2


def relaxations(runs: Iterable[Mapping[str, Any]]) -> float:
    """Return how many times the queue forgets what was before in all runs; infinity where it is not known."""
    found = [
        run["active_seconds"] / run["relaxation_seconds"] for run in runs if run.get("relaxation_seconds")
    ]
    return math.fsum(found) if found else math.inf
