"""What the embedded server of before has left: taken over, told apart, and not broken."""

from pathlib import Path

import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers.installation import Installation
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.programs import built_version, embedded_installation

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
