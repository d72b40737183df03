"""How often reports and compare.py name a fastest, or a slower one, where nothing differs: by simulation.

    python -m benchmarks.verdicts [--sets 1000] [--rounds 16]

Results are drawn, and judged by the code that judges measured ones. The noise is that of a shared machine
with two cores: runs differ by 9% (or 3%), and the speed of the machine by 16%. That changes from one
measurement to the next, or drifts with an autocorrelation of 0.98 or 0.995 a round, or repetition.
"""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import numpy as np

from ann_benchmarks.comparing.matching import compare
from ann_benchmarks.comparing.measurements import MeasuredPoint
from ann_benchmarks.comparing.verdicts import SLOWER, Criteria, status
from ann_benchmarks.jobs.rounds import Contender, Race, Rounds
from ann_benchmarks.reporting.answer import statements
from ann_benchmarks.results.metrics import standard_metrics
from ann_benchmarks.results.runs import Run
from ann_benchmarks.results.series import Series
from benchmarks.harness import arguments

MACHINE = 0.16  # standard deviation of its speed's logarithm
NOISES = (0.09, 0.03)  # of runs
DRIFTS = (0.0, 0.98, 0.995)  # autocorrelation from one round to the next
TARGET, RECALL_ERROR = 0.95, 0.002  # half of the recall's interval, as of 10,000 queries
RUNS = 5
REPETITIONS = 5
Figures = np.ndarray  # logarithms of throughput, (contenders, runs)


def main() -> None:
    args = arguments(__doc__, sets={"default": 1000, "help": "drawn for each figure"}, rounds=16)
    rng = np.random.default_rng(1)
    of_reports(rng, args.sets, args.rounds)
    of_races(rng, args.sets)
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


def of_races(rng: np.random.Generator, sets: int) -> None:
    """Print what reports say of rounds that went on until 5%, or until one was faster for sure."""
    print("\n--until 5%: share that names a fastest: where none is, where one is faster by 10%; mean rounds")
    for noise in NOISES:
        shares = [until(rng, sets, noise, faster) for faster in (0.0, 0.1)]
        print(f"{f'runs {noise:.0%}, drift 0.98':34} {shares[0][0]:16.1%} {shares[1][0]:16.1%}", end="")
        print(f" {shares[0][1]:10.0f} {shares[1][1]:6.0f}", flush=True)


def of_comparisons(rng: np.random.Generator, sets: int) -> None:
    """Print what compare.py says of repetitions."""
    print(
        f"\ncompare.py, {REPETITIONS} and {REPETITIONS} repetitions: share that differs / fails a build at 5%"
    )
    for drift in DRIFTS:
        for how in ("blocks", "turn", "turn, --paired"):
            differ, fails = compared(rng, sets, drift, how)
            print(f"{f'in {how}, drift {drift:g}':34} {differ:7.1%} / {fails:6.1%}", flush=True)


def once(rng: np.random.Generator, number: int, noise: float) -> Figures:
    """Draw contenders that were measured one after the other."""
    return rng.normal(rng.normal(0, MACHINE, (number, 1)), noise, (number, RUNS))


def turns(rng: np.random.Generator, number: int, rounds: int, noise: float, drift: float) -> Figures:
    """Draw contenders that were measured in rounds, in random order, while the machine drifts."""
    speeds = wandering(rng, number * rounds, drift ** (1 / number)).reshape(rounds, number)
    return rng.permuted(speeds, axis=1).T + rng.normal(0, noise, (number, rounds))


def wandering(rng: np.random.Generator, number: int, correlation: float) -> np.ndarray:
    """Draw the speed of the machine, step by step: an autoregressive process of the first order."""
    steps = rng.normal(0, MACHINE, number)
    for step in range(1, number):
        steps[step] = correlation * steps[step - 1] + math.sqrt(1 - correlation**2) * steps[step]
    return steps


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
        of = [(name, index) for name, indexes in enumerate(field) for index in range(indexes)]
        is_once = drawn.shape[1] == RUNS
        results = [
            result(f"a{name}", index, row, is_once) for (name, index), row in zip(of, drawn, strict=True)
        ]
        text = " ".join(one.text for one in statements(results, True, TARGET) if one.about == "In short")
        named += "is the fastest" in text
        ahead += "is ahead" in text
    return named / sets, ahead / sets


def in_short(results: Sequence[Run]) -> str:
    """Return the first sentences of a report."""
    return " ".join(one.text for one in statements(results, True, TARGET) if one.about == "In short")


def result(name: str, index: int, logarithms: np.ndarray, is_once: bool) -> Run:
    """Return a result with these throughputs."""
    rates = 100 * np.exp(logarithms)
    metrics = dict.fromkeys(standard_metrics, 1.0) | {"k-nn": TARGET, "qps": float(rates.max())}
    attrs = {
        "run_seconds": (1 / rates).tolist(),
        "run_count": len(rates),
        "recall_low": TARGET - RECALL_ERROR,
        "recall_high": TARGET + RECALL_ERROR,
        "build_arguments": f'["euclidean", {{"M": {index}}}]',
    }
    if not is_once:
        attrs |= {"rounds": "drawn", "run_rounds": list(range(len(rates)))}
    return Run("drawn", 10, "euclidean", Series(name, clients=1), f"{name}({index})", metrics, attrs)


def until(rng: np.random.Generator, sets: int, noise: float, faster: float) -> tuple[float, float]:
    """Return the share of reports on races until 5% that name a fastest, and the mean number of rounds."""
    named, rounds = 0, []
    for _ in range(sets):
        drawn = turns(rng, 2, 200, noise, 0.98) + np.array([[math.log1p(faster)], [0.0]])
        both = [Contender(name, 0, "", name, True) for name in ("a0", "a1")]
        race = Race(both, Rounds(until=0.05))
        for number in range(drawn.shape[1]):
            for contender, row in zip(both, drawn, strict=True):
                race.note(contender, number, math.exp(-row[number]))
            if race.end_round():
                break
        results = [result(c.name, 0, row[: race.done], False) for c, row in zip(both, drawn, strict=True)]
        named += "is the fastest" in in_short(results)
        rounds.append(race.done)
    return named / sets, float(np.mean(rounds))


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


def repetition(source: int, at: int, logarithms: np.ndarray) -> MeasuredPoint:
    """Return a repetition that was measured at an hour."""
    seconds = np.exp(-logarithms)
    started = datetime.fromtimestamp(3600 * at, timezone.utc).isoformat()
    attrs = {"best_search_time": seconds.min(), "run_seconds": seconds.tolist(), "started_at": started}
    return MeasuredPoint(Path("drawn/10/a/x.hdf5"), ("x",), source, attrs)


if __name__ == "__main__":
    main()
