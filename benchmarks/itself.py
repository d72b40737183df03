"""An index against itself: how often rounds, single runs or repetitions say that the two differ.

What is said beyond "no difference" is false, unless one of them is slower: then what is not said is missed.

    contests     run.py measures two algorithms of one index, in --turns rounds or with as many runs one after
                 the other; the second searches --depth deep, the first 40. Every window of --windows of these
                 is judged as reports judge it
    repetitions  run.py measures each by itself, as it is and slower by --slower in turn, each time with a new
                 server and index; sides that are drawn of them are compared as compare.py does
    builds       run.py measures HNSW and VectorChord, four builds of one index each, in --turns rounds, once
                 and again after a restart: what the builds keep in both, and what else lasts over all rounds

--folder keeps the results: what is there already is not measured again.
"""

import argparse
import os
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.comparing.matching import compare
from ann_benchmarks.comparing.measurements import MeasuredPoint
from ann_benchmarks.comparing.sides import read_side
from ann_benchmarks.comparing.verdicts import Criteria, failures
from ann_benchmarks.results.file import read_attributes
from ann_benchmarks.results.measurement import speed_of
from ann_benchmarks.statistics.contests import contest

from .harness import Row, count_shares
from .serving import PROJECT, empty_folder, run_command, write_definition

GOAL = None
SLOWER = "ANN_BENCHMARKS_SLOWER"  # the environment's name for the share
DEPTH = 40
BUILDS, SESSIONS, KINDS = 4, ("before", "after"), ("pgvector_hnsw", "vchord")
MODULE = "from benchmarks.itself import PGVectorHNSW, SlowedHNSW  # noqa: F401\n"
Side = list[MeasuredPoint]


class SlowedHNSW(PGVectorHNSW):
    """HNSW whose every query goes on, computing, for a share of the time that it took."""

    _slowed: Any = None

    def _session_for(self, q: np.ndarray, n: int) -> Any:
        session = super()._session_for(q, n)
        if session is not self._slowed:
            self._slowed, execute, share = session, session.execute, float(os.environ[SLOWER])

            def execute_and_go_on(*arguments: Any) -> Any:
                start = time.perf_counter()
                result = execute(*arguments)
                end = start + (time.perf_counter() - start) * (1 + share)
                while time.perf_counter() < end:
                    pass
                return result

            session.execute = execute_and_go_on
        return session


def cases(args: argparse.Namespace) -> Iterator[Row]:
    with ExitStack() as stack:
        folder = args.folder or stack.enter_context(empty_folder())
        for part in args.parts:
            yield from PARTS[part](folder.resolve(), args)


def run_once(folder: Path, options: Sequence[str], slower: float = 0.0, **depths: Sequence[int]) -> None:
    """Measure HNSW under these names, with these depths of the search, on a server of its own."""
    if list(folder.glob("results/**/*.hdf5")):
        return
    for name, every in depths.items():
        write_definition(folder, name, every, module="slowed", constructor="SlowedHNSW")
    (folder / "slowed").mkdir(exist_ok=True)
    (folder / "slowed" / "module.py").write_text(MODULE)
    environment = {"PYTHONPATH": os.pathsep.join([str(folder), str(PROJECT)]), SLOWER: str(slower)}
    words = ["run.py", "--local", "--definitions", "definitions", *options]
    run_command(folder, words, ANN_BENCHMARKS_PG_DATA=str(folder / "server"), **environment)
    for left in ("data", "server"):
        shutil.rmtree(folder / left, ignore_errors=True)


def contests(folder: Path, args: argparse.Namespace) -> Iterator[Row]:
    load = ["--dataset", args.dataset, "--clients", str(args.clients), "--duration", str(args.duration)]
    for way in ("rounds", "runs"):
        measured = []
        for number in range(args.repetitions):
            place = folder / "contests" / f"{way}{number}"
            run_once(place, [*load, f"--{way}", str(args.turns)], one=[DEPTH], other=[args.depth])
            measured.append([read_attributes(path) for path in sorted(place.glob("results/**/*.hdf5"))])
        for length in args.windows:
            starts = range(0, args.turns - length + 1, length)
            every = [judge_window(both, start, length) for both, start in product(measured, starts)]
            ratios, named, apart = zip(*every, strict=True)
            figures = {"ratio": f"{min(ratios):.2f} to {max(ratios):.2f}", "of": str(len(every))}
            yield Row(f"{length} {way}", {**figures, "fastest named": sum(named), "told apart": sum(apart)})


def judge_window(both: Sequence[dict[str, Any]], start: int, length: int) -> tuple[float, bool, bool]:
    """Return the ratio of both, and whether a fastest is named and the two are told apart."""
    speeds = {}
    for name, attrs in zip(("one", "other"), both, strict=True):
        cut = {key: attrs[key][start:][:length] for key in ("run_seconds", "run_rounds") if key in attrs}
        speeds[name] = [speed_of({**attrs, **cut, "recall_parts": []}, both[0]["run_recalls"][0], 0.0, name)]
    judged = contest(speeds, 0.0)
    (ratio,) = judged.ratios().values()
    is_one = next(iter(judged.standings)) == "one"
    return ratio.value if is_one else 1 / ratio.value, ratio.is_sure, not ratio.is_noise


def repetitions(folder: Path, args: argparse.Namespace) -> Iterator[Row]:
    rng = random.Random(args.seed)
    sides: dict[str, list[Side]] = {"equal": [], "slower": []}
    for number, (name, slower) in product(range(args.repetitions), (("equal", 0.0), ("slower", args.slower))):
        place = folder / "repetitions" / f"{name}{number}"
        run_once(place, ["--dataset", args.dataset], slower, hnsw=[20, 80, 200])
        sides[name].append(read_side([str(place)]))
    sizes = [size for size in args.sizes if 2 * size <= args.repetitions]
    for figure, size, paired in product(("qps", "p10"), sizes, (False, True)):
        if size == 1 and (paired or figure == "p10"):
            continue  # one measurement by itself does not show how p10 repeats, and makes no pairs
        figures = {}
        for name, others in sides.items():
            draw = partial(judge_drawn, sides["equal"], others, size, rng, figure, paired)
            figures[name], figures[f"{name}, fails at 5%"] = count_shares(args.sets, draw)
        yield Row(f"{figure}, {size} and {size}{', --paired' * paired}", figures)


def judge_drawn(
    a: Sequence[Side], b: Sequence[Side], size: int, rng: random.Random, figure: str, paired: bool
) -> tuple[bool, bool]:
    """Whether drawn sides differ, and fail a build at 5%; where both are the same, chance deals pairs out."""
    if a is b:
        pairs = [rng.sample(pair, 2) for pair in rng.sample([*zip(a[::2], a[1::2], strict=False)], size)]
    else:
        pairs = [[a[place], b[place]] for place in rng.sample(range(len(a)), size)]
    drawn = [
        [replace(m, source=i) for i, one in enumerate(side) for m in one] for side in zip(*pairs, strict=True)
    ]
    found, criteria = compare(*drawn, chosen=figure, paired=paired), Criteria()
    return found.metrics[figure].mean.p < criteria.error_rate, bool(failures(found, criteria))


def builds(folder: Path, args: argparse.Namespace) -> Iterator[Row]:
    place = folder / "builds"
    place.mkdir(parents=True, exist_ok=True)
    memory = ",".join(f"{501 + number}MB" for number in range(BUILDS))  # Each setting has a build of its own.
    load = ["--clients", str(args.clients), "--duration", str(args.duration), "--rounds", str(args.turns)]
    for session in SESSIONS:
        if not (place / session).exists():
            words = ["run.py", "--local", "--algorithm", *KINDS, "--max-n-algorithms", "1", *load]
            words += ["--dataset", args.dataset, "--setting", f"maintenance_work_mem={memory}"]
            run_command(place, [*words, "--target-recall", "0.95"])
            (place / "results").rename(place / session)
    for kind in KINDS:
        read = partial(round_levels, kind=kind)
        levels = np.stack([read(place / session) for session in SESSIONS])  # (sessions, builds, rounds)
        kept = levels.mean(2)
        freedom = (BUILDS - 1) * (args.turns - 1) * len(SESSIONS)
        noise = float(np.square(levels - kept[:, :, None]).sum()) / freedom
        both = float(np.cov(kept)[0, 1])
        lasting = float(kept.var(1, ddof=1).mean()) - noise / args.turns
        figures = {"runs": noise, "kept by a build": max(both, 0.0), "over all rounds": max(lasting, 0.0)}
        yield Row(f"{kind}: %", {name: 100 * variance**0.5 for name, variance in figures.items()})


def round_levels(folder: Path, kind: str) -> np.ndarray:
    """Return the logarithms of a kind's throughputs less what is common to a round, (builds, rounds)."""
    found = [read_attributes(path) for path in sorted(folder.glob(f"*/*/{kind}-*/*.hdf5"))]
    levels = -np.log([attrs["run_seconds"] for attrs in found])
    return levels - levels.mean(0)


PARTS = {"contests": contests, "repetitions": repetitions, "builds": builds}
OPTIONS = {
    "parts": {"choices": [*PARTS], "default": [*PARTS]}, "folder": {"type": Path}, "repetitions": 10,
    "dataset": "clustered-50k-96-euclidean", "clients": 1, "duration": 1.0, "turns": 12, "windows": [12],
    "depth": DEPTH, "slower": 0.1, "sizes": [1, 3, 5], "sets": 300,
}  # fmt: skip
