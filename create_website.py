"""Make a website of all results: interactive plots and tables that open from a file."""

if __name__ == "__main__":  # before the imports, which take seconds on a busy machine
    from ann_benchmarks.common.beginning import begin

    begin()

import argparse
from pathlib import Path

from ann_benchmarks.common.cli import path, run_command
from ann_benchmarks.pricing.reading import read_prices
from ann_benchmarks.website import create_website
from ann_benchmarks.website.plots import all_plot_variants


def main() -> None:
    """Read the command line and make the site."""
    parser = argparse.ArgumentParser(description=__doc__)
    variants = list(all_plot_variants)
    parser.add_argument("--plottype", nargs="*", choices=variants, default=variants, help="only these plots")
    parser.add_argument("--outputdir", type=path, default=Path(), metavar="DIR", help="default: this folder")
    parser.add_argument("--latex", action="store_true", help="add pgfplots code for each plot")
    parser.add_argument("--scatter", action="store_true", help="add plots of all points, not only the best")
    parser.add_argument(
        "--recompute", action="store_true", help="compute the metrics anew, whatever is cached"
    )
    parser.add_argument(
        "--prices", type=path, metavar="FILE", help="price the measured servers with this file of prices"
    )
    args = parser.parse_args()
    prices = None if args.prices is None else read_prices(args.prices)
    pages = create_website(args.outputdir, args.plottype, args.latex, args.scatter, args.recompute, prices)
    print(f"wrote {args.outputdir / 'index.html'} (pages: {pages})")


if __name__ == "__main__":
    run_command(main)
