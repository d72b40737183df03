"""What happened over time, in windows, on a clock that stands still where nothing is measured."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .rates import Times

LEAST_SECONDS = 1.0
WINDOWS = 60  # of the writing
COLUMNS = ("start", "seconds", "queries", "query_p50", "query_p99", "writes", "write_p50", "write_p99",
           "index_size", "recall")  # fmt: skip


class Timeline:
    """Windows of all segments, one after the other."""

    def __init__(self, seconds: float) -> None:
        """Take how long the writing lasts: a window is a sixtieth of it, and a second at least."""
        self.window = max(seconds / WINDOWS, LEAST_SECONDS)
        self.now = 0.0
        self.columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}

    def add(
        self,
        seconds: float,
        queries: Times | None,
        writes: Times | None,
        sizes: Sequence[tuple[float, float]],
    ) -> None:
        """Cut a segment into windows; `sizes` are (s from its start, KiB), ascending, one at its end."""
        number = max(round(seconds / self.window), 1)
        edges = np.linspace(0, seconds, number + 1)
        for begin, end in pairwise(edges):
            is_last = end == edges[-1]
            known = [size for moment, size in sizes if moment <= end or is_last]
            row: dict[str, Any] = {"start": self.now + float(begin), "seconds": float(end - begin)}
            for name, one, times in (("queries", "query", queries), ("writes", "write", writes)):
                row[name], row[f"{one}_p50"], row[f"{one}_p99"] = _of_window(times, begin, end, is_last)
            row["index_size"] = known[-1] if known else None
            row["recall"] = None
            for name, value in row.items():
                self.columns[name].append(value)
        self.now += seconds

    def tell_recall(self, recall: float) -> None:
        """Say what it was at the end of the last segment."""
        self.columns["recall"][-1] = recall


def _of_window(
    times: Times | None, begin: float, end: float, is_last: bool
) -> tuple[int, float | None, float | None]:
    if times is None:
        return 0, None, None
    inside = times.seconds[(times.ends > begin) & ((times.ends <= end) | is_last)]
    if not len(inside):
        return 0, None, None
    p50, p99 = np.percentile(inside, (50, 99))
    return len(inside), float(p50), float(p99)
