"""What queries get by how many rows match their filters, as large and small tenants do."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ann_benchmarks.results.percentiles import shown_percentile

LEAST_RANGE = 10  # times the smallest number of matches, that the largest one has
_PERCENTILES = ("p50", "p99")


def deciles(
    matches: np.ndarray,
    recalls: np.ndarray,
    completeness: np.ndarray,
    runs: Sequence[tuple[np.ndarray, np.ndarray]],
) -> list[dict[str, Any]]:
    """Return the figures of up to ten groups of queries, from those with the fewest matches on.

    The first three arrays are of all queries, (queries,). `runs` has the seconds of each run and the numbers
    of the queries that took them, both (n,); -1 where that is not known. Queries with equally many matches
    are in one group, so that groups can differ in size. Nothing where matches differ by less than 10 times.
    A percentile is that of the latencies of all runs, in s, and None where these are too few.
    """
    if not len(matches) or matches.max() < LEAST_RANGE * max(matches.min(), 1):
        return []
    edges = np.unique(np.quantile(matches, np.arange(1, 10) / 10, method="lower"))
    group_of = np.searchsorted(edges, matches)
    seconds = np.concatenate([times[numbers >= 0] for times, numbers in runs])
    of_latency = group_of[np.concatenate([numbers[numbers >= 0] for _, numbers in runs])]
    found = []
    for group in np.unique(group_of):
        those, latencies = group_of == group, seconds[of_latency == group]
        found.append({
            "least": int(matches[those].min()),
            "most": int(matches[those].max()),
            "queries": int(np.count_nonzero(those)),
            "recall": float(recalls[those].mean()),
            "completeness": float(completeness[those].mean()),
            **{name: shown_percentile(latencies, name) for name in _PERCENTILES},
        })  # fmt: skip
    return found
