"""The loader is nearly as fast as the server's own COPY of the same bytes from a file.

Rows are read from an NPY file. Each load is of a new table, with its commit.

    frozen: one transaction makes and fills the table, nothing goes to the server's log
        loader         over one connection
    logged: the table is there before, its rows go to the log, and are frozen in the end; then a checkpoint
        loader, N      in chunks over N connections
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from ann_benchmarks.algorithms.postgres import catalog
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.machine import server_processes
from ann_benchmarks.algorithms.postgres.table import VectorColumn
from ann_benchmarks.algorithms.postgres.table.loading import ChunkedLoad, LoadOptions, load_whole
from ann_benchmarks.algorithms.postgres.table.tables import COPY_HEADER, COPY_TRAILER, create_table
from ann_benchmarks.data.vectors.opening import open_rows

from .harness import Case, Figures, Goal
from .serving import cost_of, empty_folder, random_vectors, temporary_server

GOAL = Goal("rows/s", least=0.9)
OPTIONS = {
    "dimensions": [96, 768],
    "megabytes": {"default": 400, "help": "size of the table's rows"},
    "rows": {"type": int, "help": "instead of --megabytes"},
    "threads": [1, 2, 4],
}
BLOCK = 4096
TABLE = "ann_benchmarks.items_loaded"
SERVER = "server's COPY"


def cases(args: argparse.Namespace) -> Iterator[Case]:
    with vector_server() as (folder, server):
        for dimension in args.dimensions:
            rows = args.rows or args.megabytes * 10**6 // VectorColumn(dimension).row_bytes
            loads = Loads(server, open_rows(write_npy(folder, rows, dimension)))
            frozen = {"loader": loads.load_whole, SERVER: loads.copy_frozen}
            logged = {f"loader, {n}": partial(loads.load_chunks, n) for n in args.threads}
            for condition, ways in {
                "frozen": frozen,
                "logged": {**logged, SERVER: loads.copy_logged},
            }.items():
                measured = {way: partial(loads.measure, load) for way, load in ways.items()}
                yield Case(f"{rows:,} rows x {dimension}, {condition}", measured, base=SERVER)


@contextmanager
def vector_server() -> Iterator[tuple[Path, LocalServer]]:
    """Have a folder for files, and a server with pgvector and the plug-ins' schema."""
    with empty_folder() as folder, temporary_server() as server:
        with server.connect() as connection:
            connection.execute("CREATE EXTENSION vector")
            catalog.prepare(connection)
        yield folder, server


class Loads:
    """All ways to load the same rows."""

    def __init__(self, server: LocalServer, train: Any) -> None:
        """Write the rows to a file that the server reads."""
        self.server, self.train, self.column = server, train, VectorColumn(train.shape[1])
        assert server.data_folder is not None
        self.file = server.data_folder.parent / "rows.copy"
        encoder = self.column.row_encoder(BLOCK)
        with self.file.open("wb") as out:
            out.write(COPY_HEADER)
            for start in range(0, len(train), BLOCK):
                out.write(encoder.encode(start, train[start : start + BLOCK]))
            out.write(COPY_TRAILER)
        self.file.chmod(0o644)

    def measure(self, load: Callable[[], object], number: int) -> Figures:
        """Load into a new table."""
        with self.server.connect() as connection:
            processes = server_processes(connection)
            assert processes is not None
            connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
            connection.execute("CHECKPOINT")
            before, cost = processes.used(), cost_of(load)
            server = processes.used()["server_cpu_seconds"] - before["server_cpu_seconds"]
        return {"rows/s": len(self.train) / cost.wall, "CPU s here": cost.cpu, "CPU s of server": server}

    @contextmanager
    def new_table(self) -> Iterator[psycopg.Connection[Any]]:
        """Make the table in a transaction that stays open."""
        with self.server.connect() as connection, connection.transaction():
            create_table(connection, TABLE, self.column)
            yield connection

    def copy_frozen(self) -> None:
        """Load as fast as this server can."""
        with self.new_table() as connection:
            connection.execute(f"COPY {TABLE} FROM '{self.file}' WITH (FORMAT binary, FREEZE)")

    def load_whole(self) -> None:
        """Load as a plug-in does by default."""
        with self.server.connect() as connection:
            load_whole(connection, TABLE, self.column, self.train, "of a benchmark")

    def copy_logged(self) -> None:
        """Load as fast as this server can into a table that it must log."""
        with self.new_table():
            pass
        with self.server.connect() as connection:
            connection.execute(f"COPY {TABLE} FROM '{self.file}' WITH (FORMAT binary)")
            connection.execute(f"VACUUM (FREEZE) {TABLE}")
            connection.execute("CHECKPOINT")

    def load_chunks(self, threads: int) -> None:
        """Load as a plug-in does a large table, or over several connections."""
        # One connection would take these rows as a whole: here they are cut up, to be compared.
        options = LoadOptions(max(threads, 2))
        _, chunk_rows = options.completed(len(self.train), self.column.row_bytes)
        load = ChunkedLoad(self.server, TABLE, self.column, self.train)
        with self.server.connect() as connection:
            load.run(connection, "of a benchmark", threads, chunk_rows)


def write_npy(folder: Path, rows: int, dimension: int) -> Path:
    """Write random vectors piece by piece."""
    path = folder / f"random-{rows}x{dimension}.npy"
    train = np.lib.format.open_memmap(path, "w+", np.float32, (rows, dimension))
    for seed, start in enumerate(range(0, rows, 1 << 18)):
        block = train[start : start + (1 << 18)]
        block[:] = random_vectors(*block.shape, seed)
    train.flush()
    return path
