"""Filter sets that were published with a dataset: fetched, read, and compared with our truth."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_matrix
from scipy.sparse import random as random_sparse

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import check_filters, get_dataset, prepare_filters
from ann_benchmarks.data.datasets.catalog import dataset_table
from ann_benchmarks.data.datasets.filtering import FilterFiles, add_own_filters
from ann_benchmarks.data.datasets.parts import Parts
from ann_benchmarks.data.datasets.registry import find_entry, read_description
from ann_benchmarks.data.filters import Filter, Predicate, canonical_filter
from ann_benchmarks.data.filters.columns import label_column
from ann_benchmarks.data.filters.named import PublishedShare

from .file_server import FileServer
from .served_datasets import TEST, TRAIN, distances_of, served, write_bin, write_shards

TAGS, QUERIES, K = 30, len(TEST), 10
RANDOM = np.random.default_rng(7)
BYTES = RANDOM.integers(0, 255, TRAIN.shape, np.uint8)
BYTE_QUERIES = RANDOM.integers(0, 255, TEST.shape, np.uint8)
IDS = [np.arange(499, 299, -1), np.arange(300)]  # of the rows of both shards


def write_matrix(path: Path, matrix: csr_matrix) -> None:
    """Write big-ann-benchmarks' sparse matrix."""
    head = np.array([*matrix.shape, matrix.nnz], "<i8").tobytes()
    parts = (matrix.indptr.astype("<i8"), matrix.indices.astype("<i4"), matrix.data.astype("<f4"))
    path.write_bytes(head + b"".join(part.tobytes() for part in parts))


def tags_of_rows() -> csr_matrix:
    matrix = random_sparse(len(BYTES), TAGS, 0.12, "csr", np.float32, random_state=1)
    matrix.data[:] = 1
    return matrix


def tags_of_queries() -> csr_matrix:
    """One tag for even queries, two for odd ones."""
    wanted = [
        [query % TAGS] if query % 2 == 0 else [query % TAGS, (query + 7) % TAGS] for query in range(QUERIES)
    ]
    ends = np.cumsum([0, *map(len, wanted)])
    return csr_matrix((np.ones(ends[-1], np.float32), np.concatenate(wanted), ends), (QUERIES, TAGS))


def nearest(distances: np.ndarray, passes: np.ndarray) -> np.ndarray:
    """The first K rows that pass, -1 where there are fewer: (queries, K)."""
    ordered = np.argsort(np.where(passes, distances, np.inf), axis=1, kind="stable")[:, :K]
    return np.where(np.take_along_axis(passes, ordered, 1), ordered, -1)


def true_tags() -> np.ndarray:
    """Neighbours under tags, found in another way."""
    both = (tags_of_queries() @ tags_of_rows().T).toarray()
    passes = both == np.diff(tags_of_queries().indptr)[:, np.newaxis]
    return nearest(
        distances_of("euclidean", BYTES.astype(np.float32), BYTE_QUERIES.astype(np.float32)), passes
    )


def label_of(row_id: int) -> str:
    return "label_2p" if row_id % 50 == 3 else "label_50p" if row_id % 2 == 0 else ""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A server of two small sets with filters, and a registry that names them."""
    remote = tmp_path / "remote"
    write_bin(remote / "base.u8bin", BYTES)
    write_bin(remote / "query.u8bin", BYTE_QUERIES)
    write_matrix(remote / "base.spmat", tags_of_rows())
    write_matrix(remote / "query.spmat", tags_of_queries())
    truth = true_tags()
    header = np.array(truth.shape, "<u4").tobytes()
    (remote / "GT.ibin").write_bytes(header + truth.astype("<i4").tobytes())
    write_shards(remote / "shards", IDS)
    ids = np.concatenate(IDS)
    order = RANDOM.permutation(500)  # labels come by id, in any order
    labels = [label_of(number) or None for number in order.tolist()]
    pq.write_table(pa.table({"id": order, "labels": labels}), remote / "shards" / "scalar_labels.parquet")
    every = distances_of("angular", TRAIN, TEST)
    for name, passes in (("int_99p", ids >= 495), ("labels_label_2p", ids % 50 == 3)):
        rows = nearest(every, np.tile(passes, (QUERIES, 1)))[:, :5]
        table = pa.table(
            {"id": 3 * np.arange(QUERIES)[::-1], "neighbors_id": [list(ids[each]) for each in rows]}
        )
        pq.write_table(table, remote / "shards" / f"neighbors_{name}.parquet")

    def described(url: Callable[[str], str]) -> dict[str, Any]:
        return {
            "tagged": {
                "distance": "euclidean", "rows": 500, "dimension": 6, "queries": QUERIES,
                "train": url("base.u8bin"), "test": url("query.u8bin"),
                "filters": {
                    "tags": {"of_rows": url("base.spmat"), "of_queries": url("query.spmat"),
                             "neighbors": url("GT.ibin")},
                },
            },
            "shards": {
                "distance": "angular", "rows": 500, "dimension": 6,
                "train": url("shards/train-{00..01}.parquet"), "test": url("shards/test.parquet"),
                "filters": {
                    "int": {"of_rows": "id", "shares": [0.01, 0.5],
                            "neighbors": url("shards/neighbors_int_{removed}p.parquet")},
                    "label": {"of_rows": url("shards/scalar_labels.parquet"), "label": "label_{passing}p",
                              "shares": [0.02, 0.5],
                              "neighbors": url("shards/neighbors_labels_label_{passing}p.parquet")},
                },
            },
        }  # fmt: skip

    with served(remote, described, tmp_path, monkeypatch) as running:
        yield running


def test_tags_are_fetched_and_their_truth_is_found(server: FileServer, capsys: pytest.CaptureFixture) -> None:
    assert prepare_filters("tagged", ["tags"], K) == ["tags"]
    assert "tags: 100.000% of the published neighbours are among those found here; 100.000% pass" in (
        capsys.readouterr().out
    )
    with get_dataset("tagged")[0] as dataset:
        found, truth, column = dataset.filter_set("tags"), dataset.truth("tags"), dataset.attributes(["tags"])
    np.testing.assert_array_equal(truth.neighbors, true_tags())
    assert found.filters[1] == Filter((Predicate("published_tags", "contains", (1, 8)),))
    assert (found.matches < K).any() and (truth.neighbors == -1).any()  # fewer than K is ordinary
    attribute = column["published_tags"]
    expected = [sorted(row.indices.tolist()) for row in tags_of_rows()]
    assert [each.tolist() for each in attribute.block(0, 500)] == expected
    assert not list(Path("data").rglob(".*partial*"))
    before = len(server.requests)
    prepare_filters("tagged", ["tags"], K)  # nothing is fetched or made twice
    assert len(server.requests) == before


@pytest.mark.parametrize(
    ("filter", "predicate", "passes"),
    [
        ("int:0.01", Predicate("published_int", ">=", 495), lambda ids: ids >= 495),
        ("int:0.5", Predicate("published_int", ">=", 250), lambda ids: ids >= 250),
        ("label:0.02", Predicate("published_label", "=", "label_2p"), lambda ids: ids % 50 == 3),
        ("label:0.5", Predicate("published_label", "=", "label_50p"),
         lambda ids: (ids % 2 == 0) & (ids % 50 != 3)),
    ],
)  # fmt: skip
def test_ids_and_labels_are_those_of_the_shuffled_rows(
    server: FileServer, capsys: pytest.CaptureFixture, filter: str, predicate: Predicate, passes
) -> None:
    prepare_filters("shards", [filter], K)
    rows = passes(np.concatenate(IDS))
    with get_dataset("shards")[0] as dataset:
        found, truth = dataset.filter_set(filter), dataset.truth(filter)
    assert set(found.filters) == {Filter((predicate,))} and set(found.matches) == {rows.sum()}
    expected = nearest(distances_of("angular", TRAIN, TEST), np.tile(rows, (QUERIES, 1)))
    np.testing.assert_array_equal(truth.neighbors, expected)
    said = capsys.readouterr()
    if filter in ("int:0.01", "label:0.02"):
        assert f"{filter}: 100.000% of the published neighbours" in said.out and "warning" not in said.err
    else:  # the server has no such file of neighbours: nothing is compared, and nothing else is lost
        assert f"the published neighbours under '{filter}' are not compared: " in said.err


def test_neighbours_of_others_are_reported_and_not_used(
    server: FileServer, capsys: pytest.CaptureFixture
) -> None:
    ours = true_tags()
    header = np.array(ours.shape, "<u4").tobytes()
    server.bodies["GT.ibin"] = header + np.where(ours >= 0, (ours + 1) % 500, -1).astype("<i4").tobytes()
    prepare_filters("tagged", ["tags"], K)
    assert "recall is of those found here" in capsys.readouterr().err
    with get_dataset("tagged")[0] as dataset:
        np.testing.assert_array_equal(dataset.truth("tags").neighbors, ours)


def test_no_published_neighbours_do_not_agree(server: FileServer, capsys: pytest.CaptureFixture) -> None:
    none = np.full(true_tags().shape, -1, "<i4")
    server.bodies["GT.ibin"] = np.array(none.shape, "<u4").tobytes() + none.tobytes()
    prepare_filters("tagged", ["tags"], K)
    said = capsys.readouterr()
    assert "not compared: data/tagged/GT.ibin names no row" in said.err and "100.000%" not in said.out


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((4, -2), "row 4 (from 0) has neighbour -2 where row numbers begin at 0"),
        ((4, 10**6), "query 4 (from 0) names id 1000000, which none of the 500 training rows has"),
        ((4, None), "query 4 (from 0) names id {first} more than once"),
    ],
)
def test_neighbours_that_are_none_are_one_line(
    server: FileServer, capsys: pytest.CaptureFixture, wrong: tuple[int, int | None], message: str
) -> None:
    (query, value), truth = wrong, true_tags().astype("<i4")
    truth[query, 3] = truth[query, 0] if value is None else value
    server.bodies["GT.ibin"] = np.array(truth.shape, "<u4").tobytes() + truth.tobytes()
    prepare_filters("tagged", ["tags"], K)
    said = capsys.readouterr()
    assert "are not compared: " in said.err and message.format(first=truth[query, 0]) in said.err
    assert said.err.count("warning") == 1 and "published" not in said.out


def damage_rows(server: FileServer) -> None:
    server.bodies["base.spmat"] = server.bodies["query.spmat"]


def cut_short(server: FileServer) -> None:
    server.bodies["base.spmat"] = server.bodies["base.spmat"][:-40]


def without_tags(server: FileServer) -> None:
    matrix = tags_of_queries()
    matrix.data[matrix.indptr[3] : matrix.indptr[4]] = 0
    write_matrix(Path("m"), matrix)
    server.bodies["query.spmat"] = Path("m").read_bytes()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (damage_rows, r"base.spmat has 12 rows, but there are 500 vectors; fetch it again"),
        (cut_short, r"base.spmat"),
        (without_tags, r"query.spmat row 3 \(from 0\) has no tag"),
        (lambda server: server.bodies.pop("query.spmat"), "404 Not Found"),
    ],
)
def test_a_file_that_does_not_fit_is_one_line_and_nothing_is_left(server: FileServer, spoil, message) -> None:
    spoil(server)
    with pytest.raises(UserError, match=message) as error:
        prepare_filters("tagged", ["tags"], K)
    assert "\n" not in str(error.value)
    assert not Path("data/tagged.filters/tags.h5").exists()
    assert not list(Path("data/tagged.filters").rglob(".*"))


def test_an_id_has_one_label(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    for labels, is_one in ((["a", "b", "a"], True), (["a", "b", None], False)):
        pq.write_table(pa.table({"id": [7, 2, 7], "labels": labels}), path)
        if is_one:
            assert label_column("label", path, np.array([2, 7])).values.tolist() == ["b", "a"]
        else:
            with pytest.raises(UserError, match=r"labels.parquet has two labels for id 7; fetch it again"):
                label_column("label", path, np.array([2, 7]))


@pytest.mark.parametrize(
    ("name", "filter", "message"),
    [
        ("shards", "int:0.03", r"'int:0.03' has not been published; shares of int are 0.01, 0.5"),
        ("shards", "int:1", r"'int:1' needs the share of the rows that passes: int:0.01"),
        ("shards", "tags", r"has no filters 'tags'; there are .*int:S, label:S"),
        ("tagged", "int:0.01", r"dataset 'tagged' has no filters 'int:0.01'"),
        ("shards", "ints:0.01", r"unknown kind of filter 'ints' .*did you mean 'int'"),
    ],
)
def test_what_was_not_published_is_refused(server: FileServer, name: str, filter: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_filters(name, [filter])
    assert not Path("data").exists()


def test_own_filters_do_not_take_a_published_name(server: FileServer) -> None:
    pq.write_table(pa.table({"year": np.arange(500)}), "a.parquet")
    Path("f.yml").write_text("tags:\n- {column: year, operator: '<', value: 9}\n")
    with pytest.raises(UserError, match="'tags' is the name of published filters of tagged; choose another"):
        add_own_filters("tagged", FilterFiles(Path("a.parquet"), Path("f.yml")))


def test_the_list_names_them(server: FileServer) -> None:
    table = dataset_table()
    assert "published filters of tagged: tags" in table
    assert "published filters of shards: int:S, label:S" in table


def test_names_of_vectordbbench() -> None:
    for share, passing, removed, first in (
        ("0.01", "1", "99", 9_900_000), ("0.001", "0.1", "99.9", 9_990_000), ("0.995", "99.5", "0.5", 50_000),
    ):  # fmt: skip
        one = PublishedShare("int", Decimal(share))
        assert one.written_in("{passing} {removed}") == f"{passing} {removed}"
        assert one.first_id(10_000_000) == first
    assert canonical_filter("int:0.010") == canonical_filter("int:1e-2") == "int:0.01"


def test_the_registry_has_them() -> None:
    yfcc, cohere, first = (find_entry(name) for name in ("yfcc-10M", "cohere-10m", "deep10m"))
    assert isinstance(yfcc, Parts) and isinstance(cohere, Parts) and isinstance(first, Parts)
    assert yfcc.size_of(yfcc.train[0]) == 192 * 10**7 + 8
    assert [source.names for source in (*yfcc.filters, *cohere.filters, *first.filters)] == [
        "tags", "int:S", "label:S",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ("{tags: {of_rows: a.spmat}}", "a set of tags has a file .spmat of_rows, and one of_queries"),
        ("{int: {of_rows: id}}", "sets of the kinds int and label have shares"),
        ("{int: {of_rows: id, shares: [2]}}", "shares must be numbers between 0 and 1"),
        ("{label: {of_rows: a.parquet, shares: [0.1]}}", "filters on a file of labels have a label"),
        ("{tags: {of_row: a.spmat}}", "unknown key 'of_row'"),
        ("[1]", "'filters' must be a mapping"),
    ],
)
def test_a_mistake_in_a_description_has_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filters: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.yml").write_text(f"distance: ip\ntrain: a.npy\ntest: b.npy\nfilters: {filters}\n")
    with pytest.raises(UserError, match=rf"d.yml:4: .*{message}"):
        read_description(Path("d.yml"))
