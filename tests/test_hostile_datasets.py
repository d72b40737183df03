"""Damaged and forged files of vectors and datasets are one short line, and nothing is lost or half written.

This is a sample, of which ANN_BENCHMARKS_TEST_HOSTILE is the factor.
"""
# ruff: noqa: E501 (tables of cases)

import io
import itertools
import os
import pickle
import random
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

from ann_benchmarks.commands import create_dataset
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.data.datasets.queries import read_truth
from ann_benchmarks.data.vectors import open_rows

from . import hostile_cases
from .hostile_cases import SHARE, array_values, replaced, sampled
from .plotting_data import make_truth
from .vector_files import (
    lists,
    write_big_ann,
    write_chunked,
    write_hdf5,
    write_npy,
    write_parquet,
)

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("empty_folder")]

LIMIT = 10  # s
LONGEST = 600  # characters of a message: a path, what is wrong, and what to do
Make = Callable[[], Path]  # writes a file into the current folder
GOOD = np.random.default_rng(3).standard_normal((80, 6)).astype(np.float32)
WRITERS: dict[str, Callable[[], Path]] = {
    "npy": lambda: write_npy(Path("v.npy"), GOOD),
    "npy 2": lambda: write_npy(Path("v.npy"), GOOD, (2, 0)),
    "hdf5": lambda: write_hdf5(Path("v.hdf5"), train=GOOD),
    "hdf5, chunked": lambda: write_chunked(Path("v.hdf5"), GOOD),
    "parquet": lambda: write_parquet(Path("v.parquet"), lists(GOOD), 15),
    "fbin": lambda: write_big_ann(Path("v.fbin"), GOOD),
    "u8bin": lambda: write_big_ann(Path("v.u8bin"), GOOD.astype(np.uint8)),
    "i8bin": lambda: write_big_ann(Path("v.i8bin"), GOOD.astype(np.int8)),
}
NUMBERS = (0, 1, 5, 7, 2**31 - 1, 2**31, 2**32 - 1)


class Trap:
    """What runs where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("unpickled"),)


def changed(make: Make, change: Callable[[bytearray], object]) -> Make:
    """Return what makes a file and changes its bytes."""

    def changed_file() -> Path:
        path = make()
        content = bytearray(path.read_bytes())
        path.write_bytes(change(content) or content)  # type: ignore[arg-type]
        return path

    return changed_file


def byte_cases(number: int) -> Iterator[tuple[str, Make]]:
    """Every format cut short, made longer, and with random bytes changed."""

    def flip(content: bytearray, seed: str) -> None:
        rng = random.Random(seed)
        for _ in range(rng.choice((1, 1, 3, 30))):
            at = rng.choice((rng.randrange(min(len(content), 160)), rng.randrange(len(content))))
            content[at] = rng.choice((0, 0xFF, 0x7F, rng.randrange(256)))

    for name, make in WRITERS.items():
        for share in (0, 0.01, 0.1, 0.5, 0.9, 0.99):
            yield f"{name} cut at {share}", changed(make, lambda c, s=share: c[: int(s * len(c))] or b"")
        yield f"{name} and a byte", changed(make, lambda c: c + b"x")
        yield f"{name} twice", changed(make, lambda c: c + c)
        for seed in range(number):
            yield f"{name} bytes {seed}", changed(make, lambda c, s=f"{name}{seed}": flip(c, s))
        if name.endswith(("bin", "vecs")):
            for place, value in itertools.product((0, 4), NUMBERS):
                yield f"{name} {place}: {value}", changed(make, lambda c, p=place, v=value: _put(c, p, v))


def _put(content: bytearray, place: int, value: int) -> None:
    struct.pack_into("<I", content, place, value)


def npy_header(text: str) -> bytes:
    header = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(960)


HEADERS = [
    *(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': (40, 6)}}"
      for kind in ("|O", "<f4", ">f4", "<U3", "|V8", "<c8", "<M8[s]", "<f16", "|b1", "x", "<f99", "<f2")),
    *(f"{{'descr': '<f4', 'fortran_order': {order}, 'shape': {shape}}}"
      for order in ("False", "True", "3") for shape in
      ("(40, 6)", "(240,)", "()", "(2, 20, 6)", "(0, 6)", "(40, 0)", "(-1, 6)", "(40, -6)", "(10**15, 6)", f"({10**15}, 6)",
       f"({2**63}, 2)", f"({10**30}, 1)", "(1, 240)", "('a', 6)", "(40.0, 6)", "(True, 6)", "None", "40")),
    "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (240,)}", "{}", "[]", "(" * 5000, "{'a': " * 200,
    "__import__('os').system('touch unpickled')", "{'descr': '<f4', 'fortran_order': False, 'shape': (40, 6)}" + " " * 20_000,
    "9" * 6000, "\x1b[31m", "{'descr': ('<f4', (2,)), 'fortran_order': False, 'shape': (20, 6)}",
]  # fmt: skip


def array_cases() -> Iterator[tuple[str, Make]]:
    """Arrays that are no vectors."""
    for number, text in enumerate(HEADERS):
        yield f"npy header {number}", lambda t=text: _written(Path("v.npy"), npy_header(t))
    objects = io.BytesIO()
    np.save(objects, np.full((4, 6), Trap(), object), allow_pickle=True)
    yield "npy of objects", lambda: _written(Path("v.npy"), objects.getvalue())
    yield "npy that is a pickle", lambda: _written(Path("v.npy"), pickle.dumps(Trap()))
    for kind, wrong in (("nan", np.nan), ("infinity", np.inf), ("-infinity", -np.inf)):
        array = GOOD.copy()
        array[17, 3] = wrong
        yield f"npy with {kind}", lambda a=array: write_npy(Path("v.npy"), a)
        yield f"parquet with {kind}", lambda a=array: write_parquet(Path("v.parquet"), lists(a))
        yield f"hdf5 with {kind}", lambda a=array: write_chunked(Path("v.hdf5"), a)
    yield "npy beyond float32", lambda: write_npy(Path("v.npy"), GOOD.astype("f8") * 1e300)
    yield "a folder", lambda: (Path("v.npy").mkdir(), Path("v.npy"))[1]
    yield "a pipe", lambda: (os.mkfifo("v.npy"), Path("v.npy"))[1]
    yield "no end", lambda: (Path("v.npy").symlink_to("/dev/zero"), Path("v.npy"))[1]
    nulls = pa.array([[1.0] * 6, None, [None] * 6], pa.list_(pa.float32()))
    for kind, column in (("nulls", nulls), ("texts", pa.array(["a"])), ("lists of texts", pa.array([["a"]])),
                         ("lists of lists", pa.array([[[1.0]]])), ("no rows", pa.array([], pa.list_(pa.float32()))),
                         ("no numbers", pa.array([[]], pa.list_(pa.float32())))):  # fmt: skip
        yield f"parquet of {kind}", lambda c=column: write_parquet(Path("v.parquet"), c)


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _hdf5(make: Callable[[h5py.File], object]) -> Path:
    with h5py.File("v.hdf5", "w", libver=("earliest", "v114")) as file:
        made = make(file)
        if made is not None:
            file["train"] = made
    return Path("v.hdf5")


def hdf5_cases() -> Iterator[tuple[str, Make]]:
    """Everything that can stand where the vectors of an HDF5 file belong."""
    for kind, make in array_values("train").items():
        if kind not in ("bool", "half", "big-endian", "compressed", "int", "negative"):  # which are vectors
            yield f"hdf5 train is {kind}", lambda m=make: _hdf5(m)


def own_cases(number: int) -> list[tuple[str, Make]]:
    """All cases of files of vectors."""
    return [*array_cases(), *hdf5_cases(), *byte_cases(number)]


def dataset_cases(number: int) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Changes of data/d.hdf5: its arrays, its attributes, its bytes."""
    for name in ("train", "test", "neighbors", "distances"):
        for kind, make in array_values(name).items():
            yield f"{name} is {kind}", replaced(name, make)
    values: dict[str, Any] = {
        "text": "x", "long": "\x1b" * 9000, "nan": np.nan, "array": np.ones(3), "empty": h5py.Empty("f"), "negative": -1,
        "zero": 0, "large": 2**63, "opaque": np.void(b"abc"), "sparse": "sparse", "bytes": np.bytes_(b"\xff"),
    }  # fmt: skip
    for name in ("distance", "dimension", "type", "point_type"):
        for kind, value in values.items():
            yield f"{name}: {kind}", lambda path, n=name, v=value: _attribute(path, n, v)
    yield from hostile_cases.byte_cases(number)


def _attribute(path: Path, name: str, value: Any) -> None:
    with h5py.File(path, "r+") as file:
        file.attrs[name] = value


def run_main(*arguments: str) -> str:
    """Run create_dataset.py here; return its message, "" where it succeeded."""
    sys.argv = ["create_dataset.py", *arguments]
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        try:
            return said.getvalue() if create_dataset.main() else ""
        except UserError as error:
            return str(error) or "nothing is said"


def contents(folder: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def problem_of(kind: str, make: Any) -> str:
    """Try a case in an empty folder; say what is wrong with what happened, "" for nothing."""
    before = time.process_time()
    if kind == "own":
        own = make()
        Path("data").mkdir()
        Path("data/x.hdf5").write_bytes(b"an older dataset")
        old = contents("data")
        common = ("--name", "x", "--force", "--queries", "5", "--neighbors", "2", "--distance", "euclidean")
        said = [run_main(*common, "--train", str(own))]
        if said[0] and contents("data") != old:
            return f"data/ has changed: {sorted(contents('data'))}"
    else:
        make_truth("d", queries=10)
        make(Path("data/d.hdf5"))
        said = [
            run_main("--verify", "d"),
            run_main("--list"),
            run_main("--ground-truth", "d", "--neighbors", "3"),
        ]
    if Path("unpickled").exists():
        return "it was unpickled"
    if time.process_time() - before > LIMIT:
        return f"more than {LIMIT} s of CPU"
    for text in said:
        if any(len(line) > LONGEST or not line.isprintable() for line in text.splitlines()):
            return f"a message of {len(text)} characters: {text[:80]!r}"
    return ""


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
    replaced("train", array_values("train")[kind])(Path("data/d.hdf5"))
    with pytest.raises(UserError, match=rf"'train' .*{reason}"):
        get_dataset("d")


@pytest.mark.parametrize("kind", ["text", "strings", "scalar", "group", "vast", "virtual", "no rows", "loop"])
def test_true_neighbours_are_checked(kind):
    with h5py.File("d.truth.h5", "w") as file:
        file["neighbors"], file["distances"] = np.zeros((20, 10), int), np.ones((20, 10))
    replaced("distances", array_values("distances")[kind])(Path("d.truth.h5"))
    with pytest.raises(UserError, match=r"d\.truth\.h5 is damaged .*delete it"):
        read_truth(Path("d.truth.h5"))
