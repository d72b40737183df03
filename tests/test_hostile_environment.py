"""Variables and home folders that are against us: a server of ours is reached all the same, and alike."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg import pq

from ann_benchmarks.algorithms.postgres.environment import (
    PREFIX,
    given_settings,
    ram_bytes,
    server_kind,
)
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server, _make_server
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation

from .programs import ROOT, one_line, run_program, temporary_folder

pytestmark = pytest.mark.thorough

# All that are parameters, too, and those that are not.
PARAMETERS = sorted({option.envvar.decode() for option in pq.Conninfo.get_defaults() if option.envvar})
OTHERS = [
    "PGSERVICEFILE",
    "PGSYSCONFDIR",
    "PGLOCALEDIR",
    "PGDATESTYLE",
    "PGTZ",
    "PGGEQO",
    "PGDATA",
    "PG_COLOR",
]
LOCALE = ["TZ", "LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LC_CTYPE", "LC_TIME"]
# A value that libpq takes is worse than one that it refuses.
WORSE = {
    "PGOPTIONS": "-c search_path=pg_catalog -c statement_timeout=1",
    "PGDATESTYLE": "German",
    "PGTZ": "Asia/Kathmandu",
    "PGGEQO": "off",
    "PGCLIENTENCODING": "LATIN1",
    "PGSSLROOTCERT": "system",
    "PGREQUIREAUTH": "scram-sha-256",
    "PGTARGETSESSIONATTRS": "standby",
    "PGHOSTADDR": "192.0.2.1",
    "PGREQUIREPEER": "nobody-of-this-name",
    "PGGSSENCMODE": "require",
    "PGCONNECT_TIMEOUT": "-1",
    "PGMINPROTOCOLVERSION": "3.2",
}
VALUES = [
    *(dict.fromkeys((*PARAMETERS, *OTHERS), value) for value in ("nonsense", "", "\x01'\\ =%s\n")),
    WORSE,
]
OWN = ["USER", "PASSWORD", "DBNAME", "HOST", "PORT", "START_SERVICE", "SERVER", "BIN", "DATA", "OS_USER",
       "SETTINGS", "GROUPS", "RAM"]  # fmt: skip
NONSENSE = [
    "nonsense..x",
    "9" * 5000,
    "8" * 1500,
    "\x01\x1b[2J",
    "\xe9\udcff",
    "-1",
    "'",
    "~nobody0/x",
    "..//x",
    "\u0663",
]
SHOWN = "SELECT name, setting FROM pg_settings WHERE source NOT IN ('default', 'override') ORDER BY name"
ALONE = """
import json, sys
from ann_benchmarks.algorithms.postgres.servers.libpq import connect
with connect(json.loads(sys.argv[1])) as connection:
    print(json.dumps(connection.execute(sys.argv[2]).fetchall()))
"""


def shown(server: Server) -> list[tuple[str, str]]:
    with server.connect() as connection:
        return connection.execute(SHOWN).fetchall()


@pytest.fixture(autouse=True)
def members_are_forks() -> None:
    """Here they are not: what starts them is tested."""


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Everything at once: all variables, and all that libpq reads in a home folder."""
    for name in (*PARAMETERS, *OTHERS, *LOCALE):
        monkeypatch.setenv(name, WORSE.get(name, "nonsense"))
    (tmp_path / ".postgresql").mkdir()
    for name in ("root.crt", "root.crl", "postgresql.crt", "postgresql.key"):
        (tmp_path / ".postgresql" / name).write_text("nonsense")
    (tmp_path / ".pgpass").write_text("*:*:*:*:nonsense")  # which everybody may read: libpq warns of that
    (tmp_path / ".pgpass").chmod(0o644)
    (tmp_path / ".pg_service.conf").write_text("[nonsense]\nhost=nowhere.invalid\noptions=-c geqo=off\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / ".pg_service.conf"))


@pytest.fixture(scope="module")
def usual(server: Server) -> list[tuple[str, str]]:
    return shown(server)


@pytest.mark.parametrize("values", VALUES, ids=["nonsense", "empty", "strange", "worse"])
def test_a_variable_changes_no_connection(
    values: dict[str, str], usual: list, server: Server, monkeypatch: pytest.MonkeyPatch
):
    for name, value in values.items():
        with monkeypatch.context() as alone:
            alone.setenv(name, value)
            assert (name, shown(server)) == (name, usual)


def test_processes_of_others_connect_by_the_parameters_alone(server: Server, usual: list, hostile: None):
    """As the workers of a cluster do: nothing has cleaned their environment for us."""
    command = [sys.executable, "-c", ALONE, json.dumps(server.connection_parameters()), SHOWN]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert [tuple(row) for row in json.loads(done.stdout)] == usual


def test_a_whole_run(workspace, hostile: None, monkeypatch: pytest.MonkeyPatch):
    """A cluster is made, started, filled, watched and measured."""
    with temporary_folder() as folder:
        monkeypatch.setenv("ANN_BENCHMARKS_PG_DATA", str(folder / "server"))
        options = ("--runs", "1", "--clients", "2", "--duration", "0.5", "--warmup", "10")
        done = run_program(
            "run.py", "--local", "--algorithm", "pgvector_exact", "--dataset", "tiny", *options
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert workspace.results()


SECRETS = ("MYSQL_PWD", "GH_PAT", "SSH_PASSPHRASE", "VAULT_AUTH", "COOKIE", "PGP_KEY", "http_proxy")


def test_only_what_is_listed_reaches_plugins_and_what_they_start(workspace, monkeypatch: pytest.MonkeyPatch):
    """In the first environment of each process, which its account can read as long as it runs."""
    workspace.add_plugin(
        "peeking",
        """\
        def fit(self, X):
            import psutil
            from ann_benchmarks.algorithms.postgres.topology.pgbouncer import PgBouncer
            from ann_benchmarks.algorithms.postgres.topology.pgbouncer import find_program
            from ann_benchmarks.algorithms.postgres.errors import PostgresError
            from ann_benchmarks.algorithms.postgres.servers import current_server
            server = current_server()
            server.start({})
            seen = {"plugin": os.getpid(), "server": server._process.pid}
            try:
                pooler = PgBouncer(find_program(server.account))
                pooler.use(server, 1, {})
                seen["pooler"] = pooler.process.pid
            except PostgresError:  # it is not installed
                pooler = None
            for name, pid in seen.items():
                Path(name).write_bytes(Path(f"/proc/{pid}/environ").read_bytes())
            if pooler:
                pooler.stop()

        def query(self, v, n): return range(n)
        def get_additional(self): return {}
        """,
    )
    with temporary_folder() as folder:
        given = {name: f"precious-{name}" for name in SECRETS} | {
            "MODEL": "given",
            "CUDA_DEVICE_ORDER": "given",
        }
        given |= {"ANN_BENCHMARKS_VARIABLES": "MODEL, OTHER", "ANN_BENCHMARKS_PG_PASSWORD": "pass"}
        given |= {"ANN_BENCHMARKS_PG_SERVER": "embedded", "ANN_BENCHMARKS_PG_DATA": str(folder / "server")}
        monkeypatch.setattr(type(workspace), "environment", workspace.environment | given)
        done = run_program(
            "run.py", *workspace.command("--algorithm", "peeking")[2:], env=workspace.environment
        )
    assert (done.returncode, done.stderr) == (0, "")
    found = {name: Path(name).read_bytes() for name in ("plugin", "server", "pooler") if Path(name).exists()}
    assert found.keys() >= {"plugin", "server"} and ("pooler" in found or not shutil.which("pgbouncer"))
    for name, environment in found.items():
        assert b"precious" not in environment
        assert {b"MODEL=given", b"CUDA_DEVICE_ORDER=given"} <= {*environment.split(b"\0")}
        assert (b"ANN_BENCHMARKS_PG_PASSWORD=pass" in environment) == (name == "plugin")


def test_somebody_elses_server_is_reached_as_libpq_says(server: Server, monkeypatch: pytest.MonkeyPatch):
    parameters = server.connection_parameters()
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SERVER", "external")
    for name in ("host", "port"):
        monkeypatch.setenv(f"PG{name.upper()}", parameters[name])
    monkeypatch.setenv("PGOPTIONS", "-c geqo=off -c statement_timeout=77s")
    external = _make_server()
    with external.connect() as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("77s",)
    monkeypatch.setenv("PGSERVICE", "nonsense")
    with one_line("definition of service"):
        external.connect()


def test_the_memory_is_a_size(monkeypatch: pytest.MonkeyPatch):
    assert ram_bytes() is None
    for text, size in (("512MB", 512 << 20), ("64 GB", 64 << 30), ("2TB", 2 << 40)):
        monkeypatch.setenv(f"{PREFIX}RAM", text)
        assert ram_bytes() == size
    for text in ("64", "0GB", "1.5GB", "64GB " * 2, "-1GB", "64kB"):
        monkeypatch.setenv(f"{PREFIX}RAM", text)
        with pytest.raises(PostgresError, match="give a size, such as 512MB or 64GB"):
            ram_bytes()


@pytest.mark.parametrize("name", OWN)
def test_a_variable_of_ours_is_taken_or_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    if name in OWN[:6]:
        monkeypatch.setenv(f"{PREFIX}HOST", str(tmp_path))  # which is no server's folder
    for value in NONSENSE:
        monkeypatch.setenv(f"{PREFIX}{name}", value)
        try:
            _make_server()
            given_settings(), ram_bytes()
            if server_kind() == "external":
                _make_server().start({})
        except PostgresError as error:
            assert str(error).isprintable(), value
            assert len(str(error)) < 8000, value
            assert name != "PASSWORD" or len(value) < 5 or value not in str(error)


def test_only_a_control_group_is_entered(
    server_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Root opens what the variable names: any other file stays as it is, and none is made."""
    kept, missing = tmp_path / "kept", tmp_path / "cgroup.procs"
    kept.write_text("kept")
    link = tmp_path / "linked" / "cgroup.procs"
    link.parent.mkdir()
    link.symlink_to(kept)
    for path in (kept, link, missing):
        monkeypatch.setenv(f"{PREFIX}GROUPS", str(path))
        with pytest.raises(PostgresError, match=f"did not start: FATAL: .*{path}") as error:
            LocalServer(embedded_installation() / "bin", server_folder).start({})
        assert str(error.value).isprintable()
    assert kept.read_text() == "kept"
    assert not missing.exists()
