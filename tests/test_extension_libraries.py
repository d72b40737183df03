"""An extension whose library nobody preloads and whose file name carries a version, as pgvectorscale's does.

It is a copy of pgvector's library with other names of its settings, so that it is a real access method.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.forms import vector_form
from ann_benchmarks.algorithms.postgres.module import Index, PostgresANN
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.installation import Installation
from ann_benchmarks.algorithms.postgres.session.statement import load_libraries

from .client_answers import by_clients
from .postgres_fixtures import clustered, fitted, started
from .vchord_archives import copied_installation

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform != "linux", reason="patches a library for Linux"),
]
TRAIN = clustered(500, 8, seed=2)
SCRIPT = """
CREATE FUNCTION twinhandler(internal) RETURNS index_am_handler AS 'MODULE_PATHNAME', 'hnswhandler' LANGUAGE C;
CREATE ACCESS METHOD twin TYPE INDEX HANDLER twinhandler;
CREATE OPERATOR CLASS vector_l2_ops FOR TYPE vector USING twin AS
    OPERATOR 1 <-> (vector, vector) FOR ORDER BY float_ops,
    FUNCTION 1 vector_l2_squared_distance(vector, vector);
"""


class Twin(PostgresANN):
    extension = "twin"

    def index(self, rows: int, dimension: int) -> Index:
        return Index(method="twin", form=vector_form(self.metric, dimension), options={"m": 8})

    def set_query_arguments(self, ef_search: int, name: str = "ef_search") -> None:
        self.set_query_settings({f"twin.{name}": ef_search})


def install_twin(folder: Path) -> Path:
    installation = Installation(copied_installation(folder))
    library = (installation.libraries / "vector.so").read_bytes()
    renamed = library.replace(b"\0hnsw.", b"\0twin.").replace(b"\0ivfflat.", b"\0twinflt.")
    (installation.libraries / "twin-1.2.so").write_bytes(renamed)
    extensions = installation.extensions
    (extensions / "twin--1.2.sql").write_text(SCRIPT)
    (extensions / "twin.control").write_text(
        "default_version = '1.2'\nmodule_pathname = '$libdir/twin-1.2'\nrequires = 'vector'\n"
    )
    return installation.folder


@pytest.fixture(scope="module")
def twin_server(made_server: Path) -> Iterator[Server]:
    with started(made_server, install_twin) as server:
        yield server


@pytest.fixture
def server(twin_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(servers, "_current", twin_server)
    return twin_server


def settings_of(connection, prefix: str) -> set[str]:
    rows = connection.execute("SELECT name FROM pg_settings WHERE starts_with(name, %s)", [prefix])
    return {name for (name,) in rows.fetchall()}


def test_every_session_has_the_settings_of_the_extensions_library(server: Server, monkeypatch):
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SETTINGS", "twin.scan_mem_multiplier=3")
    algorithm = Twin("euclidean")
    with fitted(algorithm, TRAIN, 37):
        assert algorithm.query(TRAIN[5], 3)[0] == 5
        settings = json.loads(algorithm.get_additional()["settings"])
        assert (settings["twin.ef_search"], settings["twin.scan_mem_multiplier"]) == ("37", "3")
        assert "shared_preload_libraries" not in settings
        assert len(by_clients(algorithm, TRAIN[:9], 3, 2)[0]) == 9
        algorithm.set_query_arguments(37, "no_such")
        with pytest.raises(PostgresError, match=r"twin\.no_such"):
            algorithm.query(TRAIN[0], 3)
        algorithm.set_query_arguments(0)
        with pytest.raises(PostgresError, match=r"refuses twin\.ef_search = 0: .*outside the valid range"):
            algorithm.query(TRAIN[0], 3)


def test_writers_have_them_too(server: Server, monkeypatch):
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SETTINGS", "twin.scan_mem_multiplier=0")
    algorithm = Twin("euclidean")
    with closing(algorithm.open_writable(TRAIN[:100], 100)) as table:
        with pytest.raises(PostgresError, match="0 is outside the valid range"):
            table.open_writers(1)
        algorithm.done()


def test_an_ordinary_user_can_load_them(server: Server):
    with server.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS twin CASCADE")
        connection.execute("CREATE ROLE ordinary")
    with server.connect() as connection:
        connection.execute("SET ROLE ordinary")
        load_libraries(connection, [])
        assert not settings_of(connection, "twin.")
        assert "hnsw.ef_search" in settings_of(connection, "hnsw.")
        load_libraries(connection, ["vector", "twin"])
        assert "twin.ef_search" in settings_of(connection, "twin.")
