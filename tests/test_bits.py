"""Bits and L1 on a real server: what is stored, and what is found, against distances in float64."""

from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.pgvector_ivfflat.module import PGVectorIVFFlat
from ann_benchmarks.algorithms.pgvectorscale.module import PGVectorScale
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.forms import pgvector_form
from ann_benchmarks.algorithms.postgres.module import PostgresANN
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.table import BitColumn, VectorColumn
from ann_benchmarks.algorithms.postgres.table.tables import copy_vectors
from ann_benchmarks.algorithms.vchord.module import VectorChord
from ann_benchmarks.algorithms.vchordg.module import VectorChordGraph
from ann_benchmarks.data.ground_truth import exact_neighbors
from ann_benchmarks.plugin import Changes

from .postgres_fixtures import clustered, fitted

pytestmark = pytest.mark.thorough

K = 10
VECTORS = clustered(2030, 20, seed=7)
BITS = np.repeat(VECTORS, 5, axis=1) > np.tile([-1.0, -0.3, 0.1, 0.5, 1.0], 20)
DATA = {
    "manhattan": (VECTORS[30:], VECTORS[:30]),
    "hamming": (BITS[30:], BITS[:30]),
    "jaccard": (BITS[30:], BITS[:30]),
}
HNSW = {"M": 16, "efConstruction": 100}


def reference(data: str) -> np.ndarray:
    """All distances, (queries, rows), in float64 and by nothing but their definition."""
    train, queries = DATA[data]
    if data == "manhattan":
        return np.array([np.abs(train.astype(float) - q.astype(float)).sum(axis=1) for q in queries])
    if data == "hamming":
        return np.array([(train != q).sum(axis=1) / train.shape[1] for q in queries])
    return np.array([1 - (train & q).sum(axis=1) / (train | q).sum(axis=1) for q in queries])


def found_by(algorithm: PostgresANN, data: str) -> np.ndarray:
    """Distances of the rows that queries find, (queries, K)."""
    ids = algorithm.time_queries(DATA[data][1], K)[1]
    return np.take_along_axis(reference(data), np.array(ids), axis=1)


def true_distances(data: str) -> np.ndarray:
    return np.sort(reference(data), axis=1)[:, :K]


@pytest.mark.parametrize("data", DATA)
def test_truth_and_exact_search_are_the_reference(plugin_server: Server, data: str):
    expected = true_distances(data)
    ids, distances = exact_neighbors(data, *DATA[data], K, progress=False)
    np.testing.assert_allclose(distances, expected, rtol=1e-12)
    np.testing.assert_array_equal(
        np.take_along_axis(reference(data), ids, axis=1).argsort(kind="stable")[:, 0], 0
    )
    algorithm = PGVectorExact(data)
    with fitted(algorithm, DATA[data][0], 0):
        np.testing.assert_allclose(found_by(algorithm, data), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("data", "make", "effort"),
    [
        ("manhattan", lambda: PGVectorHNSW("manhattan", HNSW), 200),
        ("manhattan", lambda: PGVectorHNSW("manhattan", HNSW | {"form": "halfvec"}), 200),
        ("hamming", lambda: PGVectorHNSW("hamming", HNSW), 200),
        ("hamming", lambda: PGVectorIVFFlat("hamming", {"lists": 20}), 12),
        ("jaccard", lambda: PGVectorHNSW("jaccard", HNSW), 200),
    ],
    ids=["l1", "l1-half", "hamming", "hamming-ivf", "jaccard"],
)
def test_indexes_find_the_neighbours(plugin_server: Server, data: str, make, effort: int):
    algorithm = make()
    with fitted(algorithm, DATA[data][0], effort) as facts:
        found = found_by(algorithm, data)
        assert np.mean(found <= true_distances(data)[:, -1:] * 1.001) > 0.95
        # Equal rows share a node; a list ends with a page that is not full.
        slack = 20 * 8 if "IVF" in str(algorithm) else 0.08 * facts["estimated_index_size"]
        assert facts["index_size"] < facts["estimated_index_size"] + slack


def test_clients_send_bits(plugin_server: Server):
    train, queries = DATA["hamming"]
    algorithm = PGVectorHNSW("hamming", HNSW)
    with fitted(algorithm, train, 200):
        one_by_one = algorithm.time_queries(queries, K)[1]
        algorithm.batch_query(queries, K)
        assert algorithm.get_batch_results() == one_by_one


@pytest.mark.parametrize("dimension", [1, 7, 8, 9, 100])
def test_bits_are_stored_in_their_order(server: Server, dimension: int):
    column = BitColumn(dimension)
    train = np.random.default_rng(dimension).random((300, dimension)) < 0.5
    with server.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute(f"CREATE TEMP TABLE loaded (id int4, embedding {column.declared})")
        copy_vectors(connection, "loaded", train.astype(np.uint8), column, frozen=False)
        rows = connection.execute("SELECT embedding::text FROM loaded ORDER BY id").fetchall()
        assert [text for (text,) in rows] == ["".join("01"[int(bit)] for bit in row) for row in train]
        assert column.literal(train[3]) == rows[3][0]
        encode = column.parameter_encoder()
        answer = connection.pgconn.exec_params(
            b"SELECT id FROM loaded WHERE embedding = $1", [bytes(encode(train[3]))], param_formats=[1]
        )
        assert b"3" in [answer.get_value(row, 0) for row in range(answer.ntuples)]


def test_values_take_the_bytes_that_estimates_count(server: Server):
    columns = (BitColumn(100), VectorColumn(20), VectorColumn(20, "halfvec"))
    with server.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        for column, row in zip(columns, (BITS[0], VECTORS[0], VECTORS[0]), strict=True):
            sql = f"SELECT pg_column_size('{column.literal(row)}'::{column.declared})"
            assert connection.execute(sql).fetchone() == (column.value_bytes,)
            block = column.row_encoder(4).encode(0, np.array([row, row]))
            assert block.nbytes == 2 * column.row_bytes


def test_rows_of_bits_can_be_written(plugin_server: Server):
    algorithm = PGVectorHNSW("hamming", HNSW)
    with closing(algorithm.open_writable(BITS[:200], 300)) as table, closing(table.open_writers(2)) as crew:
        blocks = pairwise(range(200, 301, 50))
        changes = (Changes(None, np.zeros(50, int), np.arange(i, j), BITS[i:j]) for i, j in blocks)
        crew.prepare_changes(changes, 100, 60.0, False)
        crew.run()
        crew.written()
        with plugin_server.connect() as connection:
            rows = connection.execute(f"SELECT embedding::text FROM {table.name} ORDER BY id").fetchall()
        assert [text for (text,) in rows] == ["".join("01"[int(bit)] for bit in row) for row in BITS[:300]]
    algorithm.done()


def test_what_an_index_lacks_is_said_before_anything_is_loaded(plugin_server: Server):
    for make in (VectorChord, VectorChordGraph, PGVectorScale):
        with pytest.raises(PostgresError, match=f"{make.__name__} has no metric 'manhattan'.* euclidean"):
            make("manhattan")
    for metric in ("manhattan", "jaccard"):
        with pytest.raises(PostgresError, match=f"PGVectorIVFFlat has no metric '{metric}'.* hamming"):
            PGVectorIVFFlat(metric, {"lists": 10})
    for form in ("halfvec", "bit_jaccard"):
        with pytest.raises(PostgresError, match=f"form '{form}' is for vectors.*: leave it out for bit"):
            PGVectorHNSW("hamming", HNSW | {"form": form}).fit(BITS)
    with pytest.raises(PostgresError, match="up to 64,000 dimensions as bit, these have 64,001: use fewer"):
        pgvector_form("vector", "hamming", BitColumn(64_001))


def test_sets_are_refused():
    with pytest.raises(PostgresError, match="pgvector has no sets"):
        PGVectorHNSW("jaccard", HNSW).fit([np.array([1, 2])])
