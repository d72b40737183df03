"""How often compare.py is wrong where nothing changed, and how often it sees a slow-down made on purpose.

    python -m benchmarks.comparing --folder FOLDER [--repetitions 10] [--slower 0.1] [--sets 2000]

Measured: the same points again and again, as they are and slower, in turn, each time by run.py with a new
server and a new index; a plug-in of known service time in the same way. Then every pair of repetitions, and
random halves of them, are compared as people would. Simulated: noise as was measured, and less of it.
What is in the folder already is not measured again.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.comparing.matching import compare
from ann_benchmarks.comparing.measurements import MeasuredPoint
from ann_benchmarks.comparing.sides import ResultFilter, read_side
from ann_benchmarks.comparing.verdicts import Criteria, failures
from ann_benchmarks.results.judging import Estimate, difference
from benchmarks.harness import PROJECT, arguments

SLOWER = "ANN_COMPARING_SLOWER"  # the environment's name for the share
DATASET = "clustered-10k-32-euclidean"
# Constructor and query arguments: ef_search; ms.
KINDS = {"hnsw": ("SlowedHNSW", [[20, 80, 200]]), "known": ("SlowedSleep", [[0.5, 1]])}
MODULE = "from benchmarks.comparing import SlowedHNSW, SlowedSleep\n"
CONFIG = """
float:
  any:
  - {{name: {kind}, module: slowed, constructor: {constructor}, docker_tag: none, base_args: ['@metric'],
     run_groups: {{all: {{arg_groups: [{{M: 16, efConstruction: 64}}], query_args: {arguments}}}}}}}
"""
ERROR_RATE = 0.05
DRAWN = 300  # comparisons of repetitions chosen at random
Side = list[MeasuredPoint]
Pairs = list[tuple[Side, Side]]


class SlowedHNSW(PGVectorHNSW):
    """HNSW whose every query goes on, computing, for a share of the time that it took."""

    def _session_for(self, q: np.ndarray, n: int) -> Any:
        session = super()._session_for(q, n)
        share = float(os.environ.get(SLOWER, "0"))
        if share and not hasattr(session, "is_slowed"):
            execute, clock = session.execute, time.perf_counter

            def slowed(*arguments: Any) -> Any:
                start = clock()
                result = execute(*arguments)
                end = start + (clock() - start) * (1 + share)
                while clock() < end:
                    pass
                return result

            session.execute, session.is_slowed = slowed, True  # type: ignore[attr-defined]
        return session


class SlowedSleep(BaseANN):
    """Answers after some ms, and a share more; what the machine's noise does to that is little."""

    def __init__(self, metric: str, method_param: Any) -> None:
        self._seconds = 0.0

    def fit(self, X: np.ndarray) -> None:
        """Nothing is built."""

    def set_query_arguments(self, milliseconds: float) -> None:
        """Set the time."""
        self._seconds = milliseconds / 1000 * (1 + float(os.environ.get(SLOWER, "0")))

    def query(self, q: np.ndarray, n: int) -> list[int]:
        """Sleep, answer anything."""
        time.sleep(self._seconds)
        return list(range(n))

    def __str__(self) -> str:
        return "SlowedSleep()"


def main() -> None:
    args = arguments(
        __doc__,
        folder={"type": Path, "required": True},
        repetitions=10,
        slower={"default": 0.1, "help": "share (default 0.1)"},
        sets={"default": 2000, "help": "of simulated measurements"},
    )
    for kind in KINDS:
        sides: dict[str, list[Side]] = {"a": [], "b": []}
        for number in range(1, args.repetitions + 1):
            for name, slower in (("a", 0.0), ("b", args.slower)):
                folder = args.folder / kind / f"{name}{number}"
                repeat(folder, kind, slower)
                sides[name].append(read_side([str(folder)], ResultFilter()))
        a, b = sides.values()
        for figure in ("qps", "p10"):
            print(f"\n{kind}, {figure}: {len(a)} repetitions, {len(b)} that are slower by {args.slower:.0%}")
            report(a, b, figure)
    simulate(args.sets, args.slower)


def repeat(folder: Path, kind: str, slower: float) -> None:
    """Measure once more, with a new server, an index built anew and nothing else of before."""
    if list(folder.rglob("results/**/*.hdf5")):
        return
    constructor, query_arguments = KINDS[kind]
    for name in (f"definitions/{kind}", "slowed"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    config = CONFIG.format(kind=kind, constructor=constructor, arguments=query_arguments)
    (folder / "definitions" / kind / "config.yml").write_text(config)
    (folder / "slowed" / "module.py").write_text(MODULE)
    command = [sys.executable, str(PROJECT / "run.py"), "--local", "--dataset", DATASET, "--algorithm", kind]
    command += ["--definitions", "definitions"]
    where = {"PYTHONPATH": os.pathsep.join([str(folder.resolve()), str(PROJECT)]), SLOWER: str(slower)}
    with (folder / "log").open("w") as log:
        subprocess.run(command, cwd=folder, env=os.environ | where, stdout=log, stderr=log, check=True)
    shutil.rmtree(folder / "data")


def report(a: Sequence[Side], b: Sequence[Side], figure: str) -> None:
    """Print how often repetitions are said to differ, from each other and from the slower ones."""
    print(f"{'':42} {'a point':>9} {'the mean':>9} {'any (Holm)':>11} {'fails at 5%':>12}")
    rng = random.Random(1)
    if figure == "qps":  # of p10, nothing is known within a measurement
        judged("nothing changed, 1 and 1", [*combinations(a, 2), *combinations(b, 2)], figure)
        judged("slower, 1 and 1", [*product(a, b)], figure)
    for size in (3, 5):
        if 2 * size <= len(a):
            title = f"nothing changed, {size} and {size}"
            judged(title, halves(a, size, rng) + halves(b, size, rng), figure)
            judged(f"{title}, --paired", swapped(a, size, rng) + swapped(b, size, rng), figure, True)
    for size in sorted({3, 5, len(a)}):
        title = f"slower, {size} and {size}"
        judged(title, both(a, b, size, rng), figure)
        judged(f"{title}, --paired", both(a, b, size, rng), figure, True)
    for paired in (False, True):
        all_of = compare(joined(a), joined(b), paired=paired).metrics[figure].mean
        low, high = all_of.interval(ERROR_RATE)
        how = ", --paired" * paired
        print(f"all{how}: B / A {all_of.ratio:.3f} ({low:.3f} to {high:.3f}), p = {all_of.p:.2g}")
    within, between = spreads(a, figure)
    of_runs = f"{within:.1%} from run to run, " if figure == "qps" else ""
    print(f"standard deviation {of_runs}{between:.1%} between repetitions")


def halves(repetitions: Sequence[Side], size: int, rng: random.Random) -> Pairs:
    """Draw two sides of `size` repetitions of the same."""
    drawn = (rng.sample(repetitions, 2 * size) for _ in range(DRAWN))
    return [(joined(chosen[:size]), joined(chosen[size:])) for chosen in drawn]


def swapped(repetitions: Sequence[Side], size: int, rng: random.Random) -> Pairs:
    """Draw pairs of neighbours; chance decides which of the two is A."""
    neighbours = list(zip(repetitions[::2], repetitions[1::2], strict=False))
    drawn = ([rng.sample(pair, 2) for pair in rng.sample(neighbours, size)] for _ in range(DRAWN))
    return [(joined(a for a, _ in chosen), joined(b for _, b in chosen)) for chosen in drawn]


def both(a: Sequence[Side], b: Sequence[Side], size: int, rng: random.Random) -> Pairs:
    """Draw `size` repetitions of A and those of B that were measured after them."""
    drawn = [rng.sample(range(len(a)), size) for _ in range(1 if size == len(a) else DRAWN)]
    return [(joined(a[i] for i in chosen), joined(b[i] for i in chosen)) for chosen in drawn]


def joined(sides: Iterable[Side]) -> Side:
    """Make one side of repetitions."""
    return [replace(m, source=i) for i, side in enumerate(sides) for m in side]


def judged(title: str, compared: Pairs, figure: str, paired: bool = False) -> None:
    """Print the shares of verdicts other than "no difference", and of builds that fail."""
    criteria = Criteria(ERROR_RATE)
    comparisons = [compare(a, b, chosen=figure, paired=paired) for a, b in compared]
    points = [d.p < ERROR_RATE for c in comparisons for _, d in c.metrics[figure].points]
    means = [c.metrics[figure].mean.p < ERROR_RATE for c in comparisons]
    anywhere = [any(d.adjusted < ERROR_RATE for _, d in c.metrics[figure].points) for c in comparisons]
    fails = [bool(failures(c, criteria)) for c in comparisons]
    shares = [f"{np.mean(values):.1%}" for values in (points, means, anywhere, fails)]
    title = f"{title} ({len(compared)})"
    print(f"{title:42} {shares[0]:>9} {shares[1]:>9} {shares[2]:>11} {shares[3]:>12}")


def spreads(repetitions: Sequence[Side], figure: str) -> tuple[float, float]:
    """Return the standard deviations of the logarithm, over all points."""
    figures: dict[Any, list[Estimate]] = {}
    for m in joined(repetitions):
        if found := m.estimate(figure):
            figures.setdefault(m.key, []).append(found)
    within = np.mean([f.variance for row in figures.values() for f in row])
    between = np.mean([np.var(np.log([f.value for f in row]), ddof=1) for row in figures.values()])
    return float(np.sqrt(within)), float(np.sqrt(between))


def simulate(sets: int, slower: float) -> None:
    """Draw one point's measurements with noise of known sizes, and judge them."""
    rng = np.random.default_rng(1)
    print(
        f"\nsimulated: one point, 5 runs each, {sets} comparisons; share that differ where nothing changed,"
        f" and where it is slower by {slower:.0%}"
    )
    counts = (1, 3, 5, 10)
    print(f"{'run to run, between repetitions':34}" + "".join(f"{f'{n} and {n}':>17}" for n in counts))
    for noise in ((0.01, 0.01), (0.03, 0.03), (0.03, 0.1), (0.1, 0.1), (0.25, 0.3)):
        cells = []
        for n in counts:
            rates = [differs(rng, sets, n, noise, by) for by in (0.0, slower)]
            cells.append(f"{rates[0]:7.1%} / {rates[1]:6.1%}")
        print(f"{'{:.0%}, {:.0%}'.format(*noise):34}" + "".join(f"{cell:>17}" for cell in cells))


def differs(rng: np.random.Generator, sets: int, n: int, noise: tuple[float, float], slower: float) -> float:
    """Return the share of comparisons, of n repetitions of A and of B, that find a difference."""
    within, between = noise

    def side(shift: float) -> list[Estimate]:
        runs = rng.normal(rng.normal(shift, between, (n, 1)), within, (n, 5))
        return [Estimate(float(np.exp(of.max())), float(of.var(ddof=1)), 5) for of in runs]

    found = [difference(side(0), side(-np.log1p(slower))).p < ERROR_RATE for _ in range(sets)]
    return float(np.mean(found))


if __name__ == "__main__":
    main()
