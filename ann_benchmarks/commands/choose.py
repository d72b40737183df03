"""Choose an index for your vectors: make a dataset of them, measure every installed extension, and report.

Other options are those of run.py, such as --dry-run, --clients 1,32 or --budget 10m.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ann_benchmarks.commands.run import every_job, run
from ann_benchmarks.common.cli import Parser, path_or_pattern, positive_int, read_by, row_counts
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.numbers import row_count
from ann_benchmarks.common.text import say, warn
from ann_benchmarks.data.datasets import canonical_name, dataset_path, get_dataset, is_present
from ann_benchmarks.data.datasets.own import QUERIES, OwnVectors, create_own
from ann_benchmarks.data.datasets.samples import FEWEST_ROWS, sampled
from ann_benchmarks.data.datasets.write import NEIGHBORS, repetition_warning
from ann_benchmarks.distance import METRICS, metric_of
from ann_benchmarks.experiments.carrying_out import carry_out
from ann_benchmarks.experiments.report import report_experiment
from ann_benchmarks.experiments.schema import Options
from ann_benchmarks.results.comparable import comparisons
from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.metrics import TARGET_RECALL
from ann_benchmarks.results.runs import load_runs
from ann_benchmarks.run.command_line import make_parser
from ann_benchmarks.run.request import LOCAL, Request, take_url
from ann_benchmarks.sizing.growth import FARTHEST

from .from_postgres import add_table_options, copied_vectors

DISTANCE = "angular"
_LEAST_ROWS = 200  # fewer show nothing of an index
_ROWS_A_QUERY = 10  # of a small file
# Of each kind of index, the form of the miniature comes first.
FORMS = [("pgvector_hnsw", "pgvector_hnsw_halfvec"), ("vchord", "vchord_halfvec")]
PARTS, VERIFIED_PARTS = 8, 80  # one of them is the smallest sample of sizes.yml, and of sizes-verified.yml


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
    add("--rows", type=row_counts, default=[], metavar="N,...", help="also measure samples, and predict what"
        " more rows will take, such as 500k,1m")  # fmt: skip
    add("--verify-at", type=read_by(row_count), metavar="N", help="with --rows: predict from a tenth of FILE,"
        " which has at least N rows, and measure all of it, too")  # fmt: skip
    args, others = parser.parse_known_args(take_url(sys.argv[1:], LOCAL))
    args.file = take_file(others)
    is_table = bool(args.from_postgres and args.table and args.column)
    of_table = args.from_postgres, args.table, args.column, args.sample
    if is_table == bool(args.file) or any(of_table) != is_table:
        parser.error("give a FILE of vectors, or --from-postgres with --table and --column")
    options = make_parser()
    chosen = Options(options).parse(others)  # refused before anything is made
    name = dataset_of(args)
    status = 0
    for experiment, more in {"choose": [], **requested_sizes(name, args.rows, args.verify_at)}.items():
        words = ["--experiment", experiment, *(["--mini"] if args.mini else []), LOCAL, "--dataset", name]
        words += [*(["--force"] if args.force else []), *others]
        if more and not any(word.partition("=")[0] == "--algorithm" for word in others):
            words += ["--algorithm", *faster_forms(name, chosen)]
        status = max(status, carry_out(words, options, run))
        if not (chosen.dry_run or chosen.build_only):
            folder = report_experiment([*words, *more], options, every_job)
            say(f"wrote {folder}/report.html, with its pictures")
    return status


def requested_sizes(name: str, sizes: Sequence[int], verified: int | None) -> dict[str, list[str]]:
    """Return the experiment that predicts what more rows will take, with the words for its report.

    Empty where no numbers of rows are requested. UserError where there are too few rows for its samples.
    """
    if verified and not sizes:
        raise UserError("--verify-at is for predictions: add --rows")
    if not sizes:
        return {}
    experiment, part = ("sizes-verified", VERIFIED_PARTS) if verified else ("sizes", PARTS)
    with get_dataset(name)[0] as dataset:
        rows = dataset.rows
    if sampled(name)[1] > 1:
        raise UserError(f"--rows needs a dataset that is not a sample itself: give {sampled(name)[0]}")
    if verified and rows < verified:
        raise UserError(f"--verify-at must be at most the {rows:,} rows of the dataset")
    if rows < (needed := part * FEWEST_ROWS):
        option = "--verify-at" if verified else "--rows"
        raise UserError(f"{option} needs a dataset of {needed:,} rows, to draw samples: {name} has {rows:,}")
    known = rows * PARTS // part  # of the largest sample
    if min(sizes) <= known:
        what = "a tenth of its rows" if verified else "the dataset"
        raise UserError(f"--rows must be more than the {known:,} rows of {what}")
    if min(sizes) > (most := known * FARTHEST):
        raise UserError(f"--rows must be at most {most:,.0f} here: {FARTHEST:.0f} times the largest sample")
    return {experiment: ["--rows", ",".join(map(str, sizes))]}


def faster_forms(name: str, chosen: Request) -> list[str]:
    """Return the indexes to build on samples: those of vectors or of half precision, as was faster before."""
    runs = load_runs(iter_result_paths(name, chosen.count))
    compared = comparisons(runs, chosen.target_recall or TARGET_RECALL)  # the last one has the most clients
    speeds = {family: run.metrics["qps"] for one in compared for family, run in one.fastest.items()}
    return [max(forms, key=lambda family: speeds.get(family, 0)) for forms in FORMS]


def take_file(words: list[str]) -> str | None:
    """Remove the FILE from words and return it: the word that belongs to none of the options of run.py."""
    file: str | None = run_parser().parse_args(words).file
    if file is not None:
        words.remove(file)
    return file


def run_parser() -> argparse.ArgumentParser:
    """Return what reads FILE and the options of run.py."""
    parser = make_parser("choose.py")
    parser.add_argument("file", nargs="?", type=path_or_pattern)
    return parser


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
