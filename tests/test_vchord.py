"""The VectorChord plug-in on the real extension, in the versions that the machine has archives of."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.catalog import drop_index
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.module import PostgresANN
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.vchord.arguments import VchordArguments, automatic_lists, index_bytes
from ann_benchmarks.algorithms.vchord.module import READS, VectorChord
from ann_benchmarks.algorithms.vchordg.module import VectorChordGraph
from ann_benchmarks.algorithms.vchordg.module import index_bytes as graph_bytes

from .conftest import ROOT
from .postgres_fixtures import clustered, copied, fitted, measured_recall, started
from .programs import one_line, temporary_folder, until
from .vchord_archives import installation_with_vchord, installation_without_vchord

pytestmark = pytest.mark.thorough

K = 10
TRAIN = clustered(6000, 48, seed=8)
QUERIES = clustered(40, 48, seed=9)
GIB = 1 << 30


@pytest.fixture(params=["old_vchord_server", "vchord_server"])
def vchord(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server that plug-ins find, with each version of VectorChord in turn."""
    server: Server = request.getfixturevalue(request.param)
    monkeypatch.setattr(servers, "_current", server)
    return server


@pytest.fixture
def newest(vchord_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The same with the newest version alone, for what is not up to VectorChord."""
    monkeypatch.setattr(servers, "_current", vchord_server)
    return vchord_server


def recall(algorithm: PostgresANN, metric: str = "euclidean") -> float:
    return measured_recall(algorithm, TRAIN, QUERIES, metric)


def test_a_graph_is_called_a_preview_when_it_is_built(newest: Server, capsys: pytest.CaptureFixture[str]):
    for said in (1, 0):
        with fitted(VectorChordGraph("euclidean", {"m": 9, "ef_construction": 16}), TRAIN, 20) as facts:
            assert facts["prewarmed_by"].endswith("vchordg_prewarm")
        assert capsys.readouterr().out.count("VectorChord calls vchordg a preview") == said


@pytest.mark.parametrize(("probes", "numbers"), [("", 0), (10, 1), ("1,2,3", 3)])
def test_probes_are_one_number_a_level(newest: Server, probes: Any, numbers: int):
    algorithm = VectorChord("euclidean", {"lists": [5, 60]})
    with fitted(algorithm, TRAIN), pytest.raises(PostgresError, match=rf"has {numbers} numbers, .* 2 levels"):
        algorithm.set_query_arguments(probes)


def test_codes_and_vectors_are_read_in_each_way(vchord: Server):
    algorithm = VectorChord("euclidean", {"lists": 60})
    with fitted(algorithm, TRAIN):
        found = []
        for way in READS:
            algorithm.set_query_arguments(10, io_search=way, io_rerank=way)
            assert algorithm.query_settings["vchordrq.io_search"] == way
            found.append([list(algorithm.query(query, K)) for query in QUERIES[:5]])
        assert found[0] == found[1] == found[2]
        with pytest.raises(PostgresError, match="io_rerank is 'mmap': use read_buffer, prefetch_buffer or"):
            algorithm.set_query_arguments(10, io_rerank="mmap")


def test_the_clustering_time_is_measured_and_stays_with_the_index(vchord: Server):
    arguments = {"lists": 50, "build_threads": 2}
    with fitted(VectorChord("euclidean", arguments | {"sampling_factor": 100}), TRAIN) as facts:
        assert 0 < facts["clustering_time"] < facts["index_build_time"]
        assert facts["clustering_memory"].endswith("iB")
        assert not facts["index_reused"]
    with fitted(VectorChord("euclidean", arguments | {"sampling_factor": 100}), TRAIN) as again:
        assert again["index_reused"]
        assert again["clustering_time"] == facts["clustering_time"]
        assert again["index_build_time"] == facts["index_build_time"]
    with fitted(VectorChord("euclidean", arguments | {"sampling_factor": 101}), TRAIN) as other:
        assert not other["index_reused"]


def test_the_library_is_loaded_without_the_user(vchord: Server):
    with fitted(VectorChord("euclidean", {"lists": 30}), TRAIN), vchord.connect() as connection:
        assert connection.execute("SHOW shared_preload_libraries").fetchone() == ("vchord",)


def test_another_run_of_another_plugin_on_the_same_table(made_server: Path, monkeypatch: pytest.MonkeyPatch):
    """PostgreSQL opens parked indexes, too, for which their library has to be there."""
    with temporary_folder() as folder:
        programs = installation_with_vchord("1.1", folder / "with") / "bin"
        programs_without = installation_without_vchord(folder / "without") / "bin"
        copied(made_server, folder / "server")
        for algorithm, query, place in (
            (VectorChord("euclidean", {"lists": 30}), (30,), programs),
            (PGVectorHNSW("euclidean", {"M": 8, "efConstruction": 32}), (40,), programs),
            (PGVectorHNSW("euclidean", {"M": 8, "efConstruction": 32}), (), programs_without),
        ):
            server = LocalServer(place, folder / "server")
            monkeypatch.setattr(servers, "_current", server)
            try:
                if query:
                    with fitted(algorithm, TRAIN, *query):
                        assert len(algorithm.query(QUERIES[0], K)) == K
                else:
                    with pytest.raises(PostgresError, match="needs the library 'vchord'.*no longer has"):
                        algorithm.fit(TRAIN)
            finally:
                algorithm.done()
                server.stop()


def test_what_the_server_warns_of_is_shown_and_kept(newest: Server, capsys: pytest.CaptureFixture[str]):
    with fitted(VectorChord("euclidean", {"lists": 30, "kmeans_dimension": 64}), TRAIN) as facts:
        assert "kmeans_dimension" in facts["build_notices"][0]
    assert "note: ignoring" in capsys.readouterr().out


def test_the_index_is_read_before_the_first_query(vchord: Server):
    algorithm = VectorChord("euclidean", {"lists": 30, "residual_quantization": True})
    with fitted(algorithm, TRAIN):
        pass
    vchord.restart({"shared_buffers": "64MB"})  # which forgets what was in memory
    with vchord.connect() as connection:
        connection.execute("SELECT pg_stat_reset()")
    with fitted(algorithm, TRAIN), vchord.connect() as connection:
        # A session's statistics arrive shortly after it has ended; vchordrq_prewarm leaves out the vectors.
        share = (
            "SELECT idx_blks_read + idx_blks_hit > pg_relation_size(indexrelid) / 8192 / 10"
            " FROM pg_statio_user_indexes WHERE indexrelid = %s::regclass"
        )
        until(lambda: connection.execute(share, [algorithm.index_name]).fetchone()[0])


# Centroids from outside


def tables_of_centroids(server: Server) -> set[str]:
    with server.connect() as connection:
        found = connection.execute("SELECT relname FROM pg_class WHERE relname LIKE '%%_idx_centroids'")
        return {name for (name,) in found.fetchall()}


@pytest.mark.parametrize("metric", ["euclidean", "angular", "ip"])
def test_centroids_that_are_computed_here(vchord: Server, metric: str):
    arguments = {"centroids": "cpu", "lists": 50, "residual_quantization": True, "kmeans_iterations": 5}
    algorithm = VectorChord(metric, arguments)
    with fitted(algorithm, TRAIN, 50) as facts:
        assert recall(algorithm, metric) > 0.95
        assert 0 < facts["clustering_time"] < facts["index_build_time"]
        assert facts["clustering_sample"] == len(TRAIN)
        assert facts["clustering_device"].startswith("cpu")
        assert 1 <= facts["clustering_imbalance"] < 3
        assert facts["clustering_inertia"] > 0
    with fitted(algorithm, TRAIN) as facts:
        assert facts["index_reused"] and facts["clustering_time"] > 0
    with fitted(VectorChord(metric, arguments | {"kmeans_iterations": 6}), TRAIN) as facts:
        assert not facts["index_reused"]


@pytest.mark.parametrize("form", ["vector", "halfvec"])
def test_computed_centroids_of_two_levels(vchord: Server, form: str):
    arguments = {"centroids": "cpu", "lists": [6, 60], "kmeans_algorithm": "hierarchical", "form": form}
    algorithm = VectorChord("euclidean", arguments)
    before = tables_of_centroids(vchord)
    with fitted(algorithm, TRAIN, "6,60"):
        assert recall(algorithm) > 0.95
        (table,) = tables_of_centroids(vchord) - before
        with vchord.connect() as connection:
            connection.execute(f"REINDEX INDEX {algorithm.index_name}")  # which reads that table again
            levels = connection.execute(
                f"SELECT count(*) FROM ann_benchmarks.{table} GROUP BY parent IS NULL, parent = 0 ORDER BY 1"
            ).fetchall()
        assert levels == [(1,), (6,), (60,)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"centroids": "cpu", "lists": 50, "kmeans_dimension": 8}, "kmeans_dimension cannot be given"),
        ({"centroids": "cpu"}, r"centroids: cpu has one level of lists or two, not \[\]: give lists"),
        ({"centroids": "cpu", "lists": [2, 9, 50]}, "has one level of lists or two"),
        ({"centroids": "gpu", "lists": 50}, "centroids: gpu: "),
        ({"centroids": "cpu", "lists": 50, "build_threads": 0}, "build_threads is 0: give a whole number"),
        ({"centroids": "cpu", "lists": 7000}, "7,000 lists for 6,000 rows: give fewer"),
        ({"centroids": "internal", "lists": 50, "seed": 1}, "seed cannot be given with centroids: internal"),
    ],
)
def test_centroids_that_cannot_be_computed_are_one_line(newest: Server, arguments: dict, message: str):
    before = tables_of_centroids(newest)
    with (
        one_line(message),
        fitted(VectorChord("euclidean", arguments), TRAIN),
    ):
        pass
    assert tables_of_centroids(newest) == before


def test_the_table_of_centroids_goes_with_its_index(vchord: Server):
    before = tables_of_centroids(vchord)
    algorithm = VectorChord("euclidean", {"centroids": "cpu", "lists": 33})
    algorithm.set_build_options(rebuild=True)
    for _ in range(2):
        with fitted(algorithm, TRAIN, 33):
            assert recall(algorithm) > 0.95
        assert len(tables_of_centroids(vchord) - before) == 1
    with vchord.connect() as connection:
        drop_index(connection, algorithm.index_name)
    assert tables_of_centroids(vchord) == before


# Versions


@pytest.mark.parametrize("form", ["rabitq8", "rabitq4"])
def test_what_1_0_lacks(old_vchord_server: Server, monkeypatch: pytest.MonkeyPatch, form: str):
    monkeypatch.setattr(servers, "_current", old_vchord_server)
    with pytest.raises(PostgresError, match=f"form '{form}' came with VectorChord 1.1, the server has 1.0.0"):
        VectorChord("euclidean", {"form": form}).fit(TRAIN)


@pytest.mark.parametrize("metric", ["euclidean", "angular", "ip"])
@pytest.mark.parametrize(("form", "least"), [("rabitq8", 0.9), ("rabitq4", 0.6)])
def test_what_1_1_has(newest: Server, form: str, least: float, metric: str):
    algorithm = VectorChord(metric, {"form": form, "lists": 30})
    with fitted(algorithm, TRAIN, 30):
        plain = recall(algorithm, metric)
        assert plain > least
        algorithm.set_query_arguments(30, 1.9, 60)
        assert recall(algorithm, metric) > max(plain, 0.93)


def test_without_the_extension_both_ways_to_get_it_are_named(
    made_server: Path, monkeypatch: pytest.MonkeyPatch
):
    with started(made_server, installation_without_vchord) as server:
        monkeypatch.setattr(servers, "_current", server)
        with pytest.raises(PostgresError) as caught:
            VectorChord("euclidean").fit(TRAIN)
    message = str(caught.value)
    assert message.startswith("the server does not have the extension 'vchord': `python install.py --local")
    assert "--algorithm vchord" in message
    assert "--archive FILE" in message
    assert "\n" not in message


# Sizes


@pytest.mark.parametrize(("rows", "dimension"), [(4000, 24), (20_000, 24), (4000, 200)])
@pytest.mark.parametrize("arguments", [{"lists": 20}, {}, {"lists": 20, "rerank_in_table": True}])
def test_the_estimate_is_what_is_built(vchord: Server, rows: int, dimension: int, arguments: dict):
    train = clustered(rows, dimension, seed=10)
    with fitted(VectorChord("euclidean", arguments), train) as facts:
        # In pages of 8 kB: one for each list, and eight for the first list of each of two more processes.
        room = (20 + 2 * 8) * 8
        assert facts["index_size"] == pytest.approx(facts["estimated_index_size"], rel=0.03, abs=room)


@pytest.mark.parametrize(
    ("rows", "dimension", "lists", "published"),
    [
        (10**9, 96, [400, 160_000], 469),
        (10**9, 96, [800, 640_000], 482),
        (10**8, 768, [400, 160_000], 400),
        (10**8, 768, [570, 320_000], 405),
        (5 * 10**6, 768, [50, 8000], 20),
        (5 * 10**6, 768, [190, 35_000], 21),
    ],
)
def test_the_estimate_is_that_of_the_published_indexes(
    rows: int, dimension: int, lists: list, published: int
):
    estimate = index_bytes(rows, dimension, lists[-1], sum(lists) + 1, 4 * dimension, False)
    assert estimate / GIB == pytest.approx(published, abs=0.6)


def test_lists_follow_vectorchords_advice():
    advice = {50_000: [], 100_000: [200], 1_000_000: [2000], 4_000_000: [8000], 10**9: [503, 252_982]}
    assert {rows: automatic_lists(rows) for rows in advice} == advice
    scaled = {10: [4], 12_500: [25], 50_000: [100], 10**6: [2000], 10**7: [20_000]}
    assert {rows: VchordArguments({"lists": "scaled"}, "ip").lists(rows) for rows in scaled} == scaled


def test_sizes_of_vectors_that_are_cut_in_pieces():
    """At 3,000 dimensions, 12,000 bytes: 7,616 beside 32 neighbours, and 4,384 more."""
    page = 8192
    assert graph_bytes(1, 3000, 12_000, 32, 2) == 4 * page
    codes = 32 + 2 * 8 * 47 + 16
    assert graph_bytes(8160 // (codes + 4) * 10, 3000, 12_000, 32, 2) == (10 * (1 + 10 + 10) + 1) * page


def test_it_comes_with_the_release_of_the_other_index():
    of = {name: (ROOT / f"algorithms/{name}/release.yml").read_text() for name in ("vchord", "vchordg")}
    assert yaml.safe_load(of["vchord"]) == yaml.safe_load(of["vchordg"])
    files = [(ROOT / f"algorithms/{name}/Dockerfile").read_text() for name in of]
    assert files[0] == files[1]  # and so the images are one
