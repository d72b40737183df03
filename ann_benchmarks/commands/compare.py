"""Compare measurements: what changed from A to B, and whether it is more than noise.

A and B are folders of results, series, runs of --list or single result files. Points are compared if
dataset, count, arguments and series are the same, apart from what A and B name. See docs/comparing.md.
"""

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

from ann_benchmarks.common.cli import Parser, path_or_pattern, read_by
from ann_benchmarks.common.errors import UserError, shown
from ann_benchmarks.common.numbers import read_number
from ann_benchmarks.comparing.matching import compare
from ann_benchmarks.comparing.measurements import METRICS
from ann_benchmarks.comparing.sides import estimate_at_recall, read_side
from ann_benchmarks.comparing.tables import FORMATS, headline, list_runs, render
from ann_benchmarks.comparing.verdicts import UNDECIDED, Criteria, conclusion, status
from ann_benchmarks.results.file import RESULTS_FOLDER


def main() -> int:
    """Read the command line, and list, or compare."""
    parser = argument_parser()
    args = parser.parse_args()
    if args.list:
        folders = [Path(name) for name in args.names or [RESULTS_FOLDER]]
        print(list_runs(folders, args.format), end="")
        return 0
    sides = [args.a, args.b] if args.a or args.b else [[name] for name in args.names]
    if len(sides) != 2 or None in sides or (args.a and args.names):
        parser.error("give A and B, or --a A... --b B..., or --list")
    if args.fail_if_unsure and args.fail_if_slower is None:
        parser.error("--fail-if-unsure needs --fail-if-slower: add it")
    criteria = Criteria(args.error_rate, 0.05 if args.fail_if_slower is None else args.fail_if_slower)
    try:
        a, b = (read_side(names) for names in sides)
        if args.at_recall is not None:
            a, b = (estimate_at_recall(side, args.at_recall) for side in (a, b))
        compared = compare(a, b, args.by, args.paired)
    except UserError as error:
        if args.fail_if_slower is not None and args.format == "markdown":
            print(headline(f"cannot tell whether B is slower: {error}", args.format), end="")
        print(f"error: {error}", file=sys.stderr)
        return UNDECIDED
    names = [" ".join(side) for side in sides]
    is_decided = args.fail_if_slower is not None and compared.pairs
    verdict = conclusion(compared, criteria, args.fail_if_unsure) if is_decided else ""
    print(render(compared, names, criteria, args.format, verdict), end="")
    if not compared.pairs:
        print("error: A and B have no point in common", file=sys.stderr)
        return UNDECIDED
    return 0 if args.fail_if_slower is None else status(compared, criteria, args.fail_if_unsure)


def share(limits: str, fits: Callable[[float], bool]) -> Callable[[str], float]:
    """Return a reader of shares such as 5% or 0.05 on a command line."""

    def read(text: str) -> float:
        number = read_number(text.removesuffix("%"))
        share = math.nan if number is None else number / 100 if text.endswith("%") else number
        if not fits(share):
            raise UserError(f"'{shown(text)}' must be a share {limits}, such as 5% or 0.05")
        return share

    return read_by(read)


def argument_parser() -> argparse.ArgumentParser:
    """Return the options."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    recall = share("from 0 to 1", lambda number: 0 <= number <= 1)
    size = share("below 100%", lambda number: 0 <= number < 1)
    chance = share("above 0 and up to 0.5", lambda number: 0 < number <= 0.5)
    add("names", nargs="*", metavar="A B", type=path_or_pattern, help="what to compare; with --list, folders")
    add("--a", nargs="+", metavar="A", type=path_or_pattern, help="repetitions of one side, instead of A")
    add(
        "--b",
        nargs="+",
        metavar="B",
        type=path_or_pattern,
        help="repetitions of the other side, instead of B",
    )
    add(
        "--paired",
        action="store_true",
        help="the first of A was measured just before or after the first of B, and so on",
    )
    add("--list", action="store_true", help="list the runs in results/, or in the named folders")
    add(
        "--at-recall",
        type=recall,
        metavar="R",
        help="compare series at this recall, whatever their arguments",
    )
    add("--by", choices=list(METRICS), help="the metric that decides (default qps, or p99 at a given rate)")
    add("--error-rate", type=chance, default=0.05, metavar="P", help="rate of false verdicts (default 0.05)")
    add("--fail-if-slower", type=size, metavar="SIZE", help="exit with 1 if B is slower by more than noise"
        " and by more than a share such as 5%%")  # fmt: skip
    add("--fail-if-unsure", action="store_true", help="also exit with 2 if noise could hide such a slow-down")
    add("--format", choices=FORMATS, default="table", help="default table")
    return parser
