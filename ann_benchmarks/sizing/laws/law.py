"""What a law is."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ann_benchmarks.results.runs import Run

from ..growth import Growth

GRAPH, LISTS = "graph", "lists"  # kinds of index
KINDS = {"ef_search": GRAPH, "query_search_list_size": GRAPH, "probes": LISTS}  # by the argument searched
FEWEST = 2e-4  # misses, of a recall of 1


def unchanged(figure: float, rows: float, run: Run) -> float:
    """Return the figure itself."""
    return figure


@dataclass(frozen=True)
class Law:
    """A figure of an index: how it is read of a result at a target recall, and its growth by kind of index.

    `restored` is the inverse of what `read` does, at a number of rows, with a result of the largest sample.
    `per_load`: it differs with the number of clients. `base` names the law whose figure it follows.
    `bytes_full`: the size of an index from which on the power no longer grows.
    `is_at_recall`: it exists only where some query argument reaches the recall.
    """

    name: str
    read: Callable[[Run, float], float | None]
    growth: Mapping[str, Growth]
    restored: Callable[[float, float, Run], float] = unchanged
    per_load: bool = False
    base: str = ""
    bytes_full: float = math.inf
    is_at_recall: bool = False
