"""CPU that one client spends on a query: ours, pgbench's, and psycopg's cursor.execute.

    python -m benchmarks.client_cost [--rows 50000] [--dimension 96] [--queries 5000] [--rounds 7]

All three ask the same HNSW index for 10 neighbours at ef_search 10, one after the other, alternating within
one run. pgbench cannot send a vector of its own: it sends the number of one of the same queries, drawn at
random, and the server looks the vector up, which costs the server a little and the client nothing. What
pgbench needs to start and connect, measured with a single query, is taken off: ours is connected already.
"""

import argparse
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.encoding import text_vector
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.binaries import embedded_installation
from ann_benchmarks.algorithms.postgres.settings import QUERY_SESSION
from ann_benchmarks.measure.timed import measure
from benchmarks.server import temporary_server

K = 10
EF_SEARCH = 10


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dimension", type=int, default=96)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    train = rng.random((args.rows, args.dimension), dtype=np.float32)
    queries = list(rng.random((args.queries, args.dimension), dtype=np.float32))
    with temporary_server() as server:
        algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64})
        algorithm.fit(train)
        algorithm.set_query_arguments(EF_SEARCH)
        table = algorithm.table_name
        ways: dict[str, Callable[[], float]] = {
            "pgbench": pgbench(server, table, queries),
            "ours": lambda: ours(algorithm, queries, args.rows),
            "cursor.execute": lambda: plain_psycopg(server, table, queries),
        }
        cpu: dict[str, list[float]] = {way: [] for way in ways}
        wall: dict[str, list[float]] = {way: [] for way in ways}
        for round_number in range(args.rounds + 1):
            for way, run in ways.items():
                started = time.perf_counter()
                used = run()
                if round_number:  # the first warms the caches
                    cpu[way].append(used / args.queries)
                    wall[way].append((time.perf_counter() - started) / args.queries)
        algorithm.done()
    for way in ways:
        ratios = [own / base for own, base in zip(cpu[way], cpu["pgbench"], strict=True)]
        print(
            f"{way:15} client CPU {statistics.median(cpu[way]) * 1e6:6.1f} us a query   "
            f"ratio to pgbench {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})   "
            f"wall {statistics.median(wall[way]) * 1e6:6.0f} us"
        )


def cpu_seconds(who: int = resource.RUSAGE_SELF) -> float:
    """CPU seconds, user and system, of this process or of its ended children."""
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def ours(algorithm: PGVectorHNSW, queries: list[np.ndarray], rows: int) -> float:
    """CPU seconds of what run.py does for one run of a point, decoding and bookkeeping included."""
    before = cpu_seconds()
    measure(algorithm, queries, K, False, rows, lambda done: None)
    return cpu_seconds() - before


def plain_psycopg(server: Server, table: str, queries: list[np.ndarray]) -> float:
    """CPU seconds of what ann-benchmarks' own plug-in does: cursor.execute, binary and prepared."""
    with server.connect() as connection:
        connection.execute("SELECT '[1]'::vector")
        for name, value in (QUERY_SESSION | {"hnsw.ef_search": str(EF_SEARCH)}).items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        cursor = connection.cursor(binary=True)
        sql = f"SELECT id FROM {table} ORDER BY embedding <-> %s::vector LIMIT %s"
        before = cpu_seconds()
        for query in queries:
            cursor.execute(sql, (text_vector(query), K), prepare=True)
            [row[0] for row in cursor.fetchall()]
        return cpu_seconds() - before


def pgbench_command(
    server: Server, table: str, queries: list[np.ndarray]
) -> tuple[list[str], dict[str, str]]:
    """Give pgbench -M prepared the same queries and settings; return its command line and environment."""
    with server.connect() as connection:
        connection.execute(f"CREATE TABLE queries (id int4 PRIMARY KEY, v vector({len(queries[0])}))")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO queries VALUES (%s, %s)", [(i, text_vector(v)) for i, v in enumerate(queries)]
            )
        connection.execute("ANALYZE queries")
    script = server.data_folder.parent / "query.sql"  # type: ignore[union-attr]
    script.write_text(
        f"\\set i random(0, {len(queries) - 1})\n"
        f"SELECT id FROM {table} ORDER BY embedding <-> (SELECT v FROM queries WHERE id = :i) LIMIT {K};\n"
    )
    settings = QUERY_SESSION | {"hnsw.ef_search": str(EF_SEARCH)}
    parameters: dict[str, Any] = server.connection_parameters()
    command = [
        str(embedded_installation() / "bin" / "pgbench"),
        *("-n", "-M", "prepared", "-f", str(script)),
        *("-h", parameters["host"], "-U", parameters["user"], parameters["dbname"]),
    ]
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    return command, os.environ | {"PGOPTIONS": options}


def pgbench(server: Server, table: str, queries: list[np.ndarray]) -> Callable[[], float]:
    """Return a run of pgbench with the same queries, which gives its CPU seconds."""
    command, environment = pgbench_command(server, table, queries)

    def run(transactions: int) -> float:
        before = cpu_seconds(resource.RUSAGE_CHILDREN)
        transact = [command[0], "-c", "1", "-t", str(transactions), *command[1:]]
        subprocess.run(transact, env=environment, check=True, capture_output=True)
        return cpu_seconds(resource.RUSAGE_CHILDREN) - before

    return lambda: run(len(queries)) - run(1)


if __name__ == "__main__":
    main()
