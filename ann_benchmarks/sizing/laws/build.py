"""Seconds of a build that fits into memory: each row is searched for, so it costs what a query costs.

A graph inserts a row at the cost of a search, which grows with the logarithm of the rows and with the misses
of the caches. Lists cost a comparison of each row with the centroids of two levels, and k-means.
PostgreSQL gives a table below min_parallel_table_scan_size (8 MB) no parallel worker, one from there on, and
another for each 3 times (compute_parallel_worker in allpaths.c): the law is of the work of all processes.
"""

import math

from ann_benchmarks.results.runs import Run, number

from ..growth import Growth, Known
from .law import GRAPH, LISTS, Law

FIRST_WORKER = 8192  # KiB of table
MORE = 3.0  # times as much table, another worker
GAIN = 0.75  # of a worker, by what the leader does alone


def speedup(table: float, workers: float) -> float:
    """Return how many times as fast as one process a build is: `table` KiB, and at most so many workers."""
    planned = 1 + math.floor(math.log(table / FIRST_WORKER, MORE)) if table >= FIRST_WORKER else 0
    return 1 + GAIN * min(planned, workers)


def most_workers(run: Run) -> float:
    """Return how many workers a build may have."""
    return number(run, "max_parallel_maintenance_workers") or 0.0


def read(run: Run, target: float) -> float | None:
    """Return the seconds that one process would take."""
    took, table = number(run, "index_build_time"), number(run, "table_size")
    return took and table and took * speedup(table, most_workers(run))


def restored(figure: float, rows: float, run: Run) -> float:
    """Return the seconds with the workers that a table of so many rows has."""
    table = (number(run, "table_size") or 0) * rows / (number(run, "rows") or rows)
    return figure / speedup(table, most_workers(run))


LAW = Law(
    "build",
    read,
    {
        GRAPH: Growth(Known(1.18, 0.05), noise=0.08, drift=0.04),
        LISTS: Growth(Known(1.2, 0.1), noise=0.08, drift=0.08, floor=Known(math.log(0.05), 0.5)),
    },
    restored,
)
