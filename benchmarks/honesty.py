"""What is measured of plug-ins of known behaviour is what arithmetic says of them.

Parts, with the plug-ins of benchmarks/known.py (for good figures, nothing else should run):

    stall   a server that stands still for 1 s in each of five runs of 4 s, as both loops see it
    steady  latencies of open loops over theory, by times that are computed, through the code that measures:
            one server, random arrivals and services (M/M/1), --repetitions points of five runs. Latency is
            exponentially distributed then, with mean service / (1 - load). "Known" is the share of points
            with an interval, "holds" the share of these 95% intervals that hold the theory, "width" the upper
            end over the lower one, in the median; "warned" the share that names a longer --duration
"""

import argparse
import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.load.request import MOST_STEADY_SECONDS, OPEN_SECONDS, Load, Queue
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.measure.loaded_point import LoadedPoint
from ann_benchmarks.measure.timed import Subject
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.remarks import remarks
from ann_benchmarks.statistics.percentiles import relaxations, stored_percentiles

from .harness import Row
from .known import Computed, Stalling, StallSeen

GOAL = None
SLEEP, STALL, STALL_RUN = 0.02, 1.0, 4.0  # s
RUNS = 5
QUERIES = np.arange(16, dtype=np.float32)[:, np.newaxis]
JUDGED = {"p50": 0.5, "p99": 0.01}  # shares beyond them


def cases(args: argparse.Namespace) -> Iterator[Row]:
    for part in args.parts:
        yield from PARTS[part](args)


def measure(algo: BaseANN, load: Load, runs: int = 1, warmup: str = "off") -> list[Measured]:
    """Measure as run.py does."""
    point = LoadedPoint(Subject(Plugin(algo), QUERIES, 1, len(QUERIES)), load)
    return point.measure(Warmup.parse(warmup), range(runs))


def stall(args: argparse.Namespace) -> Iterator[Row]:
    rate, clients = 100, 32
    algo = Stalling(SLEEP, 1.0, STALL)
    loads = {"closed": Load(8, seconds=STALL_RUN), "open": Load(clients, seconds=STALL_RUN, rate=rate)}
    times = {
        loop: np.concatenate([run.times for run in measure(algo, load, RUNS)]) for loop, load in loads.items()
    }
    seen = StallSeen(SLEEP, STALL, STALL_RUN, utilisation=rate * SLEEP / clients)
    for over in (0.1, 0.25, 0.5, 0.75):
        shares = {loop: f"{np.mean(found > over):.1%}" for loop, found in times.items()}
        expected = {"closed": 1 / (seen.closed_queries() + 1), "open": seen.open_share_over(over)}
        theory = {f"{loop}, theory": f"{share:.1%}" for loop, share in expected.items()}
        yield Row(f"queries over {over * 1000:.0f} ms", shares | theory)
    for percent in (50, 90, 95, 99):
        found = {loop: f"{1000 * np.percentile(every, percent):.0f} ms" for loop, every in times.items()}
        theory = {"closed, theory": "20 ms", "open, theory": f"{1000 * seen.open_percentile(percent):.0f} ms"}
        yield Row(f"p{percent}", found | theory)


def steady(args: argparse.Namespace) -> Iterator[Row]:
    for share in (0.6, 0.8, 0.95):
        for service in (0.001, 0.005, 0.02):
            needed = Queue(share / service, 1 / service, 1).run_seconds(RUNS)
            usual = max(OPEN_SECONDS, min(needed, MOST_STEADY_SECONDS))
            for seconds, warmup in sorted({(OPEN_SECONDS, "off"), (usual, "1"), (max(needed, usual), "1")}):
                yield steady_row(share, service, seconds, warmup, args.repetitions)


def steady_row(share: float, service: float, seconds: float, warmup: str, repetitions: int) -> Row:
    """Return what points of five runs show, over theory; without a warm-up, there is nothing to lead in."""
    rng = np.random.default_rng(round(1e6 * service))
    algo = Computed(service, partial(rng.exponential, service))
    runs = measure(algo, Load(1, seconds=seconds, rate=share / service), RUNS * repetitions, warmup)
    points = [runs[place : place + RUNS] for place in range(0, len(runs), RUNS)]
    found = [
        stored_percentiles([run.times for run in point], relaxations(run.facts for run in point))
        for point in points
    ]
    figures: dict[str, float | str] = {}
    for name, beyond in JUDGED.items():
        theory = -math.log(beyond) * service / (1 - share)
        value, low, high = (
            np.array([facts[f"latency_{name}{end}"] for facts in found]) for end in ("", "_low", "_high")
        )
        known = np.isfinite(low)
        held = ((low <= theory) & (theory <= high))[known]
        figures |= {name: f"{value.mean() / theory:.2f}", f"{name} known": f"{known.mean():.0%}"}
        figures[f"{name} holds"] = f"{held.mean():.0%}" if known.any() else ""
        figures[f"{name} width"] = f"{np.median((high / low)[known]):.2f}" if known.any() else ""
    warned = [
        any("give --duration" in text for text in remarks(point[0].facts | facts | {"run_count": RUNS}))
        for point, facts in zip(points, found, strict=True)
    ]
    title = f"{share:.0%}, {1000 * service:.0f} ms, {seconds:.0f} s" + ", no lead-in" * (warmup == "off")
    return Row(title, {**figures, "warned": f"{np.mean(warned):.0%}"})


PARTS = {"stall": stall, "steady": steady}
OPTIONS = {
    "parts": {"choices": [*PARTS], "default": [*PARTS]},
    "repetitions": {"default": 100, "help": "of each point that is computed"},
}
