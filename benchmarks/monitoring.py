"""What monitoring costs: the same point measured with and without it, in turn.

    python -m benchmarks.monitoring [--rows 50000] [--clients 0 1 8] [--rounds 25] [--seconds 3]

0 clients: one query after the other from the process that samples, as without --clients. Each round measures
both ways, in changing order; the ratio of a round's two throughputs is what counts. Beside it, the CPU that
sampling takes, in this process and in the server, as a share of one core.
"""

import argparse
import statistics
import time
from contextlib import closing
from typing import Any

import numpy as np
import psutil

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.intervals import mean_interval
from ann_benchmarks.load.measure import open_clients
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import closed_loop
from ann_benchmarks.monitoring import Monitor, open_monitor
from benchmarks.server import temporary_server

K = 10


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dimension", type=int, default=96)
    parser.add_argument("--clients", type=int, nargs="+", default=[0, 1, 8])
    parser.add_argument("--ef-search", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=3)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    train = rng.random((args.rows, args.dimension), dtype=np.float32)
    queries = rng.random((2000, args.dimension), dtype=np.float32)
    with temporary_server():
        algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64})
        algorithm.fit(train)
        algorithm.set_query_arguments(args.ef_search)
        try:
            for clients in args.clients:
                compare(algorithm, queries, clients, args.rounds, args.seconds)
            sampling(algorithm, args.seconds)
        finally:
            algorithm.done()


def compare(algorithm: Any, queries: np.ndarray, clients: int, rounds: int, seconds: float) -> None:
    """Print the throughputs and the ratio for so many clients; the first round only warms."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for each in range(rounds + 1):
        for is_on in (False, True) if each % 2 else (True, False):
            monitor = open_monitor(algorithm) if is_on else None
            if monitor is not None:
                monitor.enter("measure")
            rates[is_on].append(rate_of(algorithm, queries, clients, seconds, each))
            if monitor is not None:
                monitor.close()
    ratios = [on / off for off, on in zip(rates[False][1:], rates[True][1:], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    mean = mean_interval(ratios)
    off, on = (statistics.median(rates[is_on][1:]) for is_on in (False, True))
    print(
        f"{clients:2} clients: {off:7,.0f} QPS without, {on:7,.0f} with; ratio {middle:.4f}"
        f" (middle half {low:.4f} to {high:.4f}; mean {mean.low:.4f} to {mean.high:.4f}, 95%)",
        flush=True,
    )


def rate_of(algorithm: Any, queries: np.ndarray, clients: int, seconds: float, number: int) -> float:
    """Queries a second."""
    if clients == 0:
        began, asked = time.perf_counter(), 0
        while (passed := time.perf_counter() - began) < seconds:
            algorithm.time_queries(queries[:200], K)
            asked += 200
        return asked / passed
    load = Load(clients, seconds=seconds)
    with closing(open_clients(algorithm, queries, K, load, "own")) as opened:
        opened.prepare(load.orders(len(queries), number), load.seconds, False)
        opened.run()
        return 1 / closed_loop(opened.answers(), {}).seconds_per_query


def sampling(algorithm: Any, seconds: float) -> None:
    """Print what sampling takes of a core, here and in the server."""
    server = algorithm.open_monitor()
    monitor = Monitor(server)
    monitor.enter("measure")
    backend = psutil.Process(server._connection.info.backend_pid)
    monitor.cut()
    before, began = sum(backend.cpu_times()[:2]), time.perf_counter()
    time.sleep(10 * seconds)
    used, passed = sum(backend.cpu_times()[:2]) - before, time.perf_counter() - began
    print(f"of one core: {monitor.cut().cpu_seconds / passed:.3%} here, {used / passed:.3%} in the server")
    monitor.close()


if __name__ == "__main__":
    main()
