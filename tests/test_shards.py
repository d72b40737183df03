"""Rows on several servers: the answers of one server by every engine, settings, plans, faults and names."""

import json
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import numpy as np
import psutil
import pytest

from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.forms import query_sql
from ann_benchmarks.algorithms.postgres.index import fitting
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from ann_benchmarks.algorithms.postgres.topology.citus_statement import check_settings
from ann_benchmarks.algorithms.postgres.topology.scattered import MergedAnswer
from ann_benchmarks.algorithms.postgres.topology.shard import Shard, ShardRows
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.definitions.servers import ENGINES as ALL_ENGINES
from ann_benchmarks.definitions.servers import Shards
from ann_benchmarks.jobs.events import PointDone
from ann_benchmarks.jobs.job import Execution, Job, Procedure
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.measure.loaded_point import LoadedPoint
from ann_benchmarks.measure.timed import Subject, measure
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.runs import load_runs

from .client_answers import by_clients
from .postgres_fixtures import SMALL, copied
from .programs import events_of, one_line, temporary_folder

pytestmark = pytest.mark.thorough

ENGINES = [name for name in ALL_ENGINES if name != "citus"]  # which tests/test_citus.py has
DIMENSION, COUNT, K = 12, 2, 10
RANDOM = np.random.default_rng(25)
TRAIN = RANDOM.normal(size=(401, DIMENSION)).astype(np.float32)
QUERIES = RANDOM.normal(size=(12, DIMENSION)).astype(np.float32)
BUILD = {"M": 8, "efConstruction": 32}
HNSW = Definition(
    *("hnsw", "PGVectorHNSW", "ann_benchmarks.algorithms.pgvector_hnsw", "t", ["euclidean", BUILD]),
    *([[50]], False),
)


@pytest.fixture(scope="module")
def shard_servers(made_server):
    """Two small servers that are shards."""
    with temporary_folder() as folder:
        found = {}
        for number in range(1, COUNT + 1):
            found[number] = LocalServer(
                embedded_installation() / "bin", copied(made_server, folder / str(number))
            )
            found[number].start(SMALL)
        yield found
        for server in found.values():
            server.stop()


@pytest.fixture
def shards(plugin_server, shard_servers, monkeypatch):
    """The servers that plug-ins find when they ask for a coordinator and for shards."""
    monkeypatch.setattr(servers, "_shards", shard_servers)
    return shard_servers


@contextmanager
def fitted(engine, algorithm=None, *arguments, train=TRAIN):
    """Give a fitted plug-in on shards, or without an engine on one server."""
    algorithm = algorithm or PGVectorExact("euclidean")
    if engine:
        algorithm.set_servers("shards", count=COUNT, engine=engine)
    try:
        algorithm.fit(train)
        algorithm.set_query_arguments(*arguments or (0,))
        yield algorithm
    finally:
        algorithm.done()


def hnsw(form="vector"):
    return PGVectorHNSW("euclidean", {**BUILD, "form": form})


WRONG_IDS = {  # what a table of a server that does odd things may have in place of them, and what is said
    "id + 1000": "neighbour 1[0-9]+, but the training set has the rows 0 to 400",
    "-1 - id": "neighbour 42949[0-9]+, but the training set",
    "3": "answered with neighbour 3 twice",
    "NULL": "an answer has NULL in place of an id",
}


def refuse_wrong_ids(algorithm, tables, follow=lambda: None):
    """Have each way to send queries find wrong ids, in tables of servers, and make sure that it says so."""
    subject = Subject(Plugin(algorithm), QUERIES, K, len(TRAIN))
    ways = [partial(measure, subject, batch=batch) for batch in (False, True)]
    for wrong, reason in WRONG_IDS.items():
        for server, table in tables:
            with server.connect() as connection:
                connection.execute(f"ALTER TABLE {table} ALTER id DROP NOT NULL")
                connection.execute(f"UPDATE {table} SET id = {wrong}")
        follow()
        if wrong == "NULL":  # clients check answers by the same code, and take seconds to start
            ways.append(LoadedPoint(subject, Load(3)).answers)
        for way in ways:
            with pytest.raises((UserError, PostgresError), match=reason):
                way()


@pytest.mark.parametrize("engine", ["", *ENGINES])
@pytest.mark.parametrize("payload", ["", "vector"])
def test_wrong_ids_are_errors_however_queries_are_sent(shards, engine, payload):
    if engine and payload:
        pytest.skip("shards have no payloads")
    algorithm = PGVectorExact("euclidean")
    if payload:
        algorithm.set_payload(payload)
    with fitted(engine, algorithm, train=TRAIN + 7) as algorithm:
        every = algorithm._indexed._shards if engine else [algorithm._indexed]
        refuse_wrong_ids(algorithm, [(one.server, one.names()[0]) for one in every])
    for server in (servers._current, *shards.values()):
        with server.connect() as connection:
            connection.execute("DROP SCHEMA IF EXISTS ann_benchmarks CASCADE")  # with that table


def test_more_rows_than_requested_are_errors(plugin_server, monkeypatch):
    monkeypatch.setattr(fitting, "query_sql", lambda *given: query_sql(*given).replace("LIMIT 1", "LIMIT 2"))
    with fitted("") as algorithm:
        subject = Subject(Plugin(algorithm), QUERIES, K, len(TRAIN))
        ways = [partial(measure, subject, batch=batch) for batch in (False, True)]
        for way in [*ways, LoadedPoint(subject, Load(3)).answers]:
            with pytest.raises(PostgresError, match="an answer has 20 rows, and 10 were requested"):
                way()


def bit_distances(metric, queries, ids, rows):
    """Return the distances of what was found: several rows may have the same."""
    found = []
    for query, own in zip(queries, ids, strict=True):
        differ, both = (rows[own] != query).sum(1), (rows[own] & query).sum(1)
        either = (rows[own] | query).sum(1)
        found.append((differ if metric == "hamming" else 1 - both / either).tolist())
    return found


@pytest.mark.parametrize("metric", ["euclidean", "angular", "ip", "manhattan", "hamming", "jaccard"])
def test_exact_answers_are_those_of_one_server(shards, metric):
    is_bits = metric in ("hamming", "jaccard")
    train, queries = (TRAIN > 0, QUERIES > 0) if is_bits else (TRAIN, QUERIES)

    def known(ids):
        return bit_distances(metric, queries, ids, train) if is_bits else ids

    with fitted("", PGVectorExact(metric), train=train) as alone:
        true = known(alone.time_queries(queries, K)[1])
    for engine in ENGINES:
        with fitted(engine, PGVectorExact(metric), train=train) as algorithm:
            assert known(algorithm.time_queries(queries, K)[1]) == true, engine
            if metric != "euclidean":
                continue  # clients ask no other way for it
            assert known(by_clients(algorithm, queries)[0]) == true, engine
            algorithm.batch_query(queries, K)
            assert known(algorithm.get_batch_results()) == true, engine


def test_rows_are_dealt_evenly_and_keep_their_ids(shards):
    with fitted("client") as algorithm:
        for place, server in enumerate(shards.values()):
            shard = algorithm._indexed._shards[place]
            with server.connect() as connection:
                found = connection.execute(
                    f"SELECT id, embedding::text FROM {shard.names()[0]} ORDER BY id"
                ).fetchall()
            assert [row for row, _ in found] == list(range(place, len(TRAIN), COUNT))
            vectors = np.array([json.loads(text) for _, text in found], np.float32)
            assert (vectors == TRAIN[place::COUNT]).all()
    with (
        pytest.raises(PostgresError, match="1 rows for 2 shards: use fewer"),
        fitted("client", train=TRAIN[:1]),
    ):
        pass


def test_the_rows_of_a_shard_are_read_by_range():
    rows = ShardRows(TRAIN, 1, 3, "mark")
    own = TRAIN[1::3]
    assert rows.shape == own.shape == (len(rows), DIMENSION)
    for part in (slice(0, 5), slice(7, 8), slice(100, 999), slice(5, 5), slice(0, 50, 7), slice(None)):
        assert (rows[part] == own[part]).all()
    assert rows.row_name(2) == "row 7 (from 0)"
    assert rows.fingerprint() != ShardRows(TRAIN, 1, 4, "mark").fingerprint()


@pytest.mark.parametrize("form", ["vector", "halfvec", "bit_hamming"])
def test_every_shard_uses_its_index_and_the_plan_is_known(shards, form):
    with fitted("client", hnsw(form), 150) as algorithm:
        found = algorithm.time_queries(QUERIES, K)[1]
        facts = algorithm.get_additional()
    assert facts["shard_build_times"] and sum(facts["shard_rows"]) == len(TRAIN)
    assert facts["build_time"] == pytest.approx(sum(facts["shard_build_times"]))
    assert "Index Scan" in facts["plan"] and "shard_plans" not in facts
    with fitted("") as alone:
        true = alone.time_queries(QUERIES, K)[1]
    assert np.mean([len({*a} & {*b}) / K for a, b in zip(found, true, strict=True)]) > 0.9


def test_settings_of_shards_are_compared():
    check_settings(1, {"a": "1"}, {"a": "1", "b": "2"})
    with pytest.raises(PostgresError, match="shard 2 runs with a = 40 where 100 is expected"):
        check_settings(2, {"a": "100"}, {"a": "40"})
    with pytest.raises(PostgresError, match="shard 2 runs with a = no such setting"):
        check_settings(2, {"a": "100"}, {})


def test_answers_are_merged_with_unknown_distances_last():
    class Answer:
        def __init__(self, *rows):
            self.rows, self.ntuples = rows, len(rows)

        def get_value(self, row, column):
            number, distance = self.rows[row]
            return np.array(distance, ">f8").tobytes() if column else number.to_bytes(4, "big")

    merged = MergedAnswer([Answer((4, 0.5), (2, np.nan)), Answer((3, -1.0)), Answer()], 10)
    assert [merged.get_value(row, 0)[-1] for row in range(merged.ntuples)] == [3, 4, 2]
    assert MergedAnswer([Answer((4, 0.5), (2, 0.7))], 1).ntuples == 1


def killed(server):
    """Kill all of its processes: one that is at work would first end what it does."""
    process = psutil.Process(server._process.pid)
    for each in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    server._process.wait()


def loses_the_point_with_a_shard(engine, shards):
    """Have each shard die once, and make sure that the point fails and the next goes on."""
    with fitted(engine) as algorithm:
        true = algorithm.time_queries(QUERIES, K)[1]
        killed(shards[2])
        with one_line("shard 2 of 2"):
            algorithm.time_queries(QUERIES, K)
        algorithm.recover()
        assert algorithm.time_queries(QUERIES, K)[1] == true
        killed(shards[1])
        with pytest.raises(PostgresError, match="shard 1 of 2"):
            by_clients(algorithm, QUERIES)
        algorithm.recover()
        assert by_clients(algorithm, QUERIES)[0] == true


def test_a_shard_that_dies_loses_the_point_and_the_next_goes_on(shards):
    loses_the_point_with_a_shard("client", shards)


@pytest.mark.parametrize("phase", ["load", "build"])
def test_a_shard_that_dies_while_it_is_made_leaves_the_others(shards, phase):
    train = np.concatenate([TRAIN, np.full((1, DIMENSION), 1 + len(phase), np.float32)])
    entered = []

    def enter(name):
        entered.append(name)
        if entered.count(phase) == COUNT and name == phase:
            killed(shards[COUNT])

    algorithm = hnsw()
    algorithm.set_servers("shards", count=COUNT, engine="client")
    algorithm.set_phase_listener(enter)
    with one_line("^shard 2 of 2: "):
        algorithm.fit(train)
    algorithm.done()
    shards[COUNT].revive()
    entered.clear()
    with fitted("client", hnsw(), 50, train=train) as again:
        reused = [shard.facts()["index_reused"] for shard in again._indexed._shards]
        assert reused == [True, False]


def test_facts_of_all_shards_are_sums_and_hold_of_each(monkeypatch):
    def facts(shard):
        of_one = {"index_reused": True, "caches_dropped": shard.number == 1, "build_notices": ["no memory"]}
        return {"build_time": 2.0, "index_size": 3.0} | (
            of_one if shard.number == 1 else {"build_notices": ["x"]}
        )

    monkeypatch.setattr(Shard, "facts", facts)
    algorithm = PGVectorExact("euclidean")
    algorithm.set_servers("shards", count=COUNT, engine="client")
    found = algorithm._indexed.facts()
    assert (found["build_time"], found["index_size"], found["shard_build_times"]) == (4.0, 6.0, [2.0, 2.0])
    assert found["index_reused"] is False and found["caches_dropped"] is False
    assert found["build_notices"] == ["shard 1: no memory", "shard 2: x"]


def test_the_engine_of_clients_needs_linux_before_anything_is_loaded(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(PostgresError, match="the shard engine client needs Linux: use"):
        PGVectorExact("euclidean").set_servers("shards", count=2, engine="client")


def test_a_shard_has_a_folder_of_its_own_and_others_servers_are_none(monkeypatch, tmp_path):
    monkeypatch.setattr(servers, "_shards", {})
    monkeypatch.setenv("ANN_BENCHMARKS_PG_DATA", str(tmp_path / "pg"))
    # Beside the coordinator's, which has to be empty when it is made.
    assert servers.shard_server(3).data_folder == tmp_path / "pg-shard3"
    assert servers.shard_server(3) is servers.shard_server(3)
    monkeypatch.setenv("ANN_BENCHMARKS_PG_HOST", "db.example.org")
    with pytest.raises(PostgresError, match="shards are servers of our own, and ANN_BENCHMARKS_PG_HOST or"):
        servers.shard_server(1)


def measured(definition, count, clients=2):
    """Measure one point with clients; return its file and what was stored."""
    load = {"load": Load(clients, seconds=0.3), "warmup": Warmup("queries", 10)}
    job = Job(definition, [[count]], "tiny", K, Procedure(1, **load), Execution(show_progress=False))
    (done,) = [event for event in events_of(job) if isinstance(event, PointDone)]
    (run,) = load_runs([done.path])
    return done.path, run


def test_a_point_says_on_how_many_shards_it_was_measured(shards, workspace):
    path, run = measured(replace(HNSW, servers=Shards(COUNT, "client")), 50)
    assert (run.series.shards, run.series.shard_engine) == (COUNT, "client")
    assert path.parent.name == "hnsw-shards2-client-c2"
    assert len(run.attrs["shard_build_times"]) == COUNT
    assert run.attrs["table_blocks_hit_per_query"] > 0  # of the shards' own sessions
    assert run.metrics["recall"] > 0.9
