"""Bytes on disk, and of memory while an index is built: multiples of the rows, and a constant.

A row takes the same share of pages whatever the number of rows is (the layouts are in the plug-ins'
`index_bytes`), and lists of constant length the same pages each. maintenance_work_mem holds a graph whole, on
top of the 64 MB that every build has.
"""

import math
from contextlib import suppress

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import KIB, MB, byte_size
from ann_benchmarks.results.runs import Run, number

from ..growth import Growth, Known
from .law import GRAPH, LISTS, Law

LINEAR = Known(1.0, 0.002)


def read(run: Run, target: float) -> float | None:
    """Return the bytes of the index."""
    return run.metrics["indexsize"] * KIB


def read_table(run: Run, target: float) -> float | None:
    """Return the bytes of the table."""
    return (number(run, "table_size") or 0) * KIB or None


def read_memory(run: Run, target: float) -> float | None:
    """Return the bytes of maintenance_work_mem."""
    with suppress(UserError):
        return float(byte_size(str(run.attrs.get("maintenance_work_mem"))))
    return None


KINDS = (GRAPH, LISTS)
LAW = Law("size", read, {kind: Growth(LINEAR, 0.004, 0.002, Known(math.log(MB / 4), 1.0)) for kind in KINDS})
TABLE = Law(
    "table", read_table, {kind: Growth(LINEAR, 0.02, 0.01, Known(math.log(MB / 4), 1.0)) for kind in KINDS}
)
MEMORY = Law(
    "memory",
    read_memory,
    {kind: Growth(LINEAR, 0.01, 0.02, Known(math.log(64 * MB), 0.01)) for kind in KINDS},
)
