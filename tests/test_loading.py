"""Tables that are loaded in chunks, over several connections, and resumed, on a real server."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import psutil
import psycopg
import pytest

from ann_benchmarks.algorithms.postgres import catalog
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.forms import whole_form
from ann_benchmarks.algorithms.postgres.module import Index, PostgresANN
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.table import VectorColumn
from ann_benchmarks.algorithms.postgres.table.loading import (
    ChunkedLoad,
    LoadOptions,
    load_whole,
    missing_chunks,
)
from ann_benchmarks.algorithms.postgres.table.tables import copy_vectors, fingerprint

from .programs import ROOT, until

pytestmark = pytest.mark.thorough

TABLE = "ann_benchmarks.items_of_a_test"


class IVFFlat(PostgresANN):
    """The cheapest index there is."""

    def __init__(self, lists: int = 1, column_type: str = "vector") -> None:
        super().__init__("euclidean")
        self._lists, self._column_type = lists, column_type

    def column_of(self, X):
        return VectorColumn(X.shape[1], self._column_type)

    def index(self, rows: int, dimension: int) -> Index:
        form = whole_form(self.metric, self.column)
        return Index("ivfflat", form, {"lists": self._lists})


class Watched:
    """Rows by range that remember which were asked for, and do something before they answer."""

    def __init__(self, train: np.ndarray, before=lambda rows: None) -> None:
        self.train, self.shape, self.dtype, self.before = train, train.shape, train.dtype, before
        self.read: list[range] = []

    def __len__(self) -> int:
        return len(self.train)

    def __getitem__(self, rows: slice) -> np.ndarray:
        self.before(rows)
        self.read.append(range(rows.start, rows.stop))
        return self.train[rows]

    def fingerprint(self) -> str:
        return hashlib.sha256(self.train.tobytes()).hexdigest()


def vectors(rows: int, dimension: int = 8) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(rows, dimension)).astype(np.float32)


@pytest.fixture
def connection(server: Server) -> Iterator[psycopg.Connection]:
    with server.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        catalog.prepare(connection)
        yield connection
    with server.connect() as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
        catalog.forget_table(connection, TABLE)


def load(server: Server, connection: psycopg.Connection, train, threads: int = 1, chunk_rows: int = 1000):
    load = ChunkedLoad(server, TABLE, VectorColumn(train.shape[1]), train)
    return load.run(connection, "of a test", threads, chunk_rows)


def assert_loaded(connection: psycopg.Connection, train: np.ndarray, table: str = TABLE) -> None:
    found = connection.execute(f"SELECT id, vector_send(embedding) FROM {table} ORDER BY id").fetchall()
    assert [row[0] for row in found] == list(range(len(train)))
    values = np.array([np.frombuffer(row[1], ">f4", offset=4) for row in found])
    np.testing.assert_array_equal(values, train)


def chunks_of(connection: psycopg.Connection) -> list[range]:
    return catalog.loaded_chunks(connection, TABLE)[0]


@pytest.mark.parametrize("threads", [1, 3])
def test_chunks_make_the_same_table(server: Server, connection: psycopg.Connection, threads: int):
    train = vectors(10_500)
    # A session that an earlier test ended may still have a snapshot, for which VACUUM leaves pages unfrozen.
    others = "FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()"
    until(lambda: connection.execute(f"SELECT count(*) {others}").fetchone() == (0,))
    seconds = load(server, connection, train, threads)
    assert_loaded(connection, train)
    assert chunks_of(connection) == []
    assert catalog.find_table(connection, TABLE) == catalog.LoadedTable(TABLE, seconds)
    # Frozen: no index build and no query has to rewrite a page.
    pages = connection.execute(
        "SELECT relpages, relallvisible FROM pg_class WHERE oid = %s::regclass", [TABLE]
    )
    assert len(set(pages.fetchone())) == 1


def test_one_transaction_makes_the_same_table(connection: psycopg.Connection):
    train = vectors(3000)
    seconds = load_whole(connection, TABLE, VectorColumn(train.shape[1]), train, "of a test")
    assert_loaded(connection, train)
    assert catalog.find_table(connection, TABLE) == catalog.LoadedTable(TABLE, seconds)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interrupted_load_goes_on_with_what_is_missing(
    server: Server, connection: psycopg.Connection, threads: int, capsys
):
    def interrupt(rows: slice) -> None:
        time.sleep(0.02)
        if rows.start == 7000:
            raise KeyboardInterrupt

    train = vectors(10_500)
    with pytest.raises(KeyboardInterrupt):
        load(server, connection, Watched(train, interrupt), threads)
    kept, before = catalog.loaded_chunks(connection, TABLE)
    assert len(kept) >= 7 - threads
    assert before > 0
    assert catalog.find_table(connection, TABLE) is None
    again = Watched(train)
    assert load(server, connection, again, threads, chunk_rows=777) > before
    assert_loaded(connection, train)
    read_before = {i for rows in kept for i in rows}
    assert not read_before & {i for rows in again.read for i in rows}
    assert f"{len(read_before):,} of 10,500 rows are there" in capsys.readouterr().out


def test_the_space_of_what_was_rolled_back_is_used_again(server: Server, connection: psycopg.Connection):
    def interrupt(rows: slice) -> None:
        if rows.start > 90_000:
            raise KeyboardInterrupt

    train = vectors(100_000)
    load(server, connection, train, chunk_rows=60_000)
    size = "SELECT pg_relation_size(%s)"
    undisturbed = connection.execute(size, [TABLE]).fetchone()[0]
    connection.execute(f"DROP TABLE {TABLE}")
    with pytest.raises(KeyboardInterrupt):
        load(server, connection, Watched(train, interrupt), chunk_rows=60_000)
    load(server, connection, train, chunk_rows=60_000)
    assert connection.execute(size, [TABLE]).fetchone()[0] <= undisturbed * 1.02


def test_a_commit_on_its_way_counts(server: Server, connection: psycopg.Connection):
    """As when a client is killed after it has sent COMMIT, and the next run comes before that is done."""
    train = vectors(5000)
    with pytest.raises(RuntimeError):
        load(server, connection, Watched(train, _fail_at(1000)))
    with server.connect() as late, server.connect() as own:
        with late.transaction():
            copy_vectors(late, TABLE, train, VectorColumn(train.shape[1]), range(1000, 2500), frozen=False)
            catalog.remember_chunk(late, TABLE, range(1000, 2500), 1.0)
            resumed = threading.Thread(target=load, args=(server, own, train))
            resumed.start()
            time.sleep(0.3)
            assert resumed.is_alive()
        resumed.join()
    assert_loaded(connection, train)


def _fail_at(start: int):
    def fail(rows: slice) -> None:
        if rows.start == start:
            raise RuntimeError("a source that fails")

    return fail


def test_a_row_that_cannot_be_stored_ends_all_connections(server: Server, connection: psycopg.Connection):
    train = vectors(200_000)
    train[150_017, 3] = np.nan
    with pytest.raises(PostgresError, match=r"row 150017 \(from 0\) has NaN"):
        load(server, connection, train, threads=3, chunk_rows=10_000)
    kept = chunks_of(connection)
    assert all(150_017 not in rows for rows in kept)
    stored = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchone()
    assert stored == (sum(map(len, kept)),)


def test_a_table_that_somebody_dropped_is_loaded_anew(server: Server, connection: psycopg.Connection):
    train = vectors(3000)
    load(server, connection, train)
    connection.execute(f"DROP TABLE {TABLE}")
    with pytest.raises(RuntimeError):
        load(server, connection, Watched(train, _fail_at(1000)))
    assert catalog.find_table(connection, TABLE) is None  # half of it is not taken for the whole
    connection.execute(f"DROP TABLE {TABLE}")
    load(server, connection, train)
    assert_loaded(connection, train)


def test_two_definitions_of_one_table_load_it_once(plugin_server: Server):
    train = Watched(vectors(4000))
    first = IVFFlat(lists=2)
    first.set_load_options(threads=2, chunk_rows=1500)
    first.fit(train)
    first.done()
    assert sorted(rows.start for rows in train.read) == [0, 1500, 3000]
    train.read.clear()
    second = IVFFlat(lists=3)
    second.fit(train)
    second.done()
    assert train.read == []
    assert second.get_additional()["load_time"] == first.get_additional()["load_time"]
    half = IVFFlat(column_type="halfvec")  # another column is another table
    half.set_load_options(chunk_rows=2050)
    half.fit(train)
    half.done()
    assert [rows.start for rows in train.read] == [0, 2050]


def test_rows_that_say_what_they_are(plugin_server: Server):
    class Named(Watched):
        def row_name(self, row: int) -> str:
            return f"part.npy row {row - 100}"

    train = vectors(1100)
    train[500] = np.inf
    assert fingerprint(Named(train)) == Named(train).fingerprint()
    with pytest.raises(PostgresError, match=r"part.npy row 400 has infinity"):
        IVFFlat().fit(Named(train))


def test_a_server_that_dies_costs_unfinished_chunks_only(plugin_server: Server, capsys):
    assert isinstance(plugin_server, LocalServer)
    train = vectors(200_000)

    def kill(rows: slice) -> None:
        if rows.start == 100_000:
            os.kill(plugin_server._process.pid, signal.SIGKILL)
            for child in psutil.process_iter(["name", "cwd"]):  # without their parent they would linger a bit
                if child.info["name"] == "postgres" and child.info["cwd"] == str(plugin_server._cluster.data):
                    child.kill()

    algorithm = IVFFlat()
    algorithm.set_load_options(threads=2, chunk_rows=10_000)
    try:
        # A thread may not have been connected yet.
        with pytest.raises(PostgresError, match=r"the server broke off while loading|cannot connect"):
            algorithm.fit(Watched(train, kill))
        algorithm.done()
    finally:
        plugin_server.stop()
        plugin_server.start({"shared_buffers": "96MB"})
    again = Watched(train)
    algorithm.fit(again)
    algorithm.done()
    assert sum(map(len, again.read)) < 200_000
    with plugin_server.connect() as connection:
        assert_loaded(connection, train, algorithm.table_name)


CLIENT = """
import sys, numpy as np
from tests.test_loading import IVFFlat, vectors
algorithm = IVFFlat()
algorithm.set_load_options(threads=3, chunk_rows=4000)
print("loading", flush=True)
algorithm.fit(vectors(150_000, 32))
algorithm.done()
print(algorithm.table_name)
"""


def test_a_client_that_is_killed_goes_on_where_it_stopped(server: Server, connection: psycopg.Connection):
    parameters = server.connection_parameters()
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "ANN_BENCHMARKS_PG_HOST": parameters["host"],
        "ANN_BENCHMARKS_PG_USER": parameters["user"],
    }

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", CLIENT], env=environment, cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    counts = []
    for wanted in (10_000, 60_000):
        client = start()
        while client.poll() is None:  # killed at some moment after so many rows are there
            rows = connection.execute("SELECT coalesce(sum(stop - start), 0) FROM ann_benchmarks.chunks")
            if rows.fetchone()[0] >= wanted:
                time.sleep(random.random() * 0.03)
                client.kill()
        client.communicate()
        counts.append(client.returncode)
    said, errors = (client := start()).communicate()
    assert client.returncode == 0, errors
    assert counts == [-signal.SIGKILL] * 2
    assert "continuing an interrupted load" in said
    assert_loaded(connection, vectors(150_000, 32), said.split()[-1])


def test_which_rows_make_a_chunk():
    assert missing_chunks(10, [], 4) == [range(0, 4), range(4, 8), range(8, 10)]
    assert missing_chunks(10, [range(2, 5), range(5, 6)], 3) == [range(0, 2), range(6, 9), range(9, 10)]
    assert missing_chunks(10, [range(0, 10)], 3) == []


@pytest.mark.parametrize(
    ("rows", "dimension", "options", "threads", "chunks"),
    [
        (10_000_000, 96, (None, None), 1, 1),
        (5_000_000, 768, (None, None), 1, 1),
        (100_000_000, 96, (None, None), 1, 150),
        (10_000_000, 96, (4, None), 4, 15),
        (1000, 96, (4, None), 4, 4),
        (10_000_000, 96, (None, 3_000_000), 1, 4),
    ],
)
def test_only_loads_of_many_minutes_are_cut_up(rows, dimension, options, threads, chunks):
    found, chunk_rows = LoadOptions(*options).completed(rows, VectorColumn(dimension).row_bytes)
    assert found == threads
    assert -(-rows // chunk_rows) == chunks
