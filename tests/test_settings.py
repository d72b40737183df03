"""Values of a server's setting as contenders: named where there are several, on one index, in turn."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres import settings as server_settings
from ann_benchmarks.algorithms.postgres.environment import use_settings
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from ann_benchmarks.commands.run import every_job
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.definitions.selection import apply_settings, read_setting
from ann_benchmarks.fields.series import Series
from ann_benchmarks.jobs.job import JobRequest
from ann_benchmarks.measure.rounds import Contenders, Enter, Keep, Turn
from ann_benchmarks.results.environment import add_settings, environment_of
from ann_benchmarks.results.file import iter_result_paths, read_attributes
from ann_benchmarks.results.warnings import server_warnings
from ann_benchmarks.run.request import read_request

from .conftest import make_dataset
from .postgres_fixtures import clustered, fitted
from .report_data import make_run

pytestmark = pytest.mark.thorough

SET = """
def use_settings(self, settings): self.settings = dict(settings)
def get_additional(self):
    return {"server": "embedded", "given_settings": __import__("json").dumps(self.settings)}
@classmethod
def server_environment(cls): return {"server": "embedded", "given_settings": "{}"}
def query(self, q, n):
    time.sleep(0.002 if self.settings.get("jit") == "on" else 0.001)
    return list(range(n))
"""
PLAIN = Definition("hnsw", "C", "m", "t", [16], [[1], [2]], False)


def folders() -> list[str]:
    return sorted({path.parent.name for path in iter_result_paths()})


def test_a_setting_is_read() -> None:
    assert read_setting("JIT = on, off,on") == ("jit", ["on", "off"])
    assert read_setting("hnsw.iterative_scan=off") == ("hnsw.iterative_scan", ["off"])


@pytest.mark.parametrize(
    "text", ["jit", "=on", "jit=", "jit=on,", "jit=on,,off", "a b=1", "x=a\nb", "a..b=1"]
)
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="must be a setting: give NAME=VALUE"):
        read_setting(text)


def test_each_combination_is_a_contender_that_is_named_by_what_differs() -> None:
    settings = [("jit", ["on", "off"]), ("work_mem", ["64 MB"]), ("io_method", ["a/b", "sync"])]
    found = apply_settings([PLAIN], settings)
    assert [one.family for one in found] == [
        f"hnsw-jit={jit}-io_method={method}" for jit in ("on", "off") for method in ("a-b", "sync")
    ]
    assert found[0].settings == {"jit": "on", "work_mem": "64 MB", "io_method": "a/b"}
    assert all(one.plain == PLAIN for one in found)
    (alone,) = apply_settings([PLAIN], [("jit", ["on"])])
    assert (alone.family, alone.settings) == ("hnsw", {"jit": "on"})
    series = Series("hnsw", "0.8", clients=4, settings=found[0].variant)
    assert series.label == "hnsw-0.8-jit=on-io_method=a-b-c4" and series.conditions == "-c4"


def test_values_are_measured_in_turn_and_compared(workspace) -> None:
    workspace.add_plugin("db", SET, {"args": [[1, 2]]})
    arguments = ("--rounds", "5", "--setting", "jit=on,off", "work_mem=1MB", "--max-n-algorithms", "1")
    done = workspace.run(*arguments)
    assert done.returncode == 0 and "failed" not in done.stderr
    assert folders() == ["db-jit=off", "db-jit=on"]
    points = [read_attributes(path) for path in iter_result_paths()]
    assert len(points) == 2 and len({attrs["rounds"] for attrs in points}) == 1  # one index of two, twice
    assert {json.loads(attrs["given_settings"])["jit"] for attrs in points} == {"on", "off"}
    assert [environment_of(attrs)["settings"] for attrs in points] == [{"work_mem": "1MB"}] * 2
    again = workspace.run(*arguments)
    assert "nothing to do: 2 points finished before" in again.stdout
    assert "2 points" in workspace.run(*arguments, "--setting", "io_method=sync").stdout


def test_one_value_names_nothing_and_is_of_another_environment(workspace) -> None:
    workspace.add_plugin("db", SET)
    assert workspace.run().returncode == 0
    done = workspace.run("--setting", "jit=on")
    assert folders() == ["db", "db@jit=on"] and "here is jit=on" in done.stderr
    assert "nothing to do" in workspace.run("--setting", "jit=on").stdout


def test_what_runs_no_server_is_refused(workspace) -> None:
    workspace.add_plugin("a", "def query(self, q, n): return list(range(n))")
    done = workspace.run("--setting", "jit=on,off")
    assert done.returncode == 1 and "has no server's settings: leave --setting out" in done.stderr


def test_compared_settings_are_no_difference_between_servers() -> None:
    values = {"on": "jit=on", "off": "jit=off"}
    runs = []
    for value, settings in values.items():
        attrs = {"series": Series("hnsw", settings=settings).dump_json(), "server": "embedded"}
        runs.append(make_run(given_settings=json.dumps({"jit": value, "work_mem": "1MB"}), **attrs))
    assert list(server_warnings(runs)) == []
    facts = add_settings({"given_settings": '{"jit": "x"}'}, {"jit": "on", "work_mem": "1MB"}, ["jit"])
    assert json.loads(facts["given_settings"]) == {"work_mem": "1MB"}
    assert add_settings({}, {"jit": "on"}, []) == {}


# On a real server


@pytest.fixture
def own_server(server_folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A server of this test alone, which it may start again."""
    server = LocalServer(embedded_installation() / "bin", server_folder)
    monkeypatch.setattr(servers, "_current", server)
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SETTINGS", "shared_buffers=32MB")
    monkeypatch.setattr(server_settings, "_contenders", {})
    yield server
    use_settings({})
    server.stop()


def test_each_turn_has_its_settings_on_one_index(tmp_path, monkeypatch, own_server: LocalServer) -> None:
    monkeypatch.chdir(tmp_path)
    make_dataset(rows=1000, queries=20)
    words = (
        "--local --dataset tiny --algorithm pgvector_hnsw --clients 2 --duration 0.1 --warmup 10 --rounds 2"
    )
    settings = ["shared_buffers=32MB,64MB", "enable_sort=on,off", "work_mem=5MB"]
    args = read_request([*words.split(), "--setting", *settings])
    jobs = list(every_job(args))[:4]
    assert len({job.definition.family for job in jobs}) == 4
    contenders, starts = Contenders(), set()
    try:
        for job in jobs:
            contenders.carry_out(Enter(JobRequest(job)), lambda event: None)
        for number in (1, 2):
            for job in jobs:
                contenders.carry_out(Turn(job.label(), 0, number), lambda event: None)
                starts.add(own_server.start_mark()[0])
        for job in jobs:
            contenders.carry_out(Keep(job.label(), {"rounds": "mark"}), lambda event: None)
    finally:
        contenders.close()
    assert len(starts) == 4  # twice a round, and not for what sessions can set
    points = [read_attributes(path) for path in iter_result_paths()]
    assert len(points) == 4
    assert len({attrs["index_build_time"] for attrs in points}) == 1
    for attrs in points:
        chosen, stored = json.loads(attrs["given_settings"]), json.loads(attrs["settings"])
        assert stored["shared_buffers"] == chosen["shared_buffers"] and stored["work_mem"] == "5MB"
        assert stored.get("enable_sort", "on") == chosen["enable_sort"]  # PostgreSQL has it on.


NOT_IN_FORCE = {
    "jit=on": "jit = on is not in force: this server has no JIT",
    "jit_above_cost=0": "jit_above_cost = 0 is not in force: this server has no JIT",
    "listen_addresses=localhost": "listen_addresses = localhost is not in force: this server runs with ''",
    "port=5433": "port = 5433 is not in force: this server runs with '5432'",
    "unix_socket_permissions=0777": "is not in force: this server runs with '0700'",
    "unix_socket_directories=/tmp": "unix_socket_directories = /tmp is not in force",
    "cluster_name=mine": "cluster_name = mine is not in force",
}


def test_a_setting_that_is_not_in_force_is_refused_before_anything_is_loaded(own_server) -> None:
    for given, reason in NOT_IN_FORCE.items():
        algorithm = PGVectorHNSW("euclidean", {"M": 8, "efConstruction": 32})
        algorithm.use_settings(dict([given.split("=")]))
        with pytest.raises(PostgresError, match=reason):
            algorithm.fit(clustered(200, 4))
        assert algorithm.table_name is None
        algorithm.done()


@pytest.mark.parametrize(
    "given",
    ["jit=off shared_buffers=4096 checkpoint_timeout=600 wal_buffers=-1 wal_level=REPLICA fsync=false"
     " shared_preload_libraries=$libdir/vector cluster_name=",
     "shared_buffers=0.03125GB checkpoint_completion_target=0.7 max_wal_size=1536MB"],
)  # fmt: skip
def test_a_setting_that_is_in_force_is_taken_however_it_is_written(own_server, given: str) -> None:
    algorithm = PGVectorHNSW("euclidean", {"M": 8, "efConstruction": 32})
    algorithm.use_settings(dict(word.split("=") for word in given.split()))
    with fitted(algorithm, clustered(200, 4), 20):
        pass


def test_contenders_that_are_the_same_on_the_server_are_refused(own_server) -> None:
    for value, reason in (("3072", ""), ("3MB", "'work_mem=3072' and 'work_mem=3MB' are the same on this")):
        algorithm = PGVectorHNSW("euclidean", {"M": 8, "efConstruction": 32})
        algorithm.use_settings({"work_mem": value})
        with pytest.raises(PostgresError, match=reason) if reason else nullcontext():
            algorithm.fit(clustered(200, 4))
        algorithm.done()


def test_what_a_point_sets_is_no_setting_of_a_contender(plugin_server) -> None:
    algorithm = PGVectorHNSW("euclidean", {"M": 8, "efConstruction": 32})
    algorithm.use_settings({"hnsw.ef_search": "40"})
    try:
        with pytest.raises(PostgresError, match="hnsw.ef_search is a query argument of this index"):
            algorithm.set_query_arguments(20)
        algorithm.use_settings({"no_such": "1"})
        with pytest.raises(PostgresError, match="no setting no_such, which --setting"):
            algorithm.fit(clustered(200, 4))
    finally:
        algorithm.done()
        use_settings({})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (["jit=on", "jit=off"], "names jit twice"),
        *(
            ([f"application_name={values}"], "would have one curve.*leave one of them out")
            for values in ("on,ON", "a/b,a-b", "a b,a;b")
        ),
    ],
)
def test_settings_that_cannot_be_told_apart_are_refused(settings: list[str], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        apply_settings([PLAIN], list(map(read_setting, settings)))


def test_values_are_told_apart_by_the_names_of_several_definitions():
    other = Definition("ivf", "C", "m", "t", [16], [[1]], False)
    found = apply_settings([PLAIN, PLAIN, other], [read_setting("jit=on,off"), read_setting("work_mem=4 MB")])
    assert len(found) == 6
