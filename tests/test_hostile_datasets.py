"""Damaged and forged files of vectors and datasets are one short line, and nothing is lost or half written.

This is a sample, of which ANN_BENCHMARKS_TEST_HOSTILE is the factor.
"""

from pathlib import Path

import h5py
import numpy as np
import pytest
from h5py import h5d, h5s, h5t

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.data.datasets.queries import read_truth
from ann_benchmarks.data.vectors import open_rows

from .hostile_cases import SHARE, array_values, sampled
from .hostile_datasets import LONGEST, array_cases, dataset_cases, npy_header, own_cases, problem_of
from .plotting_data import make_truth

pytestmark = pytest.mark.thorough

NUMBERS = np.arange(100, dtype=np.float32).reshape(10, 10)


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def try_all(kind: str, cases: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return what is wrong with each case, each tried in a folder of its own."""
    found = {}
    for number, (name, make) in enumerate(cases):
        folder = tmp_path / f"case{number}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        if reason := problem_of(kind, make):
            found[name] = reason
    return found


def test_files_of_vectors_that_are_hostile(tmp_path, monkeypatch):
    cases = sampled(own_cases(6 * SHARE), 60, 2)
    cases += [case for case in array_cases() if "objects" in case[0] or "pickle" in case[0]]
    assert try_all("own", cases, tmp_path, monkeypatch) == {}


def test_datasets_that_are_hostile(tmp_path, monkeypatch):
    assert try_all("dataset", sampled([*dataset_cases(20 * SHARE)], 30, 2), tmp_path, monkeypatch) == {}


@pytest.mark.parametrize(
    "kind, reason",
    [
        ("virtual", "lies in other files; write it into one"),
        ("external storage", "lies in other files"),
        ("unwritten", "has 0 of 800 bytes; write it again"),
        ("unwritten chunks", "has 0 of 1 chunks"),
        ("vast, compressed", "chunks; write it again"),
        ("missing filter", "compressed by a filter that is not installed, 32015"),
    ],
)
def test_numbers_that_are_not_in_the_file_are_no_zeros(kind, reason):
    with h5py.File("v.hdf5", "w") as file:
        array_values("train")[kind](file)
    with pytest.raises(UserError, match=rf"v\.hdf5:train .*{reason}"):
        open_rows("v.hdf5")
    make_truth("d", queries=10)
    with h5py.File("data/d.hdf5", "r+") as file:
        del file["train"]
        array_values("train")[kind](file)
    with pytest.raises(UserError, match=rf"'train' .*{reason}"):
        get_dataset("d")


def test_rows_of_another_file_are_not_read_at_its_places():
    with h5py.File("other.hdf5", "w") as file:
        file["x"] = NUMBERS
    make_truth("d", queries=10)
    with h5py.File("data/d.hdf5", "r+") as file:
        del file["train"]
        file["train"] = h5py.ExternalLink("../other.hdf5", "/x")
    with pytest.raises(UserError, match="'train' is a link into another file"):
        get_dataset("d")


def test_numbers_that_numpy_lacks_are_converted():
    bfloat = h5t.IEEE_F32LE.copy()
    bfloat.set_fields(15, 7, 8, 0, 7)
    bfloat.set_size(2)
    bfloat.set_ebias(127)
    shifted = h5t.STD_I32LE.copy()
    shifted.set_precision(20)
    shifted.set_offset(4)
    with h5py.File("v.hdf5", "w", userblock_size=512) as file:
        for name, kind, values in (
            ("bfloat", bfloat, NUMBERS),
            ("shifted", shifted, NUMBERS.astype(np.int32)),
        ):
            made = h5d.create(file.id, name.encode(), kind, h5s.create_simple(values.shape))
            made.write(h5s.ALL, h5s.ALL, values.copy())
        file["plain"], file["big"] = NUMBERS, NUMBERS.astype(">f8")
    for name in ("bfloat", "shifted", "plain", "big"):
        np.testing.assert_array_equal(open_rows("v.hdf5", name)[:], NUMBERS)


def test_messages_are_short_whatever_a_library_says():
    for header in ("9" * 6000, "(" * 5000):
        Path("v.npy").write_bytes(npy_header(header))
        with pytest.raises(UserError, match=r"cannot read v\.npy: .*is it whole") as raised:
            open_rows("v.npy")
        assert len(str(raised.value)) < LONGEST and str(raised.value).isprintable()


@pytest.mark.parametrize("kind", ["text", "strings", "scalar", "group", "vast", "virtual", "no rows", "loop"])
def test_true_neighbours_are_checked(kind):
    with h5py.File("d.truth.h5", "w") as file:
        file["neighbors"], file["distances"] = np.zeros((20, 10), int), np.ones((20, 10))
        del file["distances"]
        made = array_values("distances")[kind](file)
        if made is not None:
            file["distances"] = made
    with pytest.raises(UserError, match=r"d\.truth\.h5 is damaged .*delete it"):
        read_truth(Path("d.truth.h5"))
