"""Choose an index for your vectors: make a dataset of them, measure every installed extension, and report.

Other options are those of run.py, such as --dry-run, --clients 1,32 or --budget 10m.
"""

import argparse
import re
import sys
from pathlib import Path

from ann_benchmarks.commands.run import every_job, run
from ann_benchmarks.common.cli import Parser, path_or_pattern, positive_int
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import say, warn
from ann_benchmarks.data.datasets import canonical_name, dataset_path, get_dataset, is_present
from ann_benchmarks.data.datasets.own import QUERIES, OwnVectors, create_own
from ann_benchmarks.data.datasets.write import NEIGHBORS, repetition_warning
from ann_benchmarks.distance import METRICS, metric_of
from ann_benchmarks.experiments.carrying_out import carry_out
from ann_benchmarks.experiments.report import report_experiment
from ann_benchmarks.experiments.schema import Options
from ann_benchmarks.run.command_line import make_parser
from ann_benchmarks.run.request import LOCAL, take_url

from .from_postgres import add_table_options, copied_vectors

DISTANCE = "angular"
_LEAST_ROWS = 200  # fewer show nothing of an index
_ROWS_A_QUERY = 10  # of a small file


def main() -> int:
    """Do all of it; return the exit status of the measurement."""
    parser = Parser(
        "choose.py",
        usage="%(prog)s FILE [options]",
        description=f"{__doc__}\nFILE: vectors as for create_dataset.py --train, or a dataset's name.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add_table_options(parser)
    add("--distance", metavar="METRIC", help=f"{', '.join(METRICS)} (default: {DISTANCE}, which is cosine)")
    add("--queries", type=positive_int, metavar="N", help=f"rows to hold out as queries (default: {QUERIES},"
        " or a tenth of a small file)")  # fmt: skip
    add("--name", help="name of the dataset (default: that of the file)")
    add("--force", action="store_true", help="make the dataset again, and measure finished points again")
    add("--mini", action="store_true", help="a quicker, less certain answer")
    args, others = parser.parse_known_args(take_url(sys.argv[1:], LOCAL))
    args.file = take_file(others)
    is_table = bool(args.from_postgres and args.table and args.column)
    of_table = args.from_postgres, args.table, args.column, args.sample
    if is_table == bool(args.file) or any(of_table) != is_table:
        parser.error("give a FILE of vectors, or --from-postgres with --table and --column")
    options = make_parser()
    chosen = Options(options).parse(others)  # refused before anything is made
    name = dataset_of(args)
    words = ["--experiment", "choose", *(["--mini"] if args.mini else []), LOCAL, "--dataset", name]
    words += [*(["--force"] if args.force else []), *others]
    status = carry_out(words, options, run)
    if not (chosen.dry_run or chosen.build_only):
        folder = report_experiment(words, options, every_job)
        say(f"wrote {folder}/report.html, with its pictures")
    return status


def take_file(words: list[str]) -> str | None:
    """Remove the FILE from words and return it: the word that belongs to none of the options of run.py."""
    reader = make_parser("choose.py")
    reader.add_argument("file", nargs="?", type=path_or_pattern)
    file: str | None = reader.parse_args(words).file
    if file is not None:
        words.remove(file)
    return file


def dataset_of(args: argparse.Namespace) -> str:
    """Return the name of the dataset to measure on, which is made of file or table unless it is there."""
    given = args.file or f"{args.table}-{args.column}"
    file = Path(given)
    is_name = args.file is not None and "/" not in given and not file.exists()
    if is_name and is_present(canonical_name(given)):
        return canonical_name(given)
    stem = file.name.partition(".")[0] if args.file else given.replace(".", "-")
    name = args.name or re.sub(r"[^A-Za-z0-9.-]+", "-", stem).strip(".-") or "mine"
    path = dataset_path(name)
    if path.exists() and not args.force:
        if args.file and file.exists() and file.stat().st_mtime > path.stat().st_mtime:
            raise UserError(f"{path} is older than {file}: add --force to replace it, or --name for another")
        with get_dataset(name)[0] as dataset:
            stored = dataset.attrs["distance"]
        if args.distance and stored != metric_of(args.distance):
            raise UserError(f"{path} has the metric {stored}: add --force to replace it, or --name")
        say(f"dataset {name}: using {path}, which exists already")
        return name
    if args.from_postgres:
        with copied_vectors(args, name):
            create_from_file(name, args.train, args)
    else:
        create_from_file(name, args.file, args)
    return name


def create_from_file(name: str, file: str, args: argparse.Namespace) -> None:
    """Make a dataset of the vectors of a file, with fewer queries and neighbours where it is small."""
    metric = metric_of(args.distance or DISTANCE)
    own = OwnVectors(file, metric, queries=args.queries)
    vectors, _ = own.open()
    rows = len(vectors)
    if rows < _LEAST_ROWS:
        raise UserError(f"{file} has {rows} rows: at least {_LEAST_ROWS} are needed")
    own = OwnVectors(file, metric, queries=args.queries or min(QUERIES, rows // _ROWS_A_QUERY))
    neighbors = min(NEIGHBORS, rows // 2)
    if not args.distance:
        say(f"distance: {metric}, which is cosine; --distance changes it")
    create_own(name, own, neighbors, args.force)
    with get_dataset(name)[0] as dataset:
        if repeated := dataset.queries_in_train():
            warn(repetition_warning(repeated, len(dataset.test())))
