"""run.py's options of poolers between the clients and their server."""

import argparse

from ann_benchmarks.common.cli import each_of, option_name
from ann_benchmarks.common.errors import UserError, closest, shown
from ann_benchmarks.common.numbers import whole
from ann_benchmarks.definitions.poolers import POOLERS, Pooler

NO_POOLER = "none"
_MOST_CONNECTIONS = 400  # of a pool: a server of our own takes 500
_NOT_WITH = ("workload", "filter", "post_filter", "scheduler")


def add_pooler_options(parser: argparse.ArgumentParser) -> None:
    """Add them, in a group of their own; none of them is ann-benchmarks'."""
    add = parser.add_argument_group("poolers").add_argument
    add(
        "--pooler",
        metavar="NAME,NAME",
        type=each_of(_pooler),
        help=f"have queries go through a pooler: {', '.join(POOLERS)}; several are contenders, among which"
        f" '{NO_POOLER}' is none",
    )
    add(
        "--pool-size",
        metavar="N,N",
        type=each_of(whole(1, _MOST_CONNECTIONS)),
        help="connections of the pooler to the server that clients share; several numbers are contenders"
        " (default: one for each core)",
    )


def check_pooler_options(args: argparse.Namespace, is_simulated: bool) -> None:
    """Refuse options that cannot be had together with a pooler."""
    poolers = [pooler for pooler in requested_poolers(args) if pooler is not None]
    if args.pool_size and not any(pooler.shares_connections for pooler in poolers):
        if poolers:
            raise UserError("in session mode each client has a server connection: leave --pool-size out")
        raise UserError("--pool-size is of the connections that clients share: add --pooler")
    if not poolers:
        return
    if not args.local:
        raise UserError("--pooler runs the pooler on this machine itself: add --local")
    if is_simulated:
        raise UserError("--pooler cannot be had with --tiers: leave one of them out")
    if any(args.shards or []):
        raise UserError("--pooler cannot be had with --shards: leave one of them out")
    for name in _NOT_WITH:
        if getattr(args, name):
            raise UserError(f"--pooler cannot be had with {option_name(name)}: leave one of them out")


def requested_poolers(args: argparse.Namespace) -> list[Pooler | None]:
    """Return the poolers that are compared, each with each size of its pool; None is to have none."""
    found: list[Pooler | None] = []
    for name in args.pooler or [NO_POOLER]:
        if name == NO_POOLER:
            found.append(None)
            continue
        plain = Pooler(name)
        sizes = args.pool_size or [None]
        found += [Pooler(name, size) for size in sizes] if plain.shares_connections else [plain]
    return found


def _pooler(text: str) -> str:
    if text not in (NO_POOLER, *POOLERS):
        raise UserError(f"there is no pooler '{shown(text)}'; {closest(text, [NO_POOLER, *POOLERS])}")
    return text
