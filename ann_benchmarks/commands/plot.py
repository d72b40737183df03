"""Draw recall and queries per second, or any other two metrics, of the results of one dataset.

With --tiers, draw throughput and tail latency by available RAM, and write a table. With --filters, draw
throughput, and what default settings return, by the share of rows that pass. With --monitoring, draw what the
machine and the server did during one result.
"""

import argparse
from dataclasses import fields

from ann_benchmarks.common.cli import Parser, limit, number, path, positive_int
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.plotting.draw import MODES, PlotRequest, draw, draw_monitoring
from ann_benchmarks.published import published_names
from ann_benchmarks.results.metrics import QPS_AT_RECALL, TARGET_RECALL, all_metrics
from ann_benchmarks.views.chosen import FACETS
from ann_benchmarks.views.curves import View

CHOSEN_BY_MODES = ("x_axis", "y_axis", "x_scale", "y_scale", "raw", "facet")


def main() -> None:
    """Read the command line and draw."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", metavar="DATASET", default="glove-100-angular")
    add("--count", type=positive_int, default=10, help="k, the number of neighbours (default 10)")
    add("--definitions", metavar="FILE", default="algos.yaml", help="accepted but ignored")
    add("--limit", type=limit, default=-1, help="accepted but ignored")
    add(
        "-o",
        "--output",
        type=path,
        help="default: results/DATASET.png, DATASET-tiers.png or DATASET-filters.png",
    )
    metrics = list(all_metrics)
    add(
        "-x",
        "--x-axis",
        choices=metrics,
        metavar="METRIC",
        default="recall",
        help=f"default recall; one of {', '.join(metrics)}",
    )
    add("-y", "--y-axis", choices=metrics, metavar="METRIC", default="qps", help="as for -x (default qps)")
    add(
        "-X",
        "--x-scale",
        default="linear",
        help="linear, log, symlog, logit, or aN such as a3 (default linear)",
    )
    add("-Y", "--y-scale", default="linear", help="linear, log, symlog or logit (default linear)")
    add("--raw", action="store_true", help="also show, faded, points that another one beats")
    add(
        "--series",
        nargs="+",
        metavar="PATTERN",
        default=[],
        help="draw series with such names, as 'pgvector*-c4', or all (default: the load and the server with"
        " the most points)",
    )
    add(
        "--facet",
        choices=list(FACETS),
        default="",
        help="a panel for each number of clients, load, tier, server or filter, with the same axes",
    )
    add("--batch", action="store_true", help="draw the results of batch mode")
    add(
        "--target-recall",
        type=number,
        metavar="RECALL",
        help=f"the recall for the metric {QPS_AT_RECALL}, --tiers and --filters (default {TARGET_RECALL})",
    )
    add("--recompute", action="store_true", help="do not use cached metrics")
    add("--tiers", action="store_true", help="QPS and p99 by available RAM, and a table next to the picture")
    add(
        "--filters",
        action="store_true",
        help="QPS and what default settings return by share of rows, and a table",
    )
    add(
        "--published",
        metavar="NAME[:TABLE]",
        help="also draw published figures of other machines; with --tiers as shares:"
        f" {', '.join(published_names())}",
    )
    add(
        "--monitoring",
        metavar="RESULT",
        type=path,
        help="draw what the machine and the server did during the result or workload in this file",
    )
    args = parser.parse_args()
    if args.monitoring:
        draw_monitoring(args.monitoring, args.output)
        return
    view = View(args.x_axis, args.y_axis, args.x_scale, args.y_scale, args.raw)
    names = {field.name for field in fields(PlotRequest)} & vars(args).keys()
    options = {name: getattr(args, name) for name in names}
    request = PlotRequest(view=view, **options)
    modes = [name for name in MODES if name and getattr(args, name)]
    if len(modes) > 1:
        raise UserError(f"--{modes[0]} and --{modes[1]} have a picture each: leave out one of them")
    given = [name for name in CHOSEN_BY_MODES if getattr(args, name) != parser.get_default(name)]
    if modes and given:
        raise UserError(f"--{modes[0]} has axes of its own: leave out --{given[0].replace('_', '-')}")
    draw(request, *modes)
