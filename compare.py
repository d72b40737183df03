"""Compare measurements: what changed from A to B, and whether it is more than noise.

A and B are folders of results, series, runs of --list or single result files. What their names leave open
(dataset, count, series, arguments) must be alike for two points to be compared. docs/comparing.md tells more.
"""

import argparse
import sys
from pathlib import Path

from ann_benchmarks.common.cli import positive_int, run_command
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.comparing.at_recall import fastest_at
from ann_benchmarks.comparing.listing import list_runs, show_run
from ann_benchmarks.comparing.matching import Comparison, compare
from ann_benchmarks.comparing.measurements import METRICS
from ann_benchmarks.comparing.naming import Narrowed, read_side
from ann_benchmarks.comparing.sizes import error_rate, share, size
from ann_benchmarks.comparing.tables import FORMATS, render
from ann_benchmarks.comparing.verdicts import NOTHING_TOLD, Asked, failures, percent, status
from ann_benchmarks.results.file import RESULTS_FOLDER


def main() -> int:
    """Read the command line, and list, show, or compare."""
    parser = argument_parser()
    args = parser.parse_args()
    narrowed = Narrowed(args.dataset, args.count, args.algorithm)
    if args.list:
        folders = [Path(name) for name in args.names or [RESULTS_FOLDER]]
        print(list_runs(folders, narrowed, args.format), end="")
        return 0
    if args.show:
        print(show_run(read_side([args.show], narrowed), args.format), end="")
        return 0
    sides = [args.a, args.b] if args.a or args.b else [[name] for name in args.names]
    if len(sides) != 2 or None in sides or (args.a and args.names):
        parser.error("give A and B, or --a A... --b B..., or --list, or --show RUN")
    if args.fail_if_unsure and args.fail_if_slower is None:
        parser.error("--fail-if-unsure is for --fail-if-slower: add it")
    asked = Asked(args.error_rate, 0.05 if args.fail_if_slower is None else args.fail_if_slower)
    try:
        a, b = (read_side(names, narrowed) for names in sides)
        if args.at_recall is not None:
            a, b = (fastest_at(side, args.at_recall) for side in (a, b))
        noise = read_side(args.noise, Narrowed()) if args.noise else ()
        comparison = compare(a, b, noise, args.by, args.paired)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return NOTHING_TOLD
    names = [" ".join(side) for side in sides]
    print(render(comparison, names, asked, args.format, sys.stdout.isatty()), end="")
    return ending(comparison, asked, args)


def ending(comparison: Comparison, asked: Asked, args: argparse.Namespace) -> int:
    """Say why it fails, and return the exit status."""
    if not comparison.pairs:
        print("error: A and B have no point in common", file=sys.stderr)
        return NOTHING_TOLD
    if args.fail_if_slower is None:
        return 0
    for text in failures(comparison, asked):
        print(f"failed: worse by more than {percent(args.fail_if_slower)}: {text}", file=sys.stderr)
    result = status(comparison, asked, args.fail_if_unsure)
    if result == NOTHING_TOLD:
        print("failed: whether it is slower cannot be told: see the warnings", file=sys.stderr)
    return result


def argument_parser() -> argparse.ArgumentParser:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="A B", help="what to compare; with --list, folders")
    add("--a", nargs="+", metavar="A", help="repetitions of one side, instead of A")
    add("--b", nargs="+", metavar="B", help="repetitions of the other side, instead of B")
    add("--paired", action="store_true", help="the first of A was measured next to the first of B, and so on")
    add("--list", action="store_true", help="list the runs in results/, or in the folders named")
    add("--show", metavar="RUN", help="tell all that is known of one run")
    add("--dataset", metavar="DATASET", help="only results of this dataset")
    add("--count", type=positive_int, help="only results with so many neighbours")
    add("--algorithm", metavar="NAME", help="only this series, and those whose names begin with NAME-")
    add(
        "--at-recall",
        type=share,
        metavar="R",
        help="of each series the fastest point that reaches this recall",
    )
    add("--noise", nargs="+", metavar="FOLDER", help="repetitions that tell how well this machine repeats")
    add("--by", choices=list(METRICS), help="the figure that decides (default qps, of a given rate p99)")
    add("--error-rate", type=error_rate, default=0.05, metavar="P", help="of false verdicts (default 0.05)")
    add(
        "--fail-if-slower",
        type=size,
        metavar="SIZE",
        help="such as 5%%: exit with 1 if B is, beyond noise, by more",
    )
    add(
        "--fail-if-unsure",
        action="store_true",
        help="and with 2 if noise could hide a slow-down of that size",
    )
    add("--format", choices=FORMATS, default="table", help="default table")
    return parser


if __name__ == "__main__":
    run_command(main)
