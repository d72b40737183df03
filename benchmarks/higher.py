"""How often reports tell contenders apart that were measured at higher recalls than the target, and are equal.

A part of benchmarks/verdicts.py. Both are on one line: the logarithm of the throughput falls with the effort,
minus the logarithm of what is missed. Each has one point on it, near a recall of 0.99; its recall is that of
1,000 queries, some of which are harder than others for both.
"""

from functools import partial

import numpy as np

from ann_benchmarks.results.runs import Run
from benchmarks.drawn import RUNS, DrawnRecall, Figures, in_short, once, result, turns

MISSED, APART = 0.01, 0.3  # share of neighbours; effort, between the two at most
SLOPES = -1.2, -0.4  # of real indexes
PARTS, NEIGHBORS = 50, 200  # of the queries; of all queries of a part
HARDNESS = 1.0  # shape of the gamma distribution of what both miss more in one part than in another


def of_higher(rng: np.random.Generator, sets: int, rounds: int) -> None:
    """Print the shares of reports that name a faster one of two that are equally fast at equal recall."""
    print(
        "\nonly recalls near 0.99, target 0.95: share of reports that tell two apart, where nothing differs"
    )
    for noise in (0.09, 0.03):
        said = told_apart(rng, sets, partial(once, rng, 2, noise))
        print(f"{f'once, runs {noise:.0%}':34} {said:7.1%}", flush=True)
        for drift in (0.0, 0.98, 0.995):
            said = told_apart(rng, sets, partial(turns, rng, 2, rounds, noise, drift))
            print(f"{f'{rounds} rounds, runs {noise:.0%}, drift {drift:g}':34} {said:7.1%}", flush=True)


def told_apart(rng: np.random.Generator, sets: int, draw: "partial[Figures]") -> float:
    """Return the share of reports that say of one of two that it is faster, or the fastest."""
    found = 0
    for _ in range(sets):
        text = in_short(equals(rng, draw()))
        found += "is the fastest" in text or "times as fast as" in text
    return found / sets


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
