"""Write a report on the results of one dataset: Markdown and HTML with pictures, a CSV and a JSON."""

import argparse
import sys
from pathlib import Path

from ann_benchmarks.common.cli import positive_int, run_command
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.experiments.report import report_experiment
from ann_benchmarks.reporting.chosen import report_results
from ann_benchmarks.results.metrics import TARGET_RECALL
from run import every_job, make_parser


def main() -> None:
    """Read the command line and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dataset", metavar="DATASET", help="default: the only one that there are results of"
    )
    parser.add_argument(
        "--algorithm",
        nargs="+",
        default=[],
        metavar="NAME",
        help="only these curves; vchord stands for vchord-c32 and all others that begin so",
    )
    parser.add_argument("--count", type=positive_int, help="only results that asked for so many neighbours")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="default: reports/DATASET")
    parser.add_argument("--title", help="the report's heading")
    parser.add_argument(
        "--target-recall",
        type=float,
        metavar="RECALL",
        help=f"what a result must reach to be compared (default {TARGET_RECALL})",
    )
    parser.add_argument(
        "--recompute", action="store_true", help="compute the metrics anew, whatever is cached"
    )
    parser.add_argument(
        "--experiment", metavar="FILE", help="of what run.py measured with the same options; all others go on"
    )
    parser.add_argument("--mini", action="store_true", help="with --experiment: of its miniature")
    args, others = parser.parse_known_args()
    if args.experiment:
        folder = report_experiment(sys.argv[1:], make_parser(), every_job)
        print(f"wrote {folder / 'report.html'} and report.md, points.csv, report.json")
        return
    if others or args.mini:
        raise UserError(f"{(others or ['--mini'])[0]} is for the report of an experiment: add --experiment")
    how = (args.output, args.title, args.target_recall, args.recompute)
    folder = report_results(args.dataset, args.algorithm, args.count, *how)
    print(f"wrote {folder / 'report.html'} and report.md, points.csv, report.json")


if __name__ == "__main__":
    run_command(main)
