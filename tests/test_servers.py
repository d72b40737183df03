"""Servers of our own: started, stopped, locked, left behind, and refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import psutil
import psycopg
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.environment import given_settings, server_kind
from ann_benchmarks.algorithms.postgres.errors import FolderInUseError, NotInstalledError, PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server, _make_server
from ann_benchmarks.algorithms.postgres.servers.cluster import folder_beside
from ann_benchmarks.algorithms.postgres.servers.installation import Installation
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from ann_benchmarks.common.errors import shortage

from .client_answers import by_clients
from .postgres_fixtures import SMALL, clustered, fitted
from .programs import PATIENCE, ROOT, one_line, until
from .vchord_archives import copied_installation

pytestmark = pytest.mark.thorough


def make_server(folder: Path) -> LocalServer:
    return LocalServer(embedded_installation() / "bin", folder)


@pytest.fixture
def own(server_folder: Path) -> Iterator[LocalServer]:
    """A server of our own that runs; a test may stop it, and start it again."""
    server = make_server(server_folder)
    server.start(SMALL)
    yield server
    server.stop()


def postmasters(folder: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "postgres" and str(folder) in " ".join(process.info["cmdline"] or [])
    ]


def test_the_last_words_are_those_that_say_why(own: LocalServer):
    why = "cannot continue recovering"
    refused = "FATAL:  the database system is in recovery mode"
    with own._cluster.log.open("a") as log:
        log.write(f"2026-01-01 00:00:00 UTC [1] FATAL:  {why}\n")
        for _ in range(3):  # who connects meanwhile
            log.write(f"2026-01-01 00:00:01 UTC [2] {refused}\n")
    assert own.last_words().startswith(f"FATAL:  {why} (log: ")
    own._cluster.log.write_text(f"2026-01-01 00:00:01 UTC [2] {refused}\n")
    assert own.last_words().startswith(refused)


def test_start_restart_stop(new_folder: Path):
    server = make_server(new_folder)
    server.start(SMALL)
    with server.connect() as connection:
        one = connection.execute(
            "SELECT current_setting('shared_buffers'), current_setting('listen_addresses')"
        )
        assert one.fetchone() == ("64MB", "")
        assert connection.execute("SHOW autovacuum").fetchone() == ("off",)
    server.restart({"shared_buffers": "96MB"})
    with server.connect() as connection:
        assert connection.execute("SHOW shared_buffers").fetchone() == ("96MB",)
    assert server.versions()["postgres"]
    [postmaster] = postmasters(new_folder)
    assert postmaster.uids().effective != 0
    server.stop()
    assert not postmasters(new_folder)
    assert not list(new_folder.glob("pg*/socket"))


def test_a_folder_in_use_is_refused(own: LocalServer, server_folder: Path):
    with pytest.raises(
        FolderInUseError, match=f"in use by process {os.getpid()}.*ANN_BENCHMARKS_PG_DATA"
    ) as error:
        make_server(server_folder).start(SMALL)
    assert shortage(error.value) is None  # of processes, which has the same number


def test_a_setting_that_stops_the_server_is_told_in_one_line(server_folder: Path):
    with one_line("did not start: FATAL:.*shared_buffers"):
        make_server(server_folder).start({"shared_buffers": "lots"})
    server = make_server(server_folder)
    server.start(SMALL)
    server.stop()


def test_a_folder_that_cannot_be_used_is_told(new_folder: Path):
    new_folder.write_text("a file")
    with pytest.raises(PostgresError, match="cannot use .*ANN_BENCHMARKS_PG_DATA"):
        make_server(new_folder).start(SMALL)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_somebody_elses_folder_is_left_alone(new_folder: Path):
    new_folder.mkdir()
    (new_folder / "precious").write_text("mine")
    with pytest.raises(PostgresError, match="not empty"):
        make_server(new_folder).start(SMALL)
    assert new_folder.stat().st_uid == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
def test_a_killed_run_takes_its_server_along(server_folder: Path):
    run = start_run(server_folder, "import time; time.sleep(60)")
    run.send_signal(signal.SIGKILL)
    run.wait()
    until(lambda: not postmasters(server_folder))


def test_a_process_that_ends_takes_its_server_along_without_a_fork(server_folder: Path):
    refuse = "def refuse(): raise RuntimeError('no fork at the end')\n"  # as Python 3.12 does
    run = start_run(
        server_folder,
        f"import atexit, os\n{refuse}atexit.register(setattr, os, 'fork', refuse)",
        stderr=subprocess.STDOUT,
    )
    said, _ = run.communicate(timeout=60 * PATIENCE)
    assert (run.returncode, said) == (0, "")
    assert not postmasters(server_folder) and not list(server_folder.glob("pg*/socket"))


def test_a_server_left_behind_is_stopped(server_folder: Path):
    lost = make_server(server_folder)
    lost.start(SMALL)
    lost._process = None  # as if the run had been killed where the server is not told
    lost._cluster.socket_folder = None
    lost._finalizer.cancel()
    lost._cluster._lock.close()
    [before] = [process.pid for process in postmasters(server_folder)]
    server = make_server(server_folder)
    started = time.monotonic()
    server.start(SMALL)
    assert time.monotonic() - started < 100  # it does not wait for us, who never ask how the other one ended
    assert [process.pid for process in postmasters(server_folder)] != [before]
    server.stop()


def test_what_a_strange_pid_file_names_is_left_alone(own: LocalServer, server_folder: Path):
    own.stop()
    [data] = server_folder.glob("pg*/data")
    precious = server_folder / "precious"
    precious.mkdir()
    sleeper = subprocess.Popen(["sleep", "60"])
    (data / "postmaster.pid").write_text(f"{sleeper.pid}\n{data}\n0\n5432\n{precious}\n\n")
    own.start(SMALL)  # as in a new container, where the pid of the old one's server is another process
    own.stop()
    assert precious.exists()
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()


def test_the_next_start_removes_what_a_crash_cut_off(own: LocalServer, server_folder: Path):
    with own.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE half AS SELECT generate_series(1, 100000) AS id")
        row = connection.execute("SELECT pg_relation_filepath('half')").fetchone()
        file = next(server_folder.glob("pg*/data")) / row[0]
        assert file.stat().st_size > 1 << 20
        [postmaster] = postmasters(server_folder)
        for process in [*postmaster.children(), postmaster]:
            with suppress(psutil.NoSuchProcess):  # some end when they see another end
                process.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    own.stop()
    assert file.exists()
    own.start(SMALL)
    assert not file.exists()


def test_an_interrupted_initdb_is_begun_anew(own: LocalServer, server_folder: Path):
    own.stop()
    [data] = server_folder.glob("pg*/data")
    data.rename(data.with_name("data.partial"))
    own.start(SMALL)


def test_an_unreachable_server_is_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANN_BENCHMARKS_PG_HOST", "127.0.0.1")
    monkeypatch.setenv("ANN_BENCHMARKS_PG_PORT", "1")
    with one_line("cannot connect to PostgreSQL at 127.0.0.1, port 1"):
        _make_server().start(SMALL)


def test_an_external_server_is_used_and_left_running(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANN_BENCHMARKS_PG_HOST", server.connection_parameters()["host"])
    external = _make_server()
    external.start(SMALL)
    assert external.versions() == server.versions()
    external.stop()
    server.connect().close()


def test_which_server_is_meant(monkeypatch: pytest.MonkeyPatch):
    assert server_kind() == "embedded"
    monkeypatch.setenv("ANN_BENCHMARKS_PG_BIN", "/usr/lib/postgresql/17/bin")
    assert server_kind() == "installed"
    monkeypatch.setenv("ANN_BENCHMARKS_PG_START_SERVICE", "false")
    assert server_kind() == "external"
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SERVER", "embeded")
    with pytest.raises(PostgresError, match="use one of embedded, installed, external"):
        server_kind()


def test_an_installed_server_is_the_one_named(
    server_folder: Path, older_installations: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ANN_BENCHMARKS_PG_BIN", str(older_installations[1] / "bin"))
    monkeypatch.setenv("ANN_BENCHMARKS_PG_DATA", str(server_folder))
    server = _make_server()
    server.start(SMALL)
    assert server.versions()["postgres"].startswith("16.")
    server.stop()
    monkeypatch.setenv("ANN_BENCHMARKS_PG_BIN", str(server_folder))
    with pytest.raises(PostgresError, match="must contain initdb"):
        _make_server()


def test_given_settings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SETTINGS", "shared_buffers=2GB search_path='a, b'")
    assert given_settings() == {"shared_buffers": "2GB", "search_path": "a, b"}
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SETTINGS", "shared_buffers")
    with pytest.raises(PostgresError, match="not of the form name=value"):
        given_settings()


def start_run(folder: Path, then: str, stderr: int | None = None) -> "subprocess.Popen[str]":
    """A process of its own that starts the server and says so."""
    script = (
        "from ann_benchmarks.algorithms.postgres.servers import current_server\n"
        f"current_server().start({SMALL})\nprint('started', flush=True)\n{then}"
    )
    environment = os.environ | {"ANN_BENCHMARKS_PG_DATA": str(folder)}
    command = [sys.executable, "-c", script]
    run = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True
    )
    assert run.stdout.readline() == "started\n"
    return run


def test_a_stop_does_not_wait_for_a_server_that_will_not_end(own: LocalServer):
    """PostgreSQL 18 waits for its I/O workers where it is to shut down while it recovers."""
    with own.connect() as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS id")
        psutil.Process(connection.info.backend_pid).kill()
    time.sleep(0.05)
    began = time.monotonic()
    own.stop()
    assert time.monotonic() - began < 60 * PATIENCE
    own.start(SMALL)
    with own.connect() as connection:
        assert connection.execute("SELECT id FROM kept").fetchone() == (1,)


def test_a_start_waits_for_the_backends_of_a_killed_server(own: LocalServer, server_folder: Path):
    with own.connect() as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS id")
        [postmaster] = postmasters(server_folder)
        # A stopped backend outlives its postmaster, and keeps hold of the shared memory.
        backend = psutil.Process(connection.info.backend_pid)
        backend.suspend()
        postmaster.kill()
        own.stop()
        threading.Timer(1.0, backend.kill).start()
        own.start(SMALL)
    with own.connect() as connection:
        assert connection.execute("SELECT id FROM kept").fetchone() == (1,)


@pytest.mark.skipif(os.geteuid() != 0, reason="everything is within reach of the account that we run as")
def test_programs_out_of_the_accounts_reach_are_copied(server_folder: Path, tmp_path: Path):
    """As in a virtual environment below root's home folder; tmp_path is closed to others, too."""
    tmp_path.chmod(0o700)
    programs = copied_installation(tmp_path) / "bin"
    for _ in range(2):
        server = LocalServer(programs, server_folder)
        server.start(SMALL)
        assert server.versions()["postgres"].startswith("18")
        server.stop()
    assert len(list(server_folder.glob("install-*"))) == 1
    # Another release of an extension has to reach the server, and to replace the copy.
    control = Installation(programs.parent).extensions / "vector.control"
    text = control.read_text() + "# changed\n"
    control.unlink()  # it is a link to the original
    control.write_text(text)
    server = LocalServer(programs, server_folder)
    server.start(SMALL)
    server.stop()
    (copy,) = server_folder.glob("install-*")
    assert any("# changed" in found.read_text() for found in copy.rglob("vector.control"))


def test_a_library_is_loaded_beside_the_users(own: LocalServer, monkeypatch: pytest.MonkeyPatch):
    own.preload("vector")
    with own.connect() as connection:
        assert connection.execute("SHOW shared_preload_libraries").fetchone() == ("vector",)
        assert connection.execute("SHOW shared_buffers").fetchone() == ("64MB",)
        started = connection.execute("SELECT pg_postmaster_start_time()").fetchone()
    own.preload("vector")  # it is there
    with own.connect() as connection:
        assert connection.execute("SELECT pg_postmaster_start_time()").fetchone() == started
    own.stop()
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SETTINGS", "shared_preload_libraries='$libdir/vector'")
    own.start(SMALL)
    own.preload("vector")
    own.preload("libpqwalreceiver")
    with own.connect() as connection:
        (libraries,) = connection.execute("SHOW shared_preload_libraries").fetchone()
    assert libraries == "$libdir/vector,libpqwalreceiver"


def test_a_library_that_somebody_elses_server_lacks_is_one_line(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    parameters = server.connection_parameters()
    for name in ("host", "port", "user", "dbname"):
        monkeypatch.setenv(f"ANN_BENCHMARKS_PG_{name.upper()}", parameters[name])
    external = _make_server()
    with pytest.raises(NotInstalledError, match="has to load 'vchord' when it starts: add it to shared"):
        external.preload("vchord")


def test_folders_beside_a_disk_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert folder_beside(tmp_path / "postgres", "shard2") == tmp_path / "postgres-shard2"
    monkeypatch.setattr("os.path.ismount", lambda folder: True)
    with pytest.raises(
        PostgresError, match=r"is a disk of its own, .* name a folder on it, such as ANN_B.*DATA="
    ):
        folder_beside(tmp_path, "replica1")


# Of a role or a database; each of them would change what is written, read, or ended.
STRANGE = {
    "DateStyle": "'SQL, DMY'",
    "IntervalStyle": "sql_standard",
    "TimeZone": "'Asia/Kathmandu'",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "quote_all_identifiers": "on",
    "client_encoding": "LATIN1",
    "client_min_messages": "error",
    "row_security": "off",
    "search_path": "''",
    "statement_timeout": "'300ms'",
    "lock_timeout": "'1ms'",
    "transaction_timeout": "'300ms'",
    "idle_session_timeout": "'300ms'",
    "idle_in_transaction_session_timeout": "'300ms'",
    "default_transaction_isolation": "serializable",
}


@pytest.mark.parametrize("owner", ["ROLE", "DATABASE"])
def test_the_settings_of_a_role_or_a_database_change_nothing(own_database, owner: str):
    own_database("CREATE EXTENSION vector")
    for name, value in STRANGE.items():
        own_database(f"ALTER {owner} strange SET {name} = {value}")
    train = clustered(3000, 32)
    with fitted(PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 200}), train, 40) as facts:
        assert facts["build_time"] > 0.3  # else no timeout would have ended it
    algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 200})
    with fitted(algorithm, train, 40) as found:
        assert found["index_reused"] and found["build_time"] == pytest.approx(facts["build_time"], 0.01)
        overridden = json.loads(found["overridden_settings"])
        assert overridden["statement_timeout"] == "300" and overridden["client_encoding"] == "LATIN1"
        answers = algorithm.time_queries(train[:5], 3)[1]
        assert [ids[0] for ids in answers] == [*range(5)]
        mark = algorithm.server.start_mark()
        with closing(algorithm.open_clients(train[:5], 3, 2)) as clients:
            time.sleep(0.5)  # No idle session would outlive this.
            clients.prepare([np.arange(5)] * 2)
            clients.run()
            assert sum(len(run.sent) for run in clients.answers()) == 10
        settings = json.loads(algorithm.get_additional()["settings"])
        assert not {*overridden} & {*settings} and settings["enable_seqscan"] == "off"
        assert algorithm.server.start_mark() == mark


def test_a_user_who_may_not_write_is_told_before_anything_is_loaded(own_database):
    own_database("ALTER ROLE strange SET default_transaction_read_only = on")
    said = "user 'strange' has default_transaction_read_only on, .* another"
    with pytest.raises(PostgresError, match=said):
        PGVectorHNSW.server_environment()


def test_an_extension_in_any_schema_is_found_or_the_schema_is_named(own_database):
    own_database('CREATE SCHEMA "My Extensions"; CREATE EXTENSION vector SCHEMA "My Extensions"')
    train = clustered(300, 8)
    algorithm = PGVectorHNSW("euclidean", {"M": 8, "efConstruction": 32})
    with fitted(algorithm, train, 20):
        assert algorithm.query(train[7], 3)[0] == 7
        assert len(by_clients(algorithm, train[:5], 3, 2)[0]) == 5
    own_database("ALTER ROLE strange NOSUPERUSER")
    own_database("ALTER SCHEMA ann_benchmarks OWNER TO strange")
    with pytest.raises(
        PostgresError, match='is in the schema "My Extensions", which user .*GRANT USAGE ON SCHEMA'
    ):
        algorithm.fit(train)
    algorithm.done()


@pytest.mark.skipif(os.geteuid() != 0, reason="everything is within reach of the account that we run as")
@pytest.mark.parametrize(("umask", "has_data"), [(0o077, True), (0o027, False)])
def test_a_strict_umask_of_root_leaves_the_server_a_folder(new_folder: Path, umask: int, has_data: bool):
    """The dataset that run.py makes is in `data`; where root has closed that, the server's folder is not."""
    here = new_folder.parent
    script = (
        "import os; from pathlib import Path\n"
        f"os.chdir({str(here)!r}); {has_data} and Path('data').mkdir()\n"
        "from ann_benchmarks.algorithms.postgres.servers import current_server\n"
        "server = current_server(); server.start({'shared_buffers': '16MB'}); print(server.data_folder)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, umask=umask, capture_output=True, text=True
    )
    folder = Path(done.stdout.strip())
    assert done.returncode == 0 and folder.is_dir(), done.stderr
    assert folder.is_relative_to("/var/tmp/ann-benchmarks" if has_data else here / "data")
    shutil.rmtree(folder)
