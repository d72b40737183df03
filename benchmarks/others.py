"""Throughput of one client beside a process that comes and goes, with and without the rule of others' CPU.

    python -m benchmarks.others [--runs 100] [--seconds 1]

An HNSW index on a server of its own is queried by one client, one run after the other. Every 5 s processes
that are not ours burn none, a quarter, a half or all of each core. Runs are listed by the share of the CPUs
that others took. Then points of five runs are made of them in their order: of the first five, and by the
rule. Where others use this machine, too, run it with a high priority (nice -n -20) and --burners 1: the share
is then that of these processes only.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import numpy as np
import psutil

from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.measure.observed import OTHERS, UndisturbedRuns
from ann_benchmarks.measure.timed import Subject
from ann_benchmarks.plugin import Plugin
from benchmarks.harness import K, arguments, closed_rate, hnsw_index

EDGES = (0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.01)
POINT = 5  # runs
BURNER = """
import os, random, sys, time
if os.fork(): os._exit(0)
os.setsid()
print(os.getpid(), flush=True)
while True:
    busy, end = random.choice([0, 0, 0.25, 0.5, 1]), time.monotonic() + 5
    while (now := time.monotonic()) < end:
        while time.monotonic() < now + 0.05 * busy: pass
        time.sleep(0.05 * (1 - busy))
"""


def main() -> None:
    args = arguments(__doc__, rows=20_000, dimension=96, queries=1000, runs=100, seconds=1.0, burners=0)
    load = Load(1, seconds=args.seconds)
    with ExitStack() as stack:
        _, algorithm, queries = stack.enter_context(hnsw_index(args, ef_search=40))
        burning = stack.enter_context(burners(usable_cores()))
        watch = stack.enter_context(Subject(Plugin(algorithm), queries, K, 0).watched())
        runs = []
        for number in range(args.runs):
            before, began = burnt(burning), time.perf_counter()
            runs.append(closed_rate(algorithm, queries, load, number, 0.0, watch))
            seconds = time.perf_counter() - began
            if args.burners:
                runs[-1].facts[OTHERS] = (burnt(burning) - before) / seconds / usable_cores()
    rates = np.array([1 / run.seconds_per_query for run in runs])
    shares = np.array([run.facts.get(OTHERS, np.nan) for run in runs])
    quiet = float(np.median(rates[shares < EDGES[2]])) if (shares < EDGES[2]).any() else float(rates.max())
    print(f"{'others':>12} {'runs':>5} {'QPS / quiet':>12} {'deviation':>10}")
    for low, high in pairwise(EDGES):
        if len(chosen := rates[(shares >= low) & (shares < high)]):
            print(
                f"{low:5.0%} to {min(high, 1):4.0%} {len(chosen):5} {chosen.mean() / quiet:12.2f}"
                f" {chosen.std() / chosen.mean():10.1%}"
            )
    first = [runs[place : place + POINT] for place in range(0, len(runs) - POINT + 1, POINT)]
    for name, points in (("all runs", first), ("by the rule", by_the_rule(runs))):
        of_points = [[1 / run.seconds_per_query for run in point] for point in points]
        means = np.mean(of_points, axis=1)
        within = np.mean([np.std(point, ddof=1) / np.mean(point) for point in of_points])
        again = sum(run.repeats for point in points for run in point)
        print(
            f"{name}: {len(points)} points, {again} runs again; deviation within a point {within:.1%},"
            f" of the points {means.std() / means.mean():.1%}, least/largest {means.min() / means.max():.2f}"
        )


def by_the_rule(runs: list[Measured]) -> list[list[Measured]]:
    """Take the runs one after the other, as a point of five takes them, until there are none."""
    upcoming, points = iter(runs), []
    try:
        while True:
            repeats = UndisturbedRuns(POINT)
            points.append([repeats.least_disturbed(lambda: next(upcoming)) for _ in range(POINT)])
    except StopIteration:
        return points


def burnt(processes: list[int]) -> float:
    """CPU seconds of processes."""
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in processes)


@contextmanager
def burners(number: int) -> Iterator[list[int]]:
    """Have processes that are no descendants of ours burn CPU now and then."""
    started = []
    try:
        for _ in range(number):
            with subprocess.Popen([sys.executable, "-c", BURNER], stdout=subprocess.PIPE, text=True) as one:
                assert one.stdout is not None
                started.append(int(one.stdout.readline()))
        yield started
    finally:
        for pid in started:
            os.kill(pid, 9)


if __name__ == "__main__":
    main()
