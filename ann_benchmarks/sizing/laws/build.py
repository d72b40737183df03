"""Seconds of a build that fits into memory, by the work of all its processes.

A graph inserts a row at the cost of a search, which grows with the logarithm of the rows and with the misses
of the caches. An index with one level of lists compares each row with each list, and does some work for each
row besides.
PostgreSQL gives a table below min_parallel_table_scan_size (8 MB) no parallel worker, one from there on, and
another for each 3 times (compute_parallel_worker in allpaths.c).
"""

import math

from ann_benchmarks.results.runs import Run, number

from ..growth import Growth, Known
from .argument import list_count
from .law import GRAPH, LISTS, Law

FIRST_WORKER = 8192  # KiB of table
MORE = 3.0  # times as much table, another worker
GAIN = 0.9  # of a worker
EQUAL_LISTS = 800  # comparing a row with all of these takes as long as the rest of its work


def speedup(table: float, workers: float) -> float:
    """Return how many times as fast as one process a build is: `table` is in KiB, `workers` the most."""
    planned = 1 + math.floor(math.log(table / FIRST_WORKER, MORE)) if table >= FIRST_WORKER else 0
    return 1 + GAIN * min(planned, workers)


def most_workers(run: Run) -> float:
    """Return how many workers a build may have."""
    return float(run.attrs.get("max_parallel_maintenance_workers") or 0)


def read(run: Run, target: float) -> float | None:
    """Return the seconds that one process would take, without the comparisons with lists."""
    took, table = number(run, "index_build_time"), number(run, "table_size")
    return took and table and took * speedup(table, most_workers(run)) / (1 + list_count(run) / EQUAL_LISTS)


def restored(figure: float, rows: float, run: Run) -> float:
    """Return the seconds with the workers that the table would have."""
    growth = rows / (number(run, "rows") or rows)
    workers = speedup((number(run, "table_size") or 0) * growth, most_workers(run))
    return figure * (1 + list_count(run) * growth / EQUAL_LISTS) / workers


LAW = Law(
    "build",
    read,
    {
        GRAPH: Growth(Known(1.22, 0.05), noise=0.15, drift=0.04),
        LISTS: Growth(Known(1.03, 0.05), noise=0.12, drift=0.08, floor=Known(math.log(0.05), 0.5)),
    },
    restored,
)
