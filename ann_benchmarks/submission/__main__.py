"""Check a bundle of results that somebody hands in: python -m ann_benchmarks.submission check FOLDER."""

if __name__ == "__main__":  # before the imports, which take seconds on a busy machine
    from ann_benchmarks.common.beginning import begin

    begin()

from ann_benchmarks.common.cli import Parser, path, run_command

from .checking.check import check_bundle, summary


def main() -> int:
    """Read the command line, check the bundle, and print findings and a summary; 1 if it is refused."""
    parser = Parser(prog="python -m ann_benchmarks.submission", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    check = verbs.add_parser("check", help="compare everything that a bundle says with its files")
    check.add_argument("folder", type=path, metavar="FOLDER", help="the folder of the bundle")
    check.add_argument("--data", action="store_true", help="recompute distances from the vectors, which are"
        " made or downloaded if they are not there")  # fmt: skip
    args = parser.parse_args()
    checked = check_bundle(args.folder, args.data)
    refused = checked.findings.refused
    for finding in refused:
        print(finding)
    if refused:
        print()
    for line in summary(checked):
        print(line)
    return 1 if refused else 0


if __name__ == "__main__":
    run_command(main)
