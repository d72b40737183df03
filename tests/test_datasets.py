import hashlib
import random
from pathlib import Path

import h5py
import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import (
    Dataset,
    HDF5Dataset,
    dataset_files,
    dataset_names,
    dataset_path,
    generated,
    get_dataset,
)
from ann_benchmarks.data.datasets.queries import Queries, TrueNeighbors
from ann_benchmarks.data.datasets.registry import find_entry
from ann_benchmarks.distance import candidate_distances
from ann_benchmarks.results.file import truth_mark

pytestmark = pytest.mark.usefixtures("empty_folder")

DISTANCES = np.linalg.norm(np.arange(15.0).reshape(5, 3) - 1, axis=1)  # of the rows of write_small


def write_small(name: str = "small", **changes) -> Path:
    """A dataset of 20 rows; a change to None leaves something out."""
    content = {
        "train": np.arange(60, dtype=np.float32).reshape(20, 3),
        "test": np.ones((2, 3), np.float32),
        "neighbors": np.tile(np.arange(5), (2, 1)),
        "distances": np.tile(DISTANCES, (2, 1)),
        "attrs": {"distance": "euclidean", "dimension": 3, "point_type": "float", "type": "dense"},
    } | changes
    path = dataset_path(name)
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        file.attrs.update(content.pop("attrs"))
        for key, value in content.items():
            if value is not None:
                file.create_dataset(key, data=value)
    return path


# ---- reading


def test_reads_as_ann_benchmarks_does_and_maps_the_rows() -> None:
    write_small()
    dataset, dimension = get_dataset("small")
    with dataset:
        assert dimension == 3
        assert dataset.name == "small"
        assert dataset.attrs["distance"] == "euclidean"
        assert "train" in dataset and "other" not in dataset
        assert np.array(dataset["test"]).shape == (2, 3)
        train, test = dataset.train(), dataset.test()
        np.testing.assert_array_equal(dataset.true_distances(2), [DISTANCES[:2]] * 2)
    assert isinstance(train, np.memmap) and isinstance(test, np.memmap)
    np.testing.assert_array_equal(train, np.arange(60).reshape(20, 3))
    train /= 2  # some plug-ins normalise in place: the file must not change
    with HDF5Dataset(dataset_path("small")) as again:
        assert again["train"][19, 2] == 59


@pytest.mark.parametrize("distance", [b"angular", "cosine", "normalized"])  # the last two are VIBE's
def test_old_files_without_attributes(distance: bytes | str) -> None:
    write_small(attrs={"distance": distance})
    dataset, dimension = get_dataset("small")
    assert dimension == 3
    assert dataset.attrs == {"distance": "angular", "dimension": 3, "point_type": "float", "type": "dense"}


def test_sparse_rows_become_sets() -> None:
    write_small(
        train=[1, 5, 2, 3, 9], size_train=[2, 0, 3], test=[4], size_test=[1, 0],
        attrs={"distance": "jaccard", "type": "sparse"},
    )  # fmt: skip
    dataset, dimension = get_dataset("small")
    assert dimension == 10
    assert [row.tolist() for row in dataset.train()] == [[1, 5], [], [2, 3, 9]]
    assert [row.tolist() for row in dataset.test()] == [[4], []]


# ---- queries as values


def test_queries_hold_vectors_and_true_neighbours() -> None:
    test = np.array([[0, 1, 2], [57, 58, 59]], np.float32)
    neighbors = np.array([[0, 1, 2, 3, 4], [19, 18, 17, 16, 15]], np.int32)
    distances = np.tile(np.arange(5) * np.sqrt(27), (2, 1))
    write_small(test=test, neighbors=neighbors, distances=distances)
    dataset, _ = get_dataset("small")
    queries = dataset.queries(4)
    assert len(queries) == 2 and queries.filters is None
    np.testing.assert_array_equal(queries.vectors, test)
    np.testing.assert_array_equal(queries.truth.neighbors, neighbors[:, :4])
    assert queries.truth.neighbors.dtype == np.int64
    found, expected = queries.truth.known_distances, dataset.true_distances(4)
    assert found.dtype == np.float64 and truth_mark(found) == truth_mark(expected)
    np.testing.assert_allclose(found, distances[:, :4], rtol=1e-15)
    with pytest.raises(UserError, match="'small' has 5 true neighbours a query, fewer than 6"):
        dataset.queries(6)


def test_queries_have_a_filter_each_or_none() -> None:
    truth = TrueNeighbors(np.arange(6).reshape(3, 2), np.arange(6.0).reshape(3, 2), "filtered")
    assert len(Queries(np.eye(3), truth, ["color = 1", None, "color = 2"])) == 3
    with pytest.raises(ValueError, match="different lengths"):
        Queries(np.eye(3), truth, ["color = 1"])


def test_the_files_of_a_dataset_are_those_that_it_is_read_from() -> None:
    write_small(distances=None)
    assert dataset_files("small") == [dataset_path("small")]
    with get_dataset("small")[0] as dataset:
        dataset.truth()  # its distances are computed, and kept
    assert dataset_files("small") == [
        Path("data") / f"small.{kind}" for kind in ("hdf5", "truth.h5", "checked.json")
    ]
    assert dataset_files("nothing-of-this-name") == []


def test_what_a_plug_in_changes_is_a_copy() -> None:
    path = write_small()
    queries = get_dataset("small")[0].queries(5)
    for vector in queries.copied_vectors():
        vector[:] = 0
    queries.copied_batch()[:] = 0
    np.testing.assert_array_equal(queries.vectors, np.ones((2, 3)))
    path.unlink()
    write_small(
        train=[1, 5, 2, 3, 9], size_train=[2, 0, 3], test=[4], size_test=[1, 0],
        neighbors=[[0, 1, 2]] * 2, distances=[[1.0] * 3, [1, 1, 1]],
        attrs={"distance": "jaccard", "type": "sparse"},
    )  # fmt: skip
    queries = get_dataset("small")[0].queries(3)
    for copies in (queries.copied_vectors(), queries.copied_batch()):
        assert [items.tolist() for items in copies] == [[4], []]
        copies[0][:] = 7
    assert queries.vectors[0].tolist() == [4]


def test_damaged_files_are_named() -> None:
    path = write_small()
    whole = path.read_bytes()
    for damaged in (b"", b"this is no HDF5 file" * 200, *(whole[:n] for n in range(1, len(whole), 97))):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r"data/small\.hdf5 is damaged .*delete it, then make"):
            HDF5Dataset(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": None}, "'train' is missing"),
        ({"test": np.ones((2, 4), np.float32)}, "test is \\(2, 4\\)"),
        ({"train": np.ones(20, np.float32)}, "train is \\(20,\\)"),
        ({"train": np.full((20, 3), b"x")}, "do not hold numbers"),
        ({"distances": np.ones((3, 5))}, "2 queries, but distances \\(3, 5\\)"),
        ({"neighbors": np.ones((2, 4), int)}, "neighbors \\(2, 4\\)"),
        ({"attrs": {"distance": "chamfer"}}, "its distance is 'chamfer'"),
        ({"attrs": {}}, "its distance is 'missing', but must be one of"),
        ({"attrs": {"distance": "angular", "dimension": 4}}, "its dimension is 4 but its rows have 3"),
        ({"attrs": {"distance": "jaccard", "type": "sparse"}}, "'size_train' is missing"),
        ({"attrs": {"distance": "jaccard"}}, "its rows are float32, where jaccard needs bool, or sets"),
    ],
)
def test_wrong_contents_are_named(changes: dict, message: str) -> None:
    write_small(**changes)
    with pytest.raises(UserError, match=rf"data/small\.hdf5 .*{message}"):
        get_dataset("small")


def test_names_and_unknown_names() -> None:
    write_small("mine")
    Path("data/.sift-128-euclidean.hdf5.partial").write_bytes(b"half")
    Path("data/.other.hdf5.partial-12").write_bytes(b"half")
    Path("data/.hidden.hdf5").write_bytes(b"half")
    assert {"mine", "glove-100-angular", "random-xs-20-euclidean"} <= set(dataset_names())
    assert not {name for name in dataset_names() if "other" in name or "hidden" in name}
    with pytest.raises(
        UserError, match="unknown dataset 'glove-100-angluar'; did you mean glove-100-angular"
    ):
        get_dataset("glove-100-angluar")
    with pytest.raises(UserError, match="unknown dataset 'sift'; did you mean sift-128-euclidean or"):
        get_dataset("sift")
    with pytest.raises(
        UserError, match=r"'\.\./data/mine' cannot be the name of a dataset: it has '/' in it"
    ):
        get_dataset("../data/mine")


# ---- ann-benchmarks' random sets


def known_blobs(rows: int, dimension: int, centers: int) -> np.ndarray:
    from sklearn.datasets import make_blobs  # takes long to import

    return make_blobs(n_samples=rows, n_features=dimension, centers=centers, random_state=1)[0]


def known_split(vectors: np.ndarray, test_size: float) -> list[np.ndarray]:
    from sklearn.model_selection import train_test_split

    return train_test_split(vectors, test_size=test_size, random_state=1)


def test_random_euclidean_is_that_of_ann_benchmarks() -> None:
    expected = known_blobs(10_000, 20, 100)
    train, test = known_split(expected, 0.1)
    dataset, dimension = get_dataset("random-xs-20-euclidean")
    assert dimension == 20
    np.testing.assert_array_equal(dataset.train(), train)
    np.testing.assert_array_equal(dataset.test(), test)
    assert_truth(dataset)


def test_random_hamming_is_that_of_ann_benchmarks() -> None:
    expected = known_blobs(10_000, 16, 100)
    train, test = known_split(expected > 0, 100)
    dataset, _ = get_dataset("random-xs-16-hamming")
    assert dataset.train().dtype == np.bool_ and isinstance(dataset.train(), np.memmap)
    assert dataset.attrs["point_type"] == "bit"
    assert dataset.row_values == 1  # of 4 bytes: 16 bits; what tiers are scaled by
    np.testing.assert_array_equal(dataset.train(), train)
    np.testing.assert_array_equal(dataset.test(), test)
    assert_truth(dataset)


def test_random_jaccard_is_that_of_ann_benchmarks() -> None:
    random.seed(1)
    sets = np.array([random.sample(list(range(40)), 20) for _ in range(10_000)])
    train, test = known_split(sets, 100)
    dataset, dimension = get_dataset("random-s-jaccard")
    assert dimension == 40
    np.testing.assert_array_equal(np.stack(dataset.train()), np.sort(train, axis=1))
    np.testing.assert_array_equal(np.stack(dataset.test()), np.sort(test, axis=1))
    assert_truth(dataset)


def assert_truth(dataset: Dataset) -> None:
    """The neighbours' distances are right and no row left out is nearer, for some of the queries."""
    metric, train, test = dataset.attrs["distance"], dataset.train(), dataset.test()[:5]
    neighbors, distances = dataset["neighbors"][:5], dataset["distances"][:5]
    assert neighbors.shape == (5, 100)
    np.testing.assert_array_equal(distances, candidate_distances(metric, test, train, neighbors))
    every = candidate_distances(metric, test, train, np.tile(np.arange(len(train)), (5, 1)))
    np.testing.assert_array_equal(distances, np.sort(every, axis=1)[:, :100])


# ---- the clustered family

# Of train, then test: results are comparable between machines and versions only while these hold.
DIGESTS = {
    "clustered-5k-24-angular": "46a94d518d239fd0cdbd0e04fec7b7141bc9ec873ffebea723e8f013ed7ddc22",
    "uniform-2k-24-angular": "39020f249d08ef1e205377477dfb5cc56b368fecda4674d4bd1ad21a7c4d8fa7",
}


def test_names_of_the_clustered_family() -> None:
    assert generated.parse("clustered-100k-96-angular") == ("clustered", 100_000, 96, "angular", 0)
    assert generated.parse("clustered-2m-768-ip") == ("clustered", 2_000_000, 768, "ip", 0)
    assert generated.parse("clustered-1500-8-euclidean") == ("clustered", 1500, 8, "euclidean", 0)
    assert generated.parse("clustered-50k-8-ip-10kq") == ("clustered", 50_000, 8, "ip", 10_000)
    for name in ("clustered-0-8-ip", "clustered-10k-8-hamming", "clustered-10g-8-ip", "clustered-1k-8-ip-x"):
        assert find_entry(name) is None
    for name in ("clustered-1k-8-ip-0q", "clustered-1k-8-ip-10", "clustered-1k-8-ip-1mq"):
        assert find_entry(name) is None
    with pytest.raises(UserError, match="too many queries: 100,000 at most"):
        get_dataset("clustered-1k-8-ip-101kq")
    with pytest.raises(UserError, match="at least 100 rows"):
        get_dataset("clustered-99-8-ip")


@pytest.mark.parametrize("name", DIGESTS)
def test_generated_vectors_are_deterministic_and_exact(name: str) -> None:
    dataset, dimension = get_dataset(name)
    train, test = dataset.train(), dataset.test()
    assert dimension == 24 and train.shape == (10 * len(test), 24) and isinstance(train, np.memmap)
    assert train.dtype == np.float32 and len(np.unique(np.concatenate((train, test)), axis=0)) == 11 * len(
        test
    )
    assert hashlib.sha256(train.tobytes() + test.tobytes()).hexdigest() == DIGESTS[name]
    assert_truth(dataset)
    if name.startswith("uniform"):
        assert train.min() >= 0
        np.testing.assert_allclose(np.linalg.norm(train, axis=1), 1, rtol=1e-6)
    other, _ = get_dataset(name.replace("angular", "euclidean"))
    np.testing.assert_array_equal(other.train(), train)


def test_a_name_says_how_many_queries_there_are() -> None:
    (few, _), (many, _) = (get_dataset(f"clustered-2k-8-ip{queries}") for queries in ("", "-300q"))
    assert few.test().shape == (200, 8) and many.test().shape == (300, 8)
    np.testing.assert_array_equal(few.train(), many.train())
    assert_truth(many)


def test_a_disk_too_small_is_noticed_before_writing() -> None:
    with pytest.raises(UserError, match=r"[\d,.]+ [GM]B are needed in .*data but [\d,.]+ [GM]B are free"):
        get_dataset("clustered-9000000m-96-angular")
    assert list(Path("data").iterdir()) == []
