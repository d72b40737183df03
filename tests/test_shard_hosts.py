"""Shards on servers that run already: which they are, what is stored of them, and what may be wrong."""

import os

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers.external import hosts_of, shard_hosts
from ann_benchmarks.algorithms.postgres.servers.whereabouts import check_parking
from ann_benchmarks.algorithms.postgres.topology.shard import Shard
from ann_benchmarks.plugin.plugin_class import PluginClass
from ann_benchmarks.results.environment import differences, environment_of

from .programs import call_program
from .relay import relayed
from .test_shards import COUNT, DIMENSION, QUERIES, TRAIN, K, fitted, shard_servers

pytestmark = pytest.mark.thorough

__all__ = ["shard_servers"]
VARIABLE = "ANN_BENCHMARKS_PG_SHARD_HOSTS"


@pytest.fixture
def hosts(plugin_server, shard_servers, monkeypatch):
    """Two servers that run already, named as a user names them; the coordinator is one of our own."""
    monkeypatch.setattr(servers, "_shards", {})
    parameters = shard_servers[1].connection_parameters()
    for name in ("user", "dbname"):
        monkeypatch.setenv(f"ANN_BENCHMARKS_PG_{name.upper()}", parameters[name])
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SERVER", "embedded")
    places = [f"{one['host']}:{one['port']}" for one in map(_parameters, shard_servers.values())]
    monkeypatch.setenv(VARIABLE, ", ".join(places))
    return places


def _parameters(server):
    return server.connection_parameters()


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("db1", [("db1", None)]),
        ("db1:5433, db2.example.org", [("db1", "5433"), ("db2.example.org", None)]),
        ("[::1]:5432,[fe80::1%eth0],/run/postgresql:5434",
         [("::1", "5432"), ("fe80::1%eth0", None), ("/run/postgresql", "5434")]),
    ],
)  # fmt: skip
def test_hosts_are_read(monkeypatch, text, places):
    monkeypatch.setenv(VARIABLE, text)
    found = [host.connection_parameters() for host in shard_hosts()]
    assert [(one["host"], one.get("port")) for one in found] == places
    assert all(one["user"] == "ann" and one["tcp_user_timeout"] == "60000" for one in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("db1,,db2", "'' in .*SHARD_HOSTS must be a server: write HOST or HOST:PORT"),
        ("::1", "'::1' in .* an IPv6 address in brackets"),
        ("db1:0", "'db1:0' in"),
        ("db1:65536", "'db1:65536' in"),
        ("db1:x", "'db1:x' in"),
        ("db1 db2", "'db1 db2' in"),
        ("db1:5432,db2,db1:5432", "names db1:5432 twice"),
        ("db1,db2", "names 2 of 3 servers: name all, or have fewer"),
    ],
)
def test_hosts_that_cannot_be_are_refused(monkeypatch, text, message):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(PostgresError, match=message) as raised:
        hosts_of(3)
    assert "\n" not in str(raised.value)


def test_more_servers_than_one_machine_has_need_a_list(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert hosts_of(64) == []
    with pytest.raises(PostgresError, match=f"^65 shards are too many .* name servers .* in {VARIABLE}"):
        hosts_of(65)
    monkeypatch.setenv(VARIABLE, ",".join(f"db{number}" for number in range(1000)))
    assert len(hosts_of(1000)) == 1000


@pytest.mark.parametrize("engine", ["fdw", "fdw-naive", "client"])
def test_answers_are_those_of_one_server(hosts, engine):
    with fitted(None) as algorithm:
        true = algorithm.time_queries(QUERIES, K)[1]
        assert environment_of(PGVectorExact.server_environment())["server"] == "embedded"
    with fitted(engine) as algorithm:
        assert algorithm.time_queries(QUERIES, K)[1] == true
        facts = algorithm.get_additional()
    assert facts["server"] == "external" and facts["server_address"] == ",".join(hosts)
    # What is known before a run is what is stored, so that a finished point is found again.
    known = PluginClass(PGVectorExact).server_environment("shards", {"count": COUNT})
    assert known["server_address"] == ",".join(hosts)
    assert known["postgres_version"] == facts["postgres_version"]
    assert not differences(environment_of(known), environment_of(facts))


def test_who_parks_indexes_has_to_be_a_superuser_on_every_shard(hosts, shard_servers, monkeypatch):
    check_parking()
    with shard_servers[COUNT].connect() as connection:
        connection.execute("CREATE ROLE ordinary LOGIN")
    monkeypatch.setenv("ANN_BENCHMARKS_PG_USER", "ordinary")
    monkeypatch.setenv(VARIABLE, hosts[COUNT - 1])
    with pytest.raises(PostgresError, match="user 'ordinary' may not park an index .*: name a superuser"):
        check_parking()


def test_servers_are_left_running_with_their_rows(hosts, shard_servers):
    with fitted("client") as algorithm:
        algorithm.query(QUERIES[0], K)
    for server in shard_servers.values():
        assert server._process.poll() is None
    with fitted("client") as algorithm:
        tables = {shard.table.name for shard in algorithm._indexed._shards}
    assert len(tables) == COUNT


def test_a_host_that_cannot_be_reached_is_named_before_rows_are_sent(hosts, shard_servers, monkeypatch):
    train = np.concatenate([TRAIN, np.full((1, DIMENSION), 7, np.float32)])
    monkeypatch.setenv(VARIABLE, f"{hosts[0]},127.0.0.1:1")
    with shard_servers[1].connect() as connection:
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'ann_benchmarks'"
        before = connection.execute(tables).fetchone()
        with (
            pytest.raises(PostgresError, match="^shard 2 of 2: cannot connect .* port 1:") as raised,
            fitted("client", train=train),
        ):
            pass
        assert "\n" not in str(raised.value)
        assert connection.execute(tables).fetchone() == before


def test_an_extension_that_a_host_lacks_is_named(hosts, monkeypatch):
    monkeypatch.setattr(PGVectorExact, "extension", "no_such")
    with (
        pytest.raises(PostgresError, match="^shard 1 of 2: .* extension 'no_such': install it there"),
        fitted("client"),
    ):
        pass


def test_hosts_of_different_versions_are_refused(hosts, monkeypatch):
    own = Shard.versions_offered

    def offered(shard):
        return own(shard) | ({"vector": "0.7.0"} if shard.number == 2 else {})

    monkeypatch.setattr(Shard, "versions_offered", offered)
    with (
        pytest.raises(PostgresError, match=r"shard 1 has .* and shard 2 has .*vector 0\.7\.0: use the same"),
        fitted("client"),
    ):
        pass


@pytest.mark.parametrize("engine", ["fdw", "client"])
def test_a_network_that_stalls_ends_with_the_time_of_the_definition(
    hosts, shard_servers, server_folder, engine
):
    workspace = server_folder.parent
    environment = {**os.environ, "ANN_BENCHMARKS_PG_DATA": str(server_folder)}
    command = [
        *("--local", "--algorithm", "pgvector_exact", "--runs", "1", "--shards", str(COUNT)),
        *("--dataset", "clustered-600-8-euclidean", "--shard-engine", engine),
    ]

    def run(*options):
        return call_program("run.py", *command, *options, cwd=workspace, env=environment)

    with relayed(shard_servers[2].connection_parameters()) as relay:
        relay.stalls_at = b"ORDER BY"
        place = f"{relay.parameters['host']}:{relay.parameters['port']}"
        environment[VARIABLE] = f"{hosts[0]},{place}"
        stalled = run("--timeout", "15")
        assert relay.is_stalled and stalled.returncode == 1, stalled.stderr
        assert "not finished after 15 s (--timeout)" in stalled.stderr and "Traceback" not in stalled.stderr
        assert not list(workspace.glob("results/**/*.hdf5"))
        relay.stalls_at = b""
        again = run()
    assert again.returncode == 0, again.stderr
    (path,) = workspace.glob("results/**/*.hdf5")
    assert f"shards{COUNT}-{engine}" in path.parent.name
