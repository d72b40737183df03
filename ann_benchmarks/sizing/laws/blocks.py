"""Index blocks that a query reads: the nodes that a graph visits, or the codes and vectors of its lists.

A graph visits about M nodes for each candidate that it keeps (Malkov and Yashunin, "Efficient and robust
approximate nearest neighbor search using HNSW graphs", 2018, section 4.2), so the blocks follow ef_search.
Lists of constant length take blocks in proportion to the probes, on top of those of all centroids.
"""

from ann_benchmarks.results.runs import Run, number

from ..growth import Growth, Known
from .law import GRAPH, LISTS, Law


def read(run: Run, target: float) -> float | None:
    """Return the blocks of the index that a query reads, in memory or not."""
    hit = number(run, "index_blocks_hit_per_query")
    return hit and hit + (number(run, "index_blocks_read_per_query") or 0)


LAW = Law(
    "blocks",
    read,
    {
        GRAPH: Growth(Known(0.35, 0.15), noise=0.03, drift=0.08),
        LISTS: Growth(Known(0.5, 0.2), noise=0.05, drift=0.11, floor=Known(3.9, 0.7)),
    },
    is_at_recall=True,
)
