"""The regret of a choice: its time beside that of the best of the other ways, on the same queries."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .intervals import CONFIDENCE

_SAMPLES = 2000  # of the queries, with replacement
_SEED = 0


class Regret(NamedTuple):
    """How many times as long the choice takes, with a 95% interval, and the place of the best other way.

    `best` is None where no other way is faster: then the regret is 1.
    """

    ratio: float
    low: float
    high: float
    best: int | None


def regret_of(own: np.ndarray, others: Sequence[np.ndarray]) -> Regret:
    """Return the mean of `own` over the smallest mean of all, each (queries,) in s, and at least 1.

    The interval is from drawing queries with replacement, the same ones for all ways (the paired percentile
    bootstrap, Efron 1979). Its lower end is of the way that is the best here, judged together with the others
    (Bonferroni), because chance chooses it among them. Its upper end is of the best one of each draw: ways
    that are equally fast differ by chance, and the regret is none the smaller.
    """
    seconds = np.array([own, *others])
    best = int(np.argmin(seconds.mean(axis=1)))
    queries = seconds.shape[1]
    drawn = np.random.default_rng(_SEED).integers(queries, size=(_SAMPLES, queries))
    means = seconds[:, drawn].mean(axis=2)
    beyond = (1 - CONFIDENCE) / 2
    low = float(np.quantile(means[0] / means[best], beyond / max(len(others), 1)))
    high = float(np.quantile(means[0] / means.min(axis=0), 1 - beyond))
    ratio = float(seconds[0].mean() / seconds[best].mean())
    return Regret(ratio, max(min(low, ratio), 1.0), max(high, ratio), best - 1 if best else None)
