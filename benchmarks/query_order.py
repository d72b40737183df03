"""How much an identical order of queries flatters: clients in one order, in orders of their own, and skewed.

    python -m benchmarks.query_order [--rows 200000] [--dimension 96] [--memory 96MB] [--rounds 3]

HNSW larger than the memory that the server is given: shared_buffers of an eighth of it, and, where this user
may make a control group, its page cache, too, so that what is not in memory is read from the disk.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.machine import drop_from_cache
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.load.orders import QueryOrder
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import closed_loop
from ann_benchmarks.measure.loaded_point import open_clients
from ann_benchmarks.measure.timed import watched
from benchmarks.server import temporary_server

K = 10
EF_SEARCH = 40
ORDERS = ("shuffled", "same", "zipf:1.1")
GROUP = Path("/sys/fs/cgroup/memory/ann-benchmarks-query-order")


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dimension", type=int, default=96)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--memory", type=int, default=96, metavar="MB", help="for the server")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    train = rng.random((args.rows, args.dimension), dtype=np.float32)
    queries = rng.random((args.queries, args.dimension), dtype=np.float32)
    with temporary_server() as server:
        algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64})
        algorithm.fit(train)
        algorithm.set_query_arguments(EF_SEARCH)
        algorithm.done()
        server.restart({"shared_buffers": f"{args.memory // 8}MB"})
        algorithm.recover()
        kib = algorithm.get_memory_usage() + algorithm.get_additional()["table_size"]
        with limited(server, args.memory << 20) as how:
            print(f"index and table {kib / 1024:,.0f} MiB, memory {args.memory} MiB ({how})")
            print(f"{'order':10} {'QPS':>7} {'hits':>6} {'disk KiB a query':>17}  of shuffled, each round")
            done: dict[str, list[tuple[float, float, float, str]]] = {order: [] for order in ORDERS}
            for run in range(args.rounds):
                for order in ORDERS[run % len(ORDERS) :] + ORDERS[: run % len(ORDERS)]:
                    load = Load(args.clients, seconds=args.seconds, order=QueryOrder.parse(order))
                    done[order].append(measured(algorithm, queries, load, run))
        for order, rounds in done.items():
            qps, hits, disk = (statistics.median(row[i] for row in rounds) for i in range(3))
            each = [row[0] / base[0] for row, base in zip(rounds, done["shuffled"], strict=True)]
            ratio = f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})"
            print(f"{order:10} {qps:7,.0f} {hits:6.1%} {disk / 1024:17.1f}  {ratio}  waits: {rounds[-1][3]}")
        algorithm.done()


def measured(
    algorithm: PGVectorHNSW, queries: np.ndarray, load: Load, run: int
) -> tuple[float, float, float, str]:
    """Queries a second, share of blocks found in shared_buffers, bytes from the disk a query, main waits."""
    with closing(open_clients(algorithm, queries, K, load, "own")) as clients:
        for number, seconds in ((1_000_000 + run, load.seconds), (run, load.seconds)):  # the first warms
            with watched(algorithm) as watch:
                clients.prepare(load.orders(len(queries), number), seconds, False)
                with watch.running():
                    clients.run()
                answers = clients.answers()
                facts = watch.facts(sum(len(given.numbers) for given in answers))
        result = closed_loop(answers, facts)
    hits = sum(result.facts[f"{what}_blocks_hit_per_query"] for what in ("index", "table"))
    reads = sum(result.facts[f"{what}_blocks_read_per_query"] for what in ("index", "table"))
    waits = {name: share for name, share in json.loads(facts["wait_events"]).items() if share >= 0.1}
    disk = result.facts.get("server_disk_bytes_read_per_query", float("nan"))
    return 1 / result.seconds_per_query, hits / (hits + reads), disk, json.dumps(waits)


@contextmanager
def limited(server: Server, limit: int) -> Iterator[str]:
    """Give the server's processes so many bytes in all, their page cache included, where that is possible."""
    with server.connect() as connection:
        postmaster = psutil.Process(connection.info.backend_pid).parent()
    assert postmaster is not None
    try:
        GROUP.mkdir(exist_ok=True)
        (GROUP / "memory.limit_in_bytes").write_text(str(limit))
        for process in [postmaster, *postmaster.children()]:
            with suppress(OSError):  # it has just ended
                (GROUP / "cgroup.procs").write_text(str(process.pid))
        # What the cache holds belongs to the group that read it: the server starts without.
        assert server.data_folder is not None
        drop_from_cache(server.data_folder)
        yield "control group"
    except OSError as error:
        yield f"the system's cache is not limited: {error.strerror}"
    finally:
        server.stop()
        with suppress(OSError):  # it was not made
            GROUP.rmdir()


if __name__ == "__main__":
    main()
