"""Seconds of a query with all data in memory: a round trip, and its blocks, whose cost grows with the index.

A block costs more the less of the index the caches of the CPU and of its page table hold: on the machine that
measured the exponents here, a graph's block cost (rows)**0.3 up to 1 GB of index, and no more between 1 and
6.6 GB. With several clients, 1 / throughput takes the place of the seconds, so the cores that they share are
part of the scale.
"""

import math
from collections.abc import Callable

from ann_benchmarks.results.runs import Run

from ..growth import Growth, Known
from .law import GRAPH, LISTS, Law

ROUND_TRIP = Known(math.log(1e-4), 0.5)


def read(run: Run, target: float) -> float | None:
    """Return 1 / throughput."""
    return 1 / run.metrics["qps"] if run.metrics["qps"] else None


def read_tail(run: Run, target: float) -> float | None:
    """Return the 99th percentile of the latency, in s."""
    return run.metrics["p99"] / 1000


FULL = 2.0**30  # bytes: caches hold next to nothing of a larger index
CACHES = {GRAPH: Known(0.30, 0.08), LISTS: Known(0.15, 0.10)}


def time_law(name: str, figure: Callable[[Run, float], float | None], noise: float, drift: float) -> Law:
    """Return the law of a time that follows the blocks."""
    growth = {kind: Growth(known, noise, drift, ROUND_TRIP) for kind, known in CACHES.items()}
    return Law(name, figure, growth, per_load=True, base="blocks", bytes_full=FULL, is_at_recall=True)


LAW = time_law("seconds", read, noise=0.06, drift=0.05)
TAIL = time_law("p99", read_tail, noise=0.15, drift=0.1)
