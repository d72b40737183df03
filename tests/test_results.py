from pathlib import Path

import h5py
import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.results.attributes import ALL, plain_attributes, version_names
from ann_benchmarks.results.file import (
    damage,
    iter_result_paths,
    read_attributes,
    read_result,
    result_path,
    write_result,
)

ATTRS = {"best_search_time": 0.5, "count": 2, "name": "x", "batch_mode": False}


def write(path, attrs=ATTRS):
    times = np.array([0.1, 0.9])
    neighbors = np.array([[4, 5], [6, -1]])
    distances = np.array([[0.25, 0.5], [0.75, np.inf]])
    write_result(path, attrs, times, neighbors, distances)


# The names are those that ann-benchmarks gives.
@pytest.mark.parametrize(
    "arguments, name",
    [
        (["angular"], "angular"),
        ([], ""),
        (["euclidean", {"efConstruction": 200, "M": 16}, 40], "euclidean_M_16_efConstruction_200_40"),
        (["@metric", -0.5, None, True, [1, 2], {"a": "b c"}], "metric_0_5_null_true_1_2_a_b_c"),
        (["ü"], "u00fc"),
        (["_a_"], "a"),
    ],
)
def test_a_result_lies_where_ann_benchmarks_puts_it(arguments, name):
    assert result_path("data", 10, "algo", arguments) == Path("results/data/10/algo") / f"{name}.hdf5"


def test_long_names_stay_apart_and_can_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = {result_path("d", 1, "algo", ["x" * 400 + end]) for end in "ab"}
    assert len(paths) == 2
    for path in paths:
        write(path)
        assert damage(path) is None


@pytest.mark.parametrize("name", ["../up", "a/b", "..", "", "a\\b"])
def test_names_cannot_leave_the_folder(name):
    with pytest.raises(UserError, match="cannot be the name of a"):
        result_path(name, 10, "algo", [])
    with pytest.raises(UserError, match="cannot be the name of a"):
        result_path("d", 10, name, [])


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "r.hdf5"
    write(path)
    result = read_result(path)
    assert result.neighbors.tolist() == [[4, 5], [6, -1]]
    assert result.distances.tolist() == [[0.25, 0.5], [0.75, np.inf]]
    assert result.times == pytest.approx([0.1, 0.9])
    assert result.times.dtype == result.distances.dtype == np.float32
    assert result.neighbors.dtype == np.int32
    assert result.attrs["best_search_time"] == 0.5
    assert [file.name for file in tmp_path.iterdir()] == ["r.hdf5"]


def test_attributes_that_are_too_long_for_one_text_are_stored_one_by_one(tmp_path):
    path = tmp_path / "long.hdf5"
    parts = {f"part_{number}": "x" * 30_000 for number in range(3)}
    write(path, ATTRS | parts)
    assert {name: read_attributes(path)[name] for name in parts} == parts


def test_ids_beyond_32_bits_are_kept(tmp_path):
    path = tmp_path / "r.hdf5"
    write_result(path, ATTRS, np.ones(1), np.array([[2**31, 3]]), np.ones((1, 2)))
    assert read_result(path).neighbors[0, 0] == 2**31


@pytest.mark.parametrize(
    "value, stored",
    [
        (True, True),
        (np.float32(0.5), 0.5),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        (["a", "b"], '["a", "b"]'),
        ([1.5, 2.5], [1.5, 2.5]),
        ([[1], [2, 3]], "[[1], [2, 3]]"),
        ([], "[]"),
        (2**70, str(2**70)),
        (Path("a"), '"a"'),
        ("a\0b", "ab"),
        ("x" * 100_000, "x" * 100_000),
    ],
)
def test_attributes_of_any_kind_are_stored(tmp_path, value, stored):
    path = tmp_path / "r.hdf5"
    write(path, {**ATTRS, "extra": value, "none": None})
    attrs = read_result(path).attrs
    assert np.all(attrs["extra"] == stored)
    assert "none" not in attrs
    with h5py.File(path, "r+") as file:  # as ann-benchmarks and earlier releases read it
        assert plain_attributes(attrs) == plain_attributes({n: v for n, v in file.attrs.items() if n != ALL})
        file.attrs[ALL] = "{"
    assert np.all(read_result(path).attrs["extra"] == stored)


def test_unfinished_and_damaged_files_are_no_results(tmp_path):
    whole = tmp_path / "whole.hdf5"
    write(whole)
    content = whole.read_bytes()
    cut = tmp_path / "cut.hdf5"
    for size in (0, 10, len(content) // 2, len(content) - 1):
        cut.write_bytes(content[:size])
        assert damage(cut), size
        with pytest.raises(UserError, match=r"cut\.hdf5"):
            read_result(cut)
    assert damage(tmp_path / "absent.hdf5")
    assert "\n" not in damage(cut)


def test_a_file_that_ann_benchmarks_did_not_finish_is_no_result(tmp_path):
    path = tmp_path / "r.hdf5"
    with h5py.File(path, "w") as file:
        file.attrs.update(ATTRS)
        for name, shape in (("times", (2,)), ("neighbors", (2, 2)), ("distances", (2, 2))):
            file.create_dataset(name, shape, "i" if name == "neighbors" else "f")[0] = 1
    assert "last query" in damage(path)
    with h5py.File(path, "r+") as file:
        file["times"][1] = 0.5
    assert damage(path) is None
    with h5py.File(path, "r+") as file:
        del file["neighbors"]
    assert "neighbors" in damage(path)


def test_results_are_listed_in_order_and_unfinished_ones_are_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["b/10/x/1.hdf5", "a[1]/10/x-batch/2.hdf5", "a[1]/10/x/1.hdf5", "a[1]/100/y/1.hdf5"]
    for name in names:
        write(Path("results", name))
    Path("results/b/10/x/.2.hdf5.partial-17").write_bytes(b"half")
    Path("results/b/10/x/empty.hdf5").touch()
    assert list(iter_result_paths()) == sorted(Path("results", name) for name in names)
    assert [path.name for path in iter_result_paths("a[1]", 10)] == ["1.hdf5", "2.hdf5"]


def test_a_plugin_names_what_its_versions_are_of():
    attrs = {"vchord_version": "1.1", "vectorscale_version": "0.9", "framework_version": "1"}
    assert version_names(attrs) == {"vchord_version": "VectorChord", "vectorscale_version": "vectorscale"}
    names = version_names(attrs | {"version_names": '{"vectorscale": "pgvectorscale"}'})
    assert names["vectorscale_version"] == "pgvectorscale"
    assert version_names(attrs | {"version_names": "[1]"}) == version_names(attrs)
