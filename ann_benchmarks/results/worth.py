"""How much the latencies of runs are worth: as much as how many queries that know nothing of each other.

Queries that wait in the same queue are alike, and so are those of a run on a machine whose speed changes.
"""

import math
from collections.abc import Sequence

import numpy as np

from ann_benchmarks.common.distributions import student_quantile

from .intervals import CONFIDENCE, NORMAL

MANY_RUNS = 10  # from here on, their differences show all that there is
BLOCKS = 16  # of each of fewer runs, whose means show how long queries stay alike
MOST_LAG = 0.95
RARE = 1.0  # beyond something, queries come so many at a time: it is the less certain how alike they are


def worth(beyond: Sequence[np.ndarray]) -> float:
    """Return as how many independent queries these show the share that is beyond something.

    `beyond`, (n,) each, says of the queries of each run, in the order of their coming, whether they are.
    Many runs show that by how they differ; few of them by that and by their blocks, whichever is less.
    """
    by_runs = worth_of_runs(beyond) if len(beyond) > 1 else math.inf
    return by_runs if len(beyond) >= MANY_RUNS else min(worth_of_blocks(beyond), by_runs)


def worth_of_runs(beyond: Sequence[np.ndarray]) -> float:
    """Return what they are worth by how the share varies from run to run, which tells everything."""
    sizes = np.array([len(run) for run in beyond])
    counts = np.array([np.count_nonzero(run) for run in beyond])
    n, share = int(sizes.sum()), counts.sum() / sizes.sum()
    deviations = counts - sizes * share
    variance = len(beyond) / (len(beyond) - 1) * float((deviations**2).sum()) / n**2
    return min(float(n), share * (1 - share) / variance) if variance else float(n)


def worth_of_blocks(beyond: Sequence[np.ndarray]) -> float:
    """Return what they are worth by how the share varies from block to block of each run.

    Neighbouring blocks that resemble each other say less
    than others, by (1 - r) / (1 + r) with r their autocorrelation. Its estimate from m blocks around
    their mean lies (1 + 3 r) / m too low (Kendall 1954).
    """
    n, share = sum(map(len, beyond)), float(np.mean(np.concatenate(beyond)))
    if min(map(len, beyond)) < BLOCKS:
        return float(n)
    blocks = np.array([_means(run) for run in beyond])
    deviations = blocks - blocks.mean(axis=1, keepdims=True)
    squares = float((deviations**2).sum())
    if not squares:
        return float(n)
    products = float((deviations[:, 1:] * deviations[:, :-1]).sum())
    lag = (products / squares * BLOCKS / (BLOCKS - 1) + 1 / BLOCKS) / (1 - 3 / BLOCKS)
    lag = min(max(lag, 0.0), MOST_LAG)
    of_one = squares / (len(beyond) * (BLOCKS - 1))
    alone = blocks.size * (1 - lag) / (1 + lag)  # blocks that would say as much
    worth = min(float(n), share * (1 - share) * alone / of_one)
    freedom = 1 / (1 / alone + RARE / (share * (1 - share) * worth))
    return certain(worth, max(round(freedom), 1))


def _means(run: np.ndarray) -> np.ndarray:
    """Return the share of each block of a run that is beyond, (BLOCKS,)."""
    ends = np.linspace(0, len(run), BLOCKS + 1).astype(int)
    return np.add.reduceat(run.astype(float), ends[:-1]) / np.diff(ends)


def certain(worth: float, freedom: int) -> float:
    """Return by how many independent queries an interval is as wide as by those of an uncertain number."""
    return worth * (NORMAL / student_quantile((1 + CONFIDENCE) / 2, freedom)) ** 2
