"""The least RAM that keeps most of the throughput: as many times the index as on the largest sample.

A cache that holds the same share of an index misses about the same share of a query's blocks, and a miss
costs the same. In a published report (`reference/`), a billion rows kept what 100 million had kept with the
same share of RAM, with a median difference of 9% (HNSW) and 5% (VectorChord).
"""

import math

from ann_benchmarks.results.runs import Run

from ..growth import FittedLaw, Growth, Known, Z, fit
from .law import GRAPH, LISTS, Law

LEAST_NOISE = 0.05
GROWTH = Growth(Known(0.0, 0.05), LEAST_NOISE, drift=0.1)


def read(run: Run, target: float) -> float | None:
    """Return None, because one result does not tell the least RAM."""
    return None


def fit_ram(low: float, high: float, rows: float, size: FittedLaw) -> FittedLaw:
    """Fit the law to the one sample whose least RAM, in bytes, is known to lie between two tiers."""
    noise = max(math.log(high / low) / 2 / Z, LEAST_NOISE)
    growth = Growth(GROWTH.exponent, noise, GROWTH.drift)
    return fit(growth, [(rows, math.sqrt(low * high))], size)


LAW = Law("ram", read, {GRAPH: GROWTH, LISTS: GROWTH}, base="size", is_at_recall=True)
