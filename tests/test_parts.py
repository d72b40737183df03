"""Datasets in several files: got from a server, opened lazily, checked, converted, their truth found."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import yaml

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset, present_names, registered, truth_file
from ann_benchmarks.data.datasets.catalog import dataset_table
from ann_benchmarks.data.datasets.maintenance import find_truth
from ann_benchmarks.data.datasets.own import OwnVectors, create_in_place
from ann_benchmarks.data.ground_truth import truth
from ann_benchmarks.results.file import truth_mark

from .file_server import FileServer
from .programs import call_program
from .served_datasets import TEST, TRAIN, distances_of, served, write_bin, write_shards, write_truth


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A server of small sets, and a registry that names them."""
    remote = tmp_path / "remote"
    write_bin(remote / "base.fbin", TRAIN)
    write_bin(remote / "query.fbin", TEST)
    write_bin(remote / "rows" / "vectors.bin", TRAIN)
    write_bin(remote / "queries" / "vectors.bin", TEST)
    write_truth(remote / "truth.bin", "euclidean", TRAIN, TEST)
    write_truth(remote / "truth-200", "euclidean", TRAIN[:200], TEST)
    write_shards(remote / "shards", [np.arange(499, 299, -1), np.arange(300)])
    bits = np.sign(TRAIN[:100]).astype(np.float16)
    for i, part in enumerate((bits[:30], bits[30:30], bits[30:])):
        np.save(remote / f"part_{i}.npy", part)
    np.save(remote / "gt.npy", np.argsort(distances_of("ip", bits, bits[:5]), axis=1)[:, :15])

    def described(url: Callable[[str], str]) -> dict[str, Any]:
        return {
            "whole": {
                "distance": "euclidean", "rows": 500, "dimension": 6, "queries": 12, "aliases": ["whole-l2"],
                "train": url("base.fbin"), "test": url("query.fbin"),
                "neighbors": url("truth.bin"),
            },
            "first200": {"first_of": "whole", "rows": 200, "neighbors": url("truth-200")},
            "first100": {"first_of": "whole", "rows": 100},
            "namesakes": {
                "distance": "euclidean", "rows": 500, "dimension": 6, "queries": 12,
                "train": url("rows/vectors.bin"), "test": url("queries/vectors.bin#/query.bin"),
                "neighbors": url("truth.bin"),
            },
            "shards": {
                "distance": "angular", "rows": 500, "dimension": 6,
                "train": url("shards/train-{00..01}.parquet"),
                "test": url("shards/test.parquet"),
                "neighbors": url("shards/neighbors.parquet"),
            },
            "parts": {
                "distance": "ip", "dimension": 6, "test": "train[:5]",
                "train": url("part_{0..2}.npy"),
                "neighbors": url("gt.npy"),
            },
        }  # fmt: skip

    with served(remote, described, tmp_path, monkeypatch) as running:
        yield running


def assert_exact(name: str, metric: str, train: np.ndarray, test: np.ndarray, k: int) -> None:
    expected = np.sort(distances_of(metric, train, test), axis=1)[:, :k]
    dataset, _ = get_dataset(name)
    with dataset:
        np.testing.assert_allclose(dataset.true_distances(k), expected, rtol=1e-12, atol=1e-12)
        found = dataset["neighbors"][:, :k]
    np.testing.assert_allclose(
        np.take_along_axis(distances_of(metric, train, test), found, 1), expected, rtol=1e-12, atol=1e-12
    )


# ---- got, opened


def test_a_big_ann_set_is_got_and_read_by_range(server: FileServer) -> None:
    dataset, dimension = get_dataset("whole-l2")
    with dataset:
        assert (dataset.name, dimension, dataset.rows) == ("whole", 6, 500)
        assert dataset.attrs["distance"] == "euclidean" and dataset.attrs["point_type"] == "float"
        np.testing.assert_array_equal(dataset.train_rows()[100:200], TRAIN[100:200])
        np.testing.assert_array_equal(dataset["train"][np.array([7, 3])], TRAIN[[7, 3]])
        assert isinstance(dataset.train(), np.memmap)
        np.testing.assert_array_equal(dataset.test(), TEST)
        assert_exact("whole", "euclidean", TRAIN, TEST, 20)
        with pytest.raises(UserError, match="--ground-truth whole --neighbors 21"):
            dataset.true_distances(21)
    assert present_names() == ["first100", "whole"]  # the first is part of the second


def test_files_of_one_name_are_told_apart_by_what_follows_the_address(server: FileServer) -> None:
    assert_exact("namesakes", "euclidean", TRAIN, TEST, 20)
    assert sorted(path.name for path in Path("data/namesakes").glob("[!.]*")) == [
        "query.bin", "truth.bin", "vectors.bin",
    ]  # fmt: skip


def test_of_a_cropped_set_only_the_first_rows_travel(server: FileServer) -> None:
    assert_exact("first200", "euclidean", TRAIN[:200], TEST, 20)
    assert server.sent_of["base.fbin"] <= 200 * 24 + 8 + 2
    crop = Path("data/whole/base.fbin.crop_nb_200")
    assert np.fromfile(crop, "<u4", 2).tolist() == [200, 6] and crop.stat().st_size == 200 * 24 + 8
    np.testing.assert_array_equal(get_dataset("first100")[0].train_rows()[:], TRAIN[:100])
    assert server.sent_of["base.fbin"] <= 200 * 24 + 8 + 2


def test_a_cropped_set_uses_the_whole_file_if_it_is_there(server: FileServer) -> None:
    get_dataset("whole")[0].close()
    before = server.sent_of["base.fbin"]
    assert_exact("first200", "euclidean", TRAIN[:200], TEST, 20)
    assert server.sent_of["base.fbin"] == before and get_dataset("first200")[0].rows == 200


def test_ids_of_shuffled_shards_become_row_numbers(server: FileServer) -> None:
    assert_exact("shards", "angular", TRAIN, TEST, 20)
    np.testing.assert_array_equal(get_dataset("shards")[0].train_rows()[190:210], TRAIN[190:210])


def test_queries_may_be_the_first_rows_and_parts_half_precision(server: FileServer) -> None:
    bits = np.sign(TRAIN[:100]).astype(np.float32)
    assert_exact("parts", "ip", bits, bits[:5], 15)
    train = get_dataset("parts")[0].train()
    assert train.dtype == np.float32
    np.testing.assert_array_equal(train, bits)


def test_distances_of_published_neighbours_are_computed_once(server: FileServer) -> None:
    before = get_dataset("whole")[0].true_distances(20)
    path = truth_file("whole")
    assert path == Path("data/whole.truth.h5")
    stamp = path.stat().st_mtime_ns
    assert truth_mark(get_dataset("whole")[0].true_distances(20)) == truth_mark(before)
    assert path.stat().st_mtime_ns == stamp


def test_the_list_says_what_is_there(server: FileServer) -> None:
    get_dataset("first200")[0].close()
    lines = {line.split()[0]: line.split()[1:] for line in dataset_table().splitlines() if line}
    assert lines["first200"] == ["200", "6", "euclidean", "0.00458", "MB", "yes"]
    assert lines["whole"] == ["500", "6", "euclidean", "0.0115", "MB", "partly"]
    assert lines["parts"] == ["-", "6", "ip", "-"]
    assert lines["other"] == ["names:", "whole-l2", "=", "whole"]


# ---- truth


def test_the_truth_is_found_here(server: FileServer) -> None:
    line = find_truth("first100", 50)
    assert line == "data/first100.truth.h5 has the 50 nearest rows of each query"
    assert_exact("first100", "euclidean", TRAIN[:100], TEST, 50)
    with pytest.raises(UserError, match="first100.truth.h5 has 50 true neighbours a query already; --force"):
        find_truth("first100", 40)
    assert "100.0000% of those that came with the data" in find_truth("whole", 30)
    assert_exact("whole", "euclidean", TRAIN, TEST, 30)
    assert not list(Path("data").glob(".*"))


def test_the_truth_of_other_vectors_is_not_taken(server: FileServer) -> None:
    find_truth("first100", 10)
    write_bin(Path("data/whole/query.fbin"), TEST[::-1])
    with pytest.raises(UserError, match="holds the true neighbours of other vectors"):
        get_dataset("first100")[0].true_distances(10)
    find_truth("first100", 10, force=True)
    assert_exact("first100", "euclidean", TRAIN[:100], TEST[::-1], 10)


# ---- what can be wrong


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f.write_bytes(f.read_bytes()[:-1]), "base.fbin"),
        (lambda f: write_bin(f, TRAIN[:499]), "has 499 rows where 'whole' has 500"),
        (lambda f: write_bin(f, np.zeros((500, 7), np.float32)), "7 dimensions where 6 were expected"),
    ],
)
def test_a_damaged_file_is_named(server: FileServer, spoil: Callable[[Path], None], message: str) -> None:
    get_dataset("whole")[0].close()
    spoil(Path("data/whole/base.fbin"))
    with pytest.raises(UserError) as error:
        get_dataset("whole")
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_truth_that_does_not_fit_is_named(server: FileServer) -> None:
    get_dataset("whole")[0].close()
    path = Path("data/whole/truth.bin")
    write_truth(path, "euclidean", TRAIN, TEST[:11])
    with pytest.raises(UserError, match="truth.bin has the neighbours of 11 queries, but there are 12"):
        get_dataset("whole")[0].truth()
    content = np.arange(12 * 3, dtype="<i4").reshape(12, 3) + 501
    path.write_bytes(
        np.array(content.shape, "<u4").tobytes() + content.tobytes() + content.astype("<f4").tobytes()
    )
    with pytest.raises(UserError, match=r"truth.bin query 0 \(from 0\) names id 501, which none of the 500"):
        get_dataset("whole")[0].truth()


def test_an_ip_file_with_distances_of_another_kind_has_them_computed(server: FileServer) -> None:
    Path("data").mkdir()
    nearest = np.argsort(-(TEST @ TRAIN.T), axis=1)[:, :10]
    with h5py.File("data/laion-1m.hdf5", "w") as file:
        file["train"], file["test"], file["neighbors"] = TRAIN, TEST, nearest
        file["distances"] = np.ones((12, 10))
        file.attrs["distance"] = "ip"
    content = {"laion-1m": {"distance": "ip", "recompute_distances": True, "hdf5": "x"}}
    Path("r.yml").write_text(yaml.safe_dump(content))
    pytest.MonkeyPatch().setattr("ann_benchmarks.data.datasets.registry._REGISTRY", Path("r.yml"))
    registered.cache_clear()
    assert_exact("laion-1m", "ip", TRAIN, TEST, 10)


# ---- the commands


def create(*arguments: str) -> subprocess.CompletedProcess[str]:
    return call_program("create_dataset.py", *arguments)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of one's own in parts, and queries."""
    monkeypatch.chdir(tmp_path)
    for i in range(3):
        np.save(f"part_{i * 5}.npy", TRAIN[i * 100 : (i + 1) * 100])
    write_bin(Path("q.fbin"), TEST)


OWN = ("--name", "mine", "--train", "part_*.npy", "--test", "q.fbin", "--distance", "euclidean", "--in-place")


def test_vectors_of_ones_own_stay_where_they_are(own: None) -> None:
    made = create(*OWN, "--neighbors", "30")
    assert (
        "warning" not in made.stderr and made.stdout.splitlines()[-1] == "mine is ready: use --dataset mine"
    )
    assert sorted(path.name for path in Path("data").iterdir()) == [
        "mine.checked.json", "mine.truth.h5", "mine.yml",
    ]  # fmt: skip
    assert_exact("mine", "euclidean", TRAIN[:300], TEST, 30)
    assert create(*OWN, "--neighbors", "30").returncode == 0  # as after an interruption
    np.save("part_1.npy", TRAIN[:100])
    other = create(*OWN)
    assert other.returncode == 1 and "data/mine.yml exists" in other.stderr
    Path("part_1.npy").unlink()
    assert create("--verify", "mine").stdout == "mine: all files are as they should be\n"


@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "part_5.npy row 7"), (2.0, "holds the true neighbours of other vectors")],
)
def test_verify_names_what_is_wrong(own: None, value: float, message: str) -> None:
    assert create(*OWN).returncode == 0
    np.save("part_5.npy", np.where(np.arange(100)[:, None] >= 7, TRAIN[100:200] * np.float32(value), 1))
    done = create("--verify", "mine")
    assert done.returncode == 1 and message in done.stdout and done.stderr == ""


def test_a_converted_copy_takes_the_place_of_the_original(server: FileServer) -> None:
    get_dataset("shards")[0].close()
    copy = "data/shards/shards.converted.npy"  # as earlier versions made them
    np.save(copy, TRAIN[::-1])
    os.utime(copy, (1, 1))  # older than the original
    np.testing.assert_array_equal(get_dataset("shards")[0].train_rows()[:], TRAIN)
    np.save(copy, TRAIN)
    for path in Path("data/shards").glob("train*.parquet"):
        path.unlink()
    np.testing.assert_array_equal(get_dataset("shards")[0].train_rows()[:], TRAIN)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dataset", "sift"), "unknown dataset 'sift'"),
        (("--name", "x", "--train", "q.fbin", "--distance", "cosines"), "unknown metric 'cosines'"),
        (("--name", "x", "--train", "none.npy", "--distance", "ip"), "the file none.npy does not exist"),
        (("--verify", "deep10m"), "are not there; get them by: python create_dataset.py --dataset deep10m"),
        (("--ground-truth", "nothing"), "unknown dataset 'nothing'"),
        (("--ground-truth", "mine", "--neighbors", "301"), "301 neighbours"),
    ],
)
def test_a_mistake_is_one_line(own: None, arguments: tuple[str, ...], message: str) -> None:
    if "mine" in arguments:
        assert create(*OWN).returncode == 0
    done = create(*arguments)
    assert done.returncode == 1 and done.stdout == ""
    assert message in done.stderr and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


def test_one_name_is_one_dataset(own: None) -> None:
    copied = ("--name", "mine", "--train", "q.fbin", "--queries", "3", "--distance", "ip", "--neighbors", "5")
    assert create(*copied).returncode == 0
    refused = create(*OWN)
    assert refused.returncode == 1 and "data/mine.hdf5 exists" in refused.stderr
    assert create(*OWN, "--force").returncode == 0
    assert get_dataset("mine")[0].rows == 300 and not Path("data/mine.hdf5").exists()
    refused = create(*copied)
    assert refused.returncode == 1 and "data/mine.yml exists" in refused.stderr
    assert create(*copied, "--force").returncode == 0
    assert get_dataset("mine")[0].rows == 9 and not Path("data/mine.yml").exists()


@pytest.mark.parametrize(
    ("train", "test", "metric", "message"),
    [
        ("b.npy", "b.npy", "jaccard", "b.npy holds uint8 where jaccard needs bool"),
        ("v.h5", "v.h5:test", "ip", "--in-place takes whole files"),
    ],
)
def test_what_cannot_stay_in_place(own: None, train: str, test: str, metric: str, message: str) -> None:
    np.save("b.npy", (TRAIN[:50] > 0).astype(np.uint8))
    with h5py.File("v.h5", "w") as file:
        file["train"], file["test"] = TRAIN, TEST
    done = create("--name", "b", "--train", train, "--test", test, "--distance", metric, "--in-place")
    assert done.returncode == 1 and message in done.stderr


def test_what_was_downloaded_is_not_replaced_by_force(own: None) -> None:
    Path("data/deep1b").mkdir(parents=True)
    for name in ("base.1B.fbin.crop_nb_10000000", "query.public.10K.fbin", "deep-10M"):
        Path("data/deep1b", name).write_bytes(b"x")
    done = create("--dataset", "deep10m", "--force")
    assert done.returncode == 1 and "delete those that are to be downloaded again" in done.stderr


def test_the_list_fetches_nothing(server: FileServer) -> None:
    Path("data").mkdir()
    addresses = f"train: {server.url('base.fbin')}\ntest: {server.url('query.fbin')}\n"
    Path("data/far.yml").write_text("distance: ip\n" + addresses)
    assert "far" in {line.split()[0] for line in dataset_table().splitlines() if line}
    assert server.sent == 0


def test_what_was_found_in_other_files_is_not_gone_on_with(
    own: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_in_place("mine", OwnVectors("part_*.npy", "euclidean", "q.fbin"))
    monkeypatch.setattr(truth, "SPAN", 100)
    monkeypatch.setattr(truth, "SHARE_OF_SAVING", 1e9)
    search, seen = truth.search_span, []

    def interrupted(*arguments, **options):
        seen.append(1)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return search(*arguments, **options)

    monkeypatch.setattr(truth, "search_span", interrupted)
    with pytest.raises(KeyboardInterrupt):
        find_truth("mine", 10)
    assert Path("data/.mine.truth.partial").exists()
    changed = TRAIN[:100].copy()
    changed[1:99] += 1
    np.save("part_0.npy", changed)
    find_truth("mine", 10)
    assert_exact("mine", "euclidean", np.concatenate((changed, TRAIN[100:300])), TEST, 10)
