"""Several indexes of vectors in place of one, on a real server: built, used, found again, refused."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.table.kinds import KINDS
from ann_benchmarks.data.filters import Filter, FilteredVector, Predicate

from .filtered_rows import QUERIES, ROWS, TEXTS, TRAIN, K, attributes, one, passes, truth

pytestmark = pytest.mark.thorough

TABLE = attributes()
WORD, SEEN = 'the "word"', "Seen at"
SMALL = {"M": 8, "efConstruction": 32}


def queries_of(filters: Sequence[Filter]) -> list[FilteredVector]:
    """Return the queries with the filters, which take turns."""
    return [FilteredVector(query, filters[i % len(filters)]) for i, query in enumerate(QUERIES)]


@contextmanager
def divided(
    queries: Sequence[FilteredVector], *point: Any, **arguments: Any
) -> Iterator[tuple[PGVectorHNSW, dict[str, Any]]]:
    """Build for these queries; give the plug-in and what it stores."""
    algorithm = PGVectorHNSW("euclidean", {**SMALL, **arguments})
    algorithm.set_row_attributes(TABLE)
    algorithm.set_query_filters({each.filter: int(passes(each.filter, TABLE).sum()) for each in queries})
    try:
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(*(point or (400,)))
        yield algorithm, algorithm.get_additional()
    finally:
        algorithm.use_settings({})  # which are those of the process
        algorithm.done()


def recall(algorithm: PGVectorHNSW, queries: Sequence[FilteredVector]) -> float:
    """Recall over min(k, matches); fails where a row does not pass its filter."""
    shares = []
    for query, found in zip(queries, algorithm.time_queries(queries, K)[1], strict=True):
        true = truth(query, TABLE)
        assert passes(query.filter, TABLE)[found].all() and len(set(found)) == len(found)
        shares.append(len(set(found) & set(true)) / len(true) if true else 1.0)
    return float(np.mean(shares))


def plans_of(algorithm: PGVectorHNSW) -> set[str]:
    return set(json.loads(algorithm.get_additional()["plans"]))


ORDERED = [each for each in TABLE.values() if each.kind != "labels"]
EQUAL = [one(WORD, "=", text) for text in TEXTS]


@pytest.mark.parametrize(
    ("filters", "indexes"),
    [
        (EQUAL, len(TEXTS)),
        ([one("labels", "contains", (label,)) for label in range(8)], 8),
        ([one("labels", "contains", (1, 2)), one("labels", "contains", (3, 5))], 2),
        ([one("labels", "in", (1, 2))], 1),
        ([one("uniform", "<", 30), one("uniform", "<", 300)], 2),
        ([one("uniform", "in", (1, 2, 3))], 1),
        ([one(SEEN, "<", 0), one(SEEN, "<", int(TABLE[SEEN].values[3]))], 2),
        ([Filter((Predicate("uniform", ">=", 100 * i), Predicate("uniform", "<", 900)))
          for i in range(3)], 3),
        ([Filter((Predicate("uniform", "<", 2000), Predicate(WORD, "=", "it's")))], len(TEXTS)),
    ],
    ids=["equal", "label", "two labels", "any label", "below", "any of", "times", "range", "both"],
)  # fmt: skip
def test_each_value_or_filter_has_an_index_that_its_queries_use(
    plugin_server: Server, filters: list[Filter], indexes: int
):
    queries = queries_of(filters)
    with divided(queries, division="partial", partial_rows=1) as (algorithm, facts):
        algorithm.use_settings({"enable_seqscan": "off"})
        assert facts["partial_indexes"] == indexes
        assert facts["index_size"] > 0 and facts["index_build_time"] > 0
        assert recall(algorithm, queries) > 0.98
        assert plans_of(algorithm) == {"custom: Index Scan (partial hnsw)"}


def test_an_interrupted_build_goes_on(plugin_server: Server, monkeypatch, capsys):
    made: list[str] = []
    create = PGVectorHNSW.create_index

    def create_some(self: PGVectorHNSW, statement: str, name: str, table: str) -> dict[str, Any]:
        if len(made) == 3:
            create(self, statement, name, table)
            raise KeyboardInterrupt
        made.append(name)
        return create(self, statement, name, table)

    queries = queries_of(EQUAL)
    own = {"division": "partial", "M": 9}
    monkeypatch.setattr(PGVectorHNSW, "create_index", create_some)
    with pytest.raises(KeyboardInterrupt), divided(queries, **own):
        pass
    monkeypatch.undo()
    monkeypatch.setattr("ann_benchmarks.algorithms.postgres.servers._current", plugin_server)
    built: list[str] = []
    monkeypatch.setattr(PGVectorHNSW, "create_index", lambda *given: built.append(given[2]) or create(*given))
    for expected in (len(TEXTS) - 3, 0):
        built.clear()
        with divided(queries, **own) as (_, facts):
            assert len(built) == expected and not set(built) & set(made)
            assert bool(facts["index_reused"]) == (expected == 0)
            assert facts["index_build_time"] > 0 and facts["partial_indexes"] == len(TEXTS)
    said = capsys.readouterr().out
    assert "7 indexes are to be built, with up to" in said and "10 indexes found" not in said
    assert re.search(r"^7 indexes built \(.* s in all\); 3 indexes found as built before$", said, re.M)


def test_large_values_have_an_index_and_small_ones_are_sorted(plugin_server: Server):
    filters = [one("labels", "contains", (label,)) for label in range(8)]
    rows = sorted(int(passes(each, TABLE).sum()) for each in filters)
    queries = queries_of(filters)
    own = {"division": "partial_large", "attribute_index": "auto", "partial_rows": rows[4]}
    with divided(queries, **own) as (algorithm, facts):
        large = [count for count in rows if count >= rows[4]]
        assert facts["partial_indexes"] == len(large)
        assert 0 < facts["attribute_index_size"] < facts["index_size"]
        assert recall(algorithm, queries) > 0.98
        algorithm.use_settings({"enable_seqscan": "off"})
        exact = "custom: Sort over Bitmap Heap Scan over Bitmap Index Scan (gin labels)"
        assert exact in plans_of(algorithm)
    with divided(queries, division="partial_large") as (algorithm, facts):
        assert facts["partial_indexes"] == 0
        assert recall(algorithm, queries) == 1
    with divided(queries, division="partial") as (_, facts):  # of labels, those with 200 rows and more
        assert facts["partial_indexes"] == sum(count >= 200 for count in rows)


def test_parked_indexes_can_be_built_anew_and_dropped(plugin_server: Server):
    queries = queries_of([one("uniform", "<", 300)])
    for division in ("partial", "none"):  # which parks the partial index
        with divided(queries, division=division):
            pass
    algorithm = PGVectorHNSW("euclidean", {**SMALL, "division": "partial"})
    algorithm.set_row_attributes(TABLE)
    algorithm.set_query_filters({each.filter: 300 for each in queries})
    algorithm.set_build_options(rebuild=True)
    try:
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(400)
        facts = algorithm.get_additional()
        assert not facts["index_reused"] and facts["partial_indexes"] == 1
        assert recall(algorithm, queries) > 0.98
    finally:
        algorithm.done()
    with plugin_server.connect() as connection:
        (parked,) = connection.execute(
            "SELECT array_agg(indexrelid::regclass::text) FROM pg_index"
            " WHERE indrelid = %s::regclass AND NOT indislive",
            [algorithm.table_name],
        ).fetchone() or ([],)
        connection.execute(f"DROP INDEX {parked[0]}")
        with connection.transaction(force_rollback=True):
            connection.execute(f"DROP TABLE {algorithm.table_name}")


@pytest.mark.parametrize(
    ("arguments", "filters", "message"),
    [
        ({"division": "tenants"}, EQUAL, "division is 'tenants': use none, partial"),
        ({"partial_rows": 5}, EQUAL, "partial_rows is for division: partial or partial_large"),
        ({"division": "partial", "partial_rows": 0}, EQUAL, "partial_rows is 0: give a whole number"),
        ({"division": "partial"}, [Filter(())], "partial indexes serve queries that have a filter"),
    ],
)
def test_divisions_that_mean_nothing(plugin_server: Server, arguments, filters, message):
    with pytest.raises(PostgresError, match=message), divided(queries_of(filters), **arguments):
        pass


def test_a_division_needs_filters(plugin_server: Server):
    algorithm = PGVectorHNSW("euclidean", {**SMALL, "division": "partial"})
    with pytest.raises(PostgresError, match="is for queries that have a filter: add --filter, or leave"):
        algorithm.fit(TRAIN)
    with pytest.raises(PostgresError, match="is for queries that have a filter: add --filter, or leave"):
        algorithm.open_writable(TRAIN[:0], ROWS)
    algorithm.done()


def test_too_many_filters_for_an_index_each(plugin_server: Server, monkeypatch):
    monkeypatch.setattr("ann_benchmarks.algorithms.postgres.index.divisions.MOST_FILTERS", 4)
    queries = queries_of([one("uniform", "<", 30 + i) for i in range(5)])
    message = "by uniform < differ in 5 ways, and each can have a partial index up to 4: use filters that"
    with pytest.raises(PostgresError, match=message), divided(queries, division="partial"):
        pass
    with divided(queries, division="partial_large", partial_rows=31) as (_, facts):
        assert facts["partial_indexes"] == 4


def test_times_are_written_as_constants(plugin_server: Server):
    """Predicates of indexes take nothing else; the server reads them as the same microsecond."""
    kind = KINDS["timestamp"]
    with plugin_server.connect() as connection:
        connection.execute("SET timezone = 'Asia/Kathmandu'")
        for value in (0, 1, -1, 5 * 10**15 + 1, -62_135_596_800_000_001, -210_866_803_200_000_000,
                      9_224_318_015_999_999_999, 253_402_300_800_000_000):  # fmt: skip
            sql = f"SELECT timestamptz_send({kind.literal(value)})"
            assert connection.execute(sql).fetchone() == (kind.binary(value),)


def test_indexes_are_served_as_another_process_has_built_them(plugin_server: Server):
    with divided(queries_of(EQUAL), division="partial"):
        pass
    for m, is_there in ((SMALL["M"], True), (7, False)):
        algorithm = PGVectorHNSW("euclidean", {**SMALL, "division": "partial", "M": m})
        algorithm.set_row_attributes(TABLE)
        algorithm.set_query_filters(dict.fromkeys(EQUAL, 300))
        algorithm.serve_only()
        try:
            if is_there:
                algorithm.fit(TRAIN)
                assert algorithm.get_additional()["index_reused"]
            else:
                with pytest.raises(PostgresError, match="the index is not built: build it first"):
                    algorithm.fit(TRAIN)
        finally:
            algorithm.done()


# List partitions on a real server; what they and partial indexes lock, and the blocks that are read.


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
