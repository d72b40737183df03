"""Servers that follow one and answer in its place: who asks which, how they are made and reused, faults."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

import numpy as np
import psutil
import psycopg
import pytest

from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.index import fitting
from ann_benchmarks.algorithms.postgres.servers import machine, standby
from ann_benchmarks.algorithms.postgres.servers.external import ExternalServer
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from ann_benchmarks.algorithms.postgres.session.session import SessionFacts
from ann_benchmarks.algorithms.postgres.topology import replicated as replicas
from ann_benchmarks.algorithms.postgres.topology.replicated import settled
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.definitions.servers import Replicas

from .client_answers import by_clients
from .postgres_fixtures import SMALL, copied
from .programs import ROOT, one_line, temporary_folder, until
from .test_shards import killed, measured, refuse_wrong_ids

pytestmark = pytest.mark.thorough

COUNT, K, DIMENSION = 2, 10, 12
RANDOM = np.random.default_rng(26)
TRAIN = RANDOM.normal(size=(400, DIMENSION)).astype(np.float32)
QUERIES = RANDOM.normal(size=(12, DIMENSION)).astype(np.float32)
TRUE = [np.argsort(((TRAIN - query) ** 2).sum(1))[:K].tolist() for query in QUERIES]
GIVEN = "ANN_BENCHMARKS_PG_SETTINGS"
BUILD = {"M": 8, "efConstruction": 32}


@pytest.fixture(scope="module")
def all_servers(made_server):
    """One server, and the standbys that tests have made of it, by their numbers."""
    with temporary_folder() as folder:
        primary = LocalServer(embedded_installation() / "bin", copied(made_server, folder / "pg"))
        found: dict = {}
        yield primary, found
        for server in (*found.values(), primary):
            server.stop()


@pytest.fixture
def primary(all_servers, monkeypatch):
    """The server that plug-ins find, which starts as it is without replicas."""
    monkeypatch.setenv(GIVEN, f"shared_buffers={SMALL['shared_buffers']}")
    monkeypatch.setattr(servers, "_current", all_servers[0])
    monkeypatch.setattr(servers, "_replicas", all_servers[1])
    return all_servers[0]


def standbys():
    return [servers._replicas[number] for number in sorted(servers._replicas)]


@contextmanager
def fitted(count=COUNT, algorithm=None, *arguments, train=TRAIN):
    """Give a fitted plug-in with this number of replicas."""
    algorithm = algorithm or PGVectorExact("euclidean")
    algorithm.set_servers("replicas", count=count, most=COUNT)
    try:
        algorithm.fit(train)
        algorithm.set_query_arguments(*arguments or (0,))
        yield algorithm
    finally:
        algorithm.done()


def found_by(algorithm, clients=5):
    """Return what clients find, by query."""
    return by_clients(algorithm, QUERIES, K, clients)[0]


def asked(server):
    """Whether sessions of clients are connected to a server."""
    with server.connect() as connection:
        return connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ann_benchmarks_client'"
        ).fetchone()[0]


def test_clients_are_dealt_to_the_standbys_in_turn_and_the_primary_is_not_asked(primary):
    with fitted(COUNT, PGVectorHNSW("euclidean", BUILD), 200) as algorithm:
        assert algorithm.time_queries(QUERIES, K)[1] == found_by(algorithm) == TRUE
        with closing(algorithm.open_clients(QUERIES, K, 5)) as opened:
            parents = [psutil.Process(member.backend).ppid() for member in opened.members]
            postmasters = [server._process.pid for server in standbys()]
            assert parents == [postmasters[client % COUNT] for client in range(5)]
            assert [asked(server) for server in (primary, *standbys())] == [0, 3, 2]
            opened.prepare([np.arange(client + 1) for client in range(5)])
            opened.run()
            opened.answers()
            assert opened.facts() == {"replica_queries": [1 + 3 + 5, 2 + 4]}
        facts = algorithm.get_additional()
        settings = json.loads(facts["settings"])
        assert settings["hnsw.ef_search"] == "200" and "primary_conninfo" not in settings
        assert "Index Scan" in facts["plan"] and facts["prewarmed_by"] == "pg_prewarm"
        assert len(facts["replica_times"]) == COUNT
        assert all(0 < backup < whole for backup, whole in zip(
            facts["replica_backup_times"], facts["replica_times"], strict=True
        ))  # fmt: skip
    with fitted(0) as alone:
        assert found_by(alone) == TRUE and "replica_times" not in alone.get_additional()
        opened = alone.open_clients(QUERIES, K, 2)
        assert [asked(server) for server in (primary, *standbys())] == [2, 0, 0]
        opened.close()


def test_a_standby_is_reused_by_the_next_run_and_no_slot_is_left(primary):
    slots = "SELECT bool_and(temporary), count(*) FROM pg_replication_slots"
    with fitted():
        backups = [server.backups for server in standbys()]
        with primary.connect() as connection:
            assert connection.execute(slots).fetchone() == (True, COUNT)
    servers.stop_replicas()
    with primary.connect() as connection:
        connection.execute("CREATE TABLE later (id int); INSERT INTO later VALUES (7)")
        until(lambda: not connection.execute(slots).fetchone()[1])  # its walsenders have seen the end
    primary.restart({})
    with fitted() as algorithm:
        assert [server.backups for server in standbys()] == backups
        assert found_by(algorithm) == TRUE
        facts = algorithm.get_additional()
        assert facts["replica_backup_times"] == [0.0] * COUNT and min(facts["replica_times"]) > 0
        for server in standbys():
            with server.connect() as connection:
                assert connection.execute("SELECT id FROM later").fetchone() == (7,)
    with primary.connect() as connection:
        connection.execute("DROP TABLE later")


def test_a_standby_that_cannot_follow_is_made_again(primary, monkeypatch, capsys):
    with fitted(1, PGVectorHNSW("euclidean", BUILD), 200):
        [server] = standbys()[:1]
        backups = server.backups
    execute = psycopg.Connection.execute

    def execute_late(connection, query, *arguments):
        of_standby = connection.info.host == server.connection_parameters()["host"]
        if str(query).startswith("LOAD") and of_standby and server.backups == backups:
            until(lambda: not server.is_running)
        return execute(connection, query, *arguments)

    servers.stop_replicas()
    primary._serves_standbys = False  # as in a run without replicas
    primary.restart({})
    with primary.connect() as connection:
        connection.execute("CREATE TABLE gap AS SELECT 1 AS id")
        connection.execute("DROP TABLE gap")
    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "execute", execute_late)
        with fitted(1) as algorithm:
            assert found_by(algorithm) == TRUE and server.backups == backups + 1
    assert "shared_preload_libraries" not in server.chosen  # its end was no demand of the index's library
    said = "replica 1 of 1 is made again: "
    assert f"{said}the primary has run without replicas, and so without the log" in capsys.readouterr().out
    servers.stop_replicas()
    with monkeypatch.context() as patched:
        patched.setenv(GIVEN, f"{os.environ[GIVEN]} wal_keep_size=0")
        primary.restart({})
    with primary.connect() as connection:
        for _ in range(3):
            connection.execute("CREATE TABLE gap AS SELECT 1 AS id")
            connection.execute("DROP TABLE gap")
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
    with fitted(1) as algorithm:
        assert found_by(algorithm) == TRUE and server.backups == backups + 2
        assert f"{said}the primary no longer has the log that it lacks" in capsys.readouterr().out
        assert algorithm.get_additional()["replica_backup_times"][0] > 0
        replica = algorithm._indexed._replicas[0]
        for text, other, problem in (
            ("SELECT system_identifier", "SELECT system_identifier + 1", "it is a copy of another server"),
            (", timeline_id", ", timeline_id + 1", "it is a copy of another server"),
            ("> pg_current_wal_flush_lsn()", "IS NOT NULL", "it is ahead of the primary"),
        ):
            with monkeypatch.context() as patched, pytest.raises(PostgresError, match=problem):
                patched.setattr(replicas, "_OF_PRIMARY", replicas._OF_PRIMARY.replace(text, other, 1))
                replica._check()


def test_a_base_backup_that_broke_off_is_never_used(primary, monkeypatch, tmp_path):
    with fitted(1):
        [server] = standbys()[:1]
    servers.stop_replicas()
    run = server._programs.run

    def broken(program, *arguments, **more):
        if program == "pg_basebackup":
            run(program, *arguments, **more)
            raise PostgresError("pg_basebackup failed: no space")
        return run(program, *arguments, **more)

    entered = tmp_path / "tier-1" / "cgroup.procs"
    entered.parent.mkdir()
    entered.touch()
    with monkeypatch.context() as patched, pytest.raises(PostgresError, match="^pg_basebackup failed"):
        patched.setattr(server._programs, "run", broken)
        patched.setenv("ANN_BENCHMARKS_PG_GROUPS", str(tmp_path / "tier{server}" / "cgroup.procs"))
        server.remake({})
    assert entered.read_text() == "0"  # what it writes fills the cache of the standby's own tier
    left = sorted(path.name for path in server._cluster.data.parent.iterdir() if path.name.startswith("data"))
    assert left == ["data.partial"] and not server.is_running
    backups = server.backups
    with fitted(1) as algorithm:
        assert found_by(algorithm) == TRUE and server.backups == backups + 1
        assert not server._cluster.data.with_name("data.partial").exists()


def test_what_others_may_have_pushed_out_is_read_again_by_all_servers(primary, monkeypatch):
    read: list = []
    one, two = PGVectorHNSW("euclidean", BUILD), PGVectorHNSW("euclidean", {**BUILD, "M": 5})
    with fitted(COUNT, one, 200) as algorithm, ExitStack() as stack:
        algorithm.rest()
        other = stack.enter_context(fitted(COUNT, two, 200))  # the replicas were started again for it
        for each in (algorithm, other):
            other.rest()
            algorithm.rest()
            each.resume()
        monkeypatch.setattr(fitting, "cache_files", lambda connection, names: read.append(names))
        for turn, out, is_short in (
            (algorithm, [], True),
            (algorithm, None, True),  # nobody else was at work
            (other, [other.index_name], True),
            (algorithm, None, False),
            (other, [other.table_name, other.index_name], True),
        ):
            monkeypatch.setattr(fitting, "is_short", lambda *arguments, is_short=is_short: is_short)
            monkeypatch.setattr(fitting, "fitting_relations", lambda *arguments, out=out: out)
            for each in (algorithm, other):
                each.rest()
            read.clear()
            assert turn.resume() == (is_short and out is not None)
            assert read == ([out] * (1 + COUNT) if out else []) and found_by(turn) == TRUE


def test_commits_that_wait_for_replicas_are_refused(primary, monkeypatch):
    monkeypatch.setenv(GIVEN, "synchronous_standby_names=*")
    with (
        pytest.raises(PostgresError, match="synchronous_standby_names would have the load wait"),
        fitted(1),
    ):
        pass


def test_what_is_missing_is_said_in_one_line(primary, monkeypatch):
    with fitted(1):
        [server] = standbys()[:1]
    with (
        monkeypatch.context() as patched,
        pytest.raises(PostgresError, match="has no pg_none, which"),
    ):
        patched.setattr(standby, "_PROGRAM", "pg_none")
        with fitted(1):
            pass
    servers.stop_replicas()
    with (
        monkeypatch.context() as patched,
        pytest.raises(PostgresError, match="of a replica need .* disk"),
    ):
        patched.setattr(machine, "free_disk_bytes", lambda folder: 1000)
        server.remake({})
    monkeypatch.setattr(servers, "_current", ExternalServer())
    with (
        pytest.raises(PostgresError, match="made of a server of our own: unset .*"),
        fitted(1),
    ):
        pass


def test_a_standby_that_dies_loses_the_point_and_the_next_goes_on(primary):
    with fitted() as algorithm:
        backups = [server.backups for server in standbys()]
        assert found_by(algorithm) == TRUE
        killed(standbys()[1])
        with one_line(r"client \d of 5 \(replica 2 of 2\): "):
            found_by(algorithm)
        algorithm.recover()
        assert found_by(algorithm) == TRUE
        assert [server.backups for server in standbys()] == backups  # it goes on as it was
        error = algorithm.statement(QUERIES[0], K).attributed(PostgresError("lost"))
        assert str(error) == "replica 1 of 2: lost"  # of a session by itself


def test_a_primary_that_dies_is_followed_again(primary):
    with fitted() as algorithm:
        killed(primary)
        assert found_by(algorithm) == TRUE  # it is not asked
        backups = [server.backups for server in standbys()]
        algorithm.recover()
        assert found_by(algorithm) == TRUE
        with primary.connect() as connection:
            connection.execute("CREATE TABLE mark (id int)")
        for replica in algorithm._indexed._replicas:
            replica.wait_for(settled(primary))
            with replica.server.connect() as connection:
                assert connection.execute("SELECT to_regclass('mark')").fetchone() == ("mark",)
        with primary.connect() as connection:
            connection.execute("DROP TABLE mark")
        assert [server.backups for server in standbys()] == backups


def test_a_standby_that_replays_nothing_is_waited_for_no_longer(primary, monkeypatch):
    monkeypatch.setattr(replicas, "STALLED_SECONDS", 0.3)
    with fitted(1) as algorithm:
        [replica] = algorithm._indexed._replicas
        with replica.server.connect() as connection:
            connection.execute("SELECT pg_wal_replay_pause()")
            with pytest.raises(PostgresError, match="it has replayed nothing for 0 s, and lacks .* bytes"):
                replica.wait_for(settled(primary))
            connection.execute("SELECT pg_wal_replay_resume()")


def test_no_standby_runs_while_a_table_is_made(primary):
    running = []

    def note(phase):
        running.append((phase, sum(server.is_running for server in standbys())))

    with fitted():
        assert sum(server.is_running for server in standbys()) == COUNT
    algorithm = PGVectorHNSW("euclidean", BUILD)
    algorithm.set_servers("replicas", count=COUNT)
    algorithm.set_phase_listener(note)
    algorithm.fit(TRAIN + 1)
    algorithm.done()
    assert [*dict.fromkeys(running)] == [
        *(("start", COUNT), ("load", 0), ("build", 0), ("prewarm", 0), ("replicas", 0)),
    ]
    assert sum(server.is_running for server in standbys()) == COUNT


def test_caches_are_emptied_on_all_servers(primary):
    with fitted() as algorithm:
        pids = [server._process.pid for server in standbys()]
        algorithm.cool()
        assert not {*pids} & {server._process.pid for server in standbys()}
        assert algorithm.get_additional()["caches_dropped"] is True
        assert found_by(algorithm) == TRUE


def test_all_replicas_have_to_run_with_the_same():
    algorithm = PGVectorExact("euclidean")
    algorithm.set_servers("replicas", count=COUNT)
    check = algorithm._indexed.check_sessions
    sessions = [SessionFacts(1, 1, settings, "") for settings in ({"jit": "off"}, {"jit": "off"}, {})]
    check(sessions)
    with pytest.raises(PostgresError, match="replica 1 runs with jit = off, and replica 2 with its default"):
        check(sessions[1:])


_CHILD = """
import sys, time
from pathlib import Path
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.standby import StandbyServer
primary = LocalServer(Path(sys.argv[1]), Path(sys.argv[2]))
primary.serve_standbys()
primary.start({"shared_buffers": "64MB"})
standby = StandbyServer(1, primary)
standby.start({"shared_buffers": "64MB"})
print(primary._process.pid, standby._process.pid, standby.backups, flush=True)
time.sleep(600)
"""


def test_nothing_runs_on_when_a_run_is_killed_and_the_next_goes_on(server_folder):
    words = [sys.executable, "-c", _CHILD, embedded_installation() / "bin", server_folder]
    for backups in (1, 0):
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
            said = [child.stdout.readline() for _ in range(backups + 1)]  # a copy is said first
            *pids, made = map(int, said[-1].split())
            assert made == backups
            child.kill()
        until(lambda: not any(map(psutil.pid_exists, pids)))  # noqa: B023


def test_a_server_that_becomes_another_one_during_a_run_is_noticed(primary, capsys):
    with fitted() as algorithm:
        watch = algorithm.watch_server()
        with watch.running():
            assert found_by(algorithm) == TRUE
        promoted = pytest.raises(PostgresError, match="replica 2 of 2 was promoted during the run")
        with promoted, watch.running(), standbys()[1].connect() as connection:
            connection.execute("SELECT pg_promote()")
            assert found_by(algorithm) == TRUE  # Clients do not notice it.
        with pytest.raises(PostgresError, match="replica 2 of 2 is not a standby any more"), watch.running():
            pass
        watch.close()
        algorithm.recover()
        assert "replica 2 of 2 is made again: it is not a standby any more" in capsys.readouterr().out
        restarted = pytest.raises(PostgresError, match="the primary was started again during the run")
        with restarted, watch.running():
            primary.restart(primary._settings)
            assert found_by(algorithm) == TRUE
        watch.close()


def test_wrong_ids_of_standbys_are_errors(primary):
    with fitted(1, train=TRAIN + 7) as algorithm:
        refuse_wrong_ids(algorithm, [(primary, algorithm.table_name)], algorithm._indexed._follow)


# Jobs on replicas: what is stored of points, and names.


__all__ = ["all_servers", "primary"]
EXACT = Definition(
    *("exact", "PGVectorExact", "ann_benchmarks.algorithms.pgvector_exact", "t", ["euclidean"]),
    *([[0]], False),
)
REPLICATED = replace(EXACT, servers=Replicas(COUNT))


def test_a_point_says_by_how_many_replicas_it_was_answered(primary, workspace):
    path, run = measured(REPLICATED, 0, 3)
    assert path.parent.name == "exact-replicas2-c3" and run.series.replicas == COUNT
    assert run.metrics["recall"] == 1 and min(run.attrs["replica_queries"]) > 0
    assert sum(run.attrs["replica_queries"]) == run.attrs["queries_asked"]
    assert run.attrs["server_cpu_seconds_per_query"] > run.attrs["primary_cpu_seconds_per_query"] >= 0
    assert run.attrs["table_blocks_hit_per_query"] > 0  # of the standbys' own sessions
    assert run.attrs["shared_buffers"] == COUNT * 64 * 2**20
