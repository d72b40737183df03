"""run.py's options of what answers queries: shards, replicas, or a server behind a pooler."""

import argparse
from collections.abc import Callable

from ann_benchmarks.common.cli import each_of
from ann_benchmarks.common.errors import UserError, closest, shown
from ann_benchmarks.common.numbers import counted, whole
from ann_benchmarks.definitions.servers import (
    ENGINES,
    POOLERS,
    ROUTED,
    Pooled,
    Replicas,
    Servers,
    every_pooled,
    every_replicas,
    every_shards,
)

MOST_SHARDS = 1000  # of servers that run already; one machine has fewer
MOST_REPLICAS = 16  # servers of one machine
NONE = "none"
_MOST_CONNECTIONS = 400  # of a pool: a server of our own takes 500
_PROBES = 1

# What cannot be had together: the kind of servers, the other option, whether that is given, and why not.
_Given = Callable[[argparse.Namespace], object]
_OTHERS: dict[str, _Given] = {
    "--workload": lambda args: args.workload,
    "--workload inserts": lambda args: args.workload == "inserts",
    "--filter": lambda args: args.filter and args.post_filter is None,
    "--payload": lambda args: args.payload != "ids",
    "--build-only": lambda args: args.build_only,
    "--scheduler": lambda args: args.scheduler,
}
_EXCLUDED = (
    ("shards", "--workload", "a table that is written to is on one server"),
    ("shards", "--filter", "rows are dealt to shards without attributes; --post-filter needs none"),
    ("shards", "--payload", "answers of shards are merged by their ids alone"),
    ("shards", "--scheduler", "clients on other machines do not reach servers of this one"),
    ("pooler", "--workload", "writers set what the connections of a pool do not keep"),
    ("pooler", "--filter", "their plans are compared in sessions of the server; --post-filter needs none"),
    ("pooler", "--scheduler", "clients on other machines do not reach a pooler of this one"),
    ("replicas", "--workload inserts", "nobody queries meanwhile"),
    ("replicas", "--build-only", "they are made for each run"),
    ("replicas", "--scheduler", "clients on other machines do not reach servers of this one"),
)


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add them, in a group of their own; none of them is ann-benchmarks'."""
    add = parser.add_argument_group("servers").add_argument
    add(
        "--shards",
        metavar="N,N",
        type=each_of(_shard_count),
        help="have N servers hold a part of the rows each, and queries ask all of them; several numbers are"
        f" contenders, among which '{NONE}' is one server with all rows",
    )
    add(
        "--shard-engine",
        metavar="NAME,NAME",
        type=each_of(_known("shard engine", ENGINES)),
        help=f"what asks the shards: {', '.join(ENGINES)}; several are contenders (default: {ENGINES[0]})",
    )
    add(
        "--shard-probes",
        metavar="N,N",
        type=each_of(whole(1, MOST_SHARDS)),
        help=f"shards that a query of the engine {ROUTED} asks, those with the nearest cells; several numbers"
        f" are contenders (default: {_PROBES})",
    )
    add(
        "--pooler",
        metavar="NAME,NAME",
        type=each_of(_known("pooler", [NONE, *POOLERS])),
        help=f"have queries go through a pooler: {', '.join(POOLERS)}; several are contenders, among which"
        f" '{NONE}' is none",
    )
    add(
        "--pool-size",
        metavar="N,N",
        type=each_of(whole(1, _MOST_CONNECTIONS)),
        help="connections of the pooler to the server that clients share; several numbers are contenders"
        " (default: one for each core)",
    )
    add(
        "--replicas",
        metavar="N,N",
        type=each_of(_replica_count),
        help="have N servers follow the one that has the index, and --clients query them in its place;"
        f" several numbers are contenders, among which '{NONE}' is that one server",
    )


def requested_servers(args: argparse.Namespace) -> list[Servers]:
    """Return what answers queries: each is a contender; one server where nothing else is requested."""
    if any(args.shards or []):
        return every_shards(args.shards, args.shard_engine or ENGINES[:1], args.shard_probes or [_PROBES])
    if any(args.replicas or []):
        return every_replicas(args.replicas)
    names = [None if name == NONE else name for name in args.pooler or [NONE]]
    return every_pooled(names, args.pool_size or [None])


def check_server_options(args: argparse.Namespace) -> None:
    """Refuse options that cannot go together."""
    several = {
        "shards": any(args.shards or []),
        "pooler": any(name != NONE for name in args.pooler or []),
        "replicas": any(args.replicas or []),
    }
    kinds = [kind for kind, is_requested in several.items() if is_requested]
    if len(kinds) > 1:
        raise UserError(f"--{kinds[1]} cannot be had with --{kinds[0]}: leave one of them out")
    for option, value, kind, what in (
        ("--shard-engine", args.shard_engine, "shards", "says what asks the shards: add --shards N"),
        ("--shard-probes", args.shard_probes, "shards", "says how many shards a query asks: add --shards N"),
        ("--pool-size", args.pool_size, "pooler", "is of the connections that clients share: add --pooler"),
    ):
        if value and not several[kind]:
            raise UserError(f"{option} {what}")
    if not kinds:
        return
    if not args.local:
        raise UserError(f"--{kinds[0]} starts servers or programs on this machine: add --local")
    for kind, option, why in _EXCLUDED:
        if kind in kinds and _OTHERS[option](args):
            raise UserError(f"--{kind} cannot be had with {option}: {why}; leave one of them out")
    servers = requested_servers(args)
    _check_probes(args)
    if args.pool_size and not any(isinstance(one, Pooled) and one.shares_connections for one in servers):
        raise UserError("in session mode each client has a server connection: leave --pool-size out")
    _check_clients(args, max((one.count for one in servers if isinstance(one, Replicas)), default=0))


def _check_probes(args: argparse.Namespace) -> None:
    if not args.shard_probes:
        return
    if ROUTED not in (args.shard_engine or []):
        raise UserError(f"--shard-probes is of the engine {ROUTED}: add --shard-engine {ROUTED}")
    most, least, counts = max(args.shard_probes), min(args.shard_probes), [*filter(None, args.shards)]
    fewest, all_shards = min(counts), max(counts)
    if most > all_shards:
        raise UserError(f"--shard-probes {most}: a query cannot ask more than {all_shards} shards (--shards)")
    if least > fewest:
        raise UserError(
            f"--shard-probes {least}: a query cannot ask as many of {fewest} shards (--shards): give a"
            f" smaller number, too, or leave {fewest} out"
        )


def _check_clients(args: argparse.Namespace, replicas: int) -> None:
    """Refuse fewer clients than replicas: each is queried by clients of its own."""
    if replicas and not args.clients:
        raise UserError(f"--replicas needs clients for several servers: add --clients {8 * replicas}")
    if replicas and min(args.clients) < replicas:
        raise UserError(
            f"--replicas {replicas} needs a client for each: {counted(min(args.clients), 'client')} cannot"
            " query all of them; give more --clients"
        )


def _shard_count(text: str) -> int:
    return 0 if text == NONE else whole(1, MOST_SHARDS)(text)


def _replica_count(text: str) -> int:
    return 0 if text in (NONE, "0") else whole(1, MOST_REPLICAS)(text)


def _known(what: str, names: list[str] | tuple[str, ...]) -> Callable[[str], str]:
    """Make what reads one of these names."""

    def read(text: str) -> str:
        if text not in names:
            raise UserError(f"there is no {what} '{shown(text)}'; {closest(text, names)}")
        return text

    return read
