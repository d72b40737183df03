"""Throughput and client CPU of 1, 2, 8 and 32 clients: ours, pgbench's, and psycopg's cursor.execute.

    python -m benchmarks.clients [--rows 50000] [--dimension 96] [--seconds 3] [--rounds 5]

HNSW at ef_search 10, the ways alternating within one run; medians of the rounds, and the ratio of each round.
CPU is the clients' own, for a query, in microseconds. pgbench sends the number of a query, which the server
looks up; the others send the vector. pgbench runs with as many threads as the machine has cores, each of
which serves several clients, and with a thread for each client, as ours has a process for each.
"""

import argparse
import os
import re
import resource
import statistics
import struct
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.encoding import text_vector
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.base import connect
from ann_benchmarks.algorithms.postgres.settings import QUERY_SESSION
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import closed_loop
from ann_benchmarks.measure.loaded_point import open_clients
from benchmarks.client_cost import EF_SEARCH, K, cpu_seconds, pgbench_command
from benchmarks.server import temporary_server

CLIENTS = (1, 2, 8, 32)
START_SECONDS = 0.05  # for each client, to connect before the common start


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
        table = algorithm.table_name
        command, environment = pgbench_command(server, table, list(queries))
        cores = usable_cores()
        ways: dict[str, Callable[[int], tuple[float, float]]] = {
            "ours": lambda clients: ours(algorithm, queries, clients, args.seconds),
            "pgbench": lambda n: pgbench(command, environment, n, min(n, cores), args.seconds),
            "pgbench -j N": lambda n: pgbench(command, environment, n, n, args.seconds),
            "cursor.execute": lambda clients: plain_psycopg(server, table, queries, clients, args.seconds),
        }
        print(f"{'clients':>7} {'way':15} {'QPS':>7} {'CPU us':>7}  QPS and CPU of ours as a multiple")
        for clients in CLIENTS:
            rounds = []
            for number in range(args.rounds):
                order = [*ways][number % len(ways) :] + [*ways][: number % len(ways)]
                rounds.append({way: ways[way](clients) for way in order})
            for way in ways:
                qps, cpu = (statistics.median(done[way][i] for done in rounds) for i in (0, 1))
                compared = [ratios([done["ours"][i] / done[way][i] for done in rounds]) for i in (0, 1)]
                print(f"{clients:7} {way:15} {qps:7,.0f} {cpu * 1e6:7.0f}  {compared[0]}   {compared[1]}")
        algorithm.done()


def ratios(values: list[float]) -> str:
    """Their median, and the least and the largest."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def ours(algorithm: PGVectorHNSW, queries: np.ndarray, clients: int, seconds: float) -> tuple[float, float]:
    """Queries a second and CPU seconds a query of run.py's clients, after one pass that warms them."""
    load = Load(clients, seconds=seconds)
    with closing(open_clients(algorithm, queries, K, load, "own")) as pool:
        for run in (1, 2):
            pool.prepare(load.orders(len(queries), run), 0.2 if run == 1 else seconds, False)
            pool.run()
            measured = closed_loop(pool.answers(), {})
    return 1 / measured.seconds_per_query, measured.facts["client_cpu_seconds_per_query"]


def pgbench(
    command: list[str], environment: dict[str, str], clients: int, threads: int, seconds: int
) -> tuple[float, float]:
    """Queries a second, by pgbench's own count, and CPU seconds a query."""
    before = cpu_seconds(resource.RUSAGE_CHILDREN)
    transact = [command[0], "-c", str(clients), "-j", str(threads), "-T", str(seconds), *command[1:]]
    done = subprocess.run(transact, env=environment, check=True, capture_output=True, text=True)
    cpu = cpu_seconds(resource.RUSAGE_CHILDREN) - before
    count = int(re.search(r"actually processed: (\d+)", done.stdout)[1])  # type: ignore[index]
    return float(re.search(r"tps = ([\d.]+)", done.stdout)[1]), cpu / count  # type: ignore[index]


def plain_psycopg(
    server: Server, table: str, queries: np.ndarray, clients: int, seconds: float
) -> tuple[float, float]:
    """What ann-benchmarks' own plug-in does, in so many processes: cursor.execute, binary and prepared."""
    parameters: dict[str, Any] = server.connection_parameters()
    texts = [text_vector(query) for query in queries]
    receiver, sender = os.pipe()
    start = time.perf_counter() + START_SECONDS * (clients + 1)
    for number in range(clients):
        if os.fork() == 0:
            try:
                rate, cpu, asked = _ask_plainly(parameters, table, texts, number, start, seconds)
                os.write(sender, struct.pack("ddd", rate, cpu, asked))
            finally:
                os._exit(0)
    for _ in range(clients):
        os.wait()
    done = np.frombuffer(os.read(receiver, 24 * clients)).reshape(-1, 3)
    os.close(receiver)
    os.close(sender)
    if len(done) < clients:
        raise SystemExit(f"{clients - len(done)} of {clients} clients with cursor.execute failed")
    return float(done[:, 0].sum()), float(done[:, 1].sum() / done[:, 2].sum())


def _ask_plainly(
    parameters: dict[str, Any], table: str, texts: list[str], number: int, start: float, seconds: float
) -> tuple[float, float, int]:
    order = np.random.default_rng(number).permutation(len(texts)).tolist()
    with connect(parameters) as connection:
        connection.execute("SELECT '[1]'::vector")
        for name, value in (QUERY_SESSION | {"hnsw.ef_search": str(EF_SEARCH)}).items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        cursor = connection.cursor(binary=True)
        sql = f"SELECT id FROM {table} ORDER BY embedding <-> %s::vector LIMIT %s"
        time.sleep(max(start - time.perf_counter(), 0))
        asked, before = 0, cpu_seconds()
        while time.perf_counter() < start + seconds:
            cursor.execute(sql, (texts[order[asked % len(order)]], K), prepare=True)
            [row[0] for row in cursor.fetchall()]
            asked += 1
        return asked / (time.perf_counter() - start), cpu_seconds() - before, asked


if __name__ == "__main__":
    main()
