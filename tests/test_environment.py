"""Results of another server, version or machine: a series of their own, never finished and never joined."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.common.host import host_facts
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.definitions.servers import Replicas, Shards
from ann_benchmarks.fields.series import Series
from ann_benchmarks.jobs.events import Located
from ann_benchmarks.jobs.job import Job, Procedure
from ann_benchmarks.jobs.places import folder_for
from ann_benchmarks.results.environment import (
    MARK,
    MEMORY_DIVIDED,
    differences,
    environment_of,
    environments,
    names_of,
)
from ann_benchmarks.results.file import iter_result_paths, read_attributes
from ann_benchmarks.results.runs import load_runs
from ann_benchmarks.run.containers.sandbox import placement_facts
from ann_benchmarks.run.containers.wire import MessageReader, write_message
from tiers.tier import SimulatedServer, Tier

from .postgres_fixtures import copied
from .programs import call_program, temporary_folder, write_config

pytestmark = pytest.mark.thorough

REPORTING = """\
VERSION = "{version}"
@classmethod
def server_environment(cls):
    return {{"database_version": cls.VERSION, "server": "embedded"}}
def get_additional(self):
    return {{"database_version": self.VERSION, "server": "embedded"}}
def set_query_arguments(self, n): pass
def query(self, q, n): return list(range(n))
"""
HERE = {"cpu": "Fast CPU", "cores": 2, "memory_bytes": 8 << 30}
OLD = {**HERE, "postgres_version": "17.12 (Debian 17.12-1)", "vector_version": "0.8.0", "docker_image": "i"}
NEW = {**HERE, "postgres_version": "18.4", "vector_version": "0.8.5", "server": "embedded"}


def change(path, **attrs):
    """Change attributes of a result file, as if it had been measured elsewhere."""
    with h5py.File(path, "r+") as file:
        known = json.loads(file.attrs["attributes"]) | attrs
        file.attrs["attributes"] = json.dumps(
            {name: known[name] for name in known if known[name] is not None}
        )
    path.touch()


def curves(**options):
    return sorted({run.algorithm for run in load_runs(iter_result_paths(), **options)})


def test_an_upgraded_server_finishes_nothing_and_joins_nothing(workspace):
    group = {"args": [], "query_args": [[1, 2]]}
    folder = workspace.add_plugin("db", REPORTING.format(version="17.12"), group)
    assert workspace.run().stdout.count(": recall ") == 2
    assert "nothing to do: 2 points finished before" in workspace.run().stdout
    module = folder / "module.py"
    module.write_text(module.read_text().replace("17.12", "18.4"))

    other = workspace.run()
    assert other.stdout.count(": recall ") == 2
    assert other.stderr.splitlines() == [
        "warning: there are results of database 17.12, and here is database 18.4: what is measured now is a"
        " series of its own, db@database-18.4"
    ]
    assert workspace.results() == [
        f"tiny/10/db{mark}/{n}.hdf5" for mark in ("", "@database-18.4") for n in (1, 2)
    ]
    assert read_attributes(Path("results/tiny/10/db@database-18.4/1.hdf5"))["algo"] == "db (database-18.4)"
    assert curves() == ["db (database 17.12)", "db (database 18.4)"]
    assert "nothing to do: 2 points finished before" in workspace.run().stdout

    shutil.rmtree("results/tiny/10/db")  # named only where there is more than one
    assert curves() == ["db"]
    assert "nothing to do: 2 points finished before" in workspace.run().stdout


def test_what_the_server_reveals_only_when_it_runs_is_said(workspace):
    """The plug-in expects nothing beforehand; the plan takes the plain folder for its own."""
    body = REPORTING.format(version="2").replace("def server_environment", "def other")
    group = {"args": [], "query_args": [[1, 2]]}
    workspace.add_plugin("late", body, group)
    assert workspace.run().returncode == 0
    for path in iter_result_paths():
        change(path, database_version="1")
    path.unlink()  # the plan believes that the other point is finished
    again = workspace.run()
    assert workspace.results() == ["tiny/10/late/1.hdf5", "tiny/10/late@database-2/2.hdf5"]
    assert again.stderr.splitlines() == [
        "warning: late(): there are results of database 1, and here is database 2: results go to"
        " results/tiny/10/late@database-2"
    ]


def test_what_is_not_known_contradicts_nothing_and_is_never_joined():
    old, new = environment_of(OLD), environment_of(NEW)
    assert differences(old, new) == ["PostgreSQL", "pgvector", "container"]
    assert differences({}, new) == [] == differences(new, environment_of({**NEW, "vchord_version": "1"}))
    assert not differences(new, environment_of({**NEW, "memory_bytes": int(8.1 * 2**30)}))
    assert differences(new, environment_of({**NEW, "memory_bytes": 16 << 30})) == ["memory"]
    assert not differences(environment_of({**NEW, "tier": "x"}), environment_of({**NEW, "cores": 1}))
    tier = {"tier": "64MB:all", "tier_shared_buffers": 64 << 20}  # as results have it, and as the plan does
    given = {**NEW, **tier, "given_settings": '{"jit": "on", "shared_buffers": "64MB"}'}
    assert not differences(
        environment_of(given), environment_of({**given, "given_settings": '{"jit": "on"}'})
    )
    assert differences(environment_of(given), environment_of({**given, "given_settings": "{}"})) == [
        "settings"
    ]
    places, groups = environments([{}, old, new, {}, old])
    assert places[0] == places[3] and places[1] == places[4] and len(groups) == 3
    assert sorted(names_of(groups)) == ["PostgreSQL 17.12", "PostgreSQL 18.4", "unknown server"]


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"vector_version": "0.8.1"}, ["pgvector 0.8.5", "pgvector 0.8.1"]),
        ({"cpu": "Slow CPU"}, ["Fast CPU", "Slow CPU"]),
        ({"cores": 8}, ["2 cores", "8 cores"]),
        ({"memory_bytes": 16 << 30}, ["memory 8 GB", "memory 16 GB"]),
        ({"server": "installed"}, ["embedded server", "installed server"]),
        ({"server_address": "db:5433"}, ["at db:5432", "at db:5433"]),
        ({"given_settings": '{"work_mem": "1GB"}'}, ["default settings", "work_mem=1GB"]),
        ({"docker_image": "i"}, ["without a container", "in a container"]),
    ],
)
def test_environments_are_named_by_what_differs(more, names):
    base = {**NEW, "server_address": "db:5432", "given_settings": "{}"}
    one, other = environment_of(base), environment_of({**base, **more})
    assert names_of([one, other]) == names
    mark = folder_for(other, {"": [one]})
    assert MARK.fullmatch(mark) and folder_for(other, {"": [one], mark: [other]}) == mark
    assert folder_for(one, {"": [one], mark: [other]}) == ""
    third = {**other, "cpu": "Third CPU", "PostgreSQL": "1"}
    assert folder_for(third, {"": [one], mark: [other]}) not in ("", mark)


def test_a_folder_beside_the_plain_one_is_found_again_and_no_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = Job(Definition("a", "", "", "", [], [], False), [[]], "d", 10)
    assert job.path([]).parent.name == "a"
    for batch in (False, True):
        job = replace(job, procedure=replace(job.procedure, batch=batch))
        for mark in ("", "PostgreSQL-18.4", "x-2"):
            folder = replace(job, environment=mark).path([]).parent
            folder.mkdir(parents=True)
            assert job.folders.mark_of(folder) == mark
    Path("results/d/10/a-c1@PostgreSQL-18.4").mkdir()
    assert [mark for mark, _ in job.folders.there()] == ["", "PostgreSQL-18.4", "x-2"]
    for other in ("a@", "a@../x", "a@ b", "b@x", "a-batch@x", "a-c1@x-batch"):
        assert job.folders.mark_of(Path("results/d/10") / other) is None
    assert job.folders.mark_of(Path("elsewhere/a@x-batch")) is None
    assert Series("a", environment="x", batch=True).folder == "a@x-batch"


def test_old_results_of_this_machine_are_finished_as_before(workspace):
    """Their files say nothing of the kind of server, nor of settings."""
    workspace.add_plugin("quick", "def query(self, q, n): return list(range(n))")
    assert workspace.run().returncode == 0
    [path] = iter_result_paths()
    for facts in ({"given_settings": None}, dict.fromkeys((*host_facts(), "series", "truth"))):
        change(path, **facts)
        assert "1 point finished before" in workspace.run().stdout


def test_an_embedded_server_is_known_before_it_starts(workspace, made_server):
    """What the plug-in expects is what it then stores; a file of other versions is another server's."""
    with temporary_folder() as folder:
        keys = {"module": "ann_benchmarks.algorithms.pgvector_hnsw", "constructor": "PGVectorHNSW"}
        group = {"args": {"M": 8, "efConstruction": 16}, "query_args": [[10]]}
        plugins = workspace.path / "plugins" / "pgvector_hnsw"
        write_config(plugins, "pgvector_hnsw", base_args=["@metric"], run_groups={"all": group}, **keys)
        server = copied(made_server, folder / "server")
        environment = {**workspace.environment, "ANN_BENCHMARKS_PG_DATA": str(server)}

        def run(**settings):
            words = ("--local", "--definitions", "plugins", "--dataset", "tiny", "--runs", "1")
            words += ("--warmup", "10", "--no-monitoring")
            return call_program("run.py", *words, env=environment | settings)

        assert run().returncode == 0
        [path] = iter_result_paths()
        stored, expected = read_attributes(path), PGVectorHNSW.server_environment()
        assert {name: stored.get(name) for name in expected} == expected
        now = expected["postgres_version"]
        assert expected["server"] == "embedded" and expected["vector_version"]

        change(path, postgres_version="17.12", vector_version="0.8.0", docker_image="i")
        assert run().stdout.count(": recall ") == 1
        assert "1 point finished before" in run().stdout
        assert run(ANN_BENCHMARKS_PG_SETTINGS="work_mem=64MB").stdout.count(": recall ") == 1
        assert curves() == [
            f"pgvector_hnsw (PostgreSQL {text})"
            for text in ("17.12, default settings", f"{now}, default settings", f"{now}, work_mem=64MB")
        ]


def test_a_container_reports_where_it_is_and_its_results_go_beside_the_plain_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [(located, _)] = MessageReader().feed(write_message(Located({"server": "installed", "cores": 2})))
    assert located == Located({"server": "installed", "cores": 2})
    job = Job(Definition("a", "", "", "", [], [], False), [[1]], "d", 10)
    for mark in ("", "PostgreSQL-17.12"):
        assert job.is_result(replace(job, environment=mark).path([1]))
    for place in ("results/d/10/b/1.hdf5", "results/d/10/a@../1.hdf5", "results/d/10/a/2.hdf5", "/a/1.hdf5"):
        assert not job.is_result(Path(place))
    assert placement_facts(None, None) == {"container_memory_requested": 0}


def test_servers_that_share_a_memory_differently_are_other_servers():
    few, many = ({**NEW, MEMORY_DIVIDED: number} for number in (2, 8))
    assert differences(environment_of(few), environment_of(many)) == ["memory divided by"]
    assert not differences(environment_of(few), environment_of(NEW))  # of which it is not known
    assert names_of([environment_of(few), environment_of(many)]) == [
        "memory divided by 2",
        "memory divided by 8",
    ]
    for alike in ({"server": "external"}, {"given_settings": '{"shared_buffers": "1GB"}'}):
        assert not differences(environment_of(few | alike), environment_of(many | alike))
    definition = Definition("hnsw", "C", "m", "t", [], [[]], False)
    job = Job(replace(definition, servers=Shards(2, "citus", most=8)), [[]], "d", 10)
    assert job.facts_of_servers == {MEMORY_DIVIDED: 8}
    assert Job(replace(definition, servers=Replicas(1, most=2)), [[]], "d", 10).facts_of_servers == {
        MEMORY_DIVIDED: 2
    }
    assert not Job(replace(definition, servers=Replicas(0, most=2)), [[]], "d", 10).facts_of_servers
    for tier, divided in ((Tier(64 << 20), {}), (Tier(cpus=1), {MEMORY_DIVIDED: 8})):
        procedure = Procedure(conditions=SimulatedServer(tier, "cgroup"))
        assert replace(job, procedure=procedure).facts_of_servers == divided
