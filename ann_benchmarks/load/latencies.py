"""What is stored of latencies: percentiles, how sure they are, and the whole histogram."""

from collections.abc import Sequence

import numpy as np

from ann_benchmarks.results.intervals import mean_interval

from .request import PERCENTILES

BUCKETS_PER_DECADE = 116  # each 2% wider than the one before
_SHORTEST, _LONGEST = -7, 4  # decades of s


def percentiles(runs: Sequence[np.ndarray]) -> dict[str, float]:
    """Return latency_p50 and so on, in s, of all queries of all runs, and their intervals over the runs."""
    every = np.concatenate(runs)
    facts = {}
    for name, percentile in PERCENTILES.items():
        facts[f"latency_{name}"] = float(np.percentile(every, percentile))
        interval = mean_interval([float(np.percentile(run, percentile)) for run in runs])
        facts[f"latency_{name}_low"], facts[f"latency_{name}_high"] = interval
    return facts


def histogram(runs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of buckets, (n + 1,) in s, each 2% above the last, and the queries in each, (n,).

    The buckets reach from the shortest to the longest latency of all runs.
    """
    every = np.concatenate(runs)
    edges = np.logspace(_SHORTEST, _LONGEST, (_LONGEST - _SHORTEST) * BUCKETS_PER_DECADE + 1)
    counts, _ = np.histogram(every.clip(edges[0], edges[-1]), edges)
    used = np.flatnonzero(counts)
    first, last = used[0], used[-1] + 1
    return edges[first : last + 1], counts[first:last]
