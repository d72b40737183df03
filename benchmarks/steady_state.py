"""Latencies of an open loop compared with theory: one server, random arrivals, exponential services (M/M/1).

    python -m benchmarks.steady_state [--repetitions 100]

Times are computed instead of measured, through the code that measures, so that hundreds of points are
affordable. In steady state the latency is exponentially distributed with mean service / (1 - utilisation).
Each point has five runs. "Empty" is without a lead-in: as with --warmup off, and as it was before there was
one. Figures are over theory; "holds" is how many of the 95% intervals hold it.
"""

import math
from functools import partial

import numpy as np

from ann_benchmarks.load.request import MOST_STEADY_SECONDS, OPEN_SECONDS, Load
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.load.steady import Queue
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.measure.loaded_point import LoadedPoint
from ann_benchmarks.measure.timed import Subject
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.percentiles import stored_percentiles
from ann_benchmarks.results.warnings import remarks
from benchmarks.harness import arguments
from benchmarks.known import Computed

SERVICES = (0.001, 0.005, 0.02)  # s
SHARES = (0.6, 0.8, 0.95)  # of what can be served
RUNS = 5
QUERIES = np.arange(16, dtype=np.float32)[:, np.newaxis]


def main() -> None:
    args = arguments(__doc__, repetitions={"type": int, "default": 100, "help": "of each point"})
    print(
        f"{'load':>5} {'service':>8} {'run':>8} {'lead-in':>8}"
        f" {'p50':>6} {'holds':>6} {'p99':>6} {'holds':>6}  warned"
    )
    for share in SHARES:
        for service in SERVICES:
            queue = Queue(share / service, 1 / service, 1)
            needed = queue.run_seconds(RUNS)
            usual = max(OPEN_SECONDS, min(needed, MOST_STEADY_SECONDS))
            row(share, service, OPEN_SECONDS, Warmup("off"), args.repetitions)
            row(share, service, usual, Warmup("queries", 1), args.repetitions)
            if needed > usual:
                row(share, service, needed, Warmup("queries", 1), args.repetitions)


def row(share: float, service: float, seconds: float, warmup: Warmup, repetitions: int) -> None:
    """Print what points of five runs show, over theory."""
    load = Load(1, seconds=seconds, rate=share / service)
    rng = np.random.default_rng(round(1e6 * service))
    algo = Computed(service, partial(rng.exponential, service))
    runs = LoadedPoint(Subject(Plugin(algo), QUERIES, 1, len(QUERIES)), load).measure(
        warmup, range(RUNS * repetitions)
    )
    points = [runs[place : place + RUNS] for place in range(0, len(runs), RUNS)]
    cells = []
    for name, beyond in (("p50", 0.5), ("p99", 0.01)):
        theory = -math.log(beyond) * service / (1 - share)
        found = [stored_percentiles([run.times for run in point]) for point in points]
        mean = np.mean([facts[f"latency_{name}"] for facts in found]) / theory
        held = [facts[f"latency_{name}_low"] <= theory <= facts[f"latency_{name}_high"] for facts in found]
        cells.append(f"{mean:6.2f} {np.mean(held):6.0%}")
    lead_in = f"{runs[0].facts['lead_in_seconds']:6.1f} s" if warmup.kind != "off" else "empty"
    print(
        f"{share:5.0%} {1000 * service:5.0f} ms {seconds:6.0f} s {lead_in:>8}"
        f" {' '.join(cells)} {warned(points):7.0%}",
        flush=True,
    )


def warned(points: list[list[Measured]]) -> float:
    """Share of the points whose remarks say that the runs were too short."""
    return float(
        np.mean(
            [any("too low" in text for text in remarks(run[0].facts | {"run_count": RUNS})) for run in points]
        )
    )


if __name__ == "__main__":
    main()
