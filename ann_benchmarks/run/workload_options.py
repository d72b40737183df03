"""run.py's options of workloads that write."""

import argparse
from itertools import product
from typing import Any

from ann_benchmarks.common.cli import option_name, positive_floats, positive_ints, read_by, share
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load.orders import QueryOrder
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.workload import SECONDS, WRITERS, Mix, Workload

OF_A_WORKLOAD = ("writers", "write_rate", "write_mix", "loaded", "autovacuum")
BESIDE_QUERIES = ("clients", "write_rate", "write_mix", "query_order", "distinct_queries")
NOT_HAD = ("max_queries", "rate", "slo", "scheduler", "debug_single_query", "warmup", "batch",
           "build_only")  # fmt: skip


def add_workload_options(parser: argparse.ArgumentParser) -> None:
    """Add them, in a group of their own; none of them is ann-benchmarks'."""
    add = parser.add_argument_group("workloads that write").add_argument
    add(
        "--workload",
        choices=list(SECONDS),
        help="inserts: rows are inserted into an empty index; writes: rows are written beside --clients that"
        " ask. --duration is that of the writing (default: 900 s of inserts, 300 s of writes)",
    )
    add(
        "--writers",
        metavar="N,M",
        type=positive_ints,
        help="write by N connections, then by M, ... (default: 1 for inserts, 4 for writes)",
    )
    add(
        "--write-rate",
        metavar="R,S",
        type=positive_floats,
        help="let R writes a second come, then S, ...; latency counts from when one was due",
    )
    add(
        "--write-mix",
        metavar="MIX",
        type=read_by(Mix.parse),
        help="shares of the writes (default: insert:50,update:25,delete:25)",
    )
    add(
        "--loaded",
        metavar="SHARE",
        type=share("share", with_zero=True),
        help="share of the rows that are loaded and indexed at first (default: 0.8 for writes; for inserts 0,"
        " or 0.1 where an index cannot be made of nothing)",
    )
    add("--autovacuum", action="store_true", help="leave it on (default: nothing vacuums but the workload)")


def check_workload_options(args: argparse.Namespace) -> None:
    """Refuse options that cannot go together."""
    given = [name for name in OF_A_WORKLOAD if getattr(args, name) not in (None, False)]
    if args.workload is None:
        if given:
            raise UserError(f"{option_name(given[0])} says how a workload writes: add --workload")
        return
    for name in NOT_HAD:
        if getattr(args, name):
            raise UserError(f"{option_name(name)} cannot be had with --workload: leave it out")
    if args.parallelism > 1:
        raise UserError("--workload needs all cores: leave --parallelism at 1")
    if args.workload == "inserts":
        for name in BESIDE_QUERIES:
            if getattr(args, name):
                raise UserError(f"{option_name(name)} is of --workload writes: leave it out")
    else:
        for name, example in (("clients", "32"), ("write_rate", "200")):
            if not getattr(args, name):
                raise UserError(
                    f"--workload writes needs {option_name(name)}, such as {option_name(name)} {example}"
                )
        if args.loaded == 0:
            raise UserError("--workload writes needs rows to begin with: give --loaded above 0")
    if args.loaded == 1 and (args.workload == "inserts" or (args.write_mix or Mix()).share("insert")):
        raise UserError("--loaded 1 leaves no row to insert: give less")


def requested_workloads(args: argparse.Namespace) -> list[Workload]:
    """Return a workload for each number of clients, of writers, and each rate."""
    seconds = args.duration or SECONDS[args.workload]
    order = args.query_order or QueryOrder()
    how = {"seconds": seconds, "order": order, "distinct": args.distinct_queries}
    loads = [Load(clients, **how) for clients in args.clients or []]
    none: list[Any] = [None]
    every = product(loads or none, args.writers or [WRITERS[args.workload]], args.write_rate or none)
    return [
        Workload(
            args.workload,
            writers,
            seconds,
            args.loaded,
            load,
            rate,
            args.write_mix or Mix(),
            args.autovacuum,
        )
        for load, writers, rate in every
    ]
