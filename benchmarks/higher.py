"""How often reports tell two apart that were measured at higher recalls than the target, and are equal.

A part of benchmarks/verdicts.py. Both are on one line: the logarithm of the throughput falls with the effort,
minus the logarithm of what is missed. Each has one point on it, near a recall of 0.99; its recall is that of
1,000 queries, some of which are harder than others for both.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from ann_benchmarks.results.runs import Run
from benchmarks.drawn import RUNS, DrawnRecall, Figures, in_short, once, result, turns

MISSED, APART = 0.01, 0.3  # share of neighbours; effort, between the two at most
SLOPES = -1.2, -0.4  # of real indexes
PARTS, NEIGHBORS = 50, 200  # of the queries; of all queries of a part
HARDNESS = 1.0  # shape of the gamma distribution of what both miss more in one part than in another


def of_higher(rng: np.random.Generator, sets: int, rounds: int) -> None:
    """Print the shares of reports that name a fastest of two that are equally fast at equal recall."""
    print("\nreports: the same of two with recalls near 0.99 only, where the target is 0.95")
    for noise in (0.09, 0.03):
        named, ahead = told_apart(rng, sets, partial(once, rng, 2, noise))
        print(f"{f'once, runs {noise:.0%}':34} {f'{named:.1%} ({ahead:.1%})':>16}", flush=True)
        for drift in (0.0, 0.98, 0.995):
            named, _ = told_apart(rng, sets, partial(turns, rng, 2, rounds, noise, drift))
            print(f"{f'{rounds} rounds, runs {noise:.0%}, drift {drift:g}':34} {named:16.1%}", flush=True)


def told_apart(rng: np.random.Generator, sets: int, draw: Callable[[], Figures]) -> tuple[float, float]:
    """Return the shares of reports that name a fastest, and that say which was ahead."""
    named = ahead = 0
    for _ in range(sets):
        text = in_short(equals(rng, draw()))
        named += "is the fastest" in text
        ahead += "is ahead" in text
    return named / sets, ahead / sets


def equals(rng: np.random.Generator, drawn: Figures) -> list[Run]:
    """Return two results with one line and a point each, the throughputs of which vary as drawn."""
    slope, hardness = rng.uniform(*SLOPES), rng.gamma(HARDNESS, 1 / HARDNESS, PARTS)
    runs = []
    for number, row in enumerate(drawn):
        beyond = rng.uniform(0, APART)  # of effort
        misses = rng.poisson(MISSED * np.exp(-beyond) * NEIGHBORS * hardness)
        parts = (1 - np.minimum(misses / NEIGHBORS, 1)).tolist()
        error = 1.96 * float(np.std(parts, ddof=1)) / PARTS**0.5
        recall = DrawnRecall(float(np.mean(parts)), error, parts)
        runs.append(result(f"a{number}", 0, row + slope * beyond, len(row) == RUNS, recall))
    return runs
