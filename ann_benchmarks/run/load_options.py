"""run.py's options that say what load is made: what is queried, and what is written."""

import argparse
import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from ann_benchmarks.common.cli import positive_float, positive_floats, positive_int, positive_ints, read_by
from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.quantities import read_number
from ann_benchmarks.jobs.rounds import read_share, read_time
from ann_benchmarks.load.orders import QueryOrder
from ann_benchmarks.load.request import OPEN_SECONDS, Load, Objective
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.load.workload import SECONDS, WRITERS, Mix, Workload

MOST_QUERIES = 100_000_000  # of one run, whose times are all kept in memory
OF_CLIENTS = ("max_queries", "duration", "query_order", "distinct_queries", "rate", "slo", "driver",
              "debug_single_query", "scheduler")  # fmt: skip
OF_A_WORKLOAD = ("writers", "write_rate", "write_mix", "loaded", "autovacuum")
BESIDE_QUERIES = ("clients", "write_rate", "write_mix", "query_order", "distinct_queries")
NOT_HAD = ("max_queries", "rate", "slo", "driver", "scheduler", "debug_single_query", "warmup", "batch",
           "build_only")  # fmt: skip


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
        type=_share("recall", with_zero=False),
        help="measure each index where it first has recall R",
    )
    add("--driver", choices=["own", "pgbench"], help="who makes the load of PostgreSQL (default: own)")
    add("--scheduler", metavar="ADDRESS", help="run the clients on the machines of this Dask cluster")
    add("--debug-single-query", action="store_true", help="have clients ask the first query again and again")
    add_rounds_options(parser)
    add_workload_options(parser)


def add_rounds_options(parser: argparse.ArgumentParser) -> None:
    """Add them, in a group of their own; none of them is ann-benchmarks'."""
    add = parser.add_argument_group("contenders in turn (with --local)").add_argument
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
        type=_share("share", with_zero=True),
        help="share of the rows that are loaded and indexed at first (default: 0.8 for writes; for inserts 0,"
        " or 0.1 where an index cannot be made of nothing)",
    )
    add("--autovacuum", action="store_true", help="leave it on (default: nothing vacuums but the workload)")


def check_load_options(args: argparse.Namespace) -> None:
    """Refuse options that cannot go together."""
    check_rounds_options(args)
    check_workload_options(args)
    if args.workload is not None:
        return  # it takes some of these, and has said which
    if args.clients and (args.batch or args.parallelism > 1):
        raise UserError("--clients cannot be had with --batch or --parallelism: its clients need all cores")
    for name in OF_CLIENTS:
        if getattr(args, name) and not args.clients:
            raise UserError(f"{_option(name)} says what clients ask: add --clients")
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
    if args.driver == "pgbench" and args.scheduler:
        raise UserError("pgbench runs on this machine: leave --scheduler out")
    if args.driver == "pgbench" and (
        args.debug_single_query or (args.query_order or QueryOrder()).kind == "same"
    ):
        raise UserError("pgbench draws queries at random: use --query-order shuffled or zipf:S")
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
            raise UserError(f"{_option(given[0])} cannot be had with {_option(name)}: leave one of them out")
    if args.parallelism > 1:
        raise UserError(f"{_option(given[0])} measures one point at a time: leave --parallelism at 1")
    if args.until and args.rate:
        raise UserError("--until is of the throughput, which --rate gives: use --rounds or --budget instead")


def check_workload_options(args: argparse.Namespace) -> None:
    """Refuse options that cannot go together."""
    given = [name for name in OF_A_WORKLOAD if getattr(args, name) not in (None, False)]
    if args.workload is None:
        if given:
            raise UserError(f"{_option(given[0])} says how a workload writes: add --workload")
        return
    for name in NOT_HAD:
        if getattr(args, name):
            raise UserError(f"{_option(name)} cannot be had with --workload: leave it out")
    if args.parallelism > 1:
        raise UserError("--workload needs all cores: leave --parallelism at 1")
    if args.workload == "inserts":
        for name in BESIDE_QUERIES:
            if getattr(args, name):
                raise UserError(f"{_option(name)} is of --workload writes: leave it out")
    else:
        for name, example in (("clients", "32"), ("write_rate", "200")):
            if not getattr(args, name):
                raise UserError(f"--workload writes needs {_option(name)}, such as {_option(name)} {example}")
        if args.loaded == 0:
            raise UserError("--workload writes needs rows to begin with: give --loaded above 0")
    if args.loaded == 1 and (args.workload == "inserts" or (args.write_mix or Mix()).share("insert")):
        raise UserError("--loaded 1 leaves no row to insert: give less")


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
            args.driver or "own",
            args.scheduler,
            args.distinct_queries,
        )
        for clients, rate in product(args.clients or [], args.rate or [None])
    ]


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


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _share(kind: str, with_zero: bool) -> Callable[[str], float]:
    """Make a type for argparse of a share, "recall" or "share" in its error."""

    def parse(text: str) -> float:
        value = read_number(text)
        if value is None or not 0 <= value <= 1 or (value == 0 and not with_zero):
            least = "a number from 0 to 1" if with_zero else "a number above 0 and up to 1"
            raise UserError(f"'{shown(text)}' is no {kind}: give {least}")
        return value

    return read_by(parse)
