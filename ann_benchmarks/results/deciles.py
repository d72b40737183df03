"""Figures by decile of matches: what small and large tenants get of the same result."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ann_benchmarks.common.text import is_number

from .filtered import UnderFilter
from .runs import Run

ATTRIBUTE = "deciles"  # of a result: a list of objects as JSON, the fewest matches first
MOST = 10


@dataclass(frozen=True)
class Decile:
    """Queries with `least` to `most` matching rows; latencies in s, NaN where too few queries show one."""

    least: int
    most: int
    queries: int
    recall: float
    completeness: float
    p50: float
    p99: float


@dataclass(frozen=True)
class DecileLine:
    """The deciles of the result that stands for a strategy."""

    strategy: str
    deciles: Sequence[Decile]


def deciles_of_run(run: Run) -> list[Decile]:
    """Return the deciles of a result, nothing where it has none or they cannot be read."""
    try:
        stored = run.attrs.get(ATTRIBUTE, "[]")
        found = json.loads(stored) if isinstance(stored, str) else stored
        return [_decile(one) for one in found[:MOST]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def _decile(stored: dict[str, Any]) -> Decile:
    numbers = [stored[name] for name in ("least", "most", "queries", "recall", "completeness")]
    if not all(is_number(value) for value in numbers):
        raise ValueError
    least, most, queries = map(int, numbers[:3])
    shares = [float(value) for value in numbers[3:]]
    if not 0 <= least <= most or queries < 1 or not all(0 <= share <= 1 for share in shares):
        raise ValueError
    known = (stored.get("p50", math.nan), stored.get("p99", math.nan))
    times = [float(value) if is_number(value) and value > 0 else math.nan for value in known]
    return Decile(least, most, queries, *shares, *times)


def decile_lines(one: UnderFilter) -> list[DecileLine]:
    """Return each strategy's deciles: of the result next to the recall, else of that nearest to it."""
    chosen = {name: at.run for name, at in one.at_recall.items()} | one.missed
    lines = [DecileLine(name, deciles_of_run(run)) for name, run in sorted(chosen.items())]
    return [line for line in lines if line.deciles]
