"""Draw the recall/QPS frontier, or any other two metrics, of the results of one dataset."""

import argparse
from pathlib import Path

from ann_benchmarks.cli import positive_int, run_command
from ann_benchmarks.plotting.draw import draw_dataset
from ann_benchmarks.plotting.metrics import QPS_AT_RECALL, TARGET_RECALL, all_metrics


def main() -> None:
    """Read the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", metavar="DATASET", default="glove-100-angular")
    parser.add_argument(
        "--count", type=positive_int, default=10, help="k, the number of neighbours (default 10)"
    )
    parser.add_argument("--definitions", metavar="FILE", default="algos.yaml", help="accepted and not used")
    parser.add_argument("--limit", type=int, default=-1, help="accepted and not used")
    parser.add_argument("-o", "--output", type=Path, help="default: results/DATASET.png")
    parser.add_argument(
        "-x", "--x-axis", choices=list(all_metrics), default="k-nn", help="metric on the x axis"
    )
    parser.add_argument(
        "-y", "--y-axis", choices=list(all_metrics), default="qps", help="metric on the y axis"
    )
    parser.add_argument(
        "-X",
        "--x-scale",
        default="linear",
        help="linear, log, symlog, logit, or aN such as a3 (default linear)",
    )
    parser.add_argument(
        "-Y", "--y-scale", default="linear", help="linear, log, symlog or logit (default linear)"
    )
    parser.add_argument("--raw", action="store_true", help="also show, faded, the points behind the frontier")
    parser.add_argument("--batch", action="store_true", help="plot the results of batch mode")
    parser.add_argument(
        "--target-recall",
        type=float,
        metavar="RECALL",
        help=f"what a point must reach for the metric {QPS_AT_RECALL} (default {TARGET_RECALL})",
    )
    parser.add_argument("--no-intervals", action="store_true", help="leave out the bars of 95%% intervals")
    parser.add_argument(
        "--recompute", action="store_true", help="compute the metrics anew, whatever is cached"
    )
    args = parser.parse_args()
    draw_dataset(
        args.dataset,
        args.count,
        args.output,
        args.x_axis,
        args.y_axis,
        args.x_scale,
        args.y_scale,
        raw=args.raw,
        batch=args.batch,
        recompute=args.recompute,
        intervals=not args.no_intervals,
        target_recall=args.target_recall,
    )


if __name__ == "__main__":
    run_command(main)
