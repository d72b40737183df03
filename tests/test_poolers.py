"""Queries through pgbouncer: their answers, the settings that they really have, faults, and what is left."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import psycopg
import pytest

from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers.account import server_account
from ann_benchmarks.algorithms.postgres.servers.external import ExternalServer
from ann_benchmarks.algorithms.postgres.session.session import PreparedSession
from ann_benchmarks.algorithms.postgres.topology import pgbouncer
from ann_benchmarks.algorithms.postgres.topology.pgbouncer import PgBouncer, find_program
from ann_benchmarks.definitions.servers import POOLERS, Pooled
from ann_benchmarks.plugin import PluginClass
from ann_benchmarks.results.environment import environment_of
from ann_benchmarks.results.remarks import remarks

from .client_answers import by_clients
from .programs import ROOT, one_line, until
from .test_shards import HNSW, QUERIES, TRAIN, K, hnsw, killed, measured

pytestmark = pytest.mark.thorough

(POOLER,) = POOLERS
EF = 120


@pytest.fixture(scope="module")
def installed():
    """The pgbouncer of this machine."""
    try:
        return find_program(server_account())
    except PostgresError as error:
        pytest.skip(str(error))


@pytest.fixture
def pooler(installed):
    return POOLER


@contextmanager
def pooled(name, size=2):
    """Give a fitted plug-in whose queries go through a pooler, or through none."""
    algorithm = hnsw()
    if name:
        algorithm.set_servers("pooler", pooler=name, size=size)
    try:
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(EF)
        yield algorithm
    finally:
        algorithm.done()


def pooler_of(algorithm):
    return algorithm._indexed._pooler


def through(algorithm):
    """Connect to the pooler as a client."""
    return psycopg.connect(**pooler_of(algorithm).parameters(), autocommit=True)


def test_answers_are_those_without_a_pooler(plugin_server, pooler):
    with pooled("") as alone:
        true = alone.time_queries(QUERIES, K)[1]
    with pooled(pooler) as algorithm:
        assert algorithm.time_queries(QUERIES, K)[1] == true
        assert algorithm.query(QUERIES[0], K) == true[0]
        facts = algorithm.get_additional()
        assert json.loads(facts["settings"])["hnsw.ef_search"] == str(EF) and "Index Scan" in facts["plan"]
        assert by_clients(algorithm, QUERIES)[0] == true
        facts = algorithm.get_additional()
        assert facts["pooler_version"][0].isdigit()
        assert facts["pooler_pool_size"] == facts["pooler_connections"] == 2
        algorithm.batch_query(QUERIES, K)
        assert algorithm.get_batch_results() == true
        algorithm.set_query_arguments(EF + 1)
        algorithm.query(QUERIES[0], K)
        assert json.loads(algorithm.get_additional()["settings"])["hnsw.ef_search"] == str(EF + 1)


def test_more_clients_than_server_connections_share_them(plugin_server, pooler):
    with pooled(pooler) as algorithm:
        assert algorithm.most_clients() > 500  # which the server would take
        # Those of one process connect in threads, of which one may hold what another one waits for.
        with closing(algorithm.open_clients(QUERIES, K, 32)) as opened:
            opened.prepare([np.arange(len(QUERIES))] * 32, seconds=0.1)
            opened.run()
            sent = sum(len(run.sent) for run in opened.answers())
        assert sent >= 32 and algorithm.get_additional()["pooler_connections"] == 2


def test_a_setting_that_another_client_has_changed_is_noticed_on_any_connection(plugin_server, pooler):
    with pooled(pooler, 3) as algorithm:
        by_clients(algorithm, QUERIES, clients=6)
        first, second, third = (through(algorithm) for _ in range(3))
        with first, second, third, first.transaction(), second.transaction():
            first.execute("SELECT")
            second.execute("SELECT")
            third.execute("SET hnsw.ef_search = 40")  # which ends with no transaction
        message = f"^queries run with hnsw.ef_search = 40 on a connection .* where {EF} is requested"
        with one_line(message):
            algorithm.get_additional()
        algorithm.recover()
        by_clients(algorithm, QUERIES, clients=6)
        assert algorithm.get_additional()["pooler_connections"] == 3
        pooler_of(algorithm).process.kill()
        with pytest.raises(PostgresError, match="cannot connect"):  # nothing is stored unchecked
            algorithm.get_additional()


def test_what_changes_within_a_run_is_noticed_after_it(plugin_server, pooler):
    with pooled(pooler, 1) as algorithm:
        opened = algorithm.open_clients(QUERIES, K, 1)
        try:
            opened.prepare([np.arange(len(QUERIES))])
            with plugin_server.connect() as direct:
                direct.execute("ALTER SYSTEM SET jit = on")
                direct.execute("SELECT pg_reload_conf()")
            opened.run()
            opened.answers()  # the session's own value takes precedence
        finally:
            with plugin_server.connect() as direct:
                direct.execute("ALTER SYSTEM RESET jit")
                direct.execute("SELECT pg_reload_conf()")
            opened.close()
        with closing(algorithm.open_clients(QUERIES, K, 1)) as opened:
            opened.prepare([np.arange(len(QUERIES))])
            with through(algorithm) as other:
                other.execute("SET enable_seqscan = on")
            opened.run()
            with pytest.raises(PostgresError, match="client 1 of 1: queries run with enable_seqscan = on"):
                opened.answers()


def test_settings_that_the_first_query_of_a_connection_fails_to_make_are_noticed(
    plugin_server, pooler, monkeypatch
):
    monkeypatch.setattr(pgbouncer, "connect_query", lambda *arguments: "SELECT 1 / 0")
    with pooled(pooler) as algorithm:
        with pytest.raises(PostgresError, match=r"queries run with \S+ = .* it was not set there"):
            algorithm.query(QUERIES[0], K)
        algorithm.set_query_settings({"hnsw.ef_search": 100_000})
        with pytest.raises(PostgresError, match="the server refuses hnsw.ef_search = 100000"):
            algorithm.query(QUERIES[0], K)


def test_every_character_of_a_setting_reaches_the_server(plugin_server, installed):
    values = {"search_path": '"it\'s", "a;b #c\\\\d", public', "work_mem": "8MB"}
    bouncer = PgBouncer(installed)
    bouncer.use(plugin_server, 1, values)
    try:
        with psycopg.connect(**bouncer.parameters(), autocommit=True) as connection:
            for name, value in values.items():
                assert connection.execute("SELECT current_setting(%s)", [name]).fetchone() == (value,)
    finally:
        bouncer.stop()


def test_more_settings_than_a_connection_takes_are_refused(plugin_server, pooler):
    with pooled(pooler) as algorithm:
        algorithm.use_settings({"search_path": "x" * 400})
        algorithm.fit(TRAIN)
        with pytest.raises(PostgresError, match="connect_query of [67].. bytes, and pgbouncer takes 506"):
            algorithm.query(QUERIES[0], K)
        algorithm.use_settings({})


def left_of(algorithm, server):
    """Return what there is of the pooler: its process, and its folder's files."""
    folder = Path(str(server.connection_parameters()["host"])) / "pooler"
    return pooler_of(algorithm).process, [*folder.glob("*")] if folder.exists() else None


def test_a_pooler_that_dies_loses_the_point_and_nothing_is_left(plugin_server, pooler):
    with pooled(pooler) as algorithm:
        true = algorithm.time_queries(QUERIES, K)[1]
        pooler_of(algorithm).process.kill()
        with one_line("^pgbouncer does not answer: the connection was lost"):
            algorithm.time_queries(QUERIES, K)
        algorithm.recover()
        assert left_of(algorithm, plugin_server) == (None, None)
        with closing(algorithm.open_clients(QUERIES, K, 4)) as opened:
            opened.prepare([np.arange(len(QUERIES))] * 4)
            pooler_of(algorithm).process.kill()
            with one_line("client.* of 4: pgbouncer does not answer: the"):
                opened.run()
        algorithm.recover()
        assert by_clients(algorithm, QUERIES)[0] == true
        algorithm.rest()
        assert left_of(algorithm, plugin_server) == (None, None)
        algorithm.resume()
        assert algorithm.query(QUERIES[0], K) == true[0]
    assert left_of(algorithm, plugin_server) == (None, None)


def test_a_server_that_dies_behind_a_pooler_loses_the_point(plugin_server, pooler):
    with pooled(pooler) as algorithm:
        true = algorithm.time_queries(QUERIES, K)[1]
        opened = algorithm.open_clients(QUERIES, K, 4)
        dying = threading.Timer(0.2, killed, [plugin_server])
        try:
            opened.prepare([np.arange(len(QUERIES))] * 4, seconds=5.0)
            dying.start()
            with pytest.raises(PostgresError, match="client.* of 4: ") as raised:
                opened.run()
        finally:
            dying.join()
            opened.close()
        assert "\n" not in str(raised.value) and "pgbouncer does not answer" not in str(raised.value)
        algorithm.recover()
        assert algorithm.time_queries(QUERIES, K)[1] == true


def test_a_pooler_that_does_not_start_says_why(plugin_server, installed, monkeypatch):
    monkeypatch.setattr(pgbouncer, "configuration", lambda *arguments: "[pgbouncer]\npool_mode = x\n")
    bouncer = PgBouncer(installed)
    with pytest.raises(PostgresError, match="pgbouncer did not start: .*pool_mode") as raised:
        bouncer.use(plugin_server, 1, {})
    assert "\n" not in str(raised.value) and bouncer.process is None


def test_what_is_not_installed_or_too_old_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(pgbouncer, "_SYSTEM_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PostgresError, match="pgbouncer is not in PATH: install it .* apt install pgbouncer"):
        PGVectorExact("euclidean").set_servers("pooler", pooler=POOLER)
    other = tmp_path / "pgbouncer"
    other.write_text("#!/bin/sh\necho nothing of it\n")
    for path in (other, *other.parents):
        path.chmod(path.stat().st_mode | 0o555)
    with pytest.raises(PostgresError, match="does not say its version: nothing of it$"):
        find_program(server_account())
    other.write_text("#!/bin/sh\necho PgBouncer 1.18.0\n")
    with pytest.raises(PostgresError, match=r"version 1\.18\.0, .* install pgbouncer 1\.21 or newer, or"):
        find_program(server_account())


def test_what_a_pooler_cannot_have_is_refused(plugin_server, installed, monkeypatch):
    algorithm = PGVectorExact("euclidean")
    monkeypatch.setenv("ANN_BENCHMARKS_PG_HOST", "db.example.org")
    with pytest.raises(PostgresError, match="names another's: unset these, or leave --pooler out"):
        algorithm.set_servers("pooler", pooler=POOLER)


def test_a_point_says_through_which_pooler_it_was_measured(plugin_server, workspace, pooler):
    path, run = measured(replace(HNSW, servers=Pooled(pooler, 2)), 50)
    assert path.parent.name == "hnsw-pgbouncer-transaction-pool2-c2"
    assert run.series.pooler == pooler and run.metrics["recall"] > 0.9
    assert 0 < run.attrs["pooler_cpu_seconds_per_query"] < 0.01 and 0 < run.attrs["pooler_busy_share"] <= 1
    assert run.attrs["server_cpu_seconds_per_query"] > 0
    assert run.attrs["index_blocks_hit_per_query"] > 1  # of all server connections


def test_the_pooler_is_no_other_process_that_takes_cpu(plugin_server, pooler):
    with pooled(pooler) as algorithm:
        watch = algorithm.watch_server()
        algorithm.query(QUERIES[0], K)
        with watch.running():
            processes = watch.processes()
        watch.close()
        assert {pooler_of(algorithm).process.pid, plugin_server._process.pid} == {*processes}


def test_a_client_that_connects_runs_no_query(plugin_server, pooler):
    """Else a cold run would begin warm."""
    with pooled(pooler) as algorithm, plugin_server.connect() as connection:

        def scans():
            algorithm._indexed._flush_shared()
            (row,) = connection.execute("SELECT sum(idx_scan) FROM pg_stat_user_indexes").fetchone()
            return row

        before = scans()
        algorithm.open_clients(QUERIES, K, 2).close()
        assert scans() == before
        algorithm.query(QUERIES[0], K)
        assert scans() > before


def test_a_pool_that_the_server_cannot_have_is_refused(plugin_server, pooler):
    said = r"a pool of 490 connections is too large: the server takes 500 \(max_connections\)"
    with pytest.raises(PostgresError, match=said), pooled(pooler, 490) as algorithm:
        algorithm.query(QUERIES[0], K)


def test_a_busy_pooler_is_said():
    assert remarks({"pooler_busy_share": 0.95}) == [
        "the pooler, not the index, was the limit: its one thread was 95% busy"
    ]
    assert not remarks({"pooler_busy_share": 0.8})


def test_the_pooler_is_known_before_a_run(plugin_server, installed):
    known = PluginClass(PGVectorExact).server_environment("pooler", {"pooler": POOLER})
    assert known["pooler_version"] == installed.version
    assert environment_of(known)["pgbouncer"] == installed.version
    assert "pgbouncer" not in environment_of(PluginClass(PGVectorExact).server_environment())


# In front of somebody else's server


@contextmanager
def pooled_server(server, installed, monkeypatch, mode, size=10, more=()):
    """Have the variables name a pooler of our own as if it were somebody else's server."""
    text, original = "".join(f"{line}\n" for line in more), pgbouncer.configuration

    def configuration(*given):
        return original(*given).replace("pool_mode = transaction", f"pool_mode = {mode}") + text

    monkeypatch.setattr(pgbouncer, "configuration", configuration)
    running = PgBouncer(installed)
    try:
        running.use(server, size, {})
        place = running.parameters()
        for name in ("host", "port", "user", "dbname"):
            monkeypatch.setenv(f"ANN_BENCHMARKS_PG_{name.upper()}", place[name])
        monkeypatch.setattr(servers, "_current", None)
        yield
    finally:
        running.stop()


def test_a_pooler_in_session_mode_is_as_good_as_the_server(plugin_server, installed, monkeypatch):
    # It tells its clients a random number as that of the backend, which this one may be.
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", -7)
    with pooled("") as alone:
        true = alone.time_queries(QUERIES, K)[1]
    with pooled_server(plugin_server, installed, monkeypatch, "session", 50), pooled("") as algorithm:
        with algorithm.watch_server().running():
            assert algorithm.time_queries(QUERIES, K)[1] == true
        assert by_clients(algorithm, QUERIES)[0] == true
        assert json.loads(algorithm.get_additional()["settings"])["hnsw.ef_search"] == str(EF)


@pytest.mark.parametrize(
    ("size", "more"),
    [(1, ()), (2, ()), (10, ()), (2, ["server_round_robin = 1"]), (10, ["server_round_robin = 1"])],
)
def test_a_pooler_whose_clients_share_backends_is_refused(server, installed, monkeypatch, size, more):
    with pooled_server(server, installed, monkeypatch, "transaction", size, more):
        for _ in range(3):  # by chance, a client may have the backend that it had
            servers._current = None
            with pytest.raises(PostgresError, match="several backends .* loses its settings: set pool_mode"):
                PGVectorExact("euclidean").fit(TRAIN)
    with pooled_server(server, installed, monkeypatch, "transaction", 2):
        # A session that begins before the pooler has others would notice it in the end.
        place = ExternalServer().connection_parameters()
        one, other = (PreparedSession(place, "x", ()) for _ in range(2))
        with other._connection.transaction():
            other._connection.execute("SELECT")
            with pytest.raises(PostgresError, match="several backends"):
                one.check_settings(), other.check_settings()
        one.close(), other.close()


# run.py with poolers: contenders over one index, and what is left when all of it is killed.


__all__ = ["installed"]


@pytest.fixture
def command(installed, new_folder, monkeypatch):
    """What runs poolers in a workspace of its own, and those that can be had here, none among them."""
    monkeypatch.setenv("ANN_BENCHMARKS_PG_DATA", str(new_folder))
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SETTINGS", "shared_buffers=64MB")
    monkeypatch.chdir(new_folder.parent)
    return [
        *(sys.executable, str(ROOT / "run.py"), "--local", "--algorithm", "pgvector_exact"),
        *("--dataset", "clustered-600-8-euclidean", "--clients", "3", "--warmup", "10", "--rounds", "1"),
        "--pooler",
    ], ["none", *POOLERS]


def of_folder(folder):
    """Return the processes of programs that have the folder in their arguments: servers and poolers."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(str(folder) in word for word in words) and process.pid != os.getpid():
            found.append(process)
    return found


def commands(folder):
    """Return the command lines of these processes, some of which may have ended meanwhile."""
    return [" ".join(process.info["cmdline"]) for process in of_folder(folder)]


def name_of(process):
    """Return the name of a process, an empty one where it has ended."""
    try:
        return process.name()
    except psutil.Error:
        return ""


def test_a_kill_of_all_leaves_no_process_and_the_next_command_goes_on(command, new_folder):
    command, names = command
    running = subprocess.Popen(
        [*command, names[-1], "--duration", "120"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: any("pgbouncer.ini" in words for words in commands(new_folder)))
    finally:
        own = psutil.Process(running.pid)
        python = [child for child in own.children(recursive=True) if "python" in name_of(child)]
        for process in [own, *python]:  # the process that has started the servers among them
            with suppress(ProcessLookupError):  # one ends with the other
                os.kill(process.pid, signal.SIGKILL)
        running.wait()
    until(lambda: not of_folder(new_folder))
    words = [*command, ",".join(names), "--duration", "0.3"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    series = {path.parent.name for path in new_folder.parent.glob("results/**/*.hdf5")}
    assert series == {
        "pgvector_exact" + ("" if name == "none" else f"-{name.replace(':', '-')}") + "-c3" for name in names
    }
    assert not list(new_folder.glob("**/pooler")) and not of_folder(new_folder)
