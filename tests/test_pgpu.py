"""The pgpu plug-in on a real server with the real VectorChord; pgpu itself is the stand-in of pgpu_stand_in/.

The stand-in has pgpu's signatures, messages and effects, but its centroids are rows of the table and there is
no GPU: what is tested is the plug-in's side.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgpu.module import PGPU, stated_times
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.catalog import side_table
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.definitions.configs import read_config
from ann_benchmarks.definitions.definition import (
    Data,
    Definition,
    construct,
    get_definitions,
)

from .pgpu_stand_in import VERSION, calls_of_stand_in, fail, install_stand_in
from .postgres_fixtures import clustered, copied, fitted, measured_recall
from .programs import one_line, temporary_folder
from .vchord_archives import installation_with_vchord

pytestmark = pytest.mark.thorough

TRAIN = clustered(4000, 24, seed=18)
QUERIES = clustered(40, 24, seed=19)
SMALL = {"sampling_factor": 50}  # so that the rows suffice


@pytest.fixture(scope="module")
def own_server(made_server: Path) -> Iterator[tuple[Path, Server]]:
    """A server with VectorChord, and the installation that it runs from, to put extensions into."""
    with temporary_folder() as folder:
        installation = installation_with_vchord("1.1", folder)
        server = LocalServer(installation / "bin", copied(made_server, folder / "server"))
        server.start({"shared_buffers": "64MB"})
        yield installation, server
        server.stop()


@pytest.fixture
def newest(own_server: tuple[Path, Server], monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server that plug-ins find, with the stand-in, and with nothing built."""
    installation, server = own_server
    monkeypatch.setattr(servers, "_current", server)
    with server.connect() as connection:
        connection.execute("DROP EXTENSION IF EXISTS pgpu")
        connection.execute("DROP SCHEMA IF EXISTS ann_benchmarks CASCADE")
    install_stand_in(installation)
    yield server
    fail(server, "")


def relations(server: Server) -> set[str]:
    """Names of the tables and indexes of the project's schema."""
    with server.connect() as connection:
        found = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('ann_benchmarks')"
        )
        return {name for (name,) in found}


def options_of(server: Server, index: str) -> str:
    with server.connect() as connection:
        (options,) = connection.execute(
            "SELECT reloptions[1] FROM pg_class WHERE oid = %s::regclass", [index]
        ).fetchone()
        return options


def level_counts(server: Server, table: str) -> list[int]:
    """How many centroids each level of a table has below its root."""
    with server.connect() as connection:
        found = connection.execute(
            f"WITH RECURSIVE level (id, depth) AS (SELECT id, 0 FROM {table} WHERE parent IS NULL UNION ALL"
            f" SELECT child.id, depth + 1 FROM {table} AS child JOIN level ON child.parent = level.id)"
            " SELECT count(*) FROM level WHERE depth > 0 GROUP BY depth ORDER BY depth"
        )
        return [count for (count,) in found]


def recall(algorithm: Any, metric: str = "euclidean") -> float:
    return measured_recall(algorithm, TRAIN, QUERIES, metric)


# The call


@pytest.mark.parametrize(("metric", "operator"), [("euclidean", "l2"), ("angular", "cos"), ("ip", "ip")])
def test_an_index_that_finds(newest: Server, metric: str, operator: str):
    algorithm = PGPU(metric, SMALL | {"lists": 40})
    with fitted(algorithm, TRAIN, 40) as facts:
        assert recall(algorithm, metric) > 0.95
        assert facts["pgpu_version"] == VERSION
        assert facts["vchord_version"].startswith("1.1")
        assert facts["clustering_device"] == f"pgpu {VERSION}"
        assert (facts["clustering_batches_time"], facts["clustering_time"]) == (0.0025, 0.01234)
        assert 0 < facts["clustering_time"] < facts["index_build_time"]
        algorithm.set_query_arguments(1)
        assert recall(algorithm, metric) < 0.9
    (call,) = calls_of_stand_in(newest)
    assert call == {
        "lists": [40],
        "table_name": algorithm.table_name,
        "column_name": "embedding",
        "sampling_factor": 50,
        "batch_size": 100_000,
        "kmeans_iterations": 10,
        "kmeans_nredo": 1,
        "distance_operator": operator,
        "skip_index_build": True,
        "spherical_centroids": metric != "euclidean",
        "residual_quantization": False,
    }
    assert facts["clustering_sample"] == "first rows"


def test_every_argument_reaches_the_function(newest: Server):
    given = {
        "sampling_factor": 41,
        "batch_size": 3_000_000_000,
        "kmeans_iterations": 7,
        "kmeans_nredo": 2,
        "spherical_centroids": True,
    }
    algorithm = PGPU("euclidean", given | {"lists": [4, 60], "residual_quantization": True})
    with fitted(algorithm, TRAIN, "4,60"):
        assert recall(algorithm) > 0.95
        assert "residual_quantization = true" in options_of(newest, algorithm.index_name)
    (call,) = calls_of_stand_in(newest)
    assert call | given | {"lists": [4, 60]} == call


@pytest.mark.parametrize("rows", [800, 3000])
def test_automatic_lists_of_few_rows(newest: Server, rows: int):
    train = TRAIN[:rows]
    algorithm = PGPU("euclidean", {"lists": "auto"})
    with fitted(algorithm, train, 320):  # more than there are
        assert algorithm.lists == [max(rows // 500, 3)]
        assert measured_recall(algorithm, train, QUERIES) > 0.95


def test_an_index_is_built_once_and_again_for_other_arguments(newest: Server):
    arguments = SMALL | {"lists": 50}
    with fitted(PGPU("euclidean", arguments), TRAIN, 50) as first:
        assert not first["index_reused"]
    with fitted(PGPU("euclidean", arguments), TRAIN, 50) as again:
        assert again["index_reused"]
        assert again["clustering_time"] == first["clustering_time"]
        assert len(calls_of_stand_in(newest)) == 1
    with fitted(PGPU("euclidean", arguments | {"batch_size": 1000}), TRAIN, 50) as facts:
        assert not facts["index_reused"]
    algorithm = PGPU("euclidean", arguments)
    algorithm.set_build_options(rebuild=True)
    with fitted(algorithm, TRAIN, 50) as facts:
        assert not facts["index_reused"]
        assert recall(algorithm) > 0.95


def test_what_a_call_by_hand_has_left_is_replaced(newest: Server):
    algorithm = PGPU("euclidean", SMALL | {"lists": 52})
    with fitted(algorithm, TRAIN):
        table = algorithm.table_name
    with newest.connect() as connection:
        connection.execute(
            f"SELECT pgpu.create_vector_index_on_gpu('{table}', 'embedding', '{{9}}', 10,"
            " distance_operator => 'l2', skip_index_build => true)"
        )
    algorithm.set_build_options(rebuild=True)
    with fitted(algorithm, TRAIN, 52):
        assert recall(algorithm) > 0.95


# What goes wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"random_sampling": True}, "pgpu 2.1.0 does not take random_sampling"),
        ({"batchSize": 5}, "does not take batchSize: .*batch_size"),
        ({"table_name": "a.b"}, "does not take table_name: it takes lists"),
        ({"sampling_factor": 101}, "101 rows for each of 40 lists, 4,040 rows, but there are 4,000: "),
        ({"sampling_factor": 2**32}, "sampling_factor is 4294967296: .* 1 to 4,294,967,295"),
        ({"kmeans_iterations": 2**31}, "kmeans_iterations is .* to 2,147,483,647"),
        ({"lists": 2}, "pgpu makes 3 lists or more, not 2"),
        ({"lists": [2, 4, 60]}, "one level of lists or two, not"),
        ({"batch_size": "many"}, "batch_size is 'many': give a whole number"),
        ({"spherical_centroids": "many"}, 'gives up: .* boolean: "many"'),
        ({"kmeans_dimension": 9}, "kmeans_dimension cannot be given with centroids: pgpu"),
        ({"centroids": "internal"}, "pgpu 2.1.0 does not take centroids"),
        ([40], "takes its build arguments by name"),
    ],
)
def test_bad_arguments_are_one_line(newest: Server, arguments: Any, message: str):
    if isinstance(arguments, dict):
        arguments = {"lists": 40, **SMALL, **arguments}
    with one_line(message), fitted(PGPU("euclidean", arguments), TRAIN):
        pass


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("no-gpu", r"gives up: vectors->tensor .* \(the server needs an NVIDIA GPU"),
        ("memory", "pgpu 2.1.0 gives up: .*out_of_memory: CUDA error"),
    ],
)
def test_a_gpu_that_is_not_there_or_too_small_leaves_nothing_behind(
    newest: Server, failure: str, message: str
):
    with fitted(PGPU("euclidean", SMALL | {"lists": 40}), TRAIN):
        before = relations(newest)
    fail(newest, failure)
    algorithm = PGPU("euclidean", SMALL | {"lists": 43})
    with one_line(message), fitted(algorithm, TRAIN):
        pass
    assert relations(newest) == before
    fail(newest, "")
    with fitted(algorithm, TRAIN, 43):
        assert recall(algorithm) > 0.95


def test_a_coarse_centroid_without_a_list_is_left_out(newest: Server):
    fail(newest, "childless")
    algorithm = PGPU("euclidean", SMALL | {"lists": [4, 61]})
    with fitted(algorithm, TRAIN, "4,61"):
        assert level_counts(newest, side_table(algorithm.index_name)) == [3, 61]
        assert recall(algorithm) > 0.95


def test_rows_in_an_order_that_the_sample_suffers_from(newest: Server, capsys: pytest.CaptureFixture[str]):
    arguments = SMALL | {"lists": [4, 40]}
    with fitted(PGPU("euclidean", arguments), TRAIN) as facts:
        assert facts["clustering_sample_shift"] < 2 and facts["clustering_device"] == "pgpu 2.1.0"
        assert facts["clustering_consolidation"] == "l2"
    assert "warning" not in capsys.readouterr().out
    with fitted(PGPU("euclidean", arguments), TRAIN[np.argsort(TRAIN[:, 0])]) as facts:
        assert facts["clustering_sample_shift"] > 20
    assert (
        "warning: the first 2,000 rows, which pgpu samples, are unlike the others" in capsys.readouterr().out
    )


def test_a_version_without_the_function(newest: Server):
    with newest.connect() as connection:
        connection.execute("CREATE EXTENSION pgpu CASCADE")
        function = "create_vector_index_on_gpu"
        connection.execute(f"ALTER EXTENSION pgpu DROP FUNCTION pgpu.{function}")
        connection.execute(f"DROP FUNCTION pgpu.{function}")
    with pytest.raises(PostgresError, match=f"pgpu 2.1.0 has no function {function}: install a version"):
        PGPU("euclidean", SMALL | {"lists": 40}).fit(TRAIN)


# Times, and configurations


@pytest.mark.parametrize(
    ("message", "times"),
    [
        ("batches finished in 1.23s", {"clustering_batches_time": 1.23}),
        ("getting data finished in 45.60ms", {"clustering_batches_time": 0.0456}),
        ("clustering all samples finished in 123.40µs. SKIPPING", {"clustering_time": 123.4e-6}),
        ("\tStoring centroids took: 1.00s", {}),
    ],
)
def test_times_are_read_from_what_the_extension_says(message: str, times: dict[str, float]):
    assert stated_times(message) == pytest.approx(times)


def definitions(dataset: str, rows: int) -> list[Definition]:
    config = read_config(Path(DEFINITIONS_FOLDER) / "pgpu" / "config.yml")
    return get_definitions([config], Data(dataset, rows, 96, "euclidean", "float"), 10)


@pytest.mark.parametrize(
    ("dataset", "rows", "lists", "size", "queries"),
    [
        ("laion-5m", 5_000_000, [190, 35_000], 1_000_000, 15),
        ("laion-20m", 20_000_000, [190, 35_000], 1_000_000, 15),
        ("laion-100m", 100_000_000, [400, 160_000], 1_000_000, 15),
        ("laion-400m", 407_000_000, [400, 160_000], 1_000_000, 15),
        ("deep1b", 1_000_000_000, [550, 320_000], 5_000_000, 15),
    ],
)
def test_configurations_of_the_reports_tool(dataset: str, rows: int, lists: list, size: int, queries: int):
    (found,) = definitions(dataset, rows)
    given = found.arguments[1]
    assert (given["lists"], given["batch_size"], given["kmeans_iterations"]) == (lists, size, 30)
    assert given["sampling_factor"] * lists[-1] <= rows  # which pgpu refuses to exceed
    assert len(found.query_argument_groups) == queries


def test_two_mappings_for_one_index():
    (found,) = definitions("mine", 10**6)
    with pytest.raises(UserError, match="'pgpu' does not fit PGPU: too many .*; write .* as one mapping"):
        construct(replace(found, arguments=[*found.arguments, {"batch_size": 1000}]))


@pytest.mark.parametrize(
    ("rows", "levels"), [(1000, 1), (10**6, 1), (49_999_999, 1), (5 * 10**7, 2), (10**9, 2)]
)
def test_data_of_any_size_has_a_configuration_that_fits_it(rows: int, levels: int):
    (found,) = definitions("mine", rows)
    assert found.arguments[1]["lists"] == "auto"
    assert {len(str(probes).split(",")) for probes, _ in found.query_argument_groups} == {levels}
    lists = PGPU("euclidean", found.arguments[1]).lists_for(rows)
    assert len(lists) == levels
    assert lists[-1] * 256 <= rows
