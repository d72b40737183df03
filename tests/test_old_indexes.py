"""Tables and indexes that were built by version 0.1.0 are found: their names are what it gave them."""

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.pgvector_ivfflat.module import PGVectorIVFFlat
from ann_benchmarks.algorithms.postgres import catalog
from ann_benchmarks.algorithms.postgres.table import VectorColumn
from ann_benchmarks.algorithms.postgres.table.tables import fingerprint

pytestmark = pytest.mark.thorough

HALF = {"M": 8, "efConstruction": 32, "form": "halfvec"}


@pytest.mark.parametrize(
    ("algorithm", "hashed"),
    [
        (PGVectorHNSW("angular", {"M": 16, "efConstruction": 64}), "1a552e571b16"),
        (PGVectorHNSW("euclidean", HALF), "9c6893db03e2"),
        (PGVectorIVFFlat("euclidean", {"lists": 10}), "5b38694db514"),
    ],
)
def test_the_names_of_tables_and_indexes_stay(algorithm: PGVectorHNSW | PGVectorIVFFlat, hashed: str):
    train = np.arange(8000, dtype=np.float32).reshape(1000, 8)
    table = catalog.table_name(fingerprint(train), "vector")
    assert table == "ann_benchmarks.items_66d6e1da9ae4"
    algorithm._indexed.column = VectorColumn(8)
    index = algorithm.index(*train.shape)
    server = {
        "versions": {"postgres": "18.1", "vector": "0.8.1"},
        "settings": {"maintenance_work_mem": "64MB"},
    }
    assert catalog.index_name(table, index.built_from() | server) == f"{table}_{hashed}_idx"
