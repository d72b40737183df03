"""What the embedded server of before has left: taken over, told apart, and not broken."""

from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.pgvector_ivfflat.module import PGVectorIVFFlat
from ann_benchmarks.algorithms.postgres import catalog, servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers.installation import Installation
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.programs import built_version, embedded_installation
from ann_benchmarks.algorithms.postgres.table import VectorColumn
from ann_benchmarks.algorithms.postgres.table.tables import fingerprint

from .postgres_fixtures import SMALL, clustered, fitted, measured_recall

pytestmark = pytest.mark.thorough

TRAIN = clustered(1_000, 8)
ARGUMENTS = {"M": 8, "efConstruction": 32}


def facts_of(installation: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What is stored with the points of an index, which is built, or found, in a server's folder."""
    server = LocalServer(installation / "bin", folder)
    monkeypatch.setattr(servers, "_current", server)
    server.start(SMALL)
    try:
        algorithm = PGVectorHNSW("euclidean", ARGUMENTS)
        with fitted(algorithm, TRAIN, 40) as facts:
            assert measured_recall(algorithm, TRAIN, TRAIN[:20]) > 0.9
        return facts
    finally:
        server.stop()


def test_its_data_folder_is_used_on_and_its_index_is_another_one(
    older_installations: tuple[Path, Path], new_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    older, newer = older_installations[0], embedded_installation()
    first = facts_of(older, new_folder, monkeypatch)
    said = capsys.readouterr().out
    assert "loaded 1,000 rows" in said and "index built in" in said
    second = facts_of(newer, new_folder, monkeypatch)
    said = capsys.readouterr().out
    assert "index built in" in said and "loaded" not in said
    for facts, installation in ((first, older), (second, newer)):
        assert facts["postgres_version"] == built_version(installation)
        assert facts["vector_version"] == Installation(installation).version_of("vector")
    assert first["postgres_version"] != second["postgres_version"]
    facts_of(newer, new_folder, monkeypatch)
    said = capsys.readouterr().out
    assert "index built in" not in said and "loaded" not in said
    with pytest.raises(PostgresError, match="data folder was used with vector .*: name another folder"):
        facts_of(older, new_folder, monkeypatch)


# Tables and indexes that were built by version 0.1.0 are found: their names are what it gave them.


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
