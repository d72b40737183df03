"""run.py's options of rows that several servers hold."""

import argparse

from ann_benchmarks.common.cli import each_of, option_name
from ann_benchmarks.common.errors import UserError, closest, shown
from ann_benchmarks.common.numbers import whole
from ann_benchmarks.definitions.shards import ENGINES, ROUTED

MOST_SHARDS = 1000  # of servers that run already; one machine has fewer
NO_SHARDS = "none"
_FIRST = "fdw"
_PROBES = 1
_NOT_WITH = ("workload", "filter", "post_filter", "scheduler")


def add_shard_options(parser: argparse.ArgumentParser) -> None:
    """Add them, in a group of their own; none of them is ann-benchmarks'."""
    add = parser.add_argument_group("shards").add_argument
    add(
        "--shards",
        metavar="N,N",
        type=each_of(_count),
        help="have N servers hold a part of the rows each, and queries ask all of them; several numbers are"
        f" contenders, among which '{NO_SHARDS}' is one server with all rows",
    )
    add(
        "--shard-engine",
        metavar="NAME,NAME",
        type=each_of(_engine),
        help=f"what asks the shards: {', '.join(ENGINES)}; several are contenders (default: {_FIRST})",
    )
    add(
        "--shard-probes",
        metavar="N,N",
        type=each_of(whole(1, MOST_SHARDS)),
        help=f"shards that a query of the engine {ROUTED} asks, those with the nearest cells; several numbers"
        f" are contenders (default: {_PROBES})",
    )


def check_shard_options(args: argparse.Namespace) -> None:
    """Refuse options that cannot be had together with shards."""
    if not any(requested_shards(args)):
        if args.shard_engine:
            raise UserError("--shard-engine says what asks the shards: add --shards N")
        if args.shard_probes:
            raise UserError("--shard-probes says how many shards a query asks: add --shards N")
        return
    _check_probes(args)
    if not args.local:
        raise UserError("--shards runs servers of this machine itself: add --local")
    for name in _NOT_WITH:
        if getattr(args, name):
            raise UserError(f"--shards cannot be had with {option_name(name)}: leave one of them out")
    if args.payload != "ids":
        raise UserError("--shards cannot be had with --payload: leave one of them out")


def requested_shards(args: argparse.Namespace) -> list[int]:
    """Return the numbers of shards, 0 for one server with all rows, which is also the default."""
    return args.shards or [0]


def requested_engines(args: argparse.Namespace) -> list[str]:
    """Return the engines, the first one unless others are named."""
    return args.shard_engine or [_FIRST]


def requested_probes(args: argparse.Namespace) -> list[int]:
    """Return how many shards a query of ROUTED asks: one, unless numbers are given."""
    return args.shard_probes or [_PROBES]


def _check_probes(args: argparse.Namespace) -> None:
    most, probes = max(requested_shards(args)), max(requested_probes(args))
    if args.shard_probes and ROUTED not in requested_engines(args):
        raise UserError(f"--shard-probes is of the engine {ROUTED}: add --shard-engine {ROUTED}")
    if probes > most:
        raise UserError(f"--shard-probes {probes}: a query cannot ask more than {most} shards (--shards)")
    least = min(requested_probes(args))
    if args.shard_probes and (few := [count for count in requested_shards(args) if 0 < count < least]):
        raise UserError(
            f"--shard-probes {least}: a query cannot ask as many of {few[0]} shards (--shards): give a"
            f" smaller number, too, or leave {few[0]} out"
        )


def _count(text: str) -> int:
    return 0 if text == NO_SHARDS else whole(1, MOST_SHARDS)(text)


def _engine(text: str) -> str:
    if text not in ENGINES:
        raise UserError(f"there is no shard engine '{shown(text)}'; {closest(text, ENGINES)}")
    return text
