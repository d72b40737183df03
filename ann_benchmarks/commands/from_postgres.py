"""Vectors from a table in PostgreSQL: the options that name it, and its copy in files."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ann_benchmarks.common.cli import positive_int
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.files import disk_errors
from ann_benchmarks.common.text import say
from ann_benchmarks.data.datasets import DATA_FOLDER
from ann_benchmarks.data.datasets.own import check_name, store_index
from ann_benchmarks.distance import METRICS, metric_of


def add_table_options(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """Add the options that name a column of vectors."""
    parser.add_argument(
        "--from-postgres",
        metavar="URL",
        help="copy vectors from a table, which is only read: postgresql://USER@HOST/DATABASE, with the"
        " password in PGPASSWORD or ~/.pgpass",
    )
    parser.add_argument("--table", help="the table or view, as in SQL")
    parser.add_argument("--column", help="its column of vectors: vector, halfvec, bit or real[]")
    parser.add_argument(
        "--sample",
        type=positive_int,
        metavar="ROWS",
        help="draw about this many rows at random (default all)",
    )


@contextmanager
def copied_vectors(args: argparse.Namespace, name: str) -> Iterator[None]:
    """Have files with the vectors, and the attributes if there are any, while the dataset is made of them.

    They take the places of `args.train`, `args.distance` and `args.attributes`. Afterwards the dataset knows
    the index that the table has.
    """
    from ann_benchmarks.algorithms.postgres.errors import PostgresError
    from ann_benchmarks.algorithms.postgres.table.reading import VectorTable, copy_table
    from ann_benchmarks.algorithms.postgres.table.vector_files import OTHER_DIMENSION

    check_name(name, args.force)
    if args.distance is not None and metric_of(args.distance) not in METRICS:
        raise UserError(f"unknown metric '{args.distance}'; use one of {', '.join(METRICS)}")
    given = getattr(args, "attributes", None)
    names = str(given).split(",") if given else ()
    seed = getattr(args, "seed", 1)
    otherwise = f"no index of {args.table} tells the metric: add --distance, one of {', '.join(METRICS)}"
    source = VectorTable(args.from_postgres, args.table, args.column, names, args.sample, seed, otherwise)
    DATA_FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=DATA_FOLDER) as folder:
        with disk_errors(Path(folder)):
            try:
                copied = copy_table(source, Path(folder), metric_of(args.distance or ""))
            except PostgresError as error:
                raise UserError(str(error)) from None
        say(copied.describe())
        if copied.left_out.get(OTHER_DIMENSION, 0) > copied.rows:
            raise UserError(
                f"most vectors of {args.table} have another dimension than its first: name a view of those of"
                " one dimension"
            )
        args.train, args.distance, args.attributes = str(copied.vectors), copied.metric, copied.attributes
        yield
    own = next((index for index in copied.indexes if index.metric == copied.metric), None)
    if own is not None:
        store_index(name, own.algorithm, own.arguments)
        say(f"its index {own.name} is a contender of choose: {own.algorithm}, {dict(own.arguments)}")
