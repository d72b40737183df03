"""How much an identical order of queries flatters: clients in one order, in orders of their own, and skewed.

    python -m benchmarks.query_order [--rows 200000] [--dimension 96] [--memory 96] [--rounds 3]

HNSW larger than the memory in MB that the server is given: shared_buffers of an eighth of it, and, where this
user may make a control group, its page cache, too, so that what is not in memory is read from the disk.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

from ann_benchmarks.algorithms.postgres.machine import drop_from_cache
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.load.orders import QueryOrder
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import Measured
from ann_benchmarks.measure.timed import Subject
from ann_benchmarks.plugin import Plugin
from benchmarks.harness import K, arguments, closed_rate, hnsw_index, in_turn, ratios, spread

ORDERS = ("shuffled", "same", "zipf:1.1")
GROUP = Path("/sys/fs/cgroup/memory/ann-benchmarks-query-order")


def main() -> None:
    memory = {"default": 96, "metavar": "MB", "help": "for the server"}
    sizes = {"rows": 200_000, "dimension": 96, "queries": 10_000}
    args = arguments(__doc__, **sizes, memory=memory, seconds=8.0, clients=8, rounds=3)
    with hnsw_index(args, ef_search=40) as (server, algorithm, queries):
        algorithm.done()
        server.restart({"shared_buffers": f"{args.memory // 8}MB"})
        algorithm.recover()
        kib = algorithm.get_memory_usage() + algorithm.get_additional()["table_size"]
        with limited(server, args.memory << 20) as how:
            print(f"index and table {kib / 1024:,.0f} MiB, memory {args.memory} MiB ({how})")
            print(f"{'order':10} {'QPS':>7} {'hits':>6} {'disk KiB a query':>17}  of shuffled, each round")
            load = Load(args.clients, seconds=args.seconds)
            loads = {order: replace(load, order=QueryOrder.parse(order)) for order in ORDERS}
            ways = {order: partial(measured, algorithm, queries, loads[order]) for order in ORDERS}
            done = in_turn(ways, args.rounds)
        rates = {order: [1 / run.seconds_per_query for run in runs] for order, runs in done.items()}
        for order, runs in done.items():
            hits = median(shared_buffers_hits(run) for run in runs)
            disk = median(run.facts.get("server_disk_bytes_read_per_query", float("nan")) for run in runs)
            ratio = spread(ratios(rates[order], rates["shuffled"]))
            print(
                f"{order:10} {median(rates[order]):7,.0f} {hits:6.1%} {disk / 1024:17.1f}  {ratio}"
                f"  waits: {main_waits(runs[-1])}"
            )


def measured(algorithm: Any, queries: np.ndarray, load: Load, run: int) -> Measured:
    """Measure one order, after as long a run that fills the caches."""
    assert load.seconds is not None
    with Subject(Plugin(algorithm), queries, K, 0).watched() as watch:
        return closed_rate(algorithm, queries, load, run, load.seconds, watch)


def shared_buffers_hits(run: Measured) -> float:
    """Share of the blocks that were found in shared_buffers."""
    hits, reads = (
        sum(run.facts[f"{what}_blocks_{how}_per_query"] for what in ("index", "table"))
        for how in ("hit", "read")
    )
    return float(hits / (hits + reads))


def main_waits(run: Measured) -> str:
    """What took a tenth of the sessions' time or more."""
    shares = json.loads(run.facts["wait_events"])
    return json.dumps({name: share for name, share in shares.items() if share >= 0.1})


@contextmanager
def limited(server: Server, limit: int) -> Iterator[str]:
    """Limit the bytes of the server's processes, their page cache included, where that is possible."""
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
