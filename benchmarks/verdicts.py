"""Reports, races and compare.py see a difference that is there, and races rarely one that is not.

Results are drawn (benchmarks/drawn.py), and judged by the code that judges measured ones. Parts:

    seen         share of reports that name a fastest where one is faster by 10%
    races        the same of run.py --until, and of equals, and the mean number of rounds until it is sure
    repetitions  share that differs where nothing changed, and where B is slower by 10%
"""

import argparse
import math
from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np

from ann_benchmarks.jobs.rounds import MOST_ROUNDS, Contender, Race, Rounds
from ann_benchmarks.statistics.differences import Estimate, difference

from . import drawn
from .drawn import RUNS, DrawnRecall, Throughputs, result, results, turns
from .harness import Row, count_shares

GOAL = None
NOISES = (0.09, 0.03)  # of runs
FASTER = math.log(1.1)
INDEXES = 6
UNTIL = 0.05


def cases(args: argparse.Namespace) -> Iterator[Row]:
    rng = np.random.default_rng(args.seed)
    for part in args.parts:
        yield from PARTS[part](rng, args.sets)


def seen(rng: np.random.Generator, sets: int) -> Iterator[Row]:
    for noise, rounds in product(NOISES, (4, 8, 16, 32, 64)):

        def judge(noise: float = noise, rounds: int = rounds) -> tuple[bool]:
            rates = turns(rng, 2, rounds, noise, 0.98)
            rates[0] += FASTER
            return ("the fastest with" in drawn.summary(results([1, 1], rates)),)

        (named,) = count_shares(sets, judge)
        yield Row(f"10% faster, {rounds} rounds, runs {noise:.0%}", {"named": named})


def races(rng: np.random.Generator, sets: int) -> Iterator[Row]:
    for faster, noise, drift in [*product((0.0,), (0.02, 0.03, 0.09), (1.0, 0.98, 0.995)),
                                 *product((FASTER,), (0.02, 0.03, 0.09), (0.98,))]:  # fmt: skip
        figures = {}
        for number in (2, INDEXES):
            draw = partial(turns, rng, number, MOST_ROUNDS, noise, drift)
            shares = count_shares(
                sets if not faster else max(sets // 5, 1), lambda d=draw, f=faster: raced(d(), f)
            )
            figures |= dict(
                zip((f"{number}: fastest", f"{number}: any apart", f"{number}: rounds"), shares, strict=True)
            )
        yield Row(f"{math.expm1(faster):.0%} faster, runs {noise:.0%}, drift {drift:g}", figures)


def raced(rates: Throughputs, faster: float = 0.0) -> tuple[bool, bool, int]:
    """Race contenders, the first of which is faster, until the ratios are known within 5%.

    Return whether a report names a fastest, whether it tells any apart, and the number of rounds.
    """
    rates[0] += faster
    contenders = [Contender(f"a{number}", 0, "", True) for number in range(len(rates))]
    race = Race(contenders, Rounds(until=UNTIL))
    measured = dict.fromkeys(contenders, 0)
    is_shown = False
    while race.done < rates.shape[1] and not is_shown:
        for contender in race.running:
            place = measured[contender]
            race.note(contender, place, math.exp(-rates[int(contender.job[1:]), place]))
            measured[contender] += 1
        is_shown = race.end_round()
    rows = zip(contenders, rates, strict=True)
    text = drawn.summary(
        [result(one.job, 0, row[: measured[one]], False, DrawnRecall(error=0.0)) for one, row in rows]
    )
    return "the fastest with" in text, "times as fast as" in text, race.done


def repetitions(rng: np.random.Generator, sets: int) -> Iterator[Row]:
    for within, between in ((0.01, 0.01), (0.03, 0.03), (0.03, 0.1), (0.1, 0.1), (0.25, 0.3)):

        def side(
            shift: float, number: int, within: float = within, between: float = between
        ) -> list[Estimate]:
            runs = rng.normal(rng.normal(shift, between, (number, 1)), within, (number, RUNS))
            return [Estimate(float(np.exp(row.max())), float(row.var(ddof=1)), RUNS) for row in runs]

        figures = {}
        for number in (1, 3, 5, 10):
            for name, slower in ((f"{number} equal", 0.0), (f"{number} slower", FASTER)):
                judge = lambda n=number, s=slower: (difference(side(0, n), side(-s, n)).p < 0.05,)  # noqa: E731
                (figures[name],) = count_shares(sets, judge)
        yield Row(f"runs {within:.0%}, repetitions {between:.0%} apart", figures)


PARTS = {part.__name__: part for part in (seen, races, repetitions)}
OPTIONS = {
    "parts": {"choices": [*PARTS], "default": [*PARTS]},
    "sets": {"default": 1000, "help": "drawn for each figure"},
}
