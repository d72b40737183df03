"""Make, get, check or convert a dataset, or find its true neighbours."""

if __name__ == "__main__":  # before the imports, which take seconds on a busy machine
    from ann_benchmarks.common.beginning import begin

    begin()

import argparse

from ann_benchmarks.common.cli import file_to_write, path_or_pattern, positive_int, run_command, seed
from ann_benchmarks.common.dask_cluster import check_scheduler
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.output import warn
from ann_benchmarks.data.datasets import (
    canonical_name,
    dataset_path,
    get_dataset,
    is_downloaded,
    is_present,
    make_dataset,
)
from ann_benchmarks.data.datasets.listing import dataset_table
from ann_benchmarks.data.datasets.maintenance import (
    CONVERTED_TYPES,
    convert_source,
    find_truth,
    verify_dataset,
)
from ann_benchmarks.data.datasets.own import QUERIES, OwnVectors, create_in_place, create_own
from ann_benchmarks.data.datasets.repeated import repetition
from ann_benchmarks.data.datasets.write import NEIGHBORS
from ann_benchmarks.distance import METRICS


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="make, get, check or convert a dataset under data/")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--dataset", metavar="NAME", help="make or download a registered dataset")
    what.add_argument("--name", help="make a dataset of this name from your own vectors")
    what.add_argument("--list", action="store_true", help="list the datasets and what of them is there")
    what.add_argument("--verify", metavar="NAME", help="read all files of a dataset again and check them")
    what.add_argument(
        "--ground-truth",
        metavar="NAME",
        help="find the exact neighbours of every query; an interrupted run goes on where it stopped",
    )
    what.add_argument(
        "--convert",
        metavar="SOURCE",
        type=path_or_pattern,
        help="write a dataset's vectors, or those of a file, as one NPY file; resumes",
    )
    own = parser.add_argument_group("your own vectors")
    own.add_argument(
        "--train",
        metavar="FILE",
        type=path_or_pattern,
        help="NPY, NPZ, HDF5, Parquet, fbin, u8bin, i8bin, fvecs or bvecs; sparse vectors as csr or SciPy's"
        " NPZ; FILE:KEY names an array or column in it, 'part_*.npy' several files",
    )
    queries = own.add_mutually_exclusive_group()
    queries.add_argument(
        "--test", metavar="FILE", type=path_or_pattern, help="the queries, in a file of their own"
    )
    queries.add_argument(
        "--queries", type=positive_int, help=f"how many rows to hold out as queries (default {QUERIES})"
    )
    own.add_argument("--distance", metavar="METRIC", help=", ".join(METRICS))
    own.add_argument("--seed", type=seed, default=1, help="chooses the rows held out (default %(default)s)")
    own.add_argument(
        "--in-place",
        action="store_true",
        help="use the files where they lie instead of copying them; needs --test",
    )
    parser.add_argument(
        "--neighbors",
        type=positive_int,
        default=NEIGHBORS,
        help="exact neighbours kept a query (default %(default)s)",
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="find exact neighbours on a Dask cluster, tls://HOST:8786"
    )
    parser.add_argument(
        "--connections",
        type=positive_int,
        default=4,
        help="connections to download through at once (default %(default)s)",
    )
    parser.add_argument(
        "--output", metavar="FILE", type=file_to_write, help="the NPY file that --convert writes"
    )
    parser.add_argument("--dtype", choices=CONVERTED_TYPES, help="type of the numbers that --convert writes")
    parser.add_argument("--force", action="store_true", help="replace what is there")
    args = parser.parse_args()
    if args.name is not None and (args.train is None or args.distance is None):
        parser.error("--name needs --train and --distance")
    for given, needed, belongs in (
        (args.train, args.name, "--train needs --name"),
        (args.output or args.dtype, args.convert, "--output and --dtype need --convert"),
        (
            args.scheduler,
            args.ground_truth or args.in_place,
            "--scheduler needs --ground-truth",
        ),
    ):
        if given and not needed:
            parser.error(belongs)
    if args.in_place and args.test is None:
        parser.error(
            "--in-place needs --test: queries that are held out would have to be taken out of the file"
        )
    return args


def warn_of_repeated(name: str) -> None:
    """Say how many queries are rows of the training set."""
    dataset, _ = get_dataset(name)
    with dataset:
        if repeated := dataset.queries_in_train():
            warn(repetition(repeated, len(dataset.test())))


def main() -> int:
    """Do what the command line says; 1 when --verify finds something wrong."""
    args = parse_arguments()
    if args.scheduler:
        check_scheduler(args.scheduler)
    if args.list:
        print(dataset_table())
    elif args.verify is not None:
        return verify(args.verify)
    elif args.ground_truth is not None:
        print(find_truth(args.ground_truth, args.neighbors, args.scheduler, args.force))
    elif args.convert is not None:
        path = convert_source(args.convert, args.output, args.dtype, args.force)
        print(f"{path} is ready")
    elif args.name is None:
        get(args.dataset, args.connections, args.force)
    elif args.in_place:
        create_in_place(args.name, own_vectors(args), args.force)
        print(find_truth(args.name, args.neighbors, args.scheduler, force=True))
        print(f"{args.name} is ready: use --dataset {args.name}")
        warn_of_repeated(args.name)
    else:
        create_own(args.name, own_vectors(args), args.neighbors, args.force)
        ready(args.name)
        warn_of_repeated(args.name)
    return 0


def own_vectors(args: argparse.Namespace) -> OwnVectors:
    """Return the files that the options name."""
    return OwnVectors(args.train, args.distance, args.test, args.queries, args.seed)


def get(name: str, connections: int, force: bool) -> None:
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
    make_dataset(name, connections)
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


if __name__ == "__main__":
    run_command(main)
