"""Datasets of sparse vectors: their files, their distances and their exact neighbours."""

import gzip
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.common.sparse import SparseVectors
from ann_benchmarks.data.datasets import get_dataset, is_present, make_dataset
from ann_benchmarks.data.datasets.catalog import dataset_table
from ann_benchmarks.data.datasets.downloads import URL_VARIABLE
from ann_benchmarks.data.datasets.maintenance import find_truth, verify_dataset
from ann_benchmarks.data.datasets.own import OwnVectors, create_in_place, create_own
from ann_benchmarks.data.datasets.registry import registered
from ann_benchmarks.data.datasets.write import write_sparse
from ann_benchmarks.data.ground_truth import exact_neighbors
from ann_benchmarks.data.vectors.sparse import open_sparse
from ann_benchmarks.distance import candidate_distances, pair_distances

from .file_server import FileServer
from .sparse_data import big_ann_truth, csr_bytes, dense_rows, sparse_from, write_csr
from .test_download import server  # noqa: F401

METRICS = ("ip", "angular", "euclidean", "manhattan")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def all_distances(metric: str, queries: np.ndarray, train: np.ndarray) -> np.ndarray:
    """The reference: every distance, from dense float64 vectors."""
    return np.array([pair_distances(metric, np.tile(query, (len(train), 1)), train) for query in queries])


def as_dense(vectors: SparseVectors) -> np.ndarray:
    dense = np.zeros(vectors.shape, np.float32)
    dense[vectors.row_numbers, vectors.indices] = vectors.data
    return dense


@pytest.mark.parametrize("metric", METRICS)
def test_exact_neighbours_equal_sorting_every_distance(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ann_benchmarks.data.ground_truth.exact.BLOCK_VALUES", 250)  # some 60 rows
    train, queries = dense_rows(300, 40), dense_rows(30, 40, seed=2)
    train[7] = train[200] = queries[0]  # at the same distance: the smaller number first
    expected = all_distances(metric, queries, train)
    ids, distances = exact_neighbors(metric, sparse_from(train), sparse_from(queries), 12)
    rounded = np.round(expected, 12)
    order = np.argsort(rounded, axis=1, kind="stable")[:, :12]
    np.testing.assert_allclose(distances, np.take_along_axis(expected, order, 1), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(np.take_along_axis(rounded, ids, 1), np.take_along_axis(rounded, order, 1))
    again = candidate_distances(metric, sparse_from(queries), sparse_from(train), ids)
    np.testing.assert_array_equal(again, distances)
    if metric != "ip":
        assert ids[0, :2].tolist() == [7, 200] and abs(distances[0, 0]) < 1e-12


@pytest.mark.parametrize("metric", METRICS)
def test_vectors_of_nothing_but_zeros(metric: str) -> None:
    train, queries = np.zeros((5, 4), np.float32), np.eye(3, 4, dtype=np.float32) - np.eye(1, 4)
    ids, distances = exact_neighbors(metric, sparse_from(train), sparse_from(queries), 5)
    assert ids.tolist() == [[0, 1, 2, 3, 4]] * 3
    np.testing.assert_array_equal(distances, all_distances(metric, queries, train))


def test_the_memory_of_a_search_does_not_depend_on_the_dimension() -> None:
    rows = replace(sparse_from(dense_rows(50, 40)), dimension=2**31 - 1)
    assert exact_neighbors("ip", rows, rows[:10], 5)[0].shape == (10, 5)


def test_rows_are_taken_as_from_an_array() -> None:
    dense = dense_rows(20, 15)
    vectors = sparse_from(dense)
    for key in (3, -1, slice(4, 9), slice(None), slice(9, 4), np.array([5, 5, 0])):
        found = as_dense(vectors[key])
        np.testing.assert_array_equal(found, np.atleast_2d(dense[key]))
    assert vectors.shape == (20, 15) and len([*vectors]) == 20
    copied = vectors.copy()
    copied.data[:] = 9
    np.testing.assert_array_equal(as_dense(vectors), dense)


def test_files_are_read_in_order_and_without_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ann_benchmarks.data.vectors.sparse.BLOCK_VALUES", 3)
    shuffled = SparseVectors(
        np.array([0, 3, 3, 5]), np.array([4, 0, 2, 1, 3], np.int32), np.array([1, 2, 0, 4, 5], np.float32), 6
    )
    rows = open_sparse(write_csr(Path("v.csr"), shuffled))
    expected = np.array([[2, 0, 0, 0, 1, 0], [0] * 6, [0, 4, 0, 5, 0, 0]], np.float32)
    np.testing.assert_array_equal(as_dense(rows[:]), expected)
    np.testing.assert_array_equal(np.concatenate([as_dense(block) for _, block in rows.blocks()]), expected)
    np.testing.assert_array_equal(as_dense(rows[np.array([2, 0])]), expected[[2, 0]])


@pytest.mark.parametrize(
    ("indices", "data", "message"),
    [
        ([0, 6], [1, 1], r"row 1 \(from 0\) has a place outside its 6 dimensions"),
        ([-1, 2], [1, 1], r"row 0 \(from 0\) has a place outside"),
        ([0, 1], [1, np.nan], r"row 1 \(from 0\) has NaN or infinity"),
        ([0, 1], [np.inf, 1], r"row 0 \(from 0\) has NaN or infinity"),
    ],
)
def test_values_that_cannot_be(indices: list, data: list, message: str) -> None:
    vectors = SparseVectors(np.array([0, 1, 2]), np.array(indices, np.int32), np.array(data, np.float32), 6)
    with pytest.raises(UserError, match=message):
        open_sparse(write_csr(Path("v.csr"), vectors))[:]


def test_places_that_are_there_twice_are_refused() -> None:
    twice = SparseVectors(np.array([0, 2]), np.array([3, 3], np.int32), np.ones(2, np.float32), 6)
    with pytest.raises(UserError, match=r"has a place twice; add them up"):
        open_sparse(write_csr(Path("v.csr"), twice))[:]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda body: body[:10], "does not begin as a CSR file does"),
        (lambda body: body[:-1], "promises .* bytes, but the file has"),
        (lambda body: body + b"more", "promises .* bytes, but the file has"),
        (lambda body: body[:40] + b"\xff" * 8 + body[48:], "the bounds of its rows do not fit"),
        (lambda body: b"<html>" * 40, "does not begin as a CSR file does"),
    ],
)
def test_damaged_csr_files_are_named(damage, message: str) -> None:
    Path("v.csr").write_bytes(damage(csr_bytes(sparse_from(dense_rows(5, 8)))))
    with pytest.raises(UserError, match=rf"cannot read v.csr: .*{message}"):
        open_sparse(Path("v.csr"))


def test_a_gzip_file_that_holds_something_else() -> None:
    for body, message in (
        (b"no CSR file at all, but text", "does not begin as a CSR file does"),
        (csr_bytes(sparse_from(dense_rows(5, 8))) + bytes(9), "holds more than its header promises"),
    ):
        Path("v.csr.gz").write_bytes(gzip.compress(body))
        with pytest.raises(UserError, match=f"cannot read v.csr.gz: it {message}"):
            create_own("mine", OwnVectors("v.csr.gz", "ip", queries=1))


@pytest.mark.parametrize(
    "change",
    [
        {"shape": np.array([-1, 9]), "indptr": np.empty(0, int)},
        {"shape": np.array([np.nan, 9])},
        {"shape": np.array(["a", "9"])},
        {"indptr": np.array([0, 0.5, 2])},
        {"indices": np.array([0, 1.5])},
    ],
)
def test_npz_files_that_hold_no_csr_matrix(change: dict) -> None:
    parts = {"shape": np.array([2, 9]), "indptr": np.arange(3), "indices": np.arange(2), "data": np.ones(2)}
    np.savez("good.npz", format=np.array(b"csr"), **parts | {"data": np.ones(2, bool)})
    assert open_sparse(Path("good.npz"))[:].data.tolist() == [1, 1]
    np.savez("v.npz", format=np.array(b"csr"), **parts | change)
    with pytest.raises(UserError, match=r"v.npz"):
        open_sparse(Path("v.npz"))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("csr_train/indptr", np.empty(0, int), "the bounds of its rows do not fit"),
        ("csr_train/indptr", np.arange(4) * 1.0, "holds other numbers"),
        ("distances", np.zeros((1, 2)), r"2 queries, but distances \(1, 2\) and neighbors \(2, 2\)"),
    ],
)
def test_damaged_datasets_are_named(key: str, value: np.ndarray, message: str) -> None:
    path, rows = Path("data/d.hdf5"), sparse_from(np.eye(3, dtype=np.float32))
    path.parent.mkdir()
    write_sparse(path, "ip", (rows.counts, 3), [rows], rows[:2], 2)
    with h5py.File(path, "r+") as file:
        del file.attrs["type"], file.attrs["point_type"]
    with get_dataset("d")[0] as dataset:
        assert (dataset.attrs["type"], dataset.attrs["point_type"]) == ("csr", "sparse")
    with h5py.File(path, "r+") as file:
        del file[key]
        file[key] = value
    with pytest.raises(UserError, match=message):
        get_dataset("d")


def test_generated_vectors_are_the_same_everywhere_and_exact() -> None:
    for _ in range(2):
        make_dataset("sparse-300-2000-ip")
        dataset, dimension = get_dataset("sparse-300-2000-ip")
        with dataset:
            train, test, truth = dataset.train(), dataset.test(), dataset.truth()
            assert (dataset.rows, len(test), dimension) == (300, 30, 2000)
            assert dataset.attrs["point_type"] == "sparse" and (train.data > 0).all()
            assert 100 < train.counts.mean() < 140 and 30 < test.counts.mean() < 50
            assert dataset.row_values == round(2 * train.counts.mean())  # what tiers are scaled by
            mark = dataset.mark()
        assert mark == "3119c9388bfb5cb12c8d2ff120bc94d0"
    expected = all_distances("ip", as_dense(test), as_dense(train))
    np.testing.assert_array_equal(truth.neighbors, np.argsort(expected, axis=1, kind="stable")[:, :100])
    np.testing.assert_array_equal(truth.distances, np.sort(expected, axis=1)[:, :100])
    assert list(verify_dataset("sparse-300-2000-ip")) == []


def test_readers_of_dense_files_refuse_a_sparse_one() -> None:
    get_dataset("sparse-100-50-ip")[0].close()
    with h5py.File("data/sparse-100-50-ip.hdf5") as file:
        assert "train" not in file and file.attrs["type"] == "csr"


@pytest.mark.parametrize("form", ["csr", "csr.gz", "npz"])
def test_own_vectors_with_queries_held_out(form: str) -> None:
    dense = dense_rows(120, 30)
    path = save(form, dense)
    create_own("mine", OwnVectors(str(path), "ip", queries=20, seed=3), neighbors=10)
    with get_dataset("mine")[0] as dataset:
        train, test, truth = as_dense(dataset.train()), as_dense(dataset.test()), dataset.truth()
    assert train.shape == (100, 30) and test.shape == (20, 30)
    both = np.concatenate([train, test])
    np.testing.assert_array_equal(both[np.lexsort(both.T)], dense[np.lexsort(dense.T)])
    expected = np.sort(all_distances("ip", test, train), axis=1)[:, :10]
    np.testing.assert_allclose(truth.distances, expected, rtol=1e-13)
    assert sorted(path.name for path in Path("data").iterdir()) == ["mine.checked.json", "mine.hdf5"]
    assert "unpacked" not in str([*Path.cwd().iterdir()]) and not [*Path.cwd().glob(".*")]
    find_truth("mine", 50)
    with get_dataset("mine")[0] as dataset:
        np.testing.assert_array_equal(dataset.truth().nearest(10).neighbors, truth.neighbors)


def save(form: str, dense: np.ndarray) -> Path:
    vectors, path = sparse_from(dense), Path(f"v.{form}")
    if form == "npz":  # as scipy.sparse.save_npz writes it
        parts = {"indptr": vectors.indptr, "indices": vectors.indices, "data": vectors.data}
        np.savez_compressed(path, format=np.array(b"csr"), shape=np.array(vectors.shape), **parts)
    else:
        body = csr_bytes(vectors)
        path.write_bytes(gzip.compress(body) if form.endswith("gz") else body)
    return path


def test_own_vectors_that_cannot_be() -> None:
    save("csr", dense_rows(20, 30))
    for options, message in (
        ({"metric": "hamming"}, "sparse vectors have no metric 'hamming'"),
        ({"metric": "ip", "queries": 20}, "too few to hold out 20 queries"),
        ({"metric": "ip", "queries": 2}, "--neighbors 100 is more than the 18 training rows"),
    ):
        with pytest.raises(UserError, match=message):
            create_own("mine", OwnVectors("v.csr", **options))  # type: ignore[arg-type]
    np.savez("coo.npz", format=np.array(b"coo"), shape=np.array([1, 1]), data=np.ones(1), row=[0], col=[0])
    with pytest.raises(UserError, match=r"a SciPy matrix of another form; save matrix.tocsr\(\) of it"):
        create_own("mine", OwnVectors("coo.npz", "ip", queries=1))
    with pytest.raises(UserError, match="leave --in-place out"):
        create_in_place("mine", OwnVectors("v.csr", "ip", test="v.csr"))
    assert not Path("data").exists()


SMALL = "splade-100k"


@pytest.fixture
def splade(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> tuple[FileServer, np.ndarray]:  # noqa: F811
    """A server with a small set in the form of the sparse track, and its distances."""
    train, test = dense_rows(150, 60), dense_rows(6, 60, seed=2)
    expected = all_distances("ip", test, train)
    ids = np.argsort(expected, axis=1, kind="stable")[:, :10]
    server.bodies = {
        "sparse/base_small.csr.gz": gzip.compress(csr_bytes(sparse_from(train))),
        "sparse/queries.dev.csr.gz": gzip.compress(csr_bytes(sparse_from(test))),
        "sparse/base_small.dev.gt": big_ann_truth(ids, -np.take_along_axis(expected, ids, 1)),
    }
    monkeypatch.setenv(URL_VARIABLE, server.url("").rstrip("/"))
    return server, expected


def test_the_sparse_track_is_downloaded_and_converted(splade: tuple[FileServer, np.ndarray]) -> None:
    server, expected = splade  # noqa: F811
    with get_dataset("sparse-small")[0] as dataset:
        truth = dataset.truth().nearest(10)
        assert (dataset.name, dataset.rows, len(dataset.test())) == (SMALL, 150, 6)
    np.testing.assert_allclose(truth.distances, np.sort(expected, axis=1)[:, :10], rtol=1e-13)
    requests = len(server.requests)
    assert list(verify_dataset(SMALL)) == [] and is_present(SMALL)
    get_dataset(SMALL)[0].close()
    assert len(server.requests) == requests
    assert "150" in next(line for line in dataset_table().splitlines() if line.startswith(SMALL))


def test_neighbours_of_other_vectors_are_refused(splade: tuple[FileServer, np.ndarray]) -> None:
    server, _ = splade  # noqa: F811
    server.bodies["sparse/base_small.dev.gt"] = big_ann_truth(
        np.tile(np.arange(10), (6, 1)), np.ones((6, 10))
    )
    with pytest.raises(UserError, match="are not those of its vectors.*which the file does not name"):
        get_dataset(SMALL)[0].truth()


def test_a_page_is_no_sparse_file(splade: tuple[FileServer, np.ndarray]) -> None:
    server, _ = splade  # noqa: F811
    server.bodies["sparse/base_small.csr.gz"] = b"<html>sign in to the network</html>" * 50
    with pytest.raises(UserError, match="cannot be used: it does not begin as a CSR file does"):
        get_dataset(SMALL)


def test_a_compressed_file_that_is_cut_short(splade: tuple[FileServer, np.ndarray]) -> None:
    server, _ = splade  # noqa: F811
    server.bodies["sparse/base_small.csr.gz"] = server.bodies["sparse/base_small.csr.gz"][:-30]
    with pytest.raises(UserError, match=r"cannot read data/sparse/base_small.csr.gz: .*is it whole"):
        get_dataset(SMALL)
    assert [*Path("data").rglob("*.partial*")] == []


def test_the_sparse_track_is_registered() -> None:
    found = {name: entry.rows for name, entry in registered().items() if name.startswith("splade")}
    assert found == {"splade-100k": 100_000, "splade-1m": 1_000_000, "splade-full": 8_841_823}
