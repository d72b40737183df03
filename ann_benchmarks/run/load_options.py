"""run.py's options that say what is queried, by whom, and whether contenders take turns."""

import argparse
import math
from collections.abc import Sequence
from itertools import product

from ann_benchmarks.common.cli import (
    option_name,
    positive_float,
    positive_floats,
    positive_int,
    positive_ints,
    read_by,
    share,
)
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.jobs.rounds import Rounds, read_share, read_time
from ann_benchmarks.load.orders import QueryOrder
from ann_benchmarks.load.request import OPEN_SECONDS, Load, Objective
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.load.workload import Workload

from .workload_options import requested_workloads

MOST_QUERIES = 100_000_000  # of one run, whose times are all kept in memory
OF_CLIENTS = ("max_queries", "duration", "query_order", "distinct_queries", "rate", "slo",
              "debug_single_query", "scheduler")  # fmt: skip


def add_load_options(parser: argparse.ArgumentParser) -> None:
    """Add them, in a group of their own; none of them is ann-benchmarks'."""
    add = parser.add_argument_group("load").add_argument
    add(
        "--clients",
        metavar="N,M",
        type=positive_ints,
        help="ask by N clients at the same time, then by M, ...: each with a connection of its own",
    )
    add("--max-queries", metavar="N", type=positive_int, help="queries of one run of all clients")
    add("--duration", metavar="SECONDS", type=positive_float, help="seconds of one run of all clients")
    add(
        "--query-order",
        metavar="ORDER",
        type=read_by(QueryOrder.parse),
        help="shuffled: each client in an order of its own; same: all in one; zipf:S: some much more often"
        " (default: shuffled)",
    )
    add(
        "--distinct-queries",
        metavar="N",
        type=positive_int,
        help="ask the dataset's first N queries only, again and again; recall is still that of all",
    )
    add(
        "--rate",
        metavar="R,S",
        type=positive_floats,
        help="let R queries a second come, then S, ..., whether or not a client is free: latency counts from"
        " when a query was due",
    )
    add(
        "--slo",
        metavar="PERCENTILE:TIME",
        type=read_by(Objective.parse),
        help="find the highest rate that keeps it, such as p99:50ms",
    )
    add(
        "--warmup",
        metavar="auto|off|N",
        type=read_by(Warmup.parse),
        help="queries before each point that do not count: until the throughput no longer rises, none and"
        " with cold caches, or N (default: auto where the algorithm is a database or --clients is given)",
    )
    add(
        "--target-recall",
        metavar="R",
        type=share("recall", with_zero=False),
        help="measure each index where it first has recall R",
    )
    add(
        "--payload",
        choices=["ids", "text", "vector"],
        default="ids",
        help="what comes back with each row: its id; also a text of 1 kB; or also its vector",
    )
    add("--scheduler", metavar="ADDRESS", help="run the clients on the machines of this Dask cluster")
    add("--debug-single-query", action="store_true", help="have clients ask the first query again and again")


def check_payload_options(args: argparse.Namespace) -> None:
    """Refuse options that cannot be had together with a payload."""
    if not requested_payload(args):
        return
    for name in ("workload", "post_filter", "scheduler"):
        if getattr(args, name) is not None:
            raise UserError(f"--payload cannot be had with {option_name(name)}: leave one of them out")


def requested_payload(args: argparse.Namespace) -> str:
    """Return what comes back beside the ids, "" for nothing."""
    return "" if args.payload == "ids" else str(args.payload)


def add_rounds_options(parser: argparse.ArgumentParser) -> None:
    """Add them, in a group of their own; none of them is ann-benchmarks'."""
    add = parser.add_argument_group("contenders in turn").add_argument
    add(
        "--rounds",
        metavar="N",
        type=positive_int,
        help="build all indexes first, then measure every point once in each of N rounds, in random order",
    )
    add(
        "--until",
        metavar="SHARE",
        type=read_by(read_share),
        help="measure in rounds until every ratio is known within this share, such as 5%%, or is no longer"
        " in doubt",
    )
    add(
        "--budget",
        metavar="TIME",
        type=read_by(read_time),
        help="measure in rounds for this time, such as 10m, after the builds; with --until, no longer",
    )


def check_load_options(args: argparse.Namespace) -> None:
    """Refuse options that cannot go together."""
    if args.clients and (args.batch or args.parallelism > 1):
        raise UserError("--clients cannot be had with --batch or --parallelism: its clients need all cores")
    for name in OF_CLIENTS:
        if getattr(args, name) and not args.clients:
            raise UserError(f"{option_name(name)} says what clients ask: add --clients")
    for option, queries in (
        ("--max-queries", args.max_queries or 0),
        ("--rate and --duration", max(args.rate or [0]) * (args.duration or OPEN_SECONDS)),
    ):
        if queries > MOST_QUERIES:
            raise UserError(
                f"{option}: {queries:,.0f} queries in one run, more than {MOST_QUERIES:,}: give less"
            )
    if args.max_queries and args.duration:
        raise UserError("--max-queries and --duration cannot both end a run: give one of them")
    if args.rate and args.slo:
        raise UserError("--slo looks for the rate: leave --rate out")
    if args.slo and args.max_queries:
        raise UserError("--slo is to be kept for a time: give --duration instead of --max-queries")
    if args.slo and args.duration and args.duration < args.slo.least_seconds:
        raise UserError(
            f"in {args.duration:g} s, --slo {args.slo} would be kept by rates that are too high: give a"
            f" --duration of {math.ceil(args.slo.least_seconds * 100) / 100:g} s or more"
        )
    if args.query_order and args.debug_single_query:
        raise UserError("--debug-single-query leaves nothing to order: leave --query-order out")
    if args.distinct_queries and args.debug_single_query:
        raise UserError("--debug-single-query asks one query alone: leave --distinct-queries out")
    if args.batch and (args.warmup or args.target_recall):
        raise UserError("--warmup and --target-recall cannot be had with --batch: leave one of them out")
    if args.slo and args.warmup and args.warmup.is_off:
        raise UserError("--slo needs warm caches: leave --warmup off out")
    if args.build_only and (args.target_recall or args.clients):
        option = "--target-recall" if args.target_recall else "--clients"
        raise UserError(f"--build-only measures nothing: leave {option} out")


def check_rounds_options(args: argparse.Namespace) -> None:
    """Refuse options that cannot be had together with rounds."""
    given = [name for name in ("rounds", "until", "budget") if getattr(args, name)]
    if not given:
        return
    for name in ("build_only", "workload", "slo"):
        if getattr(args, name):
            raise UserError(
                f"{option_name(given[0])} cannot be had with {option_name(name)}: leave one of them out"
            )
    if args.parallelism > 1:
        raise UserError(f"{option_name(given[0])} measures one point at a time: leave --parallelism at 1")
    if args.until and args.rate:
        raise UserError("--until is of the throughput, which --rate gives: use --rounds or --budget instead")


def requested_loads(args: argparse.Namespace) -> Sequence[Load | Workload]:
    """Return a load for each number of clients and each rate; none without clients.

    What writes is a workload instead.
    """
    if args.workload is not None:
        return requested_workloads(args)
    order = QueryOrder("single") if args.debug_single_query else args.query_order or QueryOrder()
    return [
        Load(
            clients,
            args.max_queries,
            args.duration,
            order,
            rate,
            args.slo,
            args.scheduler,
            args.distinct_queries,
        )
        for clients, rate in product(args.clients or [], args.rate or [None])
    ]


def requested_rounds(args: argparse.Namespace) -> Rounds | None:
    """Return how long contenders are to be measured in turn, None where they are not."""
    is_requested = args.rounds or args.until or args.budget
    return Rounds(args.rounds, args.until, args.budget) if is_requested else None
