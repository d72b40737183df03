"""Several indexes of vectors in place of one, on a real server: built, used, found again, refused."""

import re
from typing import Any

import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.table.kinds import KINDS
from ann_benchmarks.data.filters import Filter, Predicate

from .divided_table import EQUAL, EQUAL_SQL, SEEN, SMALL, TABLE, WORD, divided, plans_of, queries_of, recall
from .filtered_rows import QUERIES, ROWS, TEXTS, TRAIN, K, one, passes

pytestmark = pytest.mark.thorough


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
        assert facts["partial_indexes"] == indexes and facts["partial_index_rows"] > 0
        assert facts["index_size"] > 0 and facts["index_build_time"] > 0
        assert recall(algorithm, queries) > 0.98
        assert plans_of(algorithm) == {"custom: Index Scan (partial hnsw)"}


def test_a_generic_plan_cannot_use_a_partial_index(plugin_server: Server):
    """As psql shows, too: a statement with a parameter implies no value."""
    queries = queries_of(EQUAL)
    with divided(queries, division="partial") as (algorithm, _):
        with plugin_server.connect() as connection:
            where = f"{algorithm.table_name} WHERE {EQUAL_SQL} ORDER BY embedding <-> $2::vector LIMIT 10"
            connection.execute("SET enable_seqscan = off")
            connection.execute(f"PREPARE q (text, text) AS SELECT id FROM {where}")
            shown = {}
            for mode in ("force_generic_plan", "force_custom_plan"):
                connection.execute(f"SET plan_cache_mode = {mode}")
                vector = QUERIES[0].tolist()
                rows = connection.execute(f"EXPLAIN EXECUTE q ('it''s', '{vector}')").fetchall()
                shown[mode] = "\n".join(line for (line,) in rows)
        assert "Seq Scan" in shown["force_generic_plan"] and "_idx" not in shown["force_generic_plan"]
        assert "Index Scan using items_" in shown["force_custom_plan"]
        try:
            algorithm.use_settings({"plan_cache_mode": "force_generic_plan"})  # the user's own choice wins
            algorithm.fit(TRAIN)
            algorithm.set_query_arguments(40)
            algorithm.time_queries(queries, K)
            assert plans_of(algorithm) == {"generic: Sort over Seq Scan"}
        finally:
            algorithm.use_settings({})


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


def test_one_index_is_singular(plugin_server: Server, capsys: pytest.CaptureFixture):
    queries = queries_of([one("uniform", "<", 300)])
    with divided(queries, division="partial", M=7):
        said = capsys.readouterr().out
    assert "1 index is to be built, with up to" in said and "1 index built (" in said
    with divided(queries, division="partial", M=7) as (algorithm, _):
        assert algorithm.has_found_index and "built" not in capsys.readouterr().out


def test_large_values_have_an_index_and_small_ones_are_sorted(plugin_server: Server):
    filters = [one("labels", "contains", (label,)) for label in range(8)]
    rows = sorted(int(passes(each, TABLE).sum()) for each in filters)
    queries = queries_of(filters)
    own = {"division": "partial_large", "attribute_index": "auto", "partial_rows": rows[4]}
    with divided(queries, **own) as (algorithm, facts):
        large = [count for count in rows if count >= rows[4]]
        assert (facts["partial_indexes"], facts["partial_index_rows"]) == (len(large), large[0])
        assert 0 < facts["attribute_index_size"] < facts["index_size"]
        assert recall(algorithm, queries) > 0.98
        algorithm.use_settings({"enable_seqscan": "off"})
        exact = "custom: Sort over Bitmap Heap Scan over Bitmap Index Scan (gin labels)"
        assert exact in plans_of(algorithm)
    with divided(queries, division="partial_large") as (algorithm, facts):
        assert facts["partial_indexes"] == 0 and "partial_index_rows" not in facts
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
