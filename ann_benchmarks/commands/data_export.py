"""Write the metrics of all results to a CSV file, or a Parquet file if its name ends in .parquet."""

from ann_benchmarks.common.cli import Parser, path
from ann_benchmarks.results.export import export_results


def main() -> None:
    """Read the command line and export."""
    parser = Parser(description=__doc__)
    parser.add_argument(
        "--output",
        type=path,
        required=True,
        metavar="FILE",
        help="results.csv, results.parquet",
    )
    parser.add_argument("--recompute", action="store_true", help="do not use cached metrics")
    args = parser.parse_args()
    rows = export_results(args.output, args.recompute)
    print(f"wrote {args.output} (results: {rows})")
