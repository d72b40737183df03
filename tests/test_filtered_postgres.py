"""Filters in PostgreSQL, on a real server: attributes beside the vectors, WHERE, plans, against NumPy."""

import json
from collections.abc import Iterator

import numpy as np
import psycopg
import pytest

from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.pgvector_ivfflat.module import PGVectorIVFFlat
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.session.session import QuerySession
from ann_benchmarks.algorithms.postgres.session.statement import short_form
from ann_benchmarks.algorithms.postgres.table import AttributedColumn, BitColumn, VectorColumn
from ann_benchmarks.algorithms.postgres.table.kinds import KINDS
from ann_benchmarks.algorithms.vchord.module import VectorChord
from ann_benchmarks.algorithms.vchordg.module import VectorChordGraph
from ann_benchmarks.data.filters import Filter, FilteredVector, Predicate, RowAttribute, RowAttributes

from .client_answers import by_clients
from .filtered_rows import QUERIES, ROWS, TEXTS, TRAIN, K, attributes, filtered, one, passes, truth

pytestmark = pytest.mark.thorough

TABLE = attributes()
WORD, SEEN = 'the "word"', "Seen at"
FILTERS = [
    one("uniform", "<", 300),
    one("uniform", "=", 7),
    one("uniform", ">=", ROWS),  # no row
    one("uniform", "in", (5, 6, 2999)),
    one("uniform", "in", ()),
    *[one(WORD, "=", text) for text in TEXTS],
    one(WORD, "<", "Z"),  # by code points: not as a dictionary has it
    one(WORD, "in", tuple(TEXTS[:5])),
    one(SEEN, ">", 5 * 10**15 + 1),
    one(SEEN, "<=", int(TABLE[SEEN].values[3])),  # to the microsecond, before 1970, too
    one(SEEN, "<", -1),
    one("labels", "contains", (3,)),
    one("labels", "contains", (2, 5)),
    one("labels", "contains", ()),
    one("labels", "in", (3,)),
    one("labels", "in", (2, 5, 99)),
    one("labels", "in", ()),
    Filter((Predicate("uniform", ">=", 100), Predicate("uniform", "<", 1200), Predicate(WORD, "=", "it's"))),
    Filter(()),
]


@pytest.fixture(scope="module")
def exact(server: Server) -> Iterator[PGVectorExact]:
    """A table with attributes, that has an index of each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers, "_current", server)
        algorithm = PGVectorExact("euclidean", {"attribute_index": "auto"})
        algorithm.set_row_attributes(TABLE)
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(0)
        yield algorithm
        algorithm.done()


@pytest.mark.parametrize("given", FILTERS, ids=str)
def test_the_rows_that_pass_are_those_of_numpy(exact: PGVectorExact, given: Filter):
    for query in filtered(given, QUERIES[:3]):
        assert exact.query(query, K) == truth(query, TABLE)


def test_all_ways_to_ask_give_the_same(exact: PGVectorExact):
    queries = [FilteredVector(q, one("uniform", "<", 10 * i)) for i, q in enumerate(QUERIES)]
    true = [truth(query, TABLE) for query in queries]
    assert len(true[0]) == 0 and len(true[-1]) == K
    assert exact.time_queries(queries, K)[1] == true
    exact.batch_query(queries, K)
    assert exact.get_batch_results() == true
    found, _ = by_clients(exact, queries, K, 4)
    assert [[row for row in ids if row >= 0] for ids in found] == true
    plans = json.loads(exact.get_additional()["plans"])
    assert sum(plans.values()) == pytest.approx(1, abs=0.01) and all(": Sort over " in plan for plan in plans)


def test_plans_are_of_all_queries_in_whatever_pieces_these_were_sent(exact: PGVectorExact, monkeypatch):
    explained = []
    monkeypatch.setattr(
        QuerySession, "plan_facts", lambda session, queries: explained.append(queries) or {"plans": "{}"}
    )
    queries = filtered(one("uniform", "<", 50), QUERIES[:8])
    for piece in (queries[:6], queries[6:], queries[:6]):
        exact.time_queries(piece, K)
    assert exact.get_additional()["plans"] == exact.get_additional()["plans"] == "{}"
    assert explained == [queries]
    exact.query(queries[0], K)
    exact.get_additional()
    assert len(explained) == 1
    exact.set_query_arguments(0)
    exact.query(queries[0], K)
    exact.get_additional()
    assert explained[1:] == [queries[:1]]


def test_a_shape_that_is_another_one(exact: PGVectorExact):
    mixed = [*filtered(one("uniform", "<", 5), QUERIES[:1]), *filtered(one("uniform", ">", 5), QUERIES[:1])]
    with pytest.raises(PostgresError, match="compares uniform >, the first one uniform <: a filter set has"):
        exact.time_queries(mixed, K)
    with pytest.raises(PostgresError, match="compares 'colour', which the table does not have: uniform, "):
        exact.query(filtered(one("colour", "=", 1))[0], K)
    with pytest.raises(
        PostgresError, match=r"'labels' by '<', which a column of type int4\[\] .* use contains"
    ):
        exact.query(filtered(one("labels", "<", 1))[0], K)
    with pytest.raises(
        PostgresError, match="compares a bigint with 9223372036854775808: give a whole number"
    ):
        exact.query(filtered(one("uniform", "<", 1 << 63))[0], K)
    with pytest.raises(PostgresError, match="a table that is written to has no attributes"):
        exact.open_writable(TRAIN[:0], ROWS)


def test_indexes_of_attributes_are_used_and_counted(exact: PGVectorExact):
    exact.time_queries(filtered(one("uniform", "<", 20)), K)
    facts = exact.get_additional()
    (plan,) = json.loads(facts["plans"])
    assert plan.split(": ")[1] in (
        "Sort over Index Scan (btree uniform)",
        "Sort over Bitmap Heap Scan over Bitmap Index Scan (btree uniform)",
    )
    assert facts["index_size"] == facts["attribute_index_size"] > 0
    assert facts["build_time"] > facts["attribute_index_build_time"] > 0


def test_hnsw_returns_too_few_rows_unless_it_goes_on(plugin_server: Server):
    algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64})
    algorithm.set_row_attributes(attributes(only=("uniform",)))
    queries = filtered(one("uniform", "<", 30))  # 1%
    try:
        algorithm.use_settings({"enable_seqscan": "off"})
        algorithm.fit(TRAIN)
        counts = {}
        for way in ("off", "strict_order", "relaxed_order"):
            algorithm.set_query_arguments(40, iterative_scan=way)
            counts[way] = [len(found) for found in algorithm.time_queries(queries, K)[1]]
            plans = json.loads(algorithm.get_additional()["plans"])
            assert [plan.split(": ")[1] for plan in plans] == ["Index Scan (hnsw)"]
        assert json.loads(algorithm.get_additional()["settings"])["hnsw.iterative_scan"] == "relaxed_order"
        assert np.mean(counts["off"]) < 3 and min(counts["strict_order"]) == min(counts["relaxed_order"]) == K
        algorithm.set_query_arguments(40, iterative_scan="strict_order", max_scan_tuples=50)
        assert max(len(found) for found in algorithm.time_queries(queries, K)[1]) < K
        with pytest.raises(PostgresError, match="is 'on': use off, strict_order or relaxed_order"):
            algorithm.set_query_arguments(40, iterative_scan="on")
    finally:
        algorithm.use_settings({})
        algorithm.done()


def test_ivfflat_goes_on_to_more_lists(plugin_server: Server):
    algorithm = PGVectorIVFFlat("euclidean", {"lists": 30})
    algorithm.set_row_attributes(attributes(only=("uniform",)))
    queries = filtered(one("uniform", "<", 100))
    try:
        algorithm.use_settings({"enable_seqscan": "off"})
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(1)
        few = np.mean([len(found) for found in algorithm.time_queries(queries, K)[1]])
        algorithm.set_query_arguments(1, iterative_scan="relaxed_order", max_probes=30)
        assert few < K == min(len(found) for found in algorithm.time_queries(queries, K)[1])
    finally:
        algorithm.use_settings({})
        algorithm.done()


def test_a_table_without_attributes_stays_what_it_is(plugin_server: Server, exact: PGVectorExact):
    """The names of tables, and so what was loaded before there were filters, are found again."""
    algorithm = PGVectorExact("euclidean")
    try:
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(0)
        assert algorithm.table_name != exact.table_name
        facts = algorithm.get_additional()
        assert "plans" not in facts and "attribute_index_size" not in facts
        assert json.loads(facts.get("settings", "{}")).get("plan_cache_mode") is None
        algorithm.query(QUERIES[0], K)
        assert json.loads(algorithm.get_additional()["settings"])["plan_cache_mode"] == "force_generic_plan"
        with plugin_server.connect() as connection:
            columns = connection.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0",
                [algorithm.table_name],
            ).fetchall()
        assert columns == [("id",), ("embedding",)]
    finally:
        algorithm.done()


def text_attribute(texts: list[str]) -> RowAttributes:
    return RowAttributes({"t": RowAttribute("t", "text", np.array(texts, object))}, len(texts), "texts")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (attributes(rows=ROWS - 1), "there are 3,000 vectors, and attributes of 2,999 rows"),
        (RowAttributes({"id": RowAttribute("id", "integer", np.arange(ROWS))}, ROWS, "a"), "another column"),
        (RowAttributes({"x": RowAttribute("x", "float", np.arange(ROWS))}, ROWS, "b"), "is of kind 'float'"),
        (
            text_attribute(["a"] * 9 + ["\0"] * 2991),
            r"row 9 \(from 0\): there is text with a NUL",
        ),
        (
            RowAttributes(
                {"t": RowAttribute("t", "timestamp", np.array([0] * 2999 + [1 << 62]) * 2 + 1)}, ROWS, "d"
            ),
            r"row 2999 \(from 0\) has the timestamp .* out of PostgreSQL's range",
        ),
    ],
)
def test_attributes_that_no_table_can_have(plugin_server: Server, table: RowAttributes, message: str):
    algorithm = PGVectorExact("euclidean")
    algorithm.set_row_attributes(table)
    try:
        with pytest.raises(PostgresError, match=message):
            algorithm.fit(TRAIN)
    finally:
        algorithm.done()


@pytest.mark.parametrize("column", [VectorColumn(16), BitColumn(16)])
def test_the_bytes_of_a_row_are_those_of_its_parts(column: VectorColumn):
    """Fixed attributes are encoded by NumPy, others row by row: both give the same rows."""
    train = TRAIN[:40]
    encoder = column.row_encoder(1)
    alone = [bytes(encoder.encode(5 + place, train[place : place + 1])) for place in range(len(train))]
    assert b"".join(alone) == bytes(column.row_encoder(64).encode(5, train))
    for only in [("uniform",), ("uniform", SEEN), ("labels", "uniform", WORD), (WORD,)]:
        table = attributes(only=only)
        encoded = bytes(AttributedColumn(column, table.values()).row_encoder(64).encode(5, train))
        expected = b""
        for row, content in enumerate(alone, 5):
            expected += (2 + len(table)).to_bytes(2, "big") + content[2:]
            for each in table.values():
                kind, value = KINDS[each.kind], each.block(row, row + 1)[0]
                part = kind.binary_array(value) if each.kind == "labels" else kind.binary(value)
                expected += len(part).to_bytes(4, "big") + part
        assert encoded == expected


def test_a_plan_in_short():
    plan = {
        "Node Type": "Limit",
        "Plans": [
            {"Node Type": "Sort", "Plans": [{"Node Type": "Seq Scan", "Parallel Aware": True}]},
        ],
    }
    assert short_form(plan, {}) == "Sort over Parallel Seq Scan"
    assert short_form({"Node Type": "Index Scan", "Index Name": "x"}, {"x": "hnsw"}) == "Index Scan (hnsw)"
    parts = [{"Node Type": "Index Scan", "Index Name": name} for name in ("x", "y", "x")]
    append = {"Node Type": "Merge Append", "Plans": parts}
    assert short_form(append, {"x": "hnsw", "y": "hnsw"}) == "Merge Append over Index Scan (hnsw)"


def test_a_row_with_a_large_vector_still_fits_its_page(plugin_server: Server):
    train = np.random.default_rng(0).random((300, 1998), dtype=np.float32)  # PLAIN without attributes
    algorithm = PGVectorExact("euclidean")
    table = attributes(rows=300)
    algorithm.set_row_attributes(table)
    try:
        algorithm.fit(train)
        algorithm.set_query_arguments(0)
        given = one("uniform", "<", 150)
        (query,) = filtered(given, train[7:8])
        found = algorithm.query(query, K)
        assert len(found) == K and passes(given, table)[found].all()
    except psycopg.Error as error:
        pytest.fail(str(error))
    finally:
        algorithm.done()


def test_vectorchord_with_and_without_a_prefilter(vchord_server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(servers, "_current", vchord_server)
    queries = [FilteredVector(q, one("labels", "contains", (i % 8,))) for i, q in enumerate(QUERIES)]
    true = [truth(query, TABLE) for query in queries]
    for algorithm, ways in (
        (VectorChord("euclidean", {"lists": 10}), [(10, 4.0, None, "off"), (10, 4.0, None, "on")]),
        (VectorChordGraph("euclidean"), [(400,), (400, 1, None, 3000)]),
    ):
        algorithm.set_row_attributes(TABLE)
        algorithm.use_settings({"enable_seqscan": "off"})
        try:
            algorithm.fit(TRAIN)
            for way in ways:
                algorithm.set_query_arguments(*way)
                found = algorithm.time_queries(queries, K)[1]
                assert np.mean([len(set(a) & set(b)) / K for a, b in zip(found, true, strict=True)]) > 0.9
            (plan,) = json.loads(algorithm.get_additional()["plans"])
            assert plan.split(": ")[1] == f"Index Scan ({'vchordrq' if len(ways[0]) > 1 else 'vchordg'})"
        finally:
            algorithm.use_settings({})
            algorithm.done()
    with pytest.raises(PostgresError, match="prefilter is 'maybe': use on or off"):
        VectorChord("euclidean").set_query_arguments("", prefilter="maybe")
