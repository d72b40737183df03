"""Write the metrics of all results to a CSV file."""

if __name__ == "__main__":  # before the imports, which take seconds on a busy machine
    from ann_benchmarks.common.beginning import begin

    begin()

import argparse

from ann_benchmarks.common.cli import file_to_write, run_command
from ann_benchmarks.results.export import export_results


def main() -> None:
    """Read the command line and export."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=file_to_write, required=True, metavar="FILE", help="the CSV file to write"
    )
    parser.add_argument(
        "--recompute", action="store_true", help="compute the metrics anew, whatever is cached"
    )
    args = parser.parse_args()
    rows = export_results(args.output, args.recompute)
    print(f"wrote {args.output} (results: {rows})")


if __name__ == "__main__":
    run_command(main)
