"""run.py's options of queries with filters."""

import argparse

from ann_benchmarks.common.cli import positive_float, read_by
from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.data.filters import canonical_filter


def add_filter_options(parser: argparse.ArgumentParser) -> None:
    """Add them, in a group of their own; none of them is ann-benchmarks'."""
    add = parser.add_argument_group("filters").add_argument
    add(
        "--filter",
        metavar="NAME,NAME",
        type=read_by(_names),
        nargs="+",
        action="extend",
        default=[],
        help="measure queries with the filters of each of these sets, such as uniform:0.01,near:0.01",
    )
    add(
        "--post-filter",
        metavar="FACTOR",
        type=positive_float,
        help="request FACTOR times as many rows without the filter, and remove those that do not pass: for"
        " algorithms that take no filters, and for comparison",
    )


def _names(text: str) -> list[str]:
    names = text.split(",")
    if not all(names):
        raise UserError(f"'{shown(text)}' names no filters: give such as uniform:0.01,near:0.01")
    return names


def requested_filters(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the names of the filter sets, each once; none without --filter."""
    return tuple(dict.fromkeys(canonical_filter(name) for names in args.filter for name in names))


def check_filter_options(args: argparse.Namespace) -> None:
    """Refuse options that cannot go together."""
    if args.post_filter is not None:
        if not args.filter:
            raise UserError("--post-filter says how filtered queries are answered: add --filter")
        if args.post_filter < 1:
            raise UserError(f"--post-filter {args.post_filter:g} requests fewer rows than k: give 1 or more")
        if args.batch:
            raise UserError("--post-filter is of one query at a time: leave --batch out")
    if args.filter and args.workload is not None:
        raise UserError("--filter cannot be had with --workload: leave one of them out")
