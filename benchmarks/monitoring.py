"""What monitoring costs: stretches with and without it, in turn, within one load that does not end.

    python -m benchmarks.monitoring [--rows 50000] [--clients 0 1 8] [--pairs 60] [--seconds 1] [--often 10]

0 clients: one query after the other from the process that samples, as without --clients. The two stretches
of a pair follow each other in an order drawn by lot, so that a machine whose speed wanders does the same to
both; the mean of the pairs' logarithmic ratios is what counts. Samples are taken more often than they usually
are, because what one a second costs is far below the noise of any machine: what each costs is the same, and
the usual cost is that part of it. Sampling also takes CPU in this process and in the server: it is printed as
a share of one core.
"""

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import psutil

from ann_benchmarks.common.distributions import student_quantile
from ann_benchmarks.load.request import Load
from ann_benchmarks.measure.clients import open_clients
from ann_benchmarks.measure.timed import Subject
from ann_benchmarks.monitoring import Monitor, NoMonitor, monitor
from ann_benchmarks.monitoring.monitor import INTERVAL_SECONDS
from ann_benchmarks.plugin import Plugin
from benchmarks.harness import K, arguments, hnsw_index

PIECE = 50  # queries of one call, where the sampling process sends them
SETTLES = 0.3  # s from the opening of a monitor to the stretch
SAMPLING_SECONDS = 30


def main() -> None:
    args = arguments(
        __doc__,
        rows=50_000,
        dimension=96,
        queries=2000,
        clients=[0, 1, 8],
        ef_search=40,
        pairs=60,
        seconds={"default": 1.0, "help": "of each stretch"},
        often={"default": 10.0, "help": "times the usual number of samples"},
    )
    with hnsw_index(args, args.ef_search) as (_, algorithm, queries):
        monitor.PAUSE_CPU = monitor.PAUSE_WALL = 0  # else samples become rarer where they are slow
        for clients in args.clients:
            watching = Watching(algorithm, INTERVAL_SECONDS / args.often)
            rates = (rates_of_clients if clients else rates_of_own)(
                algorithm, queries, clients, args, watching
            )
            report(clients, rates, watching.times_usual())
        sampling(algorithm)


class Watching:
    """Monitors stretches, and knows how often it has."""

    def __init__(self, algorithm: Any, interval: float) -> None:
        """Nothing is watched yet; samples are to come every `interval` s."""
        self._algorithm, self._interval = algorithm, interval
        self._samples, self._seconds = 0, 0.0

    @contextmanager
    def during(self, is_on: bool) -> Iterator[None]:
        """Monitor, or do not, for as long as the block, which begins when the first sample is over."""
        server = self._algorithm.open_monitor() if is_on else None
        watch = Monitor(server, interval=self._interval) if is_on else NoMonitor()
        watch.enter("settling")
        time.sleep(SETTLES)
        began = time.perf_counter()
        try:
            yield
        finally:
            if is_on:
                self._seconds += time.perf_counter() - began
                samples = [sample for stretch in watch.cut().stretches for sample in stretch.samples]
                self._samples += sum(sample.seconds > SETTLES for sample in samples)
            watch.close()

    def times_usual(self) -> float:
        """The number of samples taken, as a multiple of the usual one."""
        return self._samples / self._seconds * INTERVAL_SECONDS


def in_pairs(
    watching: Watching, pairs: int, work: Callable[[], tuple[float, float]]
) -> list[list[tuple[float, float]]]:
    """Do the work without and with monitoring, in an order drawn by lot; return what each pair gave."""
    figures = []
    for first in np.random.default_rng(2).integers(2, size=pairs):
        pair = {}
        for is_on in (bool(first), not first):
            with watching.during(is_on):
                pair[is_on] = work()
        figures.append([pair[False], pair[True]])
    return figures


def rates_of_own(
    algorithm: Any, queries: np.ndarray, clients: int, args: argparse.Namespace, watching: Watching
) -> np.ndarray:
    """Queries a second without and with monitoring, (pairs, 2), sent by this process."""

    def work() -> tuple[float, float]:
        began, sent = time.perf_counter(), 0
        while (passed := time.perf_counter() - began) < args.seconds:
            place = sent % len(queries)
            algorithm.time_queries(queries[place : place + PIECE], K)
            sent += PIECE
        return sent, passed

    done, seconds = np.moveaxis(np.array(in_pairs(watching, args.pairs, work)), -1, 0)
    return np.asarray(done / seconds)


def rates_of_clients(
    algorithm: Any, queries: np.ndarray, clients: int, args: argparse.Namespace, watching: Watching
) -> np.ndarray:
    """Queries a second without and with monitoring, (pairs, 2), sent by clients all the time."""

    def work() -> tuple[float, float]:
        began = time.perf_counter()
        time.sleep(args.seconds)
        return began, time.perf_counter()

    load = Load(clients, seconds=(2 * args.pairs + 1) * (args.seconds + 2 * SETTLES))
    with closing(open_clients(Subject(Plugin(algorithm), queries, K, 0), load)) as opened:
        opened.prepare(load.orders(len(queries), 0), load.seconds, False)
        running = threading.Thread(target=opened.run)
        running.start()
        stretches = np.array(in_pairs(watching, args.pairs, work))
        running.join()
        answered = np.sort(np.concatenate([given.answered for given in opened.answers()]))
    counted = np.diff(np.searchsorted(answered, stretches))[..., 0]
    return np.asarray(counted / np.diff(stretches)[..., 0])


def report(clients: int, rates: np.ndarray, times_usual: float) -> None:
    """Print the throughputs, and what monitoring costs, with Student's interval."""
    logs = np.log(rates[:, 1] / rates[:, 0])
    half = student_quantile(0.975, len(logs) - 1) * np.std(logs, ddof=1) / np.sqrt(len(logs))
    low, middle, high = np.exp(logs.mean() + np.array([-half, 0, half]))
    off, on = np.median(rates, axis=0)
    cost = [(1 - ratio) / times_usual for ratio in (high, middle, low)]
    print(
        f"{clients:2} clients: {off:7,.0f} QPS without, {on:7,.0f} with {times_usual:.1f} times the usual"
        f" samples; ratio {middle:.4f} ({low:.4f} to {high:.4f}, 95%, {len(logs)} pairs)"
        f" -> the usual ones cost {cost[1]:.2%} ({cost[0]:.2%} to {cost[2]:.2%})",
        flush=True,
    )


def sampling(algorithm: Any) -> None:
    """Print what sampling takes of a core, here and in the server."""
    server = algorithm.open_monitor()
    watch = Monitor(server)
    watch.enter("measure")
    backend = psutil.Process(server._connection.info.backend_pid)
    watch.cut()
    before, began = sum(backend.cpu_times()[:2]), time.perf_counter()
    time.sleep(SAMPLING_SECONDS)
    used, passed = sum(backend.cpu_times()[:2]) - before, time.perf_counter() - began
    print(f"of one core: {watch.cut().cpu_seconds / passed:.3%} here, {used / passed:.3%} in the server")
    watch.close()


if __name__ == "__main__":
    main()
