"""The figures of a result by the checker's own arithmetic, which shares nothing with what measured it.

A test holds both equal on honest results.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ROUNDING = 1e-6  # share by which a distance may exceed the k-th true one, and still count
SLACK = 1e-3  # the same in results of earlier versions, as in ann-benchmarks: not a share
_Z = 1.959963985  # quantile 0.975 of the normal distribution
_STEPS = 2000
_BLOCK = 1 << 24  # comparisons at once


@dataclass(frozen=True)
class Neighborhood:
    """The true neighbours of every query: `rows` and `distances` (queries, k_truth).

    Under a filter rows are -1 and distances inf beyond the rows that pass; `matches` (queries,) is their
    number.
    """

    rows: np.ndarray
    distances: np.ndarray
    matches: np.ndarray | None = None

    def due(self, count: int) -> np.ndarray:
        """How many rows there are to return to each query, (queries,)."""
        if self.matches is None:
            return np.full(len(self.rows), count)
        return np.isfinite(self.distances[:, :count]).sum(axis=1)

    def limits(self, count: int, has_slack: bool) -> np.ndarray:
        """Return up to which distance an answer counts, (queries,): that of the last row that is due."""
        due = self.due(count)
        last = self.distances[np.arange(len(due)), np.maximum(due - 1, 0)]
        last = np.where(due > 0, last, 0.0)
        return last + SLACK if has_slack else last + ROUNDING * np.abs(last) + 1e-15


def shares(hits: np.ndarray, due: np.ndarray) -> np.ndarray:
    """Return hits over what was due of each query, at most 1; 1 where nothing was."""
    return np.array([min(hit / one, 1.0) if one else 1.0 for hit, one in zip(hits, due, strict=True)])


def recalls(distances: np.ndarray, truth: Neighborhood, has_slack: bool = False) -> np.ndarray:
    """Return the recall of each query, (queries,), by the distances of its answer, (queries, k)."""
    count = distances.shape[1]
    hits = (distances <= truth.limits(count, has_slack)[:, None]).sum(axis=1)
    return hits / count if truth.matches is None else shares(hits, truth.due(count))


def tail_of(of_each: np.ndarray) -> tuple[float, float]:
    """Return the recall that 5% of queries, (queries,), do not exceed, nan of fewer than 20; the worst."""
    ascending = np.sort(of_each)
    fifth = float(ascending[(len(ascending) - 1) // 20]) if len(ascending) >= 20 else math.nan
    return fifth, float(ascending[0])


def places(rows: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
    """Return where in `rows` (queries, n) each of `neighbors` (queries, k) is, -1 where it is not."""
    found = np.full(neighbors.shape, -1)
    step = max(1, _BLOCK // max(rows.shape[1] * neighbors.shape[1], 1))
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        equal = neighbors[block, :, None] == rows[block, None, :]
        found[block] = np.where(equal.any(axis=2) & (neighbors[block] >= 0), equal.argmax(axis=2), -1)
    return found


def recalls_by_rows(found: np.ndarray, truth: Neighborhood) -> np.ndarray:
    """Return the share of each query's true neighbours in its answer, by the `places` of that among them."""
    due = truth.due(found.shape[1])
    hits = ((found >= 0) & (found < due[:, None])).sum(axis=1)
    return shares(hits, due)


def completeness(neighbors: np.ndarray, truth: Neighborhood) -> np.ndarray:
    """Return the share of the rows that each query was to return, (queries,)."""
    return shares((neighbors >= 0).sum(axis=1), truth.due(neighbors.shape[1]))


def wilson(values: np.ndarray) -> tuple[float, float]:
    """Return the 95% score interval of a mean of shares, whose spread says how many count as independent."""
    n, mean = len(values), float(values.sum()) / len(values)
    variance = float(((values - mean) ** 2).sum()) / (n - 1) if n > 1 else 0.0
    size = n * max(1.0, mean * (1 - mean) / variance) if variance else float(n)
    centre = (mean * size + _Z**2 / 2) / (size + _Z**2)
    half = _Z * math.sqrt(mean * (1 - mean) * size + _Z**2 / 4) / (size + _Z**2)
    return max(centre - half, 0.0), min(centre + half, 1.0)


def student(values: Sequence[float]) -> tuple[float, float]:
    """Return Student's 95% interval of a mean, which no value below 0 is part of; nan for one value."""
    n = len(values)
    if n < 2:
        return math.nan, math.nan
    mean = math.fsum(values) / n
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
    half = student_quantile(n - 1) * error
    return max(mean - half, 0.0), mean + half


def student_quantile(freedom: int) -> float:
    """Return quantile 0.975 of Student's distribution: its density integrated by Simpson's rule.

    With t = sqrt(n) tan(a), the density is that of cos(a) to the power of n - 1, over a finite range.
    """
    angles = np.linspace(0, math.pi / 2, 2 * _STEPS + 1)
    density = np.cos(angles) ** (freedom - 1)
    parts = density[:-2:2] + 4 * density[1:-1:2] + density[2::2]
    below = np.concatenate([[0.0], np.cumsum(parts)]) / parts.sum()
    angle = float(np.interp(0.95, below, angles[::2]))
    return math.sqrt(freedom) * math.tan(angle)


def percentile_bounds(edges: np.ndarray, counts: np.ndarray, percent: float) -> tuple[float, float]:
    """Return between which seconds a percentile of the latencies lies, by their histogram."""
    place = percent / 100 * (int(counts.sum()) - 1)
    upto = np.cumsum(counts)
    low = int(np.searchsorted(upto, math.floor(place), side="right"))
    high = int(np.searchsorted(upto, math.ceil(place), side="right"))
    return float(edges[low]), float(edges[min(high, len(counts) - 1) + 1])
