"""Write a report on the results of one dataset: Markdown and HTML with pictures, CSV and JSON."""

import sys

from ann_benchmarks.commands.run import every_job
from ann_benchmarks.common.cli import Parser, number, path_or_pattern, positive_int, read_by
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.experiments.report import (
    add_report_options,
    report_experiment,
    requested_bundle,
    write_claims,
)
from ann_benchmarks.load.request import Objective
from ann_benchmarks.pricing.costs import cost_request
from ann_benchmarks.reporting.chapters import FOLDER, ReportOptions, bundle_results, report_results
from ann_benchmarks.results.metrics import TARGET_RECALL
from ann_benchmarks.run.command_line import make_parser
from ann_benchmarks.run.request import take_url

# What --claims excludes.
ALONE = ("dataset", "algorithm", "count", "title", "target_recall", "prices", "experiment", "mini", "rows",
         "bundle")  # fmt: skip


def main() -> None:
    """Read the command line and write the report."""
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("--dataset", metavar="DATASET", help="default: the only dataset with results")
    add("--algorithm", nargs="+", default=[], metavar="NAME", help="only these series; vchord also selects"
        " every name that begins with vchord-, such as vchord-c32")  # fmt: skip
    add("--count", type=positive_int, help="only results with this number of neighbours")
    add("--target-recall", type=number, metavar="RECALL", help="the recall that results must reach to be"
        f" compared (default {TARGET_RECALL})")  # fmt: skip
    add("--slo", type=read_by(Objective.parse), metavar="PERCENTILE:TIME", help="with --prices: the latency"
        " that a server must keep, such as p99:50ms")  # fmt: skip
    add(
        "--experiment",
        metavar="FILE",
        type=path_or_pattern,
        help="report on an experiment; give the options that run.py had",
    )
    add("--mini", action="store_true", help="with --experiment: report on its miniature")
    add("--claims", action="store_true", help="write one table of the findings of all experiments, as far as"
        " they are measured; give the options that run.py had")  # fmt: skip
    add_report_options(parser)
    words = take_url(sys.argv[1:])
    args, others = parser.parse_known_args(words)
    request = requested_bundle(args)
    folder = None
    if args.claims:
        for name in ALONE:
            if getattr(args, name):
                raise UserError(f"--claims covers every experiment: leave out --{name.replace('_', '-')}")
        print(f"wrote {write_claims(args.output or FOLDER / 'claims', others, make_parser(), every_job)}")
        return
    if args.experiment:
        folder = report_experiment(words, make_parser(), every_job)
    elif others or args.mini or args.rows:
        first = (others or ["--mini" if args.mini else "--rows"])[0]
        raise UserError(f"{first} is for the report of an experiment: add --experiment")
    else:
        costs = cost_request(args.prices, args.slo, args.target_rate)
        options = ReportOptions(args.title, args.target_recall, args.recompute, costs)
        what = (args.dataset, args.algorithm, args.count)
        if request is not None:
            bundle_results(request, *what, options)
        else:
            folder = report_results(*what, args.output, options)
    if folder is None:
        print(f"wrote {args.bundle / 'manifest.json'} and all that it lists")
    else:
        print(f"wrote {folder / 'report.html'} and report.md, points.csv, report.json")
