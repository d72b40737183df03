"""Latencies of an open loop compared with theory: one server, random arrivals, exponential services (M/M/1).

    python -m benchmarks.steady_state [--repetitions 100]
    python -m benchmarks.steady_state --real 4

Times are computed instead of measured, through the code that measures, so that hundreds of points are
affordable. In steady state the latency is exponentially distributed with mean service / (1 - utilisation).
Each point has five runs. "Empty" is without a lead-in: as with --warmup off, and as it was before there was
one. Figures are over theory, in the mean; "known" is how many of the points have an interval, "holds" how
many of these 95% intervals hold the theory, "width" the upper end over the lower one, in the median.

With --real, processes load a server that lets them wait: as many points at 80% and 20 ms, of five minutes
each. A server that would lose no time is computed for the very queries that came; "late" is by how much
clients that were free sent their queries late, in the median.
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
from ann_benchmarks.results.length import relaxations
from ann_benchmarks.results.percentiles import stored_percentiles
from ann_benchmarks.results.warnings import remarks
from benchmarks.harness import arguments
from benchmarks.known import Computed
from benchmarks.known_queue import Loaded

SERVICES = (0.001, 0.005, 0.02)  # s
SHARES = (0.6, 0.8, 0.95)  # of what can be served
RUNS = 5
QUERIES = np.arange(16, dtype=np.float32)[:, np.newaxis]
REAL = Loaded(service=0.02, share=0.8, clients=16)
JUDGED = (("p50", 0.5), ("p99", 0.01))


def main() -> None:
    real = {"type": int, "default": 0, "metavar": "N", "help": "points with real clients instead"}
    repetitions = {"type": int, "default": 100, "help": "of each point"}
    args = arguments(__doc__, repetitions=repetitions, real=real)
    if args.real:
        with_clients(args.real)
        return
    columns = f"{'known':>6} {'holds':>6} {'width':>6}"
    print(
        f"{'load':>5} {'service':>8} {'run':>8} {'lead-in':>8}"
        f" {'p50':>6} {columns} {'p99':>6} {columns}  warned"
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
    found = [
        stored_percentiles([run.times for run in point], relaxations(run.facts for run in point))
        for point in points
    ]
    cells = []
    for name, beyond in JUDGED:
        theory = -math.log(beyond) * service / (1 - share)
        value, low, high = (
            np.array([facts[f"latency_{name}{end}"] for facts in found]) for end in ("", "_low", "_high")
        )
        known = np.isfinite(low)
        cells.append(f"{value.mean() / theory:6.2f} {known.mean():6.0%}")
        if not known.any():
            cells.append(f"{'':13}")
            continue
        held = ((low <= theory) & (theory <= high))[known]
        cells.append(f"{held.mean():6.0%} {np.median((high / low)[known]):6.2f}")
    lead_in = f"{runs[0].facts['lead_in_seconds']:6.1f} s" if warmup.kind != "off" else "empty"
    print(
        f"{share:5.0%} {1000 * service:5.0f} ms {seconds:6.0f} s {lead_in:>8}"
        f" {' '.join(cells)} {np.mean([is_warned(*both) for both in zip(points, found, strict=True)]):7.0%}",
        flush=True,
    )


def is_warned(point: list[Measured], found: dict[str, float | list[float]]) -> bool:
    """Whether the remarks on a point say that its runs were too short."""
    return any("give --duration" in text for text in remarks(point[0].facts | found | {"run_count": RUNS}))


def with_clients(points: int) -> None:
    """Print what points with real clients show, over theory and over what is computed."""
    pair = f"{'p50':>8} {'p99':>6}"
    print(f"{'real clients':14} {'over theory':>27} {'over computed':>17} {'computed over theory':>22}")
    print(f"{'':14} {'p50':>6} {'holds':>6} {'p99':>6} {'holds':>6} {pair}   {pair} {'late':>9}")
    for number in range(points):
        runs = REAL.measure(range(RUNS * number, RUNS * (number + 1)), REAL.needed_seconds(RUNS))
        long = relaxations(run.facts for run, _ in runs)
        measured = stored_percentiles([run.times for run, _ in runs], long)
        computed = stored_percentiles([latencies for _, latencies in runs])
        cells: tuple[list[str], list[str], list[str]] = ([], [], [])
        for name, beyond in JUDGED:
            theory = -math.log(beyond) * REAL.service / (1 - REAL.share)
            value, low, high, exact = (
                float(facts[f"latency_{name}{end}"])  # type: ignore[arg-type]
                for facts, end in ((measured, ""), (measured, "_low"), (measured, "_high"), (computed, ""))
            )
            held = "none" if math.isnan(low) else "yes" if low <= theory <= high else "no"
            cells[0].append(f"{value / theory:6.2f} {held:>6}")
            cells[1].append(f"{value / exact:6.3f}")
            cells[2].append(f"{exact / theory:6.2f}")
        late = 1000 * float(np.mean([run.facts["clients_late_seconds"] for run, _ in runs]))
        line = "   ".join(" ".join(some) for some in cells)
        print(f"point {number + 1:<8} {line} {late:6.1f} ms", flush=True)


if __name__ == "__main__":
    main()
