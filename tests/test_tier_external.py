"""A server of somebody's own, which the test starts: given the settings of tiers, and its own back."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import psycopg
import pytest

from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import tiering
from ann_benchmarks.algorithms.postgres.servers.account import server_account
from ann_benchmarks.algorithms.postgres.servers.local import LocalServer
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from ann_benchmarks.algorithms.postgres.servers.tiering import ExternalTieredServer
from ann_benchmarks.common.numbers import MB
from tiers.tier import Disk, Tier

from .postgres_fixtures import copied
from .programs import temporary_folder

pytestmark = pytest.mark.thorough

SMALL = Tier(48 * MB)
ORDINARY = Tier(64 * MB)


@dataclass
class Cluster:
    """A cluster that pg_ctl starts and stops, as an administrator would."""

    data: Path
    pg_ctl: str  # a shell command, without what is to be done
    command: str  # that restarts it

    def control(self, what: str) -> None:
        subprocess.run(f"{self.pg_ctl} {what}", shell=True, check=True, capture_output=True)

    @property
    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def auto(self) -> dict[str, str]:
        """What ALTER SYSTEM has set."""
        lines = (self.data / "postgresql.auto.conf").read_text().splitlines()
        pairs = [line.partition(" = ") for line in lines if not line.startswith("#")]
        return {name: value.strip("'") for name, _, value in pairs}

    def execute(self, statement: str) -> list[Any]:
        with psycopg.connect(
            host=str(self.data.parent), user="ann", dbname="ann", autocommit=True
        ) as connection:
            done = connection.execute(statement)
            return [] if done.description is None else done.fetchall()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with temporary_folder(on_disk=True) as folder:
        yield folder


@pytest.fixture(scope="module")
def running(folder: Path, made_server: Path) -> Iterator[Cluster]:
    """A cluster with its own idea of shared_buffers, in postgresql.conf."""
    # Started by ours; its programs then lie where their account can run them.
    maker = LocalServer(embedded_installation() / "bin", copied(made_server, folder / "server"))
    maker.start({"shared_buffers": "4MB"})
    maker.stop()
    account = server_account()
    prefix = (
        f"setpriv --reuid {account.uid} --regid {account.gid} --clear-groups " if account.is_other else ""
    )
    [data] = folder.glob("server/pg*/data")
    home, programs = data.parent, maker.programs
    with (data / "postgresql.conf").open("a") as file:
        file.write(f"\nshared_buffers = '32MB'\nlisten_addresses = ''\nunix_socket_directories = '{home}'\n")
        file.write("fsync = off\n")
    pg_ctl = f"cd / && {prefix}{programs}/pg_ctl -D {data} -w -m fast -l {home}/log.theirs"
    cluster = Cluster(data, pg_ctl, f"{pg_ctl} restart")
    cluster.control("start")
    yield cluster
    subprocess.run(f"{pg_ctl} stop", shell=True, capture_output=True)


@pytest.fixture
def cluster(running: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The same for each test, which leaves nothing behind."""
    monkeypatch.setenv("ANN_BENCHMARKS_PG_HOST", str(running.data.parent))
    yield running
    (running.data / "postgresql.auto.conf").write_text("")
    if not (running.data / "postmaster.pid").exists():
        running.control("start")
    running.execute("DROP SCHEMA IF EXISTS ann_benchmarks CASCADE")


def test_tiers_one_after_the_other_and_all_is_given_back(cluster: Cluster):
    server = ExternalTieredServer(cluster.command)
    server.check([SMALL, ORDINARY, Tier(48 * MB, 1 << 30, 1, Disk("gp3", 3000))])
    assert cluster.auto() == {}
    assert server.data_folder() == cluster.data
    before = cluster.pid
    for tier, shown in ((SMALL, "48MB"), (ORDINARY, "64MB"), (Tier(), "32MB")):
        pid = server.serve(tier)
        assert pid == cluster.pid != before
        assert cluster.execute("SHOW shared_buffers") == [(shown,)]
        assert cluster.execute("SHOW huge_pages") == [("off",)]
        before = pid
    server.give_back()
    assert cluster.auto() == {}
    assert cluster.pid != before
    assert cluster.execute("SHOW shared_buffers") == [("32MB",)]
    assert cluster.execute("SELECT to_regclass('ann_benchmarks.settings_before_tiers')") == [(None,)]


def test_who_uses_it_knows_its_memory_alone(cluster: Cluster):
    server = ExternalTieredServer(cluster.command)
    assert server.environment(Tier(48 * MB, 1 << 30, 1), [Path("/a")]) == {"ANN_BENCHMARKS_PG_RAM": "1024MB"}
    assert server.environment(SMALL) == server.environment(None) == {}


def test_nothing_is_given_back_where_nothing_was_changed(cluster: Cluster):
    before = cluster.pid
    ExternalTieredServer(cluster.command).give_back()
    assert cluster.pid == before


def test_what_the_administrator_had_set_comes_back_also_after_a_kill(cluster: Cluster):
    cluster.execute("ALTER SYSTEM SET shared_buffers = '24MB'")
    cluster.execute("ALTER SYSTEM SET work_mem = '5MB'")
    ExternalTieredServer(cluster.command).serve(SMALL)  # and no more is heard of it
    another = ExternalTieredServer(cluster.command)
    another.serve(ORDINARY)
    assert cluster.auto() == {"shared_buffers": "64MB", "work_mem": "5MB", "huge_pages": "off"}
    another.give_back()
    assert cluster.auto() == {"shared_buffers": "24MB", "work_mem": "5MB"}
    assert cluster.execute("SHOW shared_buffers") == [("24MB",)]


@pytest.mark.parametrize("command", [None, "", "  "])
def test_a_command_is_needed(command: str | None):
    with pytest.raises(PostgresError, match="--restart-command 'systemctl restart postgresql'"):
        ExternalTieredServer(command).check([SMALL])


def test_a_command_that_fails_is_reported_by_its_last_line(cluster: Cluster):
    server = ExternalTieredServer("echo first; echo 'Unit postgresql not found.' >&2; exit 5")
    with pytest.raises(
        PostgresError, match=r"failed: Unit postgresql not found\.; if .* postgresql\.auto\.conf"
    ):
        server.serve(SMALL)
    with pytest.raises(PostgresError, match="`exit 3` failed: exit status 3"):
        ExternalTieredServer("exit 3").give_back()
    assert cluster.auto() == {}


def test_a_command_that_restarts_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiering, "_BACK_SECONDS", 0.3)
    with pytest.raises(PostgresError, match="`true` did not restart the server within"):
        ExternalTieredServer("true").serve(SMALL)


def test_a_server_that_does_not_come_back(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiering, "_BACK_SECONDS", 0.3)
    server = ExternalTieredServer(f"{cluster.pg_ctl} stop")
    with pytest.raises(
        PostgresError, match="did not bring the server back within .* s: cannot connect .*auto.conf"
    ):
        server.serve(SMALL)
    with pytest.raises(PostgresError, match="cannot connect to PostgreSQL .*; if the server does not start"):
        server.give_back()


def test_a_command_whose_server_keeps_its_output_is_not_waited_for(cluster: Cluster):
    command = f"sleep 30 & echo $! > {cluster.data.parent}/sleeper; {cluster.command}"
    ExternalTieredServer(command).serve(SMALL)
    sleeper = psutil.Process(int((cluster.data.parent / "sleeper").read_text()))
    assert sleeper.is_running()  # it would have kept a pipe open
    sleeper.kill()


def test_settings_that_win_over_alter_system(cluster: Cluster):
    other = cluster.command.replace(" restart", " -o '-c shared_buffers=40MB' restart")
    with pytest.raises(
        PostgresError, match="shared_buffers is 40MB instead of 48MB: its source is 'command line'"
    ):
        ExternalTieredServer(other).serve(SMALL)
    other = cluster.command.replace(" restart", " -o '-c huge_pages=try' restart")
    with pytest.raises(PostgresError, match="huge_pages is try instead of off"):
        ExternalTieredServer(other).serve(SMALL)
    cluster.control("stop")  # pg_ctl would remember the options


def test_a_size_that_postgresql_refuses(cluster: Cluster):
    with pytest.raises(PostgresError, match="ALTER SYSTEM SET shared_buffers was refused: .*shared_buffers"):
        ExternalTieredServer(cluster.command).serve(Tier(1 << 60))


def test_a_user_without_the_right_changes_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    cluster.execute("CREATE ROLE ordinary LOGIN")
    monkeypatch.setenv("ANN_BENCHMARKS_PG_USER", "ordinary")
    before = cluster.pid
    server = ExternalTieredServer(cluster.command)
    for attempt in (lambda: server.check([SMALL]), lambda: server.serve(SMALL)):
        with pytest.raises(PostgresError, match="user 'ordinary' may not change .* ANN_BENCHMARKS_PG_USER"):
            attempt()
    assert (cluster.auto(), cluster.pid) == ({}, before)
    assert server.data_folder() is None
    cluster.execute("DROP ROLE ordinary")


@pytest.mark.parametrize("tier", [Tier(48 * MB, 1 << 30), Tier(cpus=1), Tier(disk=Disk("gp3", 3000))])
def test_another_machine_cannot_be_held(tier: Tier, cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiering, "server_processes", lambda connection: None)  # as for an address far away
    before = cluster.pid
    server = ExternalTieredServer(cluster.command)
    for attempt in (lambda: server.check([SMALL, tier]), lambda: server.serve(tier)):
        with pytest.raises(PostgresError, match=f"tier {tier}".replace("+", ".") + ".* another machine"):
            attempt()
    assert (cluster.auto(), cluster.pid) == ({}, before)
    assert server.data_folder() is None
    assert server.serve(SMALL) is None
    assert cluster.execute("SHOW shared_buffers") == [("48MB",)]
    server.check([Tier(disk=Disk("nvme"))])


def test_a_server_whose_memory_is_on_one_node_is_warned_of(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    pids = []
    monkeypatch.setattr(tiering, "numa_advice", lambda pid: pids.append(pid) or "spread it")
    assert ExternalTieredServer(cluster.command).check([SMALL]) == "spread it"
    assert pids == [cluster.pid]


def test_processes_that_may_not_be_seen(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    def hidden(connection: psycopg.Connection[Any]) -> SimpleNamespace:
        raise psutil.AccessDenied(1)

    monkeypatch.setattr(tiering, "server_processes", hidden)
    with pytest.raises(PostgresError, match="another machine"):
        ExternalTieredServer(cluster.command).check([Tier(cpus=1)])


def test_an_unreachable_server_is_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANN_BENCHMARKS_PG_HOST", "127.0.0.1")
    monkeypatch.setenv("ANN_BENCHMARKS_PG_PORT", "1")
    with pytest.raises(PostgresError, match="cannot connect to PostgreSQL at 127.0.0.1, port 1") as error:
        ExternalTieredServer("true").check([SMALL])
    assert "\n" not in str(error.value) and "auto.conf" not in str(error.value)
