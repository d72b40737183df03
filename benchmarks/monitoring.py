"""Monitoring costs less than half a percent of the throughput.

HNSW at ef_search 40. Samples are taken --often times as often as usual, because what one a second costs is
far below the noise of any machine: the usual cost is that part of the difference. The CPU of sampling is
stored with each result, as monitoring_cpu_seconds.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ann_benchmarks.common.numbers import counted
from ann_benchmarks.load.request import Load
from ann_benchmarks.monitoring import Monitor, monitor
from ann_benchmarks.monitoring.monitor import INTERVAL_SECONDS

from .harness import Case, Figures, Goal
from .serving import closed_rate, hnsw_index

GOAL = Goal("QPS", least=0.95)
OPTIONS = {
    "rows": 50_000, "dimension": 96, "queries": 2000, "clients": [1, 8], "often": 10.0, "seconds": 1.0,
    "rounds": 60,
}  # fmt: skip


def cases(args: argparse.Namespace) -> Iterator[Case]:
    monitor.PAUSE_CPU = monitor.PAUSE_WALL = 0  # else samples become rarer where they are slow
    with hnsw_index(args, ef_search=40) as (_, algorithm, queries):
        for clients in args.clients:
            load = Load(clients, seconds=args.seconds)
            ways = {
                f"{args.often:g} x sampled": partial(measure, algorithm, queries, load, args.often),
                "not sampled": partial(measure, algorithm, queries, load, 0),
            }
            yield Case(counted(clients, "client"), ways, base="not sampled")


def measure(algorithm: Any, queries: np.ndarray, load: Load, often: float, run: int) -> Figures:
    """Return queries a second, with so many times the usual samples."""
    if not often:
        return {"QPS": 1 / closed_rate(algorithm, queries, load, run).seconds_per_query}
    watch = Monitor(algorithm.open_monitor(), interval=INTERVAL_SECONDS / often)
    try:
        watch.enter("measure")
        return {"QPS": 1 / closed_rate(algorithm, queries, load, run).seconds_per_query}
    finally:
        watch.close()
