"""The binary forms of a vector, against the server's own text forms."""

import numpy as np
import psycopg
import pytest

from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.table import VectorColumn
from ann_benchmarks.algorithms.postgres.table.tables import copy_vectors


@pytest.fixture
def connection(server: Server):
    with server.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("SET search_path TO pg_temp, public")
        yield connection


def test_row_bytes():
    block = VectorColumn(2).row_encoder(8).encode(7, np.array([[1.0, -2.0]], dtype=np.float32))
    assert bytes(block) == bytes.fromhex(
        "0002"  # columns
        "00000004 00000007"  # id
        "0000000c 0002 0000 3f800000 c0000000"  # vector
    )


@pytest.mark.parametrize("column_type", ["vector", "halfvec"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.uint8, np.int8])
@pytest.mark.parametrize("dimension", [1, 3, 768])
def test_loaded_rows_are_the_rows(
    connection: psycopg.Connection, column_type: str, dtype: type, dimension: int
):
    train = (np.random.default_rng(0).random((1000, dimension)) * 100).astype(dtype)
    with connection.transaction():
        column = VectorColumn(dimension, column_type)
        connection.execute(f"CREATE TABLE loaded (id int4, embedding {column.declared})")
        copy_vectors(connection, "loaded", train, column)
    rows = connection.execute("SELECT id, embedding::text FROM loaded ORDER BY id").fetchall()
    assert [row[0] for row in rows] == list(range(1000))
    loaded = np.array([row[1].strip("[]").split(",") for row in rows], dtype=np.float32)
    np.testing.assert_array_equal(loaded, train.astype(column.element).astype(np.float32))


def test_the_server_refuses_and_says_why(connection: psycopg.Connection):
    sent: list[int] = []
    with pytest.raises(psycopg.errors.CheckViolation), connection.transaction():
        connection.execute("CREATE TABLE loaded (id int4 CHECK (id < 5), embedding vector(4))")
        train = np.ones((2_000_000, 4), dtype=np.float32)
        copy_vectors(connection, "loaded", train, VectorColumn(4), advanced=sent.append)
    assert sum(sent) < 500_000  # the rest was not sent
    assert connection.execute("SELECT to_regclass('loaded')").fetchone() == (None,)


@pytest.mark.parametrize(
    ("column_type", "dtype", "value", "said"),
    [
        ("vector", np.float32, np.nan, r"row 4321 \(from 0\) has NaN, which a vector cannot hold: correct"),
        ("vector", np.float16, -np.inf, r"row 4321 \(from 0\) has infinity, which a vector cannot hold"),
        ("vector", np.float64, -1e39, r"row 4321 \(from 0\) has -1e\+39, a vector holds up to 3.40282e\+38"),
        ("halfvec", np.float32, 65520, r"row 4321 .* has 65520.0, a halfvec holds up to 65504: use vector"),
        ("halfvec", np.int32, -70000, r"row 4321 .* has -70000, a halfvec holds up to 65504: use vector"),
        ("halfvec", np.float16, np.nan, r"row 4321 .* has NaN, which a halfvec cannot hold"),
    ],
)
def test_a_value_that_the_column_cannot_hold(
    connection: psycopg.Connection, column_type: str, dtype: type, value: float, said: str
):
    train = np.ones((10_000, 4), dtype=dtype)
    train[4321, 2] = value
    with pytest.raises(PostgresError, match=said), connection.transaction():
        connection.execute(f"CREATE TABLE loaded (id int4, embedding {column_type}(4))")
        copy_vectors(connection, "loaded", train, VectorColumn(4, column_type))
    assert connection.execute("SELECT to_regclass('loaded')").fetchone() == (None,)


def test_the_largest_values_pass(connection: psycopg.Connection):
    for column_type, most in (("vector", np.finfo(np.float32).max), ("halfvec", 65519.0)):
        with connection.transaction():
            connection.execute(f"CREATE TABLE loaded (id int4, embedding {column_type}(2))")
            train = np.array([[most, -most]], dtype=np.float32)
            copy_vectors(connection, "loaded", train, VectorColumn(2, column_type))
            connection.execute("DROP TABLE loaded")


def test_a_notice_does_not_end_the_load(connection: psycopg.Connection):
    connection.execute("SET client_min_messages = debug5")
    with connection.transaction():
        connection.execute("CREATE TABLE loaded (id int4, embedding vector(96))")
        copy_vectors(connection, "loaded", np.ones((30_000, 96), dtype=np.float32), VectorColumn(96))
    assert connection.execute("SELECT count(*) FROM loaded").fetchone() == (30_000,)


def test_parameter_and_literal_agree(connection: psycopg.Connection):
    vector, column = np.array([0.1, -1e-30, 3e38, 0], dtype=np.float32), VectorColumn(4)
    row = connection.execute(
        "SELECT %b::vector = %s::vector",
        [_Binary(bytes(column.parameter_encoder()(vector))), column.literal(vector)],
    )
    assert row.fetchone() == (True,)


class _Binary(bytes):
    """Bytes that psycopg sends as they are, as a value of a type that the server infers."""


class _AsIs(psycopg.adapt.Dumper):
    format = psycopg.pq.Format.BINARY
    oid = 0

    def dump(self, obj: bytes) -> bytes:
        return bytes(obj)


psycopg.adapters.register_dumper(_Binary, _AsIs)
