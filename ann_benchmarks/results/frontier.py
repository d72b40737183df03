"""Which points of a series no other point of it beats."""

import math
from collections.abc import Sequence

from .metrics import all_metrics


def drawable(x: float, y: float) -> bool:
    """Whether a point can be drawn: both values are known, finite and, as in ann-benchmarks, not zero."""
    return math.isfinite(x) and math.isfinite(y) and x != 0 and y != 0


def pareto_frontier(points: Sequence[tuple[float, float]], x: str, y: str) -> tuple[list[int], list[int]]:
    """Return the indexes of the points on the frontier of metrics `x` and `y`, and of all drawable points.

    Both run from the best y to the worst; along the frontier x gets strictly better.
    """
    x_sign = -1 if all_metrics[x].higher_is_better else 1
    y_sign = -1 if all_metrics[y].higher_is_better else 1
    every = [i for i, point in enumerate(points) if drawable(*point)]
    every.sort(key=lambda i: (y_sign * points[i][1], x_sign * points[i][0]))
    frontier: list[int] = []
    best = math.inf
    for i in every:
        if x_sign * points[i][0] < best:
            best = x_sign * points[i][0]
            frontier.append(i)
    return frontier, every
