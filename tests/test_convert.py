"""Conversion to NPY: NumPy's own bytes, in bounded memory, whole or not there, resumed after a kill."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.vectors import FirstRows, Rows, checked, convert, open_rows
from ann_benchmarks.data.vectors.rows import ArrayRows

from .programs import until
from .vector_files import FORMATS, VECTORS, lists, write_big_ann, write_npy, write_parquet

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def numpy_bytes(vectors: np.ndarray, folder: Path) -> bytes:
    return write_npy(folder / "expected.npy", vectors).read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_the_bytes_are_those_of_numpy(form: str, tmp_path: Path) -> None:
    path, vectors = FORMATS[form](tmp_path)
    made = tmp_path / "new" / "made.npy"
    convert(open_rows(path), made)
    assert made.read_bytes() == numpy_bytes(vectors, tmp_path)
    assert list(made.parent.iterdir()) == [made]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_to_another_type(dtype: str, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "v.parquet", lists(VECTORS.astype("f8")))
    convert(open_rows(path), tmp_path / "made.npy", dtype)
    assert (tmp_path / "made.npy").read_bytes() == numpy_bytes(VECTORS.astype(dtype), tmp_path)


@pytest.mark.parametrize(
    ("value", "source", "dtype"), [(7e4, "f4", "f2"), (1.5, "f4", "u1"), (-1, "i1", "u1"), (300, "i4", "u1")]
)
def test_numbers_that_do_not_fit_are_refused(value: float, source: str, dtype: str, tmp_path: Path) -> None:
    vectors = np.ones((50, 3), source)
    vectors[31, 2] = value
    rows = open_rows(write_npy(tmp_path / "v.npy", vectors))
    with pytest.raises(
        UserError, match=r"v\.npy row 31 \(from 0\) has .* as number 2 .*, which .* cannot hold"
    ):
        convert(rows, tmp_path / "made.npy", dtype)
    assert not (tmp_path / "made.npy").exists()


def test_a_bad_row_leaves_no_file(tmp_path: Path) -> None:
    vectors = VECTORS.copy()
    vectors[900] = np.nan
    path = write_big_ann(tmp_path / "v.fbin", vectors)
    with pytest.raises(UserError, match=r"v\.fbin row 900 \(from 0\) has NaN"):
        convert(checked(open_rows(path)), tmp_path / "made.npy")
    assert [entry.name for entry in tmp_path.iterdir() if not entry.name.startswith(".")] == ["v.fbin"]


# ---- interrupted


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 100 rows, each brought to the disk."""
    monkeypatch.setattr("ann_benchmarks.data.vectors.opening.BLOCK_BYTES", 100 * 12 * 4)
    monkeypatch.setattr("ann_benchmarks.data.vectors.opening.CHECKPOINT_BYTES", 100 * 12 * 4)


class Stopping(FirstRows):
    """Rows that fail at a row, and remember which were read."""

    def __init__(self, rows: Rows, at: int) -> None:
        super().__init__(rows, len(rows))
        self.at, self.begun = at, [0][:0]

    def read(self, start: int, stop: int) -> np.ndarray:
        self.begun.append(start)
        if start >= self.at:
            raise KeyboardInterrupt
        return super().read(start, stop)


def interrupted(path: Path, made: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        convert(Stopping(open_rows(path), 500), made)
    assert not made.exists()


def test_it_goes_on_where_it_stopped(tmp_path: Path, small_steps: None) -> None:
    path, made = write_big_ann(tmp_path / "v.fbin", VECTORS), tmp_path / "made.npy"
    interrupted(path, made)
    rest = Stopping(open_rows(path), 1000)
    convert(rest, made)
    assert rest.begun == [400, 500, 600, 700, 800, 900]  # what may not have reached the disk is repeated
    assert made.read_bytes() == numpy_bytes(VECTORS, tmp_path)
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".")]


def test_another_source_or_type_starts_anew(tmp_path: Path, small_steps: None) -> None:
    path, made = write_big_ann(tmp_path / "v.fbin", VECTORS), tmp_path / "made.npy"
    interrupted(path, made)
    write_big_ann(path, VECTORS[::-1])
    convert(open_rows(path), made)
    assert made.read_bytes() == numpy_bytes(VECTORS[::-1], tmp_path)
    interrupted(path, tmp_path / "other.npy")
    convert(open_rows(path), tmp_path / "other.npy", "f2")
    assert (tmp_path / "other.npy").read_bytes() == numpy_bytes(VECTORS[::-1].astype("f2"), tmp_path)


def test_rows_in_memory_start_anew(tmp_path: Path, small_steps: None) -> None:
    with pytest.raises(KeyboardInterrupt):
        convert(Stopping(ArrayRows(VECTORS), 500), tmp_path / "made.npy")
    convert(ArrayRows(VECTORS[::-1]), tmp_path / "made.npy")
    assert (tmp_path / "made.npy").read_bytes() == numpy_bytes(VECTORS[::-1], tmp_path)


def test_a_part_that_is_shorter_goes_on_from_there(tmp_path: Path, small_steps: None) -> None:
    path, made = write_big_ann(tmp_path / "v.fbin", VECTORS), tmp_path / "made.npy"
    interrupted(path, made)
    (partial,) = tmp_path.glob(".made.npy.*.partial")
    assert partial.stat().st_size == len(numpy_bytes(VECTORS, tmp_path)) - 500 * 48
    os.truncate(partial, 5000)
    convert(open_rows(path), made)
    assert made.read_bytes() == numpy_bytes(VECTORS, tmp_path)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


SLOW = """
import sys, time
from pathlib import Path
from ann_benchmarks.data.vectors import opening, convert, open_rows, FirstRows
opening.BLOCK_BYTES = opening.CHECKPOINT_BYTES = 20 * 48
class Slow(FirstRows):
    def read(self, start, stop):
        time.sleep(0.02)
        return super().read(start, stop)
rows = open_rows(sys.argv[1])
print("begun", flush=True)
convert(Slow(rows, len(rows)), Path(sys.argv[2]))
"""


def begun(source: Path, made: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SLOW, str(source), str(made)]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    return process


def written_bytes(folder: Path) -> int:
    return sum(partial.stat().st_size for partial in folder.glob(".made.npy.*.partial"))


def test_killed_at_any_moment_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    path, made = write_parquet(tmp_path / "v.parquet", lists(VECTORS)), tmp_path / "made.npy"
    chance, before = random.Random(1), 0
    for _ in range(3):
        process = begun(path, made)
        until(lambda: written_bytes(tmp_path) > before + 2 * 960 or process.poll() is not None)  # noqa: B023
        time.sleep(chance.uniform(0, 0.02))  # and then at any moment of a block
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not made.exists() and written_bytes(tmp_path) > before
        before = written_bytes(tmp_path)
    assert begun(path, made).wait() == 0
    assert made.read_bytes() == numpy_bytes(VECTORS, tmp_path)
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".made.npy")]


def test_two_at_once_make_one_file(tmp_path: Path) -> None:
    path, made = write_parquet(tmp_path / "v.parquet", lists(VECTORS)), tmp_path / "made.npy"
    processes = [begun(path, made) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert made.read_bytes() == numpy_bytes(VECTORS, tmp_path)


# ---- the disk


def test_a_disk_that_is_too_small_is_reported_first(tmp_path: Path) -> None:
    path = tmp_path / "v.fbin"
    with path.open("wb") as file:
        file.write(np.array([4_000_000_000, 1000], "<u4").tobytes())
        file.truncate(8 + 4_000_000_000 * 1000 * 4)  # 16 TB that take no room
    with pytest.raises(UserError, match=r"14,901 GB are needed in .* GB are free"):
        convert(open_rows(path), tmp_path / "new" / "made.npy")
    assert not list((tmp_path / "new").iterdir())


def test_a_disk_that_fills_is_one_line_and_can_go_on(tmp_path: Path) -> None:
    path, made = write_big_ann(tmp_path / "v.fbin", VECTORS), tmp_path / "made.npy"
    code = (
        "import sys; from pathlib import Path; from ann_benchmarks.data.vectors import convert, open_rows\n"
        "from ann_benchmarks.common.errors import UserError\n"
        "try: convert(open_rows(sys.argv[1]), Path(sys.argv[2]))\n"
        "except UserError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(made)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )
    assert done.stderr == "" and done.stdout.count("\n") == 1
    assert done.stdout.startswith(f"cannot write {made}: ")
    assert not made.exists()
    convert(open_rows(path), made)
    assert made.read_bytes() == numpy_bytes(VECTORS, tmp_path)
