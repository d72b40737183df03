"""Throughput of 1, 2, 8 and 32 clients: ours beside pgbench's, on the same index, settings and queries.

    python -m benchmarks.clients [--rows 50000] [--dimension 96] [--seconds 3] [--rounds 5]

HNSW at ef_search 10, the two alternating within one run; medians of the rounds, and the ratio of each round.
CPU is the clients' own, for a query, in microseconds. pgbench sends the number of a query, which the server
looks up; ours sends the vector.
"""

import argparse
import re
import resource
import statistics
import subprocess

import numpy as np

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.clients import Load, measure_clients
from benchmarks.client_cost import EF_SEARCH, K, cpu_seconds, pgbench_command
from benchmarks.server import temporary_server

CLIENTS = (1, 2, 8, 32)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dimension", type=int, default=96)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    train = rng.random((args.rows, args.dimension), dtype=np.float32)
    queries = rng.random((args.queries, args.dimension), dtype=np.float32)
    with temporary_server() as server:
        algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64})
        algorithm.fit(train)
        algorithm.set_query_arguments(EF_SEARCH)
        command, environment = pgbench_command(server, algorithm._table.name, list(queries))

        def pgbench(clients: int) -> tuple[float, float]:
            before = cpu_seconds(resource.RUSAGE_CHILDREN)
            transact = [command[0], "-c", str(clients), "-j", str(min(clients, 2)), "-T", str(args.seconds)]
            done = subprocess.run(
                [*transact, *command[1:]], env=environment, check=True, capture_output=True, text=True
            )
            cpu = cpu_seconds(resource.RUSAGE_CHILDREN) - before
            count = int(re.search(r"actually processed: (\d+)", done.stdout)[1])  # type: ignore[index]
            return float(re.search(r"tps = ([\d.]+)", done.stdout)[1]), cpu / count  # type: ignore[index]

        def ours(clients: int) -> tuple[float, float]:
            load = Load(clients, seconds=args.seconds)
            (run,) = measure_clients(algorithm, queries, K, load, 1, args.rows, True)
            return 1 / run.seconds_per_query, run.facts["client_cpu_seconds_per_query"]

        print(f"{'clients':>7} {'ours QPS':>10} {'pgbench':>10} {'ratio':>23} {'CPU us':>7} {'pgbench':>8}")
        for clients in CLIENTS:
            rounds = [(ours(clients), pgbench(clients)) for _ in range(args.rounds)]
            (qps, cpu), (its_qps, its_cpu) = (
                [statistics.median(values) for values in zip(*way, strict=True)]
                for way in zip(*rounds, strict=True)
            )
            ratios = sorted(mine[0] / its[0] for mine, its in rounds)
            ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            costs = f"{cpu * 1e6:7.0f} {its_cpu * 1e6:8.0f}"
            print(f"{clients:7} {qps:10,.0f} {its_qps:10,.0f} {ratio:>23} {costs}", flush=True)
        algorithm.done()


if __name__ == "__main__":
    main()
