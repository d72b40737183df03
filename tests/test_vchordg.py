"""VectorChord's graph index on the real extension, in the versions that the machine has archives of."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.statement import index_of_plan
from ann_benchmarks.algorithms.vchord.module import VectorChord
from ann_benchmarks.algorithms.vchordg.module import VectorChordGraph, index_bytes

from .conftest import ROOT
from .postgres_fixtures import clustered, fitted, measured_recall, planned
from .vchord_archives import server_with

pytestmark = pytest.mark.thorough

K = 10
TRAIN = clustered(2500, 48, seed=8)
QUERIES = clustered(40, 48, seed=9)
SMALL = {"m": 16, "ef_construction": 32}


@pytest.fixture(scope="module")
def server_1_1(made_server: Path) -> Iterator[Server]:
    yield from server_with("1.1", made_server)


@pytest.fixture
def vchord(server_1_1: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server that plug-ins find."""
    monkeypatch.setattr(servers, "_current", server_1_1)
    return server_1_1


@pytest.mark.parametrize(
    ("metric", "arguments", "least"),
    [
        ("euclidean", SMALL, 0.9),
        ("angular", SMALL | {"bits": 1, "alpha": [1.0, 1.1, 1.3]}, 0.7),
        ("ip", SMALL | {"beam_construction": 4}, 0.6),
        ("euclidean", SMALL | {"form": "halfvec"}, 0.9),
        ("angular", SMALL | {"form": "rabitq8"}, 0.8),
    ],
)
def test_finds_the_neighbours_of_its_metric(
    vchord: Server, metric: str, arguments: dict[str, Any], least: float
):
    algorithm = VectorChordGraph(metric, arguments)
    with fitted(algorithm, TRAIN, 200, 2) as facts:
        assert measured_recall(algorithm, TRAIN, QUERIES, metric) > least
        plan = planned(algorithm, QUERIES[0], K)
        assert index_of_plan(plan) == algorithm.index_name
        settings = json.loads(algorithm.get_additional()["settings"])
        assert (settings["vchordg.ef_search"], settings["vchordg.beam_search"]) == ("200", "2")
        assert facts["index_size"] / facts["estimated_index_size"] == pytest.approx(1, abs=0.03)
        assert facts["prewarmed_by"].endswith("vchordg_prewarm")
        algorithm.set_query_arguments(10)
        few = measured_recall(algorithm, TRAIN, QUERIES, metric)
        algorithm.set_query_arguments(100, 1, 50)
        assert measured_recall(algorithm, TRAIN, QUERIES, metric) >= few


def test_it_is_called_a_preview_when_it_is_built(vchord: Server, capsys: pytest.CaptureFixture[str]):
    other = {"m": 8, "ef_construction": 16}
    with fitted(VectorChordGraph("euclidean", other), TRAIN, 20):
        pass
    assert capsys.readouterr().out.count("VectorChord calls vchordg a preview") == 1
    algorithm = VectorChordGraph("euclidean", other)
    with fitted(algorithm, TRAIN, 20) as facts:
        assert facts["index_reused"]
        assert str(algorithm) == "VectorChordGraph(m=8, ef_construction=16, ef_search=20, beam_search=1)"
    assert "preview" not in capsys.readouterr().out
    with fitted(VectorChordGraph("euclidean", other | {"m": 7}), TRAIN) as facts:
        assert not facts["index_reused"]


def test_both_indexes_of_vectorchord_take_turns(vchord: Server):
    lists = VectorChord("euclidean", {"lists": 30})
    for algorithm, query in ((VectorChordGraph("euclidean", SMALL), 40), (lists, 30)) * 2:
        with fitted(algorithm, TRAIN, query):
            plan = planned(algorithm, QUERIES[0], K)
            assert index_of_plan(plan) == algorithm.index_name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"M": 16}, "has no build argument M: it has bits, m, alpha"),
        ({"m": 600}, "m is 600: give a whole number from 1 to 512"),
        ({"form": "bit"}, "form 'bit' is not known: use one of vector"),
        ({"alpha": [1.2]}, "refuses the index: error while validating options: .*alpha"),
        ({"alpha": 1.2}, r"alpha is 1.2: give numbers that ascend from 1.0, as \[\[1.0, 1.2\]\]"),
        ({"ef_construction": 0}, "ef_construction is 0: give a whole number from 1 to 65,535"),
    ],
)
def test_what_cannot_be_built(vchord: Server, arguments: dict[str, Any], message: str):
    with (
        pytest.raises(PostgresError, match=message) as caught,
        fitted(VectorChordGraph("euclidean", arguments), TRAIN),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_queries_that_mean_nothing():
    for arguments, message in (
        ((0,), "ef_search is 0"),
        ((10, 0), "beam_search is 0"),
        ((10, 1, 0), "rerank"),
    ):
        with pytest.raises(PostgresError, match=message):
            VectorChordGraph("euclidean").set_query_arguments(*arguments)


def test_sizes_of_vectors_that_are_cut_in_pieces():
    """At 3,000 dimensions, 12,000 bytes: 7,616 beside 32 neighbours, and 4,384 more."""
    page = 8192
    assert index_bytes(1, 3000, 12_000, 32, 2) == 4 * page
    codes = 32 + 2 * 8 * 47 + 16
    assert index_bytes(8160 // (codes + 4) * 10, 3000, 12_000, 32, 2) == (10 * (1 + 10 + 10) + 1) * page


def test_it_comes_with_the_release_of_the_other_index():
    of = {name: (ROOT / f"algorithms/{name}/release.yml").read_text() for name in ("vchord", "vchordg")}
    assert yaml.safe_load(of["vchord"]) == yaml.safe_load(of["vchordg"])
    files = [(ROOT / f"algorithms/{name}/Dockerfile").read_text() for name in of]
    assert files[0] == files[1]  # and so the images are one
