"""Rows per second of the loader, compared with the server's own COPY of the same bytes from a file.

    python -m benchmarks.loading [--dimensions 96 768] [--megabytes 400] [--rounds 5] [--threads 1 2 4]
    python -m benchmarks.loading --source npy --rows 10_000_000 --dimensions 96 --folder /data --rounds 3

The ways alternate within one run, on the embedded server, each with its commit and into a new table:

    frozen: one transaction makes and fills the table, nothing goes to the server's log
        server's COPY  from a file that the server reads itself, the most that any client can reach
        loader         over one connection
        write_row      psycopg's, one row at a time, over `--few` rows
    logged: the table is there before, its rows go to the log, and are frozen in the end; then a checkpoint
        server's COPY  the same file in one transaction
        loader, N      in chunks over N connections

Ratios are those of each round to the server's COPY under the same conditions. CPU seconds are those of this
process and of all the server's processes.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import psycopg

from ann_benchmarks.algorithms.postgres import catalog
from ann_benchmarks.algorithms.postgres.chunks import ChunkedLoad, LoadPlan, load_plan
from ann_benchmarks.algorithms.postgres.columns import VectorColumn
from ann_benchmarks.algorithms.postgres.loading import COPY_HEADER, COPY_TRAILER
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.tables import create_table, load_whole
from ann_benchmarks.data.vectors.opening import open_rows
from benchmarks.harness import arguments, cost_of, in_turn, random_vectors, ratios, spread, temporary_server

_BLOCK = 4096
_TABLE = "ann_benchmarks.items_loaded"
_SERVER = "server's COPY"


def main() -> None:
    args = arguments(
        __doc__,
        source={"choices": ("memory", "npy"), "default": "memory"},
        folder={"type": Path, "help": "where the NPY file is kept for another time"},
        dimensions=[96, 768],
        megabytes={"default": 400, "help": "size of the table's rows"},
        rows={"type": int, "help": "instead of --megabytes"},
        few={"default": 500_000, "help": "rows for write_row"},
        threads=[1, 2, 4],
        rounds=5,
    )
    with tempfile.TemporaryDirectory() as temporary, temporary_server() as server:
        assert isinstance(server, LocalServer)
        with server.connect() as connection:
            connection.execute("CREATE EXTENSION vector")
            catalog.prepare(connection)
        for dimension in args.dimensions:
            rows = args.rows or args.megabytes * 10**6 // VectorColumn(dimension).row_bytes
            if args.source == "npy":
                train: Any = open_rows(npy_file(args.folder or Path(temporary), rows, dimension))
            else:
                train = random_vectors(rows, dimension)
            compare(Loads(server, train, min(args.few, rows)), args.threads, args.rounds)


class Loads:
    """All ways to load the same rows."""

    def __init__(self, server: LocalServer, train: Any, few: int) -> None:
        self.server, self.train, self.few = server, train, few
        self.column = VectorColumn(train.shape[1])
        self.file = server.data_folder.parent / "rows.copy"
        encoder = self.column.row_encoder(_BLOCK)
        with self.file.open("wb") as out:
            out.write(COPY_HEADER)
            for start in range(0, len(train), _BLOCK):
                out.write(encoder.encode(start, train[start : start + _BLOCK]))
            out.write(COPY_TRAILER)
        self.file.chmod(0o644)

    def measured(self, load: Callable[[], object], rows: int, number: int) -> tuple[float, float, float]:
        """Seconds, those of our CPU and those of the server's, as if all rows were loaded."""
        with self.server.connect() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")
            connection.execute("CHECKPOINT")
        before = server_seconds(self.server)
        cost = cost_of(load)
        time.sleep(0.2)  # until the backends have ended and are counted
        times = len(self.train) / rows
        return cost.wall * times, cost.cpu * times, (server_seconds(self.server) - before) * times

    @contextmanager
    def new_table(self) -> Iterator[psycopg.Connection[Any]]:
        """Make the table in a transaction that stays open."""
        with self.server.connect() as connection, connection.transaction():
            create_table(connection, _TABLE, self.column)
            yield connection

    def copy_frozen(self) -> None:
        """Load as fast as this server can."""
        with self.new_table() as connection:
            connection.execute(f"COPY {_TABLE} FROM '{self.file}' WITH (FORMAT binary, FREEZE)")

    def load_whole(self) -> None:
        """Load as a plug-in does by default."""
        with self.server.connect() as connection:
            load_whole(connection, _TABLE, self.column, self.train, "of a benchmark")

    def copy_by_rows(self) -> None:
        """Load a share with write_row; vectors are encoded by hand, as text would be slower still."""
        header = self.train.shape[1].to_bytes(2, "big") + b"\0\0"
        statement = f"COPY {_TABLE} FROM STDIN WITH (FORMAT binary, FREEZE)"
        with self.new_table() as connection, connection.cursor().copy(statement) as copy:
            copy.set_types(["int4", "bytea"])
            for start in range(0, self.few, _BLOCK):
                for number, row in enumerate(self.train[start : min(start + _BLOCK, self.few)], start):
                    copy.write_row((number, header + row.astype(">f4").tobytes()))

    def copy_logged(self) -> None:
        """Load as fast as this server can into a table that it must log."""
        with self.new_table():
            pass
        with self.server.connect() as connection:
            connection.execute(f"COPY {_TABLE} FROM '{self.file}' WITH (FORMAT binary)")
            connection.execute(f"VACUUM (FREEZE) {_TABLE}")
            connection.execute("CHECKPOINT")

    def load_chunks(self, threads: int) -> None:
        """Load as a plug-in does a large table, or over several connections."""
        rows = len(self.train)
        # One connection would take these rows as a whole: here they are cut up, to be compared.
        chunk_rows = load_plan(rows, self.column.row_bytes, max(threads, 2), None).chunk_rows
        plan = LoadPlan(threads, chunk_rows)
        with self.server.connect() as connection:
            ChunkedLoad(self.server, _TABLE, self.column, self.train).run(connection, "of a benchmark", plan)


def compare(loads: Loads, threads: list[int], rounds: int) -> None:
    """Measure all ways in turn; print medians, and the ratios of each round."""
    rows, dimension = loads.train.shape
    ways = {
        ("frozen", _SERVER): partial(loads.measured, loads.copy_frozen, rows),
        ("frozen", "loader"): partial(loads.measured, loads.load_whole, rows),
        ("frozen", "write_row"): partial(loads.measured, loads.copy_by_rows, loads.few),
        ("logged", _SERVER): partial(loads.measured, loads.copy_logged, rows),
    }
    for n in threads:
        ways["logged", f"loader, {n}"] = partial(loads.measured, partial(loads.load_chunks, n), rows)
    taken = in_turn(ways, rounds)
    loads.file.unlink()
    size = VectorColumn(dimension).row_bytes
    print(f"{rows:,} rows x {dimension} dimensions, {rows * size / 1e6:,.0f} MB as COPY sends them")
    print(f"  {'':23}     rows/s   MB/s  CPU s here/server  ratio to the server's COPY")
    seconds = {way: [wall for wall, *_ in of_way] for way, of_way in taken.items()}
    for (condition, way), of_way in taken.items():
        wall, ours, theirs = (median(values) for values in zip(*of_way, strict=True))
        print(
            f"  {condition}  {way:15}{rows / wall:11,.0f}{rows / wall * size / 1e6:7,.0f}"
            f"{ours:11.1f} /{theirs:6.1f}"
            f"  {spread(ratios(seconds[condition, _SERVER], seconds[condition, way]))}"
        )


def server_seconds(server: LocalServer) -> float:
    """CPU seconds of the server's processes, also of those that have ended."""
    assert server._process is not None
    postmaster = psutil.Process(server._process.pid)
    seconds = sum(postmaster.cpu_times()[:4])  # its own and those of its ended children, user and system
    for child in postmaster.children():
        with suppress(psutil.NoSuchProcess):
            seconds += sum(child.cpu_times()[:2])
    return float(seconds)


def npy_file(folder: Path, rows: int, dimension: int) -> Path:
    """Write it if it is not there."""
    path = folder / f"random-{rows}x{dimension}.npy"
    if not path.exists():
        partial_file = path.with_name(f".{path.name}")
        train = np.lib.format.open_memmap(partial_file, "w+", np.float32, (rows, dimension))
        for seed, start in enumerate(range(0, rows, 1 << 18)):
            block = train[start : start + (1 << 18)]
            block[:] = random_vectors(*block.shape, seed)
        train.flush()
        partial_file.rename(path)
    return path


if __name__ == "__main__":
    main()
