"""Throughput and client CPU of 1, 2, 8 and 32 clients: ours, pgbench's, and psycopg's cursor.execute.

    python -m benchmarks.clients [--rows 50000] [--dimension 96] [--queries 1000] [--seconds 3] [--rounds 5]

HNSW at ef_search 10, the ways alternating within one run; medians of the rounds, and the ratio of each round.
CPU is the clients' own, for a query, in microseconds. Ours keep the answers that a recall needs, or none.
pgbench sends the number of a query, which the server looks up; the others send the vector. pgbench runs with
as many threads as the machine has cores, each of which serves several clients, as our processes do, and with
a thread for each client.
"""

import os
import re
import resource
import struct
import subprocess
import time
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from ann_benchmarks.algorithms.postgres.columns import VectorColumn
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.binaries import embedded_installation
from ann_benchmarks.algorithms.postgres.servers.libpq import client_environment, connect
from ann_benchmarks.algorithms.postgres.settings import QUERY_SESSION
from ann_benchmarks.common.host import usable_cores
from ann_benchmarks.load.request import Load
from benchmarks.harness import K, arguments, closed_rate, cpu_seconds, hnsw_index, in_turn, ratios, spread

CLIENTS = (1, 2, 8, 32)
EF_SEARCH = 10
SETTINGS = QUERY_SESSION | {"hnsw.ef_search": str(EF_SEARCH)}
START_SECONDS = 0.05  # for each client, to connect before the common start


def main() -> None:
    args = arguments(__doc__, rows=50_000, dimension=96, queries=1_000, seconds=3, rounds=5)
    with hnsw_index(args, EF_SEARCH) as (server, algorithm, queries):
        table, seconds, cores = algorithm.table_name, args.seconds, usable_cores()
        pgbench = partial(run_pgbench, *pgbench_command(server, table, queries), seconds)
        print(f"{'clients':>7} {'way':15} {'QPS':>7} {'CPU us':>7}  QPS and CPU of ours as a multiple")
        for clients in CLIENTS:
            ways = {
                "ours": partial(run_ours, algorithm, queries, Load(clients, seconds=seconds), True),
                "ours, no ids": partial(run_ours, algorithm, queries, Load(clients, seconds=seconds), False),
                "pgbench": partial(pgbench, clients, min(clients, cores)),
                "pgbench -j N": partial(pgbench, clients, clients),
                "cursor.execute": partial(run_psycopg, server, table, queries, clients, seconds),
            }
            rounds = in_turn(ways, args.rounds)
            ours = [*zip(*rounds["ours"], strict=True)]
            for way, done in rounds.items():
                rates, cpu = zip(*done, strict=True)
                compared = spread(ratios(ours[0], rates)), spread(ratios(ours[1], cpu))
                print(
                    f"{clients:7} {way:15} {median(rates):7,.0f} {median(cpu) * 1e6:7.0f}"
                    f"  {compared[0]}   {compared[1]}"
                )


def run_ours(
    algorithm: Any, queries: np.ndarray, load: Load, keeps_ids: bool, run: int
) -> tuple[float, float]:
    """Queries a second and CPU seconds a query of run.py's clients."""
    measured = closed_rate(algorithm, queries, load, run, warmup=0.2, keeps_ids=keeps_ids)
    return 1 / measured.seconds_per_query, measured.facts["client_cpu_seconds_per_query"]


def pgbench_command(server: Server, table: str, queries: np.ndarray) -> tuple[list[str], dict[str, str]]:
    """Give pgbench -M prepared the same queries and settings; return its command line and environment."""
    column = VectorColumn(queries.shape[1])
    with server.connect() as connection:
        connection.execute(f"CREATE TABLE queries (id int4 PRIMARY KEY, v {column.declared})")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO queries VALUES (%s, %s)", [(i, column.literal(v)) for i, v in enumerate(queries)]
            )
        connection.execute("ANALYZE queries")
    script = server.data_folder.parent / "query.sql"  # type: ignore[union-attr]
    script.write_text(
        f"\\set i random(0, {len(queries) - 1})\n"
        f"SELECT id FROM {table} ORDER BY embedding <-> (SELECT v FROM queries WHERE id = :i) LIMIT {K};\n"
    )
    parameters: dict[str, Any] = server.connection_parameters()
    command = [
        str(embedded_installation() / "bin" / "pgbench"),
        *("-n", "-M", "prepared", "-f", str(script)),
        *("-h", parameters["host"], "-U", parameters["user"], parameters["dbname"]),
    ]
    options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    return command, client_environment(parameters) | {"PGOPTIONS": options}


def run_pgbench(
    command: list[str], environment: dict[str, str], seconds: int, clients: int, threads: int, run: int
) -> tuple[float, float]:
    """Queries a second, by pgbench's own count, and CPU seconds a query."""
    before = cpu_seconds(resource.RUSAGE_CHILDREN)
    load = ["-c", str(clients), "-j", str(threads), "-T", str(seconds)]
    done = subprocess.run(
        [command[0], *load, *command[1:]], env=environment, check=True, capture_output=True, text=True
    )
    cpu = cpu_seconds(resource.RUSAGE_CHILDREN) - before
    count, rate = re.search(r"actually processed: (\d+).*tps = ([\d.]+)", done.stdout, re.S).groups()  # type: ignore[union-attr]
    return float(rate), cpu / int(count)


def run_psycopg(
    server: Server, table: str, queries: np.ndarray, clients: int, seconds: float, run: int
) -> tuple[float, float]:
    """What ann-benchmarks' own plug-in does, in `clients` processes: cursor.execute, binary and prepared."""
    parameters: dict[str, Any] = server.connection_parameters()
    literal = VectorColumn(queries.shape[1]).literal
    texts = [literal(query) for query in queries]
    receiver, sender = os.pipe()
    start = time.perf_counter() + START_SECONDS * (clients + 1)
    for number in range(clients):
        if os.fork() == 0:
            try:
                order = np.random.default_rng([run, number]).permutation(len(texts)).tolist()
                figures = _execute(parameters, table, [texts[place] for place in order], start, seconds)
                os.write(sender, struct.pack("ddd", *figures))
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


def _execute(
    parameters: dict[str, Any], table: str, texts: list[str], start: float, seconds: float
) -> tuple[float, float, int]:
    """Queries a second, CPU seconds and queries of one client."""
    with connect(parameters) as connection:
        connection.execute("SELECT '[1]'::vector")
        for name, value in SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        cursor = connection.cursor(binary=True)
        sql = f"SELECT id FROM {table} ORDER BY embedding <-> %s::vector LIMIT %s"
        time.sleep(max(start - time.perf_counter(), 0))
        sent, before = 0, cpu_seconds()
        while time.perf_counter() < start + seconds:
            cursor.execute(sql, (texts[sent % len(texts)], K), prepare=True)
            [row[0] for row in cursor.fetchall()]
            sent += 1
        return sent / (time.perf_counter() - start), cpu_seconds() - before, sent


if __name__ == "__main__":
    main()
