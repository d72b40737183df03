"""Make, get or check a dataset, or find its true neighbours."""

import argparse
from pathlib import Path

from ann_benchmarks.common.cli import Parser, path, path_or_pattern, positive_int, seed
from ann_benchmarks.common.dask_cluster import check_scheduler
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.text import say, warn
from ann_benchmarks.data.datasets import (
    canonical_name,
    dataset_path,
    get_dataset,
    is_downloaded,
    is_present,
    make_dataset,
    prepare_filters,
    truth_file,
)
from ann_benchmarks.data.datasets.catalog import dataset_table, datasets_json
from ann_benchmarks.data.datasets.filtering import (
    FilterFiles,
    add_own_filters,
    read_new_filters,
    store_own_filters,
)
from ann_benchmarks.data.datasets.maintenance import find_truth, verify_dataset
from ann_benchmarks.data.datasets.own import (
    QUERIES,
    OwnVectors,
    create_in_place,
    create_own,
)
from ann_benchmarks.data.datasets.write import NEIGHBORS, repetition_warning
from ann_benchmarks.data.ground_truth import SEARCH_DEVICE, open_device
from ann_benchmarks.distance import METRICS, metric_of

from .from_postgres import add_table_options, copied_vectors

YAML_SUFFIXES = (".yml", ".yaml")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = Parser(description="Make, download or check a dataset in data/.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--dataset", metavar="NAME", help="make or download a dataset that --list names")
    what.add_argument("--name", help="make a dataset of this name from your own vectors")
    what.add_argument("--list", action="store_true", help="list the datasets, and which are present")
    what.add_argument("--verify", metavar="NAME", help="read all files of a dataset again and check them")
    what.add_argument(
        "--ground-truth",
        metavar="NAME",
        help="find the exact neighbours of every query; an interrupted run continues",
    )
    what.add_argument(
        "--add-filters", metavar="NAME", help="add the filters that --filters names to this dataset"
    )
    own = parser.add_argument_group("your own vectors")
    own.add_argument(
        "--train",
        metavar="FILE",
        type=path_or_pattern,
        help="NPY, HDF5, Parquet, fbin, u8bin or i8bin; FILE:KEY names an array or column in"
        " it, a folder or 'part_*.npy' several files",
    )
    add_table_options(own)
    queries = own.add_mutually_exclusive_group()
    queries.add_argument("--test", metavar="FILE", type=path_or_pattern, help="a file of queries")
    queries.add_argument(
        "--queries", type=positive_int, help=f"how many rows become queries (default {QUERIES})"
    )
    source = "held-out (default): rows that become queries leave the training set; rows: they stay in it"
    own.add_argument("--query-source", choices=["held-out", "rows"], help=source)
    own.add_argument(
        "--distance", metavar="METRIC", help=f"{', '.join(METRICS)}; cosine, l2 and dot are understood"
    )
    own.add_argument(
        "--seed", type=seed, default=1, help="random seed for the choice of rows (default %(default)s)"
    )
    own.add_argument(
        "--in-place",
        action="store_true",
        help="use the files where they are instead of copying them; needs --test",
    )
    filters = parser.add_argument_group("filters")
    filters.add_argument(
        "--filters",
        metavar="SETS",
        type=path_or_pattern,
        help="uniform:0.01,near:0.01,... or a YAML file of your own, which needs --attributes",
    )
    filters.add_argument(
        "--attributes",
        metavar="FILE",
        type=path,
        help="a Parquet file with a row for each training vector; of a table, names of columns: a,b",
    )
    parser.add_argument(
        "--neighbors",
        type=positive_int,
        default=NEIGHBORS,
        help="exact neighbours kept for each query (default %(default)s)",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="find exact neighbours on this Dask cluster, such as tls://HOST:8786",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "gpu"),
        default="cpu",
        help="gpu: find exact neighbours on a GPU, with PyTorch; same result, sooner (default %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="with --list: as JSON")
    parser.add_argument("--force", action="store_true", help="replace what exists")
    args = parser.parse_args()
    is_own = args.filters is not None and Path(args.filters).suffix in YAML_SUFFIXES
    for given, needed, belongs in (
        (
            args.name,
            args.from_postgres or (args.train and args.distance),
            "--name needs --train and --distance, or --from-postgres",
        ),
        (
            args.from_postgres,
            args.name and args.table and args.column,
            "--from-postgres needs --name, --table and --column",
        ),
        (
            args.from_postgres,
            not (args.train or args.in_place),
            "--from-postgres takes the place of --train and --in-place",
        ),
        (
            args.table or args.column or args.sample,
            args.from_postgres,
            "--table, --column and --sample need --from-postgres",
        ),
        (
            args.filters,
            args.add_filters or args.ground_truth or args.name,
            "--filters needs --add-filters, --name or --ground-truth",
        ),
        (args.add_filters, args.filters, "--add-filters needs --filters"),
        (args.attributes, is_own and not args.ground_truth, "--attributes needs --filters FILE.yml"),
        (is_own, args.attributes, "--filters FILE.yml needs --attributes FILE.parquet"),
        (args.scheduler, not args.filters, "a cluster does not search under filters; leave --scheduler out"),
        (args.train, args.name, "--train needs --name"),
        (args.query_source, args.name and not args.test, "--query-source needs --name, and no --test"),
        (args.json, args.list, "--json needs --list"),
        (args.scheduler, args.ground_truth or args.in_place, "--scheduler needs --ground-truth"),
        (args.scheduler, args.device == "cpu", "a cluster's workers use their CPUs; leave --device out"),
        (
            args.in_place,
            args.test,
            "--in-place needs --test: queries that are held out would have to be taken out of the file",
        ),
    ):
        if given is not None and given is not False and not needed:
            parser.error(belongs)
    return args


def main() -> int:
    """Do what the command line says; 1 when --verify finds something wrong."""
    args = parse_arguments()
    SEARCH_DEVICE.set(open_device(args.device))
    if args.scheduler:
        check_scheduler(args.scheduler)
    if args.list:
        print(datasets_json() if args.json else dataset_table())
    elif args.verify is not None:
        return verify(args.verify)
    elif args.add_filters is not None:
        add_filters(args.add_filters, args)
    elif args.ground_truth is not None and args.filters:
        name = canonical_name(args.ground_truth)
        for filter in prepare_filters(name, args.filters.split(","), args.neighbors, args.force):
            print(f"{truth_file(name, filter)} has the nearest rows of each query under its filter")
    elif args.ground_truth is not None:
        print(find_truth(args.ground_truth, args.neighbors, args.scheduler, args.force))
    elif args.name is None:
        get(args.dataset, args.force)
    elif args.from_postgres:
        with copied_vectors(args, args.name):
            create(args)
    else:
        create(args)
    return 0


def create(args: argparse.Namespace) -> None:
    """Make a dataset of one's own vectors, with filters if there are any; these are checked first."""
    keeps_queries = args.query_source == "rows"
    own = OwnVectors(args.train, metric_of(args.distance), args.test, args.queries, args.seed, keeps_queries)
    filters = (
        read_new_filters(FilterFiles(args.attributes, Path(args.filters)), own) if args.attributes else None
    )
    if args.in_place:
        create_in_place(args.name, own, args.force)
        print(find_truth(args.name, args.neighbors, args.scheduler, force=True))
        print(f"{args.name} is ready: use --dataset {args.name}")
    else:
        create_own(args.name, own, args.neighbors, args.force)
        ready(args.name)
    with get_dataset(args.name)[0] as dataset:
        if repeated := dataset.queries_in_train():
            warn(repetition_warning(repeated, len(dataset.test())))
        if filters is not None:
            describe_filters(args.name, store_own_filters(dataset, filters, args.neighbors, force=True))
    if args.filters and filters is None:
        add_filters(args.name, args)


def add_filters(name: str, args: argparse.Namespace) -> None:
    """Make filters by name, or of one's own, for a dataset."""
    if args.attributes:
        files = FilterFiles(args.attributes, Path(args.filters))
        names = add_own_filters(name, files, args.neighbors, args.force)
    else:
        names = prepare_filters(name, args.filters.split(","), args.neighbors, args.force)
    describe_filters(canonical_name(name), names)


def describe_filters(name: str, filters: list[str]) -> None:
    """Say what filter sets are like, and how to use them."""
    with get_dataset(name)[0] as dataset:
        for filter in filters:
            found = dataset.filter_set(filter)
            few = int((found.matches < dataset.truth(filter).neighbors.shape[1]).sum())
            short = f"; for {few:,} queries, fewer rows pass than there are neighbours to find" if few else ""
            print(
                f"{filter}: {found.selectivity:.3%} of {found.rows:,} rows pass on average,"
                f" {len(set(found.filters)):,} distinct filters{short}"
            )
    say(f"use run.py --dataset {name} --filter {','.join(filters)}")


def get(name: str, force: bool) -> None:
    """Make or download a registered dataset."""
    name = canonical_name(name)
    if is_present(name):
        if not force:
            print(f"{name} is there already; --force makes it again")
            return
        if is_downloaded(name):
            raise UserError(
                f"the files of {name} are there; delete those that are to be downloaded again"
                f" (--verify {name} says what is wrong with them)"
            )
    make_dataset(name)
    ready(name)


def ready(name: str) -> None:
    """Say what a dataset has, and how to use it."""
    dataset, dimension = get_dataset(name)
    with dataset:
        queries = f"{len(dataset.test()):,} queries"
        print(f"{dataset.rows:,} x {dimension}, {dataset.attrs['distance']}; {queries}")
    path = dataset_path(name)
    print(f"{path if path.exists() else name} is ready: use --dataset {name}")


def verify(name: str) -> int:
    """Print what is wrong with a dataset; 1 if anything is."""
    problems = 0
    for problem in verify_dataset(name):
        print(problem)
        problems += 1
    if not problems:
        print(f"{name}: all files are as they should be")
    return 1 if problems else 0
