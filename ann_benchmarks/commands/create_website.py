"""Make a website of all results, or a table of submitted bundles: interactive pages that open from a file."""

from pathlib import Path

from ann_benchmarks.common.cli import Parser, path
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import counted
from ann_benchmarks.common.text import say
from ann_benchmarks.website.build import create_website
from ann_benchmarks.website.plots import all_plot_variants
from ann_benchmarks.website.submissions import create_submissions_site


def main() -> None:
    """Read the command line and make the site."""
    parser = Parser(description=__doc__)
    variants = list(all_plot_variants)
    parser.add_argument("--plottype", nargs="*", choices=variants, default=variants, help="only these plots")
    parser.add_argument("--outputdir", type=path, default=Path(), metavar="DIR", help="default: this folder")
    parser.add_argument("--latex", action="store_true", help="add pgfplots code for each plot")
    parser.add_argument("--scatter", action="store_true", help="add plots of all points, not only the best")
    parser.add_argument(
        "--recompute", action="store_true", help="compute the metrics anew, whatever is cached"
    )
    parser.add_argument(
        "--submissions",
        nargs="+",
        type=path,
        metavar="FOLDER",
        help="make the table of these bundles instead, or of the bundles in these folders",
    )
    args = parser.parse_args()
    if args.submissions:
        of_results = {"--plottype": args.plottype != variants, "--latex": args.latex}
        of_results |= {"--scatter": args.scatter, "--recompute": args.recompute}
        if unfit := [option for option, is_given in of_results.items() if is_given]:
            raise UserError(f"{unfit[0]} is for the site of results/; with --submissions, leave it out")
        bundles, left_out = create_submissions_site(args.outputdir, args.submissions)
        say(f"wrote {args.outputdir / 'index.html'} (bundles: {bundles})")
        if left_out:
            raise UserError(f"{counted(left_out, 'bundle')} left out: correct what the lines above name")
        return
    pages = create_website(args.outputdir, args.plottype, args.latex, args.scatter, args.recompute)
    print(f"wrote {args.outputdir / 'index.html'} (pages: {pages})")
