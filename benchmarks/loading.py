"""Rows per second of the loader beside the server's own COPY of the same bytes from a file.

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

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import psycopg

from ann_benchmarks.algorithms.postgres import catalog
from ann_benchmarks.algorithms.postgres.chunks import ChunkedLoad, LoadPlan, load_plan
from ann_benchmarks.algorithms.postgres.encoding import COPY_HEADER, COPY_TRAILER, RowEncoder, row_layout
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.tables import create_table, load_whole
from ann_benchmarks.data.vectors.opening import open_rows
from benchmarks.server import temporary_server

_BLOCK = 4096
_TABLE = "ann_benchmarks.items_loaded"
_SERVER = "server's COPY"


def main() -> None:
    """Measure and print one table a dimension."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", choices=("memory", "npy"), default="memory")
    parser.add_argument("--folder", type=Path, help="where the NPY file is kept for another time")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[96, 768])
    parser.add_argument("--megabytes", type=int, default=400, help="size of the table's rows")
    parser.add_argument("--rows", type=int, help="instead of --megabytes")
    parser.add_argument("--few", type=int, default=500_000, help="rows for write_row")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, temporary_server() as server:
        assert isinstance(server, LocalServer)
        with server.connect() as connection:
            connection.execute("CREATE EXTENSION vector")
            catalog.prepare(connection)
        for dimension in args.dimensions:
            rows = args.rows or args.megabytes * 10**6 // row_layout(dimension).itemsize
            if args.source == "npy":
                train: Any = open_rows(npy_file(args.folder or Path(temporary), rows, dimension))
            else:
                train = random_vectors(0, rows, dimension)
            Comparison(server, train, args.threads, args.few).run(args.rounds)


class Comparison:
    """All ways to load the same rows."""

    def __init__(self, server: LocalServer, train: Any, threads: list[int], few: int) -> None:
        self.server, self.train, self.threads, self.few = server, train, threads, few
        self.file = server.data_folder.parent / "rows.copy"
        self.taken: dict[tuple[str, str], list[tuple[float, float, float]]] = {}

    def run(self, rounds: int) -> None:
        """Measure all ways, one after the other, again and again."""
        write_copy_file(self.file, self.train)
        for _ in range(rounds):
            self.measure("frozen", _SERVER, self.copy_frozen)
            self.measure("frozen", "loader", self.load_whole)
            self.measure("frozen", "write_row", self.copy_by_rows)
            self.measure("logged", _SERVER, self.copy_logged)
            for threads in self.threads:
                self.measure("logged", f"loader, {threads}", lambda n=threads: self.load_chunks(n))
        self.file.unlink()
        self.report()

    def measure(self, condition: str, way: str, load: Callable[[], object]) -> None:
        """Note the seconds, those of our CPU and those of the server's, for as many rows as there are."""
        with self.server.connect() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")
            connection.execute("CHECKPOINT")
        theirs, ours, started = server_seconds(self.server), time.process_time(), time.perf_counter()
        load()
        wall, ours = time.perf_counter() - started, time.process_time() - ours
        time.sleep(0.2)  # until the backends have ended and are counted
        theirs = server_seconds(self.server) - theirs
        share = self.few_rows() / len(self.train) if way == "write_row" else 1.0
        self.taken.setdefault((condition, way), []).append((wall / share, ours / share, theirs / share))

    def few_rows(self) -> int:
        """How many rows write_row is measured over."""
        return min(self.few, len(self.train))

    @contextmanager
    def new_table(self) -> Iterator[psycopg.Connection[Any]]:
        """Make the table in a transaction that stays open."""
        with self.server.connect() as connection, connection.transaction():
            create_table(connection, _TABLE, "vector", self.train.shape[1])
            yield connection

    def copy_frozen(self) -> None:
        """Load as fast as this server can."""
        with self.new_table() as connection:
            connection.execute(f"COPY {_TABLE} FROM '{self.file}' WITH (FORMAT binary, FREEZE)")

    def load_whole(self) -> None:
        """Load as a plug-in does by default."""
        with self.server.connect() as connection:
            load_whole(connection, _TABLE, "vector", self.train, "of a benchmark")

    def copy_by_rows(self) -> None:
        """Load a share with write_row; vectors are encoded by hand, as text would be slower still."""
        header = self.train.shape[1].to_bytes(2, "big") + b"\0\0"
        statement = f"COPY {_TABLE} FROM STDIN WITH (FORMAT binary, FREEZE)"
        with self.new_table() as connection, connection.cursor().copy(statement) as copy:
            copy.set_types(["int4", "bytea"])
            for start in range(0, self.few_rows(), _BLOCK):
                block = self.train[start : min(start + _BLOCK, self.few_rows())]
                for number, row in enumerate(block, start):
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
        rows, dimension = self.train.shape
        # So many rows over one connection would not be cut up in earnest: here they are, to be compared.
        chunk_rows = load_plan(rows, row_layout(dimension).itemsize, max(threads, 2), None).chunk_rows
        plan = LoadPlan(threads, chunk_rows)
        with self.server.connect() as connection:
            ChunkedLoad(self.server, _TABLE, "vector", self.train).run(connection, "of a benchmark", plan)

    def report(self) -> None:
        """Print medians, and the ratios of each round."""
        rows, dimension = self.train.shape
        size = row_layout(dimension).itemsize
        print(f"{rows:,} rows x {dimension} dimensions, {rows * size / 1e6:,.0f} MB as COPY sends them")
        print(f"  {'':23}     rows/s   MB/s  CPU s here/server  ratio to the server's COPY")
        for (condition, way), taken in self.taken.items():
            bases = self.taken[condition, _SERVER]
            ratios = [base[0] / own[0] for base, own in zip(bases, taken, strict=True)]
            wall, ours, theirs = (statistics.median(values) for values in zip(*taken, strict=True))
            print(
                f"  {condition}  {way:15}{rows / wall:11,.0f}{rows / wall * size / 1e6:7,.0f}"
                f"{ours:11.1f} /{theirs:6.1f}"
                f"  {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            )


def server_seconds(server: LocalServer) -> float:
    """CPU seconds of the server's processes, also of those that have ended."""
    assert server._process is not None
    postmaster = psutil.Process(server._process.pid)
    ended = postmaster.cpu_times()
    seconds = ended.user + ended.system + ended.children_user + ended.children_system
    for child in postmaster.children():
        try:
            times = child.cpu_times()
            seconds += times.user + times.system
        except psutil.NoSuchProcess:
            pass
    return float(seconds)


def random_vectors(seed: int, rows: int, dimension: int) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, dimension), dtype=np.float32)


def npy_file(folder: Path, rows: int, dimension: int) -> Path:
    """Write it if it is not there."""
    path = folder / f"random-{rows}x{dimension}.npy"
    if not path.exists():
        partial = path.with_name(f".{path.name}")
        train = np.lib.format.open_memmap(partial, "w+", np.float32, (rows, dimension))
        for seed, start in enumerate(range(0, rows, 1 << 18)):
            block = train[start : start + (1 << 18)]
            block[:] = random_vectors(seed, *block.shape)
        train.flush()
        partial.rename(path)
    return path


def write_copy_file(file: Path, train: Any) -> None:
    """Write the bytes that the loader sends."""
    encoder = RowEncoder(train.shape[1], _BLOCK)
    with file.open("wb") as out:
        out.write(COPY_HEADER)
        for start in range(0, len(train), _BLOCK):
            out.write(encoder.encode(start, train[start : start + _BLOCK]))
        out.write(COPY_TRAILER)
    file.chmod(0o644)


if __name__ == "__main__":
    main()
