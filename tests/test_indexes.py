"""What holds for every index, whichever extension it is from: a row of a table each, on a real server."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.pgvector_ivfflat.module import PGVectorIVFFlat
from ann_benchmarks.algorithms.pgvectorscale.module import PGVectorScale
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.session.statement import index_of_plan
from ann_benchmarks.algorithms.vchord.module import VectorChord
from ann_benchmarks.algorithms.vchordg.module import VectorChordGraph

from .postgres_fixtures import clustered, fitted, measured_recall, planned
from .programs import one_line

PAGE = Path(__file__).parents[1] / "docs/indexes.md"
METRICS = {
    "l2": "euclidean",
    "cosine": "angular",
    "ip": "ip",
    "l1": "manhattan",
    "hamming": "hamming",
    "jaccard": "jaccard",
}


def documented(index: str) -> set[tuple[str, str]]:
    """The types and metrics for which the column of an index has a version."""
    lines = [line.strip("| ") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    start = next(number for number, line in enumerate(lines) if line.startswith("type | metric |"))
    columns = [name.strip(" `") for name in lines[start].split("|")]
    found = set()
    for line in lines[start + 2 :]:
        types, metrics, *versions = (cell.strip() for cell in line.split("|"))
        if not types.startswith("`"):
            break
        if dict(zip(columns[2:], versions, strict=False)).get(index):
            names = re.findall(r"`(\w+)`", types)
            found |= {(name, metric) for name in names for metric in metrics.split(", ")}
    return found


def offered(server: Server, extension: str, method: str) -> set[tuple[str, str]]:
    """The types, but for sparsevec, and metrics that an access method has an operator class for."""
    sql = "SELECT opcname FROM pg_opclass JOIN pg_am ON pg_am.oid = opcmethod WHERE amname = %s"
    with server.connect() as connection:
        connection.execute(f"CREATE EXTENSION IF NOT EXISTS {extension} CASCADE")
        names = [name for (name,) in connection.execute(sql, [method])]
    matches = [re.fullmatch(r"(\w+?)_([a-z]+\d?)_ops", name) for name in names]
    known = [match for match in matches if match and match[2] in METRICS and match[1] != "sparsevec"]
    return {(match[1], METRICS[match[2]]) for match in known}


K = 10
TRAIN = clustered(3000, 32, seed=4)
QUERIES = clustered(30, 32, seed=5)
# Fixtures that give servers
PGVECTOR, OLD_VECTORCHORD = "server", "old_vchord_server"
VECTORCHORD, VECTORSCALE = "vchord_server", "vectorscale_server"
HNSW = {"M": 16, "efConstruction": 64}
GRAPH = {"m": 16, "ef_construction": 32}
DISKANN = {"num_neighbors": 20, "search_list_size": 40}
PLAIN = {"storage_layout": "plain"}
VALID_INDEXES = "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = %s::regclass AND indisvalid"


@pytest.fixture
def current(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server that a row names, which plug-ins find."""
    server: Server = request.getfixturevalue(request.param)
    monkeypatch.setattr(servers, "_current", server)
    return server


def each(names: str, *rows: tuple[Any, ...]) -> pytest.MarkDecorator:
    """A test of these rows, each of which begins with its server."""
    marked = [pytest.param(*row, marks=() if row[0] == PGVECTOR else pytest.mark.thorough) for row in rows]
    return pytest.mark.parametrize(f"current,{names}".rstrip(","), marked, indirect=["current"])


def made(plugin: Any, metric: str, arguments: Any) -> Any:
    return plugin(metric) if arguments is None else plugin(metric, arguments)


# The server, the plug-in, its build arguments, query arguments, and the least recall by each metric. Long
# vectors are everybody's neighbours by inner product, which costs a graph some recall.
FORMS: list[tuple[str, Any, Any, tuple[Any, ...], dict[str, float]]] = [
    (PGVECTOR, PGVectorHNSW, HNSW, (400,), {"euclidean": 0.98, "angular": 0.98, "ip": 0.93}),
    (PGVECTOR, PGVectorHNSW, HNSW | {"form": "halfvec"}, (400,), {"angular": 0.97, "ip": 0.92}),
    (PGVECTOR, PGVectorHNSW, HNSW | {"form": "bit_hamming"}, (800,), {"euclidean": 0.75, "ip": 0.7}),
    (PGVECTOR, PGVectorHNSW, HNSW | {"form": "bit_jaccard"}, (800,), {"euclidean": 0.75, "angular": 0.75}),
    (PGVECTOR, PGVectorIVFFlat, {"lists": 30}, (30,), {"euclidean": 0.99, "angular": 0.99, "ip": 0.94}),
    (PGVECTOR, PGVectorIVFFlat, {"lists": 30, "form": "halfvec"}, (30,), {"euclidean": 0.97, "ip": 0.92}),
    (PGVECTOR, PGVectorIVFFlat, {"lists": 30, "form": "bit_hamming"}, (30, 800), {"angular": 0.75}),
    (PGVECTOR, PGVectorExact, None, (0,), {"euclidean": 0.999, "angular": 0.999, "ip": 0.999}),
    (VECTORSCALE, PGVectorScale, {}, (40, 1000), {"euclidean": 0.9}),
    (VECTORSCALE, PGVectorScale, DISKANN, (40, 1000), {"angular": 0.9, "ip": 0.8}),
    (VECTORSCALE, PGVectorScale, DISKANN | {"num_bits_per_dimension": 1, "max_alpha": 1.5}, (40, 1000),
     {"euclidean": 0.7}),
    (VECTORSCALE, PGVectorScale, DISKANN | PLAIN, (400,), {"euclidean": 0.97, "angular": 0.97}),
    (VECTORCHORD, VectorChordGraph, GRAPH, (200, 2), {"euclidean": 0.9}),
    (VECTORCHORD, VectorChordGraph, GRAPH | {"bits": 1, "alpha": [1.0, 1.1]}, (200, 2), {"angular": 0.7}),
    (VECTORCHORD, VectorChordGraph, GRAPH | {"beam_construction": 4}, (200, 2), {"ip": 0.6}),
    (VECTORCHORD, VectorChordGraph, GRAPH | {"form": "halfvec"}, (200, 2), {"euclidean": 0.9}),
    (VECTORCHORD, VectorChordGraph, GRAPH | {"form": "rabitq8"}, (200, 2), {"angular": 0.8}),
    *(
        (server, VectorChord, arguments, query, dict.fromkeys(metrics, 0.94))
        for arguments, query, metric in (
            ({}, ("", 1.9), "euclidean"),  # a bound that a few codes exceed
            ({"lists": 30, "residual_quantization": True}, (30, 1.9), "angular"),
            (
                {"lists": [5, 60], "kmeans_algorithm": "hierarchical", "sampling_factor": 64, "pin": 2},
                ("5,60",),
                "ip",
            ),
            ({"lists": 30, "rerank_in_table": True, "kmeans_algorithm": "lloyd"}, (30,), "euclidean"),
            ({"lists": 30, "form": "halfvec", "kmeans_dimension": 16, "kmeans_iterations": 5}, ([30],), "ip"),
        )
        for server, metrics in ((VECTORCHORD, ("euclidean", "angular", "ip")), (OLD_VECTORCHORD, [metric]))
    ),
]  # fmt: skip


@each(
    "plugin,arguments,query,metric,least",
    *((*form, metric, least) for *form, leasts in FORMS for metric, least in leasts.items()),
)
def test_every_form_finds_the_neighbours_of_its_metric(
    current: Server, plugin: Any, arguments: Any, query: tuple[Any, ...], metric: str, least: float
):
    algorithm = made(plugin, metric, arguments)
    with fitted(algorithm, TRAIN, *query) as facts:
        assert measured_recall(algorithm, TRAIN, QUERIES, metric) >= least
        assert index_of_plan(planned(algorithm, QUERIES[0], K)) == algorithm.index_name
        if plugin in (PGVectorScale, VectorChordGraph):
            assert facts["index_size"] / facts["estimated_index_size"] == pytest.approx(1, abs=0.03)


# The server, the plug-in, its build arguments, one that makes another index, query arguments with what they
# set on the server, the name, and query arguments that find less and more.
INDEXES: list[tuple[Any, ...]] = [
    (PGVECTOR, PGVectorHNSW, {"M": 6, "efConstruction": 20}, {"M": 7}, (17,), {"hnsw.ef_search": "17"},
     "PGVectorHNSW(m=6, ef_construction=20, ef_search=17)", (10,), (200,)),
    (PGVECTOR, PGVectorIVFFlat, {"lists": 21}, {"lists": 22}, (7,), {"ivfflat.probes": "7"},
     "PGVectorIVFFlat(lists=21, probes=7)", (1,), (21,)),
    (PGVECTOR, PGVectorHNSW, HNSW | {"form": "bit_hamming"}, {"M": 7}, (200, 60), {"hnsw.ef_search": "200"},
     "PGVectorHNSW(form=bit_hamming, m=16, ef_construction=64, ef_search=200, rerank=60)",
     (400, 10), (400, 400)),
    (VECTORCHORD, VectorChord, {"lists": [5, 60]}, {"sampling_factor": 101}, ("1,2", 1.5),
     {"vchordrq.probes": "1,2", "vchordrq.epsilon": "1.5"},
     "VectorChord(lists=[5, 60], probes=1,2, epsilon=1.5)", ("5,60", 0.0), ("5,60", 1.5)),
    (VECTORCHORD, VectorChordGraph, {"m": 8, "ef_construction": 16}, {"m": 7}, (20, 2),
     {"vchordg.ef_search": "20", "vchordg.beam_search": "2"},
     "VectorChordGraph(m=8, ef_construction=16, ef_search=20, beam_search=2)", (10,), (100, 1, 50)),
    (VECTORSCALE, PGVectorScale, DISKANN, {"max_alpha": 1.1}, (10, 400),
     {"diskann.query_search_list_size": "10", "diskann.query_rescore": "400"},
     "PGVectorScale(num_neighbors=20, search_list_size=40, query_search_list_size=10, query_rescore=400)",
     (400, 0), (10, 400)),
]  # fmt: skip


@each("plugin,arguments,change,query,settings,name,little,much", *INDEXES)
def test_an_index_is_found_by_its_arguments_and_queried_by_others(
    current: Server,
    plugin: Any,
    arguments: dict[str, Any],
    change: dict[str, Any],
    query: tuple[Any, ...],
    settings: dict[str, str],
    name: str,
    little: tuple[Any, ...],
    much: tuple[Any, ...],
):
    with fitted(plugin("euclidean", arguments), TRAIN) as first:
        pass
    algorithm = plugin("euclidean", arguments)
    with fitted(algorithm, TRAIN, *query) as again:
        assert again["index_reused"]
        for fact in ("build_time", "index_build_time", "load_time", "index_size"):
            assert again[fact] == first[fact] > 0
        assert again["build_time"] == again["load_time"] + again["index_build_time"]
        algorithm.query(QUERIES[0], K)
        assert json.loads(algorithm.get_additional()["settings"]).items() >= settings.items()
        assert str(algorithm) == name
        algorithm.set_query_arguments(*little)
        few = measured_recall(algorithm, TRAIN, QUERIES)
        algorithm.set_query_arguments(*much)
        assert measured_recall(algorithm, TRAIN, QUERIES) > few + 0.01
    with fitted(plugin("euclidean", arguments | change), TRAIN) as other:
        assert not other["index_reused"]


@each("", (PGVECTOR,), (VECTORCHORD,), (VECTORSCALE,))
def test_all_share_one_table_and_only_the_index_under_test_is_planned(
    current: Server, request: pytest.FixtureRequest
):
    """A parked vchordrq would refuse every query whose probes are not its own."""
    here = request.node.callspec.params["current"]
    rows = [(plugin, arguments, query) for place, plugin, arguments, _, query, *_ in INDEXES if place == here]
    rows += [(PGVectorHNSW, HNSW, (40,)), (PGVectorExact, None, (0,))]
    tables = set()
    for plugin, arguments, query in (*rows, *rows):
        algorithm = made(plugin, "euclidean", arguments)
        with fitted(algorithm, TRAIN, *query) as facts, current.connect() as connection:
            tables.add((algorithm.table_name, facts["load_time"]))
            assert index_of_plan(planned(algorithm, QUERIES[0], K)) == algorithm.index_name
            valid = connection.execute(VALID_INDEXES, [algorithm.table_name]).fetchall()
            assert [name for (name,) in valid] == [name for name in [algorithm.index_name] if name]
    assert len(tables) == 1


LISTS = "give a whole number from 1 to 32,768"
REFUSED: list[tuple[str, Any, str, Any, str]] = [
    (server, plugin, metric, arguments, message)
    for server, plugin, rows in (
        (PGVECTOR, PGVectorHNSW, (
            ("ip", HNSW | {"form": "fp16"}, "form 'fp16' is not known: use one of vector, halfvec"),
            ("ip", {"M": 1, "efConstruction": 9}, "M is 1: give a whole number from 2 to 100"),
            ("ip", {"M": None, "efConstruction": 9}, "M is None: give a whole number"),
            ("ip", {"M": 16, "efConstuction": 64}, "no build argument efConstuction: it has M"),
            ("chebyshev", HNSW, "has no metric 'chebyshev': it has euclidean, angular, ip, man"),
            ("ip", 16, "takes its build arguments by name"),
        )),
        (PGVECTOR, PGVectorIVFFlat, (
            ("ip", {"lists": 3, "form": "bit_jaccard"}, "form 'bit_jaccard' is not known: use one of"),
            ("ip", {"lists": 40_000}, f"lists is 40000: {LISTS}"),
            ("ip", {"lists": "many"}, f"lists is 'many': {LISTS}"),
            ("ip", {"list": 3}, "no build argument list: it has lists, form"),
        )),
        (VECTORCHORD, VectorChord, (
            ("ip", {"lists": [60, 5]}, r"lists is \[60, 5\]: give auto, scaled, a number, or one for each"),
            ("ip", {"lists": None}, "lists is None: give auto"),
            ("ip", {"lists": 5.5}, r"lists is 5\.5: give auto"),
            ("ip", {"list": 5}, "no build argument list: it has .*lists"),
            ("ip", {"kmeans_algorithm": "fast"}, "kmeans_algorithm is 'fast': use lloyd or hierarchical"),
            ("ip", {"form": "bit"}, "form 'bit' is not known: use one of vector, halfvec"),
            ("ip", {"centroids": "no/such.npy"}, "centroids: no/such.npy is unknown: use one of internal, "),
            ("ip", {"centroids": 5}, "centroids: 5 is unknown"),
            ("ip", {"lists": 7000}, "7,000 lists for 3,000 rows: give fewer"),
            ("ip", [1], "takes its build arguments by name"),
            ("ip", {"lists": 5, "sampling_factor": 5000}, "refuses the index: .*sampling_factor"),
            ("ip", {"lists": 5, "build_threads": "two"}, "refuses the index: failed to parse options.*two"),
        )),
        (VECTORCHORD, VectorChordGraph, (
            ("ip", {"M": 16}, "has no build argument M: it has bits, m, alpha"),
            ("ip", {"m": 600}, "m is 600: give a whole number from 1 to 512"),
            ("ip", {"form": "bit"}, "form 'bit' is not known: use one of vector"),
            ("ip", {"alpha": [1.2]}, "refuses the index: error while validating options: .*alpha"),
            ("ip", {"alpha": 1.2}, r"alpha is 1.2: give numbers that ascend from 1.0, as \[\[1.0, 1.2\]\]"),
            ("ip", {"ef_construction": 0}, "ef_construction is 0: give a whole number from 1 to 65,535"),
        )),
        (VECTORSCALE, PGVectorScale, (
            ("ip", {"num_neighbours": 20}, "has no build argument num_neighbours: it has num_neighbors"),
            ("ip", {"num_neighbors": 5}, "num_neighbors is 5: give a whole number from 10 to 1,000"),
            ("ip", {"search_list_size": "10"}, "search_list_size is '10': give a number"),
            ("ip", {"max_alpha": 9}, "refuses the index: value 9 out of bounds for option"),
            ("ip", {"storage_layout": "plane"}, "storage_layout is 'plane': use memory_optimized or"),
            ("ip", PLAIN, "Inner product distance type is not supported with plain"),
            ("euclidean", PLAIN | {"num_neighbors": 1000}, "takes 8,[0-9]+ bytes, a page has 8,156"),
            ("euclidean", {"num_bits_per_dimension": 33}, "out of bounds for option"),
        )),
    )
    for metric, arguments, message in rows
]  # fmt: skip


@each("plugin,metric,arguments,message", *REFUSED)
def test_what_cannot_be_built_is_one_line(
    current: Server, plugin: Any, metric: str, arguments: Any, message: str
):
    with one_line(message), fitted(plugin(metric, arguments), TRAIN):
        pass


BITS = {"form": "bit_hamming"}


@pytest.mark.parametrize(
    ("plugin", "arguments", "query", "message"),
    [
        (PGVectorIVFFlat, BITS | {"lists": 3}, (3,), "a second query argument"),
        (PGVectorHNSW, HNSW | BITS, (40, 50), "up to ef_search = 40 candidates.*make 50"),
        (PGVectorHNSW, HNSW | BITS, (40, "all"), "rerank is 'all': give a whole number"),
        *(
            (VectorChord, {"lists": [5, 60]}, (probes,), "give a number from 1 on for each level")
            for probes in (-5, "0,3", "few", 1.5, "1;2")
        ),
        (VectorChordGraph, {}, (0,), "ef_search is 0"),
        (VectorChordGraph, {}, (10, 0), "beam_search is 0"),
        (VectorChordGraph, {}, (10, 1, 0), "rerank"),
        (PGVectorScale, {}, (0,), "query_search_list_size is 0: give a whole number from 1 to 10,000"),
        (PGVectorScale, {}, (10, 2000), "query_rescore is 2000"),
        (PGVectorScale, PLAIN, (10, 10), "plain has exact distances: leave query_rescore out"),
    ],
)
def test_query_arguments_that_mean_nothing_are_one_line(
    plugin: Any, arguments: dict[str, Any], query: tuple[Any, ...], message: str
):
    with one_line(message):
        plugin("euclidean", arguments).set_query_arguments(*query)


@each(
    "extension,column",
    (PGVECTOR, "vector", "HNSW"),
    (PGVECTOR, "vector", "IVFFlat"),
    (VECTORCHORD, "vchord", "vchordrq"),
    (VECTORCHORD, "vchord", "vchordg"),
    (VECTORSCALE, "vectorscale", "diskann"),
)
def test_the_documented_metrics_are_those_of_the_extension(current: Server, extension: str, column: str):
    if extension == "vchord":
        current.preload("vchord")
    assert documented(column) == offered(current, extension, column.lower())
