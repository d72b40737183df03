"""How often reports and compare.py name a fastest, or a slower one, where nothing differs: by simulation.

    python -m benchmarks.verdicts [--parts reports races factors higher comparisons] [--sets 1000]

Results are drawn (benchmarks/drawn.py), and judged by the code that judges measured ones. Races are those of
run.py --until; factors are how far the factor between the fastest and another one is off.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ann_benchmarks.comparing.matching import compare
from ann_benchmarks.comparing.verdicts import SLOWER, Criteria, status
from benchmarks.drawn import RUNS, Figures, in_short, once, repetition, results, turns, wandering
from benchmarks.harness import arguments
from benchmarks.higher import of_higher
from benchmarks.races import of_factors, of_races

PARTS = ("reports", "races", "factors", "higher", "comparisons")
NOISES = (0.09, 0.03)  # of runs
DRIFTS = (0.0, 0.98, 0.995)  # autocorrelation from one round to the next
REPETITIONS = 5


def main() -> None:
    args = arguments(
        __doc__,
        parts={"choices": PARTS, "default": PARTS},
        sets={"default": 1000, "help": "drawn for each figure"},
        rounds=16,
    )
    rng = np.random.default_rng(1)
    if "reports" in args.parts:
        of_reports(rng, args.sets, args.rounds)
    if "races" in args.parts:
        of_races(rng, args.sets)
    if "factors" in args.parts:
        of_factors(rng, args.sets)
    if "higher" in args.parts:
        of_higher(rng, args.sets, args.rounds)
    if "comparisons" in args.parts:
        of_comparisons(rng, args.sets)


def of_reports(rng: np.random.Generator, sets: int, rounds: int) -> None:
    """Print what reports say of what was measured once, and in rounds."""
    print("reports: share that names a fastest, where none is (or says 'ahead', of what was measured once)")
    print(f"{'':34} {'1 against 1':>16} {'6 against 1':>16} {'6 algorithms':>16}")
    fields = ([1, 1], [6, 1], [1] * 6)
    for noise in NOISES:
        shares = [reported(sets, partial(once, rng, noise=noise), field) for field in fields]
        print(f"{f'once, runs {noise:.0%}':34} " + " ".join(f"{f'{a:.1%} ({b:.1%})':>16}" for a, b in shares))
    for noise in NOISES:
        for drift in DRIFTS:
            draw = partial(turns, rng, rounds=rounds, noise=noise, drift=drift)
            shares = [reported(sets, draw, field) for field in fields]
            name = f"{rounds} rounds, runs {noise:.0%}, drift {drift:g}"
            print(f"{name:34} " + " ".join(f"{a:>16.1%}" for a, _ in shares), flush=True)
    print("\nreports: share that names a fastest, where one is faster by 10%")
    for noise in NOISES:
        for number in (4, 8, 16, 32, 64):
            draw = partial(turns, rng, rounds=number, noise=noise, drift=0.98)
            seen, _ = reported(sets, draw, [1, 1], 0.1)
            print(f"{f'{number} rounds, runs {noise:.0%}':34} {seen:16.1%}", flush=True)


def of_comparisons(rng: np.random.Generator, sets: int) -> None:
    """Print what compare.py says of repetitions."""
    print(
        f"\ncompare.py, {REPETITIONS} and {REPETITIONS} repetitions: share that differs / fails a build at 5%"
    )
    for drift in DRIFTS:
        for how in ("blocks", "turn", "turn, --paired"):
            differ, fails = compared(rng, sets, drift, how)
            print(f"{f'in {how}, drift {drift:g}':34} {differ:7.1%} / {fails:6.1%}", flush=True)


def reported(
    sets: int, draw: Callable[[int], Figures], field: Sequence[int], faster: float = 0.0
) -> tuple[float, float]:
    """Return the shares of reports that name a fastest, and that say which was ahead.

    `field` has the number of indexes of each algorithm; the first algorithm is faster by a share.
    """
    named = ahead = 0
    for _ in range(sets):
        drawn = draw(sum(field))
        drawn[: field[0]] += math.log1p(faster)
        text = in_short(results(field, drawn))
        named += "is the fastest" in text
        ahead += "is ahead" in text
    return named / sets, ahead / sets


def compared(rng: np.random.Generator, sets: int, drift: float, how: str) -> tuple[float, float]:
    """Return the shares of comparisons that differ for sure, and that fail a build at 5%."""
    differ = fails = 0
    criteria = Criteria()
    places = np.arange(2 * REPETITIONS)
    order = places.reshape(2, -1) if how == "blocks" else places.reshape(-1, 2).T
    for _ in range(sets):
        speeds = wandering(rng, 2 * REPETITIONS, drift)
        sides = [
            [
                repetition(place, int(at), rng.normal(speeds[at], NOISES[0], RUNS))
                for place, at in enumerate(row)
            ]
            for row in order
        ]
        found = compare(*sides, paired="paired" in how)
        mean = found.metrics["qps"].mean
        differ += mean.is_sure and mean.p < criteria.error_rate
        fails += status(found, criteria) == SLOWER
    return differ / sets, fails / sets


if __name__ == "__main__":
    main()
