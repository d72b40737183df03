"""run.py's options of servers that follow another one and answer queries in its place."""

import argparse

from ann_benchmarks.common.cli import each_of, option_name
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import counted, whole

from .pooler_options import NO_POOLER

MOST_REPLICAS = 16  # servers of one machine
NO_REPLICAS = ("none", "0")
_NOT_WITH = ("shards", "build_only", "scheduler")


def add_replica_options(parser: argparse.ArgumentParser) -> None:
    """Add them, in a group of their own; none of them is ann-benchmarks'."""
    add = parser.add_argument_group("replicas").add_argument
    add(
        "--replicas",
        metavar="N,N",
        type=each_of(_count),
        help="have N servers follow the one that has the index, and --clients query them in its place;"
        f" several numbers are contenders, among which '{NO_REPLICAS[0]}' is that one server",
    )


def check_replica_options(args: argparse.Namespace) -> None:
    """Refuse options that cannot be had together with replicas."""
    most = max(requested_replicas(args))
    if not most:
        return
    if not args.local:
        raise UserError("--replicas runs servers of this machine itself: add --local")
    for name in _NOT_WITH:
        given = getattr(args, name)
        if any(given) if isinstance(given, list) else given:
            raise UserError(f"--replicas cannot be had with {option_name(name)}: leave one of them out")
    if any(name != NO_POOLER for name in args.pooler or []):
        raise UserError("--replicas cannot be had with --pooler: leave one of them out")
    if args.workload == "inserts":
        raise UserError("--workload inserts has no queries for --replicas: leave one of them out")
    if not args.clients:
        raise UserError(f"--replicas has clients query several servers: add --clients, such as {8 * most}")
    if min(args.clients) < most:
        raise UserError(
            f"--replicas {most} needs a client for each: {counted(min(args.clients), 'client')} cannot query"
            " all of them; give more --clients"
        )


def requested_replicas(args: argparse.Namespace) -> list[int]:
    """Return the numbers of replicas, 0 for the one server, which is also the default."""
    return args.replicas or [0]


def _count(text: str) -> int:
    return 0 if text in NO_REPLICAS else whole(1, MOST_REPLICAS)(text)
