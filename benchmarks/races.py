"""What races of run.py --until say of contenders that are drawn, and how far off the factors of rounds are.

Parts of benchmarks/verdicts.py. The queries add no doubt here: all recalls are exactly the target.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from ann_benchmarks.jobs.rounds import MOST_ROUNDS, Contender, Race, Rounds
from ann_benchmarks.results.comparable import Comparison
from ann_benchmarks.results.runs import Run
from benchmarks.drawn import TARGET, DrawnRecall, Figures, in_short, result, results, turns

UNTIL = 0.05
NOISES = (0.02, 0.03, 0.09)
DRIFTS = (1.0, 0.98, 0.995)  # autocorrelation of the machine's speed; 1: it does not change
FIELDS = (2, 6)
ROUNDS = (8, 16, 30)
INDEXES = 6
APART = 0.01  # by which each of six unequal contenders is slower than the one before


def of_races(rng: np.random.Generator, sets: int) -> None:
    """Print what reports say of rounds that went on until 5%, or until one was faster for sure."""
    print(
        f"\n--until {UNTIL:.0%}: share of races between equals that name a fastest / that tell any apart;"
        " mean rounds"
    )
    print(f"{'':26} " + " ".join(f"{f'{number} contenders':>24}" for number in FIELDS))
    for noise in NOISES:
        for drift in DRIFTS:
            races_said(rng, sets, noise, drift, 0.0)
    print("\nthe same where one is faster by 10%")
    for noise in NOISES:
        races_said(rng, sets // 5, noise, 0.98, 0.1)


def races_said(rng: np.random.Generator, sets: int, noise: float, drift: float, faster: float) -> None:
    """Print a line of what reports say."""
    cells = []
    for number in FIELDS:
        draw = partial(turns, rng, number, MOST_ROUNDS, noise, drift)
        named, apart, rounds = said([raced(draw(), faster) for _ in range(sets)])
        cells.append(f"{named:8.1%} / {apart:5.1%} {rounds:7.1f}")
    name = f"runs {noise:.0%}, " + (f"drift {drift:g}" if drift < 1 else "no drift")
    print(f"{name:26} " + " ".join(cells), flush=True)


def raced(drawn: Figures, faster: float) -> tuple[str, int]:
    """Race contenders, of which the first is faster; return what a report says, and the number of rounds."""
    drawn[0] += math.log1p(faster)
    contenders = [Contender(f"a{number}", 0, "", True) for number in range(len(drawn))]
    race = Race(contenders, Rounds(until=UNTIL))
    measured = dict.fromkeys(contenders, 0)
    is_shown = False
    while race.done < drawn.shape[1] and not is_shown:
        for contender in race.running:
            place = measured[contender]
            race.note(contender, place, math.exp(-drawn[int(contender.job[1:]), place]))
            measured[contender] += 1
        is_shown = race.end_round()
    rows = zip(contenders, drawn, strict=True)
    runs = [result(one.job, 0, row[: measured[one]], False, DrawnRecall(error=0.0)) for one, row in rows]
    return in_short(runs), race.done


def said(reports: Sequence[tuple[str, int]]) -> tuple[float, float, float]:
    """Return the shares of reports that name a fastest, and that tell any apart; and the mean rounds."""
    named = sum("is the fastest" in text for text, _ in reports)
    apart = sum("times as fast as" in text for text, _ in reports)
    return named / len(reports), apart / len(reports), float(np.mean([rounds for _, rounds in reports]))


def of_factors(rng: np.random.Generator, sets: int) -> None:
    """Print reported factors over the true ones, where the same rounds have chosen the fastest of several."""
    print(
        f"\nreported over true factor, in the mean: the fastest of {INDEXES} indexes over another algorithm's"
        f"\none; the fastest of {INDEXES} algorithms over each other one; the same where it is sure (share)"
    )
    for noise in (0.03, 0.09):
        for apart in (0.0, APART):
            for rounds in ROUNDS:
                one, every = [], []
                for _ in range(sets):
                    drawn = shifted(turns(rng, INDEXES + 1, rounds, noise, 0.98), apart)
                    one.append(over_one(results([INDEXES, 1], drawn, 0.0)))
                    every += over_each(results([1] * INDEXES, drawn[:-1], 0.0), apart)
                sure = [factor for factor, is_sure in every if is_sure]
                print(
                    f"runs {noise:.0%}, {f'{apart:.0%} apart' if apart else 'equal':9} {rounds:3} rounds:"
                    f" {np.mean(one):.3f}   {np.mean([factor for factor, _ in every]):.3f}  "
                    f" {f'{np.mean(sure):.3f}' if sure else '-'} ({len(sure) / len(every):.1%})",
                    flush=True,
                )


def shifted(drawn: Figures, apart: float) -> Figures:
    """Make each contender slower than the one before, but the last as fast as the first."""
    slower = apart * np.arange(len(drawn))
    slower[-1] = 0.0
    return np.asarray(drawn - slower[:, np.newaxis])


def over_one(runs: Sequence[Run]) -> float:
    """Return the factor between an algorithm's best index and the other algorithm's, which is as fast."""
    contest = Comparison(1, runs, TARGET).contest
    (ratio,) = contest.ratios().values()
    is_first = next(iter(contest.standings)) == "a0"
    return ratio.value if is_first else 1 / ratio.value


def over_each(runs: Sequence[Run], apart: float) -> list[tuple[float, bool]]:
    """Return each factor of the first over another, divided by the true one, and whether it is sure."""
    contest = Comparison(1, runs, TARGET).contest
    first = int(next(iter(contest.standings))[1:])
    return [
        (ratio.value / math.exp(apart * (int(other[1:]) - first)), ratio.is_sure)
        for other, ratio in contest.ratios().items()
    ]
