"""Rows per second of the loader beside the server's own COPY of the same bytes from a file.

    python -m benchmarks.loading [--dimensions 96 768] [--megabytes 400] [--rounds 5]

The three ways alternate within one run, on the embedded server: the loader; COPY FROM a file that the server
reads itself, which is the most that any client can reach; and psycopg's write_row, one row at a time.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from ann_benchmarks.algorithms.postgres.encoding import COPY_HEADER, COPY_TRAILER, RowEncoder, row_layout
from ann_benchmarks.algorithms.postgres.loading import copy_vectors
from benchmarks.server import temporary_server

_BLOCK = 4096


def main() -> None:
    """Measure and print one table a dimension."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dimensions", type=int, nargs="+", default=[96, 768])
    parser.add_argument("--megabytes", type=int, default=400, help="size of the table's rows")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with temporary_server() as server, server.connect() as connection:
        connection.execute("CREATE EXTENSION vector")
        for dimension in args.dimensions:
            rows = args.megabytes * 10**6 // row_layout(dimension).itemsize
            train = np.random.default_rng(1).random((rows, dimension), dtype=np.float32)
            file = server.data_folder.parent / "rows.copy"  # type: ignore[union-attr]
            write_copy_file(file, train)
            ways = {
                "server's COPY": lambda file=file: copy_from_file(connection, file),
                "loader": lambda train=train: copy_vectors(connection, "loaded", train),
                "write_row": lambda train=train: copy_by_rows(connection, train),
            }
            seconds: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(args.rounds):
                for way, load in ways.items():
                    seconds[way].append(timed_in_new_table(connection, dimension, load))
            report(rows, dimension, seconds)


def timed_in_new_table(connection: psycopg.Connection[Any], dimension: int, load: Any) -> float:
    """Seconds that `load` takes in a table made in the same transaction."""
    with connection.transaction():
        connection.execute("DROP TABLE IF EXISTS loaded")
        connection.execute(f"CREATE TABLE loaded (id int4 NOT NULL, embedding vector({dimension}))")
        connection.execute("ALTER TABLE loaded ALTER embedding SET STORAGE PLAIN")
        return float(load())


def write_copy_file(file: Path, train: np.ndarray) -> None:
    """Write the bytes that the loader sends."""
    encoder = RowEncoder(train.shape[1], _BLOCK)
    with file.open("wb") as out:
        out.write(COPY_HEADER)
        for start in range(0, len(train), _BLOCK):
            out.write(encoder.encode(start, train[start : start + _BLOCK]))
        out.write(COPY_TRAILER)
    file.chmod(0o644)


def copy_from_file(connection: psycopg.Connection[Any], file: Path) -> float:
    """Seconds of the server's own COPY."""
    started = time.perf_counter()
    connection.execute(f"COPY loaded FROM '{file}' WITH (FORMAT binary, FREEZE)")
    return time.perf_counter() - started


def copy_by_rows(connection: psycopg.Connection[Any], train: np.ndarray) -> float:
    """Seconds of psycopg's write_row; vectors are encoded by hand, since text would be slower still."""
    started = time.perf_counter()
    header = train.shape[1].to_bytes(2, "big") + b"\0\0"
    with connection.cursor().copy("COPY loaded FROM STDIN WITH (FORMAT binary, FREEZE)") as copy:
        copy.set_types(["int4", "bytea"])
        for i, row in enumerate(train):
            copy.write_row((i, header + row.astype(">f4").tobytes()))
    return time.perf_counter() - started


def report(rows: int, dimension: int, seconds: dict[str, list[float]]) -> None:
    """Print medians and the ratios of each round's pair."""
    print(f"{rows:,} rows x {dimension} dimensions")
    for way, times in seconds.items():
        ratios = [base / own for base, own in zip(seconds["server's COPY"], times, strict=True)]
        rate = rows / statistics.median(times)
        print(
            f"  {way:14} {rate:12,.0f} rows/s   {rate * row_layout(dimension).itemsize / 1e6:7.0f} MB/s   "
            f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    main()
