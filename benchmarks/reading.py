"""Vectors come out of a table nearly as fast as the server's own COPY writes their bytes to a file."""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.table import VectorColumn
from ann_benchmarks.algorithms.postgres.table.loading import load_whole
from ann_benchmarks.algorithms.postgres.table.reading import VectorTable, copy_table
from ann_benchmarks.data.vectors.opening import open_rows

from .harness import Case, Figures, Goal
from .loading import vector_server, write_npy
from .serving import cost_of

GOAL = Goal("rows/s", least=0.3)
OPTIONS = {"dimensions": [96, 768], "megabytes": 400}
TABLE = "ann_benchmarks.items_read"
SERVER = "server's COPY"


def cases(args: argparse.Namespace) -> Iterator[Case]:
    with vector_server() as (folder, server):
        for dimension in args.dimensions:
            column = VectorColumn(dimension)
            rows = args.megabytes * 10**6 // column.row_bytes
            with server.connect() as connection:
                connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
                load_whole(connection, TABLE, column, open_rows(write_npy(folder, rows, dimension)), "")
            ways = {"reader": partial(read, server, rows, folder), SERVER: partial(copy, server, rows)}
            yield Case(f"{rows:,} rows x {dimension}", ways, base=SERVER)


def read(server: LocalServer, rows: int, folder: Path, number: int) -> Figures:
    """Copy the table as create_dataset.py does."""
    place = server.connection_parameters()
    url = f"postgresql:///{place['dbname']}?" + "&".join(
        f"{name}={place[name]}" for name in ("host", "port", "user")
    )
    cost = cost_of(partial(copy_table, VectorTable(url, TABLE, "embedding"), folder))
    return {"rows/s": rows / cost.wall, "CPU s here": cost.cpu}


def copy(server: LocalServer, rows: int, number: int) -> Figures:
    """Have the server write the same column to a file of its own."""
    assert server.data_folder is not None
    target = server.data_folder / "rows.copied"
    with server.connect() as connection:
        query = f"COPY (SELECT embedding FROM {TABLE}) TO '{target}' (FORMAT binary)"
        cost = cost_of(partial(connection.execute, query))
    return {"rows/s": rows / cost.wall, "CPU s here": cost.cpu}
