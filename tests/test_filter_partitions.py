"""List partitions on a real server; what they and partial indexes lock, and the blocks that are read."""

from typing import Any

import numpy as np
import psycopg
import pytest
from distributed import LocalCluster

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.environment import use_settings
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.index.divisions import LockRoom
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.data.filters import Filter, Predicate
from ann_benchmarks.load.remote_clients import RemoteClients

from .divided_table import EQUAL, ORDERED, SMALL, WORD, divided, plans_of, queries_of, recall
from .filtered_rows import ROWS, TEXTS, TRAIN, K, one

pytestmark = pytest.mark.thorough


def test_parked_indexes_are_not_locked(plugin_server: Server):
    """Planning a query locks each index of its table that is live, which takes time and room."""
    with divided(queries_of(EQUAL), division="partial") as (algorithm, _):
        assert relations_locked(plugin_server, algorithm) == 1 + len(TEXTS)
    with divided(queries_of([one("uniform", "<", 300)]), division="none") as (algorithm, _):
        assert relations_locked(plugin_server, algorithm) == 2
    with divided(queries_of(EQUAL), division="partial") as (algorithm, facts):
        assert facts["index_reused"] and relations_locked(plugin_server, algorithm) == 1 + len(TEXTS)


def relations_locked(server: Server, algorithm: PGVectorHNSW) -> int:
    """Relations of the schema that a transaction holds locks on, after it has planned a query."""
    with server.connect() as connection, connection.transaction():
        connection.execute(f"EXPLAIN SELECT id FROM {algorithm.table_name} WHERE uniform < 5")
        return count_locks(connection)


def count_locks(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute(
        "SELECT count(DISTINCT relation) FROM pg_locks JOIN pg_class ON pg_class.oid = relation"
        " WHERE pid = pg_backend_pid() AND relnamespace = 'ann_benchmarks'::regnamespace"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_more_partial_indexes_than_the_server_can_lock(plugin_server: Server, monkeypatch):
    room = LockRoom(1, 10, True)
    monkeypatch.setattr(LockRoom, "read", lambda *_: room)
    message = (
        "^10 partial indexes: the plans of queries lock 11 relations each, and the server's settings make"
        ' room for 10: set ANN_BENCHMARKS_PG_SETTINGS="max_locks_per_transaction=2"$'
    )
    queries = queries_of(EQUAL)
    with pytest.raises(PostgresError, match=message), divided(queries, division="partial"):
        pass
    room = LockRoom(1, 11, False)
    with divided(queries, division="partial") as (algorithm, _):
        algorithm.open_clients(queries, K, 2).close()
        for begin in (algorithm.open_clients, algorithm.clients_opener):
            with pytest.raises(
                PostgresError, match=r"each of 3 clients.* 11: set max_locks_per_transaction=2"
            ):
                begin(queries, K, 3)
    indexed = (
        r"^10 partial indexes and 4 of attributes: the plans of queries lock 15 relations each, .* 14: set"
    )
    room = LockRoom(1, 14, True)
    with (
        pytest.raises(PostgresError, match=indexed),
        divided(queries, division="partial", attribute_index="auto"),
    ):
        pass


@pytest.mark.parametrize("mode", ["force_custom_plan", "auto"])
@pytest.mark.parametrize("division", ["partial", "partitions"])
def test_indexes_of_attributes_are_locked_too(plugin_server: Server, monkeypatch, division: str, mode: str):
    """One session has just enough room for what the server says that its queries lock."""
    queries = queries_of(EQUAL)
    with divided(queries, division=division, attribute_index="auto") as (algorithm, _):
        algorithm.use_settings({"plan_cache_mode": mode})
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(40)
        session = algorithm._session_for(queries[0], K)
        locked = max(session.explain_and_lock(query)[1] for query in queries)
        monkeypatch.setattr(LockRoom, "read", lambda *_: LockRoom(1, locked, True))
        algorithm.end_sessions()
        algorithm.query(queries[0], K)
        monkeypatch.setattr(LockRoom, "read", lambda *_: LockRoom(1, locked - 1, True))
        algorithm.end_sessions()
        with pytest.raises(PostgresError, match=f"^queries lock {locked} relations .* {locked - 1}: set"):
            algorithm.query(queries[0], K)
        algorithm.use_settings({})


def test_indexes_of_partitions_have_room_before_they_are_built(plugin_server: Server, monkeypatch):
    queries, count = queries_of(EQUAL), len(TEXTS)
    own = {"division": "partitions", "attribute_index": "auto", "M": 5}
    room = LockRoom(1, 4 + count * 6, True)  # one too few: 4 attributes have an index of each partition
    monkeypatch.setattr(LockRoom, "read", lambda *_: room)
    message = f"^10 partitions: the plans of queries lock {room.size + 1} .* {room.size}: set"
    with pytest.raises(PostgresError, match=message), divided(queries, **own):
        pass
    use_settings({"plan_cache_mode": "force_custom_plan"})
    with divided(queries, **own) as (algorithm, _):
        algorithm.query(queries[0], K)
        with plugin_server.connect() as connection, connection.transaction(force_rollback=True):
            connection.execute(f"CREATE INDEX again ON {algorithm.table_name} (uniform)")
            assert count_locks(connection) == 2 + 2 * count < 1 + 3 * count


def test_clients_on_a_cluster_send_queries_with_filters(plugin_server: Server):
    queries = queries_of(EQUAL)
    how = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with divided(queries, division="partial") as (algorithm, _), LocalCluster(**how) as cluster:
        clients = RemoteClients(algorithm.clients_opener(queries, K, 2), 2, cluster.scheduler_address)
        orders = [np.arange(0, len(queries), 2), np.arange(1, len(queries), 2)]
        clients.prepare(orders)
        clients.run()
        answers = clients.answers()
        clients.close()
    found = {number: ids for part in answers for number, ids in zip(part.sampled, part.ids, strict=True)}
    with divided(queries, division="partial") as (algorithm, _):
        assert [found[number].tolist() for number in range(len(queries))] == algorithm.time_queries(
            queries, K
        )[1]


def test_the_room_for_locks_is_that_of_the_manual(plugin_server: Server):
    with plugin_server.connect() as connection:
        assert LockRoom.read(connection, True).size == 64 * 500


@pytest.mark.parametrize("division", ["none", "partial", "partitions"])
def test_blocks_are_those_of_all_indexes_and_partitions(plugin_server: Server, division: str):
    queries = queries_of(EQUAL)
    with divided(queries, division=division) as (algorithm, _):
        algorithm.use_settings({"enable_seqscan": "off"})
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(100)
        algorithm.time_queries(queries, K)
        watch = algorithm.watch_server()
        with watch.running():
            algorithm.time_queries(queries, K)
        facts = watch.facts(len(queries))
        watch.close()
        algorithm.use_settings({})
        assert facts["index_blocks_hit_per_query"] > 20 and facts["table_blocks_hit_per_query"] > 5


@pytest.mark.parametrize("mode", ["auto", "force_generic_plan"])
def test_each_partition_has_an_index(plugin_server: Server, mode: str):
    queries = queries_of(EQUAL)
    with divided(queries, division="partitions") as (algorithm, facts):
        algorithm.use_settings({"plan_cache_mode": mode, "enable_seqscan": "off"})
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(400)
        assert facts["partitions"] == len(TEXTS) and facts["table_size"] > 0 and facts["index_size"] > 0
        assert recall(algorithm, queries) > 0.98
        assert all("Index Scan (hnsw)" in plan for plan in plans_of(algorithm))
        algorithm.use_settings({})
        with plugin_server.connect() as connection:
            counts = dict(
                connection.execute(
                    f"SELECT tableoid::regclass::text, count(*) FROM {algorithm.table_name} GROUP BY 1"
                ).fetchall()
            )
            assert sum(counts.values()) == ROWS and len(counts) == len(TEXTS)
    with divided(queries, division="partitions") as (again, facts):
        assert facts["index_reused"] and again.table_name == algorithm.table_name
    with divided(queries, division="none") as (usual, facts):
        assert usual.table_name != algorithm.table_name


@pytest.mark.parametrize("kind", ["custom", "generic"])
def test_a_value_of_no_partition_has_the_kind_of_plan_that_is_forced(plugin_server: Server, kind: str):
    queries = queries_of([one(WORD, "=", "it's"), one(WORD, "=", "in no row")])
    with divided(queries, division="partitions") as (algorithm, _):
        algorithm.use_settings({"plan_cache_mode": f"force_{kind}_plan"})
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(40)
        assert recall(algorithm, queries) > 0.9
        plans = plans_of(algorithm)
        assert len(plans) == 2 and all(plan.startswith(f"{kind}: ") for plan in plans)
        algorithm.use_settings({})


def test_indexes_of_partitions_take_turns(plugin_server: Server):
    queries = queries_of(EQUAL)
    for more in ({}, {"M": 6}, {}):
        with divided(queries, division="partitions", attribute_index="auto", **more) as (algorithm, _):
            with plugin_server.connect() as connection:
                used = connection.execute(
                    "SELECT amname, reloptions::text, count(*) FROM pg_index"
                    " JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam"
                    " WHERE indisvalid AND indislive AND relkind = 'i' AND indrelid IN"
                    " (SELECT relid FROM pg_partition_tree(%s::regclass)) GROUP BY 1, 2 ORDER BY 1",
                    [algorithm.table_name],
                ).fetchall()
            options, count = f"{{m={more.get('M', SMALL['M'])},ef_construction=32}}", len(TEXTS)
            btree = ("btree", None, count * len(ORDERED))
            assert used == [btree, ("gin", None, count), ("hnsw", options, count)]


@pytest.mark.parametrize(
    ("mode", "locked"), [("force_custom_plan", 3), ("auto", 1 + 2 * len(TEXTS)), ("", 1 + 2 * len(TEXTS))]
)
def test_clients_of_partitions_have_room_for_what_they_lock(
    plugin_server: Server, monkeypatch, mode: str, locked: int
):
    """The sixth execution makes a plan without values, to compare its costs, and locks every partition."""
    queries = queries_of(EQUAL)
    with divided(queries, division="partitions") as (algorithm, _):
        algorithm.use_settings({"plan_cache_mode": mode} if mode else {})
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(40)
        session = algorithm._session_for(queries[0], K)
        assert max(session.explain_and_lock(query)[1] for query in queries) == locked
        for transactions, is_enough in ((-(-3 * locked // 2), True), (-(-3 * locked // 2) - 1, False)):
            monkeypatch.setattr(LockRoom, "read", lambda *_, size=transactions: LockRoom(1, size, True))
            if is_enough:
                algorithm.open_clients(queries, K, 3).close()
            else:
                with pytest.raises(PostgresError, match=f"queries lock {locked} relations each of 3 clients"):
                    algorithm.open_clients(queries, K, 3)
        algorithm.use_settings({})


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([one("uniform", "<", 5)], "none"),
        ([one("labels", "contains", (1,))], "none"),
        ([Filter((Predicate("uniform", "=", 5), Predicate(WORD, "=", "a")))], 'the "word" and uniform'),
    ],
)
def test_partitions_are_by_one_attribute(plugin_server: Server, filters: list[Filter], found: str):
    message = f"by the one attribute that all filters compare by =, and there is {found}: use filters"
    with pytest.raises(PostgresError, match=message), divided(queries_of(filters), division="partitions"):
        pass


def test_more_partitions_than_the_server_can_lock(plugin_server: Server, monkeypatch):
    queries = queries_of([one("uniform", "=", 5)])
    message = r"^3,000 partitions: the transactions that make them lock 9,001 .* make room for 9,000: set ANN"
    monkeypatch.setattr(LockRoom, "read", lambda *_: LockRoom(90, 100, True))
    with pytest.raises(PostgresError, match=message), divided(queries, division="partitions"):
        pass
