"""Make a dataset: one of the registered names, or one's own vectors."""

import argparse

from ann_benchmarks.cli import positive_int, run_command
from ann_benchmarks.datasets import dataset_path, make_dataset
from ann_benchmarks.datasets.listing import dataset_table
from ann_benchmarks.datasets.own import QUERIES, create_own
from ann_benchmarks.datasets.write import NEIGHBORS
from ann_benchmarks.distance import METRICS


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="make a dataset under data/")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--dataset", metavar="NAME", help="make or download a registered dataset")
    what.add_argument("--name", help="make a dataset of this name from your own vectors")
    what.add_argument("--list", action="store_true", help="list the datasets and whether they are there")
    own = parser.add_argument_group("your own vectors")
    own.add_argument(
        "--train", metavar="FILE", help="NPY, NPZ, HDF5 or Parquet; FILE:KEY names an array or column in it"
    )
    queries = own.add_mutually_exclusive_group()
    queries.add_argument("--test", metavar="FILE", help="the queries, in a file of their own")
    queries.add_argument(
        "--queries", type=positive_int, help=f"how many rows to hold out as queries (default {QUERIES})"
    )
    own.add_argument("--distance", metavar="METRIC", help=", ".join(METRICS))
    own.add_argument(
        "--neighbors",
        type=positive_int,
        default=NEIGHBORS,
        help="exact neighbours kept a query (default %(default)s)",
    )
    own.add_argument("--seed", type=int, default=1, help="chooses the rows held out (default %(default)s)")
    parser.add_argument("--force", action="store_true", help="replace a dataset that is there")
    args = parser.parse_args()
    if args.name is not None and (args.train is None or args.distance is None):
        parser.error("--name needs --train and --distance")
    return args


def main() -> None:
    """Do what the command line says."""
    args = parse_arguments()
    if args.list:
        print(dataset_table())
        return
    path = dataset_path(args.name or args.dataset)
    if args.name is not None:
        create_own(
            args.name,
            args.train,
            args.distance,
            args.test,
            args.queries,
            args.neighbors,
            args.seed,
            args.force,
        )
    elif path.exists() and not args.force:
        print(f"{path} is there already; --force makes it again")
        return
    else:
        make_dataset(args.dataset)
    print(f"{path} is ready: use --dataset {path.stem}")


if __name__ == "__main__":
    run_command(main)
