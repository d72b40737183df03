"""Labels inside pgvectorscale's index, on the real extension."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvectorscale.module import PGVectorScale
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server
from ann_benchmarks.algorithms.postgres.table import SmallLabelsKind
from ann_benchmarks.data.filters import Filter, FilteredVector, Predicate, RowAttribute, RowAttributes

from .filtered_rows import QUERIES, ROWS, TRAIN, K, attributes, one, passes, truth

pytestmark = pytest.mark.thorough

TABLE = attributes(only=("uniform", "labels"))
SMALL = {"num_neighbors": 20, "search_list_size": 40, "labels": True}


@pytest.fixture(scope="module")
def diskann(vectorscale_server: Server) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers, "_current", vectorscale_server)
        yield vectorscale_server


@contextmanager
def built(
    filters: Sequence[Filter], table: RowAttributes = TABLE
) -> Iterator[tuple[PGVectorScale, dict[str, Any]]]:
    algorithm = PGVectorScale("euclidean", SMALL)
    algorithm.set_row_attributes(table)
    algorithm.set_query_filters({each: int(passes(each, table).sum()) for each in filters})
    algorithm.use_settings({"enable_seqscan": "off"})
    try:
        algorithm.fit(TRAIN)
        algorithm.set_query_arguments(200, 1000)
        yield algorithm, algorithm.get_additional()
    finally:
        algorithm.use_settings({})
        algorithm.done()


@pytest.mark.parametrize(
    "filters",
    [
        [one("labels", "contains", (label,)) for label in range(8)],
        [one("labels", "contains", (a, b)) for a, b in ((0, 1), (2, 5), (6, 7))],
        [one("labels", "in", (1, 99)), one("labels", "in", (4, 5))],
        [Filter((Predicate("uniform", "<", 2000), Predicate("labels", "contains", (2,))))],
    ],
    ids=["one", "two", "any", "beside another"],
)
def test_the_index_filters_by_labels(diskann: Server, filters: list[Filter]):
    queries = [FilteredVector(query, filters[i % len(filters)]) for i, query in enumerate(QUERIES)]
    with built(filters) as (algorithm, facts):
        shares = []
        for query, found in zip(queries, algorithm.time_queries(queries, K)[1], strict=True):
            true = truth(query, TABLE)
            assert passes(query.filter, TABLE)[found].all() and len(found) == len(true)
            shares.append(len(set(found) & set(true)) / len(true))
        assert np.mean(shares) > 0.97
        (plan,) = json.loads(algorithm.get_additional()["plans"])
        assert plan.split(": ")[1] == "Index Scan (diskann)"
        session = algorithm._session_for(queries[0], K)
        literals = session._statement.conditions.literals(queries[0].filter)
        shown = json.dumps(session.plan(algorithm.column.literal(queries[0].vector), literals))
        assert "(t" not in shown and '"Index Cond": "(' in shown and ".labels && " in shown
        assert facts["index_size"] / facts["estimated_index_size"] == pytest.approx(1, abs=0.05)


def test_the_index_and_its_table_are_found_again(diskann: Server):
    filters = [one("labels", "contains", (1,))]
    with built(filters) as (algorithm, facts):
        with diskann.connect() as connection:
            sql = "SELECT format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = %s::regclass"
            types = connection.execute(f"{sql} AND attname = 'labels'", [algorithm.table_name]).fetchall()
            rows = connection.execute(f"SELECT labels FROM {algorithm.table_name} ORDER BY id").fetchall()
        assert types == [("smallint[]",)]
        assert [row for (row,) in rows] == [labels.tolist() for labels in TABLE["labels"].block(0, ROWS)]
        name = algorithm.table_name
    with built(filters) as (algorithm, facts):
        assert facts["index_reused"] and algorithm.table_name == name
    assert str(algorithm).startswith("PGVectorScale(labels=on, num_neighbors=20, ")


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ([one("uniform", "<", 5)], "serves filters that all compare one column of labels, once"),
        ([], "serves filters that all compare one column of labels, once"),
        (
            [Filter((Predicate("labels", "contains", (1,)), Predicate("labels", "in", (2,))))],
            "serves filters that all compare one column of labels, once",
        ),
    ],
)
def test_filters_that_an_index_with_labels_does_not_serve(
    diskann: Server, filters: list[Filter], message: str
):
    with pytest.raises(PostgresError, match=message), built(filters):
        pass


def test_labels_that_no_index_has(diskann: Server):
    numbers = np.arange(ROWS, dtype=np.int32) + 30_000
    table = RowAttributes(
        {"labels": RowAttribute("labels", "labels", numbers, np.arange(1, ROWS + 1))}, ROWS, "large"
    )
    message = r"row 2768 \(from 0\) has the label 32768, and pgvectorscale takes labels up to 32767: number"
    with pytest.raises(PostgresError, match=message), built([one("labels", "contains", (30_000,))], table):
        pass
    with built([one("labels", "contains", (1,))]) as (algorithm, _):
        for labels, message in (((), "a filter has no label"), ((70_000,), "compares a int2 with 70000")):
            with pytest.raises(PostgresError, match=message):
                algorithm.query(FilteredVector(QUERIES[0], one("labels", "contains", labels)), K)


def test_an_index_with_labels_needs_filters_and_codes(diskann: Server):
    with pytest.raises(PostgresError, match="plain has no labels: leave labels, or the layout, out"):
        PGVectorScale("euclidean", {**SMALL, "storage_layout": "plain"})
    algorithm = PGVectorScale("euclidean", SMALL)
    with pytest.raises(PostgresError, match="is for queries that have a filter: add --filter"):
        algorithm.fit(TRAIN)
    algorithm.done()


def test_small_labels_are_written_as_the_server_writes_them(diskann: Server):
    kind = SmallLabelsKind()
    with diskann.connect() as connection:
        for labels in ((), (0,), (-5, 3, 32_767)):
            sent = connection.execute(f"SELECT array_send({kind.literal_array(labels)})").fetchone()
            (piece,) = kind.pieces([np.array(labels, np.int32)], str)
            assert sent == (piece[4:],) and len(piece) == 4 + int.from_bytes(piece[:4], "big")
            assert not labels or kind.binary_array(labels) == piece[4:]
