"""What monitoring costs: stretches with and without it, in turn, within one load that does not end.

    python -m benchmarks.monitoring [--rows 50000] [--clients 0 1 8] [--pairs 60] [--seconds 1] [--often 10]

0 clients: one query after the other from the process that samples, as without --clients. The two stretches
of a pair follow each other in an order drawn by lot, so that a machine whose speed wanders does the same to
both; the mean of the pairs' logarithmic ratios is what counts. Samples are taken more often than they usually
are, because what one a second costs is far below the noise of any machine: what each costs is the same, and
the usual cost is that part of it. Beside it, the CPU that sampling takes, in this process and in the server,
as a share of one core.
"""

import argparse
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import psutil

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.common.student import quantile
from ann_benchmarks.load.request import Load
from ann_benchmarks.measure.loaded_point import open_clients
from ann_benchmarks.monitoring import Monitor, NoMonitor, monitor
from ann_benchmarks.monitoring.monitor import INTERVAL_SECONDS
from benchmarks.server import temporary_server

K = 10
PIECE = 50  # queries of one call, where the sampling process asks
SETTLES = 0.3  # s from the opening of a monitor to the stretch
SAMPLING_SECONDS = 30


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dimension", type=int, default=96)
    parser.add_argument("--clients", type=int, nargs="+", default=[0, 1, 8])
    parser.add_argument("--ef-search", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=1, help="of each stretch")
    parser.add_argument("--often", type=float, default=10, help="times the usual number of samples")
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    train = rng.random((args.rows, args.dimension), dtype=np.float32)
    queries = rng.random((2000, args.dimension), dtype=np.float32)
    with temporary_server():
        algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64})
        algorithm.fit(train)
        algorithm.set_query_arguments(args.ef_search)
        monitor.PAUSE_CPU = monitor.PAUSE_WALL = 0  # else samples become rarer where they are slow
        watching = Watching(algorithm, INTERVAL_SECONDS / args.often)
        try:
            for clients in args.clients:
                measure = rates_beside if clients else rates_of_own
                rates = measure(algorithm, queries, clients, args.pairs, args.seconds, watching)
                report(clients, rates, watching.times_usual())
            sampling(algorithm)
        finally:
            algorithm.done()


def orders(pairs: int) -> list[tuple[bool, bool]]:
    """Return for each pair whether its stretches are monitored, in an order drawn by lot."""
    return [(bool(first), not first) for first in np.random.default_rng(2).integers(2, size=pairs)]


class Watching:
    """Monitors stretches, and knows how often it has."""

    def __init__(self, algorithm: Any, interval: float) -> None:
        """Nothing is watched yet; samples are to come every `interval` s."""
        self._algorithm, self._interval = algorithm, interval
        self._samples = 0
        self._seconds = 0.0

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
        """How many times as many samples as usual were taken since this was last asked."""
        times = self._samples / self._seconds * INTERVAL_SECONDS
        self._samples, self._seconds = 0, 0.0
        return times


def rates_of_own(
    algorithm: Any, queries: np.ndarray, clients: int, pairs: int, seconds: float, watching: Watching
) -> np.ndarray:
    """Queries a second without and with monitoring, (pairs, 2), asked by this process."""
    rates = np.empty((pairs, 2))
    for pair, order in enumerate(orders(pairs)):
        for is_on in order:
            with watching.during(is_on):
                began, asked = time.perf_counter(), 0
                while (passed := time.perf_counter() - began) < seconds:
                    place = asked % len(queries)
                    algorithm.time_queries(queries[place : place + PIECE], K)
                    asked += PIECE
            rates[pair, int(is_on)] = asked / passed
    return rates


def rates_beside(
    algorithm: Any, queries: np.ndarray, clients: int, pairs: int, seconds: float, watching: Watching
) -> np.ndarray:
    """Queries a second without and with monitoring, (pairs, 2), asked by so many clients all the time."""
    stretches: list[tuple[bool, float, float]] = []
    load = Load(clients, seconds=(2 * pairs + 1) * (seconds + 2 * SETTLES))
    with closing(open_clients(algorithm, queries, K, load, "own")) as opened:
        opened.prepare(load.orders(len(queries), 0), load.seconds, False)
        asking = threading.Thread(target=opened.run)
        asking.start()
        for order in orders(pairs):
            for is_on in order:
                with watching.during(is_on):
                    began = time.perf_counter()
                    time.sleep(seconds)
                    stretches.append((is_on, began, time.perf_counter()))
        asking.join()
        answered = np.sort(np.concatenate([given.answered for given in opened.answers()]))
    rates = np.empty((pairs, 2))
    for place, (is_on, began, ended) in enumerate(stretches):
        counted = np.diff(np.searchsorted(answered, (began, ended)))[0]
        rates[place // 2, int(is_on)] = counted / (ended - began)
    return rates


def report(clients: int, rates: np.ndarray, times_usual: float) -> None:
    """Print the throughputs of so many clients and what monitoring costs, with Student's interval."""
    ratios = np.log(rates[:, 1] / rates[:, 0])
    half = quantile(0.975, len(ratios) - 1) * np.std(ratios, ddof=1) / np.sqrt(len(ratios))
    low, middle, high = np.exp(ratios.mean() + np.array([-half, 0, half]))
    off, on = np.median(rates, axis=0)
    cost = [(1 - ratio) / times_usual for ratio in (high, middle, low)]
    print(
        f"{clients:2} clients: {off:7,.0f} QPS without, {on:7,.0f} with {times_usual:.1f} times the usual"
        f" samples; ratio {middle:.4f} ({low:.4f} to {high:.4f}, 95%, {len(ratios)} pairs)"
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
