"""The query argument that a recall needs: ef_search of a graph, or the probes of lists of constant length.

The misses of a search fall as a power of its argument, so a result that exceeds the recall tells which
argument would just reach it. At a constant recall, the ef_search of a graph is a power of the rows, whose
exponent rises with the intrinsic dimension. The odds that a list is probed fall with a power of the rows.
"""

from ann_benchmarks.results.runs import Run, number

from ..growth import Growth, Known
from .law import FEWEST, GRAPH, KINDS, LISTS, Law

FALL = {GRAPH: 1.2, LISTS: 2.5}  # misses are about argument**-FALL


def read(run: Run, target: float) -> float | None:
    """Return the argument at which the recall would be just the target, or the odds that a list is probed.

    None if it was not searched.
    """
    value, misses = number(run, "target_value"), 1 - run.metrics["recall"]
    kind = KINDS.get(str(run.attrs.get("target_parameter")), "")
    if not value or kind not in FALL or not 0 < target < 1:
        return None
    exact = value * (max(misses, FEWEST) / (1 - target)) ** (1 / FALL[kind])
    if kind == GRAPH:
        return exact
    lists = list_count(run)
    exact = max(exact, value - 1, 0.5)  # with one list less, the recall is not reached
    return lists and exact / max(lists - exact, 0.5)


def list_count(run: Run) -> float:
    """Return the number of lists of an index; 0 where it is not known."""
    share = number(run, "scanned_share")
    return (number(run, "target_value") or 0) / share if share else 0.0


def restored(figure: float, rows: float, run: Run) -> float:
    """Return the query argument, with as many rows a list as in the largest sample."""
    if KINDS[str(run.attrs["target_parameter"])] == GRAPH:
        return max(figure, float(run.count))
    lists = list_count(run) * rows / (number(run, "rows") or rows)
    return max(lists * figure / (1 + figure), 1.0)


LAW = Law(
    "argument",
    read,
    {
        GRAPH: Growth(Known(0.35, 0.15), noise=0.05, drift=0.13),
        LISTS: Growth(Known(-0.55, 0.12), noise=0.08, drift=0.13),
    },
    restored,
)
