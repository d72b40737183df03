"""What happened over time, in the units in which it is shown."""

import math
from collections.abc import Callable
from typing import Any

from ann_benchmarks.common.errors import UserError

Windows = dict[str, list[Any]]


def _milli(name: str) -> Callable[[Windows], list[float]]:
    """Return a column of times in s, in ms."""
    return lambda windows: [value * 1e3 for value in column(windows, name)]


def _a_second(name: str) -> Callable[[Windows], list[float]]:
    """Return a column of counts, as a rate."""
    return lambda windows: [
        count / seconds if seconds else math.nan
        for count, seconds in zip(column(windows, name), column(windows, "seconds"), strict=True)
    ]


FIGURES: dict[str, Callable[[Windows], list[float]]] = {
    "queries": _a_second("queries"),  # 1/s
    "query_p99": _milli("query_p99"),  # ms
    "writes": _a_second("writes"),  # 1/s
    "write_p99": _milli("write_p99"),  # ms
    "recall": lambda windows: column(windows, "recall"),  # told now and then
    "index_size": lambda windows: [size / 1024 for size in column(windows, "index_size")],  # MiB
}


def column(windows: Windows, name: str) -> list[float]:
    """Return a column as it is stored, nan where nothing was told."""
    values = windows.get(name) or [None] * len(windows["start"])
    return [math.nan if value is None else float(value) for value in values]


def over_time(windows: Windows) -> tuple[list[float], dict[str, list[float]]]:
    """Return the middle of each window, in s from the beginning, and the figures by name.

    UserError where they cannot be read.
    """
    try:
        middles = [
            start + seconds / 2
            for start, seconds in zip(column(windows, "start"), column(windows, "seconds"), strict=True)
        ]
        figures = {name: of(windows) for name, of in FIGURES.items()}
        if {len(middles)} != {len(values) for values in figures.values()}:
            raise ValueError
        return middles, figures
    except (LookupError, ValueError, TypeError, AttributeError):
        raise UserError("the windows over time of a record cannot be read") from None
