"""The shard engine `citus` on servers that run already, which are the same after a run as before."""

from contextlib import ExitStack, nullcontext

import pytest

from ann_benchmarks.algorithms.postgres import catalog, servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers.external import ExternalServer
from ann_benchmarks.algorithms.postgres.topology import citus as engine
from ann_benchmarks.algorithms.postgres.topology import citus_cluster
from ann_benchmarks.algorithms.postgres.topology.citus_cluster import (
    CITUS,
    TABLE,
    check_nodes,
    check_registered,
    give,
    place_of,
    take_back,
)

from .postgres_fixtures import SMALL
from .test_citus import servers_with_citus
from .test_shards import COUNT, QUERIES, K, fitted, hnsw

pytestmark = pytest.mark.thorough

__all__ = ["servers_with_citus"]
# What the users of a server can see, but for the tables and indexes that a run leaves there.
SEEN = (
    "SELECT 'extension', extname FROM pg_extension",
    "SELECT 'schema', nspname FROM pg_namespace WHERE nspname !~ '^pg_t'",
    "SELECT relkind::text, pg_class.oid::regclass FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace"
    " WHERE nspname !~ '^pg_toast|^ann_benchmarks$'",
    "SELECT 'role', rolname FROM pg_roles",
    "SELECT setrole::regrole, setconfig FROM pg_db_role_setting",
    "SELECT name, setting FROM pg_file_settings",
)
METADATA = ("authinfo", "cleanup", "colocation", "local_group", "node", "object", "partition", "placement",
            "poolinfo", "schema", "shard")  # fmt: skip
OWN_SETTINGS = (
    "ALTER ROLE ann IN DATABASE ann SET work_mem = '5MB'; ALTER ROLE ann IN DATABASE ann SET jit = off"
)
NO_SETTINGS = "ALTER ROLE ann IN DATABASE ann RESET ALL"


def seen(found):
    rows = []
    for server in found.values():
        with server.connect() as connection:
            tables = [f"SELECT 'of {name}', row FROM pg_dist_{name} row" for name in METADATA]
            has_citus = connection.execute("SELECT FROM pg_extension WHERE extname = 'citus'").rowcount
            for query in [*SEEN, *(tables if has_citus else ())]:
                sql = f"SELECT found::text FROM ({query}) AS found ORDER BY 1"
                rows += [(server.data_folder.name, row) for (row,) in connection.execute(sql)]
    return rows


@pytest.fixture
def hosts(servers_with_citus, monkeypatch):
    """A coordinator, 0, and two shards that run already, with Citus' library, as a user names them."""
    monkeypatch.setattr(servers, "_current", None)
    monkeypatch.setattr(servers, "_shards", {})
    places = []
    for server in servers_with_citus.values():
        server.preload(CITUS)
        own = server.connection_parameters()
        places.append(f"{own['host']}:{own['port']}")
    for name in ("user", "dbname", "host", "port"):
        own = servers_with_citus[0].connection_parameters()
        monkeypatch.setenv(f"ANN_BENCHMARKS_PG_{name.upper()}", own[name])
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SHARD_HOSTS", ",".join(places[1:]))
    with fitted("fdw"):
        pass  # what is kept for later runs is there
    alter_user(servers_with_citus, OWN_SETTINGS)
    yield servers_with_citus
    alter_user(servers_with_citus, NO_SETTINGS)


def alter_user(found, statements):
    for server in found.values():
        with server.connect() as connection:
            connection.execute("SET citus.enable_metadata_sync = off")
            connection.execute(statements)


@pytest.fixture
def cluster(hosts):
    """The same as the nodes of a cluster that its users have made, with tables and rows of theirs."""
    with ExitStack() as stack:
        for server in reversed(hosts.values()):
            connection = stack.enter_context(server.connect())
            connection.execute("CREATE EXTENSION citus")
            stack.callback(drop_extension, server)
        connection.execute("SELECT citus_set_coordinator_host(%s, %s)", place_of(hosts[0]))
        for number in range(1, COUNT + 1):
            connection.execute("SELECT citus_add_node(%s, %s)", place_of(hosts[number]))
        connection.execute("CREATE TABLE theirs (id int); SELECT create_distributed_table('theirs', 'id')")
        connection.execute("INSERT INTO theirs SELECT generate_series(1, 100)")
        yield hosts
        with hosts[0].connect() as connection:
            leave(connection)


def drop_extension(server):
    with server.connect() as connection:  # a server may have been started again
        connection.execute("DROP EXTENSION IF EXISTS citus CASCADE")


def leave(connection):
    connection.execute("DROP TABLE IF EXISTS theirs")
    if connection.execute("SELECT FROM pg_extension WHERE extname = 'citus'").rowcount:
        connection.execute("SELECT citus_remove_node(nodename, nodeport) FROM pg_dist_node")


def refused(words, *arguments):
    with pytest.raises(PostgresError, match=words) as raised, fitted("citus", *arguments):
        pass
    assert "\n" not in str(raised.value)


def answers_are_true_and_nothing_changes(found):
    before = seen(found)
    with fitted("client") as algorithm:
        true = algorithm.time_queries(QUERIES, K)[1]
    with fitted("citus") as algorithm:
        assert algorithm.time_queries(QUERIES, K)[1] == true
        assert "Citus Adaptive" in algorithm.get_additional()["plan"]
        algorithm.rest()
        assert seen(found) == before
        algorithm.resume()
        assert algorithm.time_queries(QUERIES, K)[1] == true
        assert seen(found) != before
    assert seen(found) == before


def test_hosts_without_a_cluster_are_refused(hosts):
    before = seen(hosts)
    refused("^shard 1 of 2: the database lacks the extension 'citus': create it on all servers, register")
    assert seen(hosts) == before


def test_a_cluster_that_is_there_is_used_and_stays_as_it_is(cluster):
    answers_are_true_and_nothing_changes(cluster)
    with fitted("citus", hnsw(), 60), cluster[0].connect() as connection:
        assert connection.execute("SELECT count(*) FROM theirs").fetchone() == (100,)


def test_what_a_killed_run_has_left_is_dropped_by_the_next(cluster, monkeypatch):
    before = seen(cluster)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "drop_citus", lambda server, connection: None)
        with fitted("citus", hnsw(), 60):
            pass
    assert seen(cluster) != before
    with fitted("fdw", hnsw(), 60):
        pass
    assert seen(cluster) == before


def test_a_run_that_lives_keeps_what_it_has(cluster):
    with fitted("citus") as algorithm:
        true = algorithm.time_queries(QUERIES, K)[1]
        for server in cluster.values():
            other = ExternalServer(server.connection_parameters())
            with other.connect() as connection:
                citus_cluster.drop_abandoned(other, connection)
        assert algorithm.time_queries(QUERIES, K)[1] == true
    with cluster[2].connect() as connection:
        assert catalog.try_lock(connection, TABLE)
        refused("^shard 2 of 2: another run asks its shards by Citus here: wait for it")


def test_a_host_without_its_library_is_refused(cluster):
    cluster[2]._required_libraries.remove(CITUS)
    cluster[2].restart(SMALL)
    refused("^shard 2 of 2: the server has to load 'citus' when it starts: add it to shared_preload_libr")
    cluster[2].preload(CITUS)


def test_nodes_that_do_not_fit_are_refused(cluster, monkeypatch):
    before = seen(cluster)
    (host, port), (other, _) = place_of(cluster[1]), place_of(cluster[2])
    hosts = "ANN_BENCHMARKS_PG_SHARD_HOSTS"
    with monkeypatch.context() as patch:
        patch.setenv(hosts, f"{host}/:{port},{other}:{port}")
        refused(rf"^shard 1 of 2: the coordinator's Citus has no active node {host}/:{port} \({host}:")
        patch.setattr(servers, "_current", None)
        patch.setenv("ANN_BENCHMARKS_PG_HOST", other)
        patch.setenv(hosts, f"{host}:{port},{place_of(cluster[0])[0]}:{port}")
        refused("^the coordinator: the server is a worker of its Citus cluster: name the cluster's coordin")
    external = [ExternalServer(server.connection_parameters()) for server in cluster.values()]
    with pytest.raises(PostgresError, match="over all of its 2 nodes, .* among them: name all in .* 2$"):
        check_nodes(external[0], external[1:2])
    with pytest.raises(PostgresError, match="^Citus asks hosts that run already by their coordinator: name"):
        check_nodes(cluster[0], external[1:])
    assert seen(cluster) == before
    shown = "SELECT citus_set_node_property(%s, %s, 'shouldhaveshards', %s)"
    with cluster[0].connect() as connection:
        for is_one, words in ((True, "spread the table over the coordinator, too: "), (False, "")):
            connection.execute(shown, [*place_of(cluster[0]), is_one])
            with pytest.raises(PostgresError, match=words) if words else nullcontext():
                check_nodes(external[0], external[1:])


def test_many_nodes_are_named_in_part():
    five = [(f"db{number}", 5432) for number in range(1, 6)]
    with pytest.raises(
        PostgresError, match=r"db9:5432 \(db1:5432, db2:5432, db3:5432, db4:5432 and 1 more\)"
    ):
        check_registered([("db1", 5432), ("db9", 5432)], five)
    with pytest.raises(PostgresError, match="over all of its 5 nodes, db5:5432 among them: name all"):
        check_registered(five[:4], five)


def test_a_user_has_the_same_settings_again(server, monkeypatch):
    monkeypatch.setattr(citus_cluster, "SAVED", table := "public.settings_before")
    now = "SELECT setconfig FROM pg_db_role_setting WHERE setrole = 'ann'::regrole"
    with server.connect() as connection:
        connection.execute(OWN_SETTINGS)
        before = connection.execute(now).fetchall()
        give(connection, {"work_mem": "6MB", "enable_sort": "off"})
        give(connection, {"work_mem": "7MB", "hnsw.ef_search": "50"})
        (found,) = connection.execute(now).fetchone()
        assert sorted(found) == ["hnsw.ef_search=50", "jit=off", "work_mem=7MB"]
        with pytest.raises(PostgresError, match="the server refuses work_mem = x"):
            give(connection, {"work_mem": "x"})
        take_back(connection)
        assert sorted(connection.execute(now).fetchone()[0]) == sorted(before[0][0])
        connection.execute(f"DROP TABLE {table}; {NO_SETTINGS}")
        take_back(connection)  # the table is not there
