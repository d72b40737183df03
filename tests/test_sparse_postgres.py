"""Sparse vectors in PostgreSQL: pgvector's sparsevec, its HNSW index, and exact search."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.pgvector_ivfflat.module import PGVectorIVFFlat
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.table import Column
from ann_benchmarks.algorithms.postgres.table.sparse import SparseColumn
from ann_benchmarks.algorithms.postgres.table.tables import copy_vectors
from ann_benchmarks.common.sparse import SparseVectors, joined
from ann_benchmarks.data.datasets.generated import SparseDraws
from ann_benchmarks.data.ground_truth import exact_neighbors
from ann_benchmarks.distance import candidate_distances

from .sparse_data import sparse_from

K = 10
DIMENSION = 3000


def drawn(rows: int, mean: int, stream: int) -> SparseVectors:
    draws = SparseDraws(1000, DIMENSION)
    return joined([*draws.blocks(draws.counts(rows, mean, stream), stream)], DIMENSION)


@pytest.fixture(scope="module")
def train() -> SparseVectors:
    return drawn(500, 60, 2)


@pytest.fixture(scope="module")
def queries() -> SparseVectors:
    return drawn(20, 30, 1)


def hnsw(metric: str = "ip") -> PGVectorHNSW:
    return PGVectorHNSW(metric, {"M": 16, "efConstruction": 64})


def recall(metric: str, train: SparseVectors, queries: SparseVectors, found: list[list[int]]) -> float:
    """Share of answers that are as near as the k-th true neighbour by float64 distances."""
    _, true = exact_neighbors(metric, train, queries, K)
    given = candidate_distances(metric, queries, train, np.array(found))
    return float(np.mean(given <= true[:, -1:] + 1e-6 * np.abs(true[:, -1:])))


def test_row_bytes() -> None:
    rows = sparse_from(np.array([[0, 1, 0, -2], [0, 0, 0, 0], [3, 0, 0, 0]], np.float32))
    encoded = SparseColumn.fit(rows).row_encoder(8).encode(7, rows)
    assert bytes(encoded) == bytes.fromhex(
        "0002 00000004 00000007 0000001c 00000004 00000002 00000000 00000001 00000003 3f800000 c0000000"
        "0002 00000004 00000008 0000000c 00000004 00000000 00000000"
        "0002 00000004 00000009 00000014 00000004 00000001 00000000 00000000 40400000"
    )


def test_loaded_rows_are_the_rows(server: Server, train: SparseVectors) -> None:
    column = SparseColumn.fit(train)
    with server.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("SET search_path TO pg_temp, public")
        with connection.transaction():
            connection.execute(f"CREATE TABLE loaded (id int4, embedding {column.declared})")
            copy_vectors(connection, "loaded", train, column)
        found = connection.execute("SELECT id, embedding::text FROM loaded ORDER BY id").fetchall()
        expected = [(number, literal(column, train[number])) for number in range(len(train))]
        assert found == expected
        same = connection.execute(
            "SELECT count(*) FROM loaded WHERE embedding = %s::sparsevec", [column.literal(train[5])]
        ).fetchone()
        assert same == (1,)


def literal(column: SparseColumn, row: SparseVectors) -> str:
    """As the server writes it: whole numbers without a point."""
    return column.literal(row).replace(".0,", ",").replace(".0}", "}")


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_values_that_the_type_cannot_hold(value: float) -> None:
    rows = sparse_from(np.array([[1, 0], [0, 1]], np.float32))
    rows.data[1] = value
    with pytest.raises(PostgresError, match=r"row 8 \(from 0\) stores .*, which a sparsevec cannot hold"):
        SparseColumn.fit(rows).row_encoder(8).encode(7, rows)


@pytest.mark.parametrize("metric", ["ip", "angular", "euclidean", "manhattan"])
def test_answers_against_float64(
    plugin_server: Server, train: SparseVectors, queries: SparseVectors, metric: str
) -> None:
    index, scan = hnsw(metric), PGVectorExact(metric)
    for algorithm, argument, least in ((index, 400, 0.97), (scan, 0, 1.0)):
        algorithm.fit(train)
        algorithm.set_query_arguments(argument)
        found = [algorithm.query(query, K) for query in queries]
        assert recall(metric, train, queries, found) >= least
        algorithm.done()


def test_prepared_timed_and_batch_queries_agree(
    plugin_server: Server, train: SparseVectors, queries: SparseVectors
) -> None:
    algorithm = hnsw()
    algorithm.fit(train)
    algorithm.set_query_arguments(100)
    one_by_one = [algorithm.query(query, K) for query in queries]
    _, timed = algorithm.time_queries([*queries], K)
    algorithm.batch_query(queries, K)
    assert one_by_one == timed == algorithm.get_batch_results()
    facts = algorithm.get_additional()
    assert 0.7 < facts["index_size"] / facts["estimated_index_size"] < 1.3
    algorithm.done()


def test_rows_too_long_for_the_index_are_refused_before_the_load(plugin_server: Server) -> None:
    dense = np.zeros((120, 20_000), np.float32)
    dense[:, :1000] = 1
    dense[7, :1001] = 1
    long = sparse_from(dense)
    with pytest.raises(PostgresError, match=r"rows with 1,001 values .* takes up to 1,000: keep the largest"):
        hnsw().fit(long)
    scan = PGVectorExact("ip")
    scan.fit(long)
    scan.set_query_arguments(0)
    assert scan.query(long[7], 1) == [7]
    scan.done()
    dense[3, :16_001] = 1
    with pytest.raises(PostgresError, match=r"row 3 \(from 0\) has 16,001 values .* up to 16,000: keep"):
        scan.fit(sparse_from(dense))


def test_plug_ins_for_dense_vectors_say_so(plugin_server: Server, train: SparseVectors) -> None:
    with pytest.raises(PostgresError, match="takes no sparse vectors: use pgvector_hnsw or pgvector_exact"):
        PGVectorIVFFlat("ip", {"lists": 10}).fit(train)
    with pytest.raises(
        PostgresError, match="form 'halfvec' is for vectors of numbers: leave it out for sparsevec"
    ):
        PGVectorHNSW("ip", {"M": 16, "efConstruction": 64, "form": "halfvec"}).fit(train)


def test_a_release_without_the_type(plugin_server: Server, train: SparseVectors) -> None:
    class Later(PGVectorExact):
        def column_of(self, X: Any) -> Column:
            return replace(SparseColumn.fit(X), type_name="sparsevec_of_later")

    with pytest.raises(PostgresError, match=r"pgvector [0-9.]+ has no type sparsevec_of_later: use a later"):
        Later("ip").fit(train)


def test_sparse_vectors_cannot_be_written_by_a_workload(plugin_server: Server, train: SparseVectors) -> None:
    with pytest.raises(PostgresError, match="writing to a column of type sparsevec is not supported"):
        hnsw().open_writable(train, 10)


def test_a_query_with_too_many_values(train: SparseVectors) -> None:
    encode = SparseColumn(20_000, 1, 1).parameter_encoder()
    with pytest.raises(PostgresError, match=r"a query has 16,001 values .* holds up to 16,000"):
        encode(sparse_from(np.ones((1, 16_001), np.float32)))
