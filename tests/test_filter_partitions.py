"""List partitions on a real server; what they and partial indexes lock, and the blocks that are read."""

from typing import Any

import psycopg
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.data.filters import Filter, Predicate

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
