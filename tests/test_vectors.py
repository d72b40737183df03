"""Vectors of every format read as NumPy would read them, in memory that does not grow with the file."""

import pickle
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.vectors import (
    FirstRows,
    JoinedRows,
    Rows,
    checked,
    open_parts,
    open_rows,
    open_source,
    parquet,
)
from ann_benchmarks.data.vectors.parquet import parquet_ids
from ann_benchmarks.data.vectors.rows import ArrayRows

from .programs import ROOT
from .vector_files import BYTES, FORMATS, VECTORS, lists, write_big_ann, write_npy, write_parquet


@pytest.fixture(params=FORMATS)
def given(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Rows, np.ndarray]:
    path, vectors = FORMATS[request.param](tmp_path)
    return open_rows(path), vectors


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet batches and blocks of 28 rows of float32, so that small files have several."""
    for module in ("rows", "parquet"):
        __import__(f"ann_benchmarks.data.vectors.{module}")
        monkeypatch.setattr(f"ann_benchmarks.data.vectors.{module}.BLOCK_BYTES", 28 * 12 * 4)


def equal(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype and found.dtype.isnative
    np.testing.assert_array_equal(found, expected)


def test_all_rows(given: tuple[Rows, np.ndarray]) -> None:
    rows, vectors = given
    assert rows.shape == vectors.shape and rows.dtype == vectors.dtype and rows.ndim == 2
    equal(np.concatenate([block for _, block in rows.blocks(77)]), vectors)
    equal(np.concatenate([block for _, block in rows.blocks()]), vectors)
    equal(np.asarray(rows), vectors)


def test_rows_near_each_other_are_read_at_once_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    class Seen(ArrayRows):
        take = Rows.take

        def read(self, start: int, stop: int) -> np.ndarray:
            read.append((start, stop))
            return super().read(start, stop)

    vectors = np.arange(1000 * 12, dtype=np.float32).reshape(1000, 12)
    monkeypatch.setattr("ann_benchmarks.data.vectors.rows.GAP_BYTES", 5 * 12 * 4)
    numbers = np.array([900, 0, 5, 12, 3, 900, 20, 25, 29])
    equal(Seen(vectors)[numbers], vectors[numbers])
    assert read == [(0, 6), (12, 13), (20, 26), (29, 30), (900, 901)]  # a block has 28 rows
    assert Seen(vectors)[np.array([], int)].shape == (0, 12)


def test_any_range(given: tuple[Rows, np.ndarray]) -> None:
    rows, vectors = given
    chosen = random.Random(1)
    for _ in range(60):
        start, stop = sorted(chosen.choices(range(1001), k=2))
        equal(rows[start:stop], vectors[start:stop])
    for start in (0, 299, 300, 301, 999):
        equal(rows[start], vectors[start])
        assert rows.read(start, start).shape == (0, 12)
    assert rows.read(1000, 1000).shape == (0, 12)


def test_any_rows(given: tuple[Rows, np.ndarray]) -> None:
    rows, vectors = given
    numbers = np.random.default_rng(2).integers(0, 1000, 200)
    equal(rows[numbers], vectors[numbers])
    equal(rows[np.empty(0, np.int64)], vectors[:0])
    equal(rows[::-7], vectors[::-7])


def test_rows_read_are_the_readers_own(given: tuple[Rows, np.ndarray]) -> None:
    rows, vectors = given
    rows[3:9][:] = 0
    equal(rows[3:9], vectors[3:9])


def test_a_map_is_of_all_rows(given: tuple[Rows, np.ndarray]) -> None:
    rows, vectors = given
    mapped = rows.mapped()
    if mapped is not None:
        assert isinstance(mapped, np.memmap)
        equal(np.asarray(mapped), vectors)
        mapped[5] = 0  # stays in memory
        equal(rows[5], vectors[5])


def test_pickled_and_closed_rows_open_their_files_anew(
    given: tuple[Rows, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, vectors = given
    rows.read(5, 500)
    again = pickle.loads(pickle.dumps(rows))
    assert len(pickle.dumps(rows)) < 5000
    equal(again[490:700], vectors[490:700])
    rows.close()
    equal(rows[500:600], vectors[500:600])


def test_threads_share_rows(given: tuple[Rows, np.ndarray]) -> None:
    rows, vectors = given

    def read(seed: int) -> None:
        chosen = random.Random(seed)
        for turn in range(20):
            start, stop = sorted(chosen.choices(range(1001), k=2))
            equal(rows[start:stop], vectors[start:stop])
            if turn == 10:
                rows.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(8)))


def test_the_first_rows(given: tuple[Rows, np.ndarray]) -> None:
    rows, vectors = given
    first = FirstRows(rows, 310)
    equal(np.concatenate([block for _, block in first.blocks(100)]), vectors[:310])


# ---- parts


def parts_of(folder: Path) -> list[Path]:
    """Twelve parts of VECTORS, one of them empty."""
    cuts = [100, 130, 130, 300, 301, 400, 500, 600, 700, 800, 999]
    return [
        write_npy(folder / f"part_{number}.npy", part) for number, part in enumerate(np.split(VECTORS, cuts))
    ]


def test_parts_end_to_end(tmp_path: Path) -> None:
    parts_of(tmp_path)
    rows = open_source(f"{tmp_path}/part_*.npy")
    assert isinstance(rows, JoinedRows) and rows.mapped() is None
    test_all_rows((rows, VECTORS))
    test_any_range((rows, VECTORS))
    test_any_rows((rows, VECTORS))
    test_threads_share_rows((rows, VECTORS))
    equal(pickle.loads(pickle.dumps(rows))[95:305], VECTORS[95:305])
    assert rows.row_name(130) == f"{tmp_path}/part_3.npy row 0 (from 0)"
    assert rows.row_name(999) == f"{tmp_path}/part_11.npy row 0 (from 0)"


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_few_files_are_open_at_once(tmp_path: Path) -> None:
    for number in range(100):
        write_parquet(tmp_path / f"{number}.parquet", lists(VECTORS[number * 10 : number * 10 + 10]))
    rows = open_source(f"{tmp_path}/*.parquet:emb")
    before = open_files()
    some = np.arange(3, 1000, 10)
    equal(rows[some], VECTORS[some])
    assert open_files() - before <= 16
    rows.close()
    assert open_files() <= before  # others of this process may close some meanwhile


def test_shards_end_to_end(tmp_path: Path) -> None:
    ids = np.random.default_rng(1).permutation(1000)
    paths = [
        write_parquet(tmp_path / f"{number}.parquet", lists(VECTORS[part]), 40, ids[part])
        for number, part in enumerate(np.array_split(np.arange(1000), 11))
    ]
    write_parquet(tmp_path / "11.parquet", lists(VECTORS[:0]), 40, ids[:0])
    rows = open_source(f"{tmp_path}/*.parquet:emb")
    test_all_rows((rows, VECTORS))
    test_any_rows((rows, VECTORS))
    found = parquet_ids(paths)
    assert found is not None
    np.testing.assert_array_equal(np.concatenate(list(found)), ids)
    before = rows.fingerprint()  # type: ignore[attr-defined]
    assert before == open_parts(paths).fingerprint()  # type: ignore[attr-defined]
    write_parquet(paths[5], lists(VECTORS[:91] + 1), 40, ids[:91])
    assert open_parts(paths).fingerprint() != before  # type: ignore[attr-defined]


def test_shards_without_ids(tmp_path: Path) -> None:
    with_ids = write_parquet(tmp_path / "a.parquet", lists(VECTORS))
    pq.write_table(pa.table({"v": lists(VECTORS)}), tmp_path / "b.parquet")
    assert parquet_ids([tmp_path / "b.parquet"]) is None
    with pytest.raises(
        UserError, match=r"b\.parquet has no column 'id', as other shards have; all shards must be alike"
    ):
        parquet_ids([with_ids, tmp_path / "b.parquet"])


# ---- checks


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize(("bad", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_what_is_not_finite_is_refused(dtype: str, bad: float, name: str, tmp_path: Path) -> None:
    vectors = VECTORS.astype(dtype)
    vectors[777, 3] = bad
    for metric in ("", "angular"):
        rows = checked(open_rows(write_npy(tmp_path / "v.npy", vectors)), metric)
        equal(rows[:777], vectors[:777])
        for key in (slice(None), 777, [1, 777, 3], slice(999, 700, -1)):
            with pytest.raises(
                UserError, match=rf"v\.npy row 777 \(from 0\) has {name} as number 3 .*expected"
            ):
                rows[key]


def test_rows_without_direction_are_refused_under_angular(tmp_path: Path) -> None:
    for vectors in (VECTORS.copy(), VECTORS.astype("f2"), BYTES.copy()):
        vectors[500] = 0
        rows = open_rows(write_npy(tmp_path / "v.npy", vectors))
        equal(checked(rows, "euclidean")[:], vectors)
        with pytest.raises(UserError, match=r"row 500 \(from 0\) is all zeros where angular needs"):
            checked(rows, "angular")[400:]


@pytest.mark.parametrize(
    ("dtype", "values"), [("f4", (1e30, 1e-30)), ("f8", (1e200, 1e-200)), ("f2", (6e4, 6e-8))]
)
def test_squares_that_overflow_or_vanish_are_no_reason(dtype: str, values: tuple, tmp_path: Path) -> None:
    for value in values:
        vectors = np.full((500, 3), value, dtype)
        equal(checked(open_rows(write_npy(tmp_path / "v.npy", vectors)), "angular")[:], vectors)


# ---- memory


# VmHWM, as ru_maxrss counts the process that started this one too.
BOUNDED = """
import sys
from pathlib import Path
import numpy as np
from ann_benchmarks.data.vectors import checked, open_rows
rows = checked(open_rows(sys.argv[1]))
assert rows.shape == tuple(map(int, sys.argv[2].split(",")))
count = 400_000
for first in map(int, sys.argv[3:]):
    for start in range(first, min(first + count, len(rows)), 10_000):
        assert not rows[start : start + 10_000].any()
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


def peak(path: Path, shape: tuple[int, int], *starts: int) -> int:
    """Peak resident KiB of a process that reads 400,000 rows from each start."""
    command = [sys.executable, "-c", BOUNDED, str(path), ",".join(map(str, shape)), *map(str, starts)]
    env = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return int(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)


def test_a_billion_rows_are_never_in_memory(tmp_path: Path) -> None:
    shape = 10**9, 96
    path = write_npy(tmp_path / "v.npy", np.empty((0, 96), np.float32))
    header = path.read_bytes().replace(b"(0, 96), }" + b" " * 9, b"(1000000000, 96), }")
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + shape[0] * shape[1] * 4)
    assert peak(path, shape, 0, 500_000_000, 999_000_000) < 200 * 1024
    path.unlink()


def test_a_row_group_is_never_in_memory(tmp_path: Path) -> None:
    shape = 400_000, 128  # 205 MB
    path = tmp_path / "v.parquet"
    column = lists(np.zeros(shape, np.float32))
    pq.write_table(
        pa.table({"emb": column}), path, row_group_size=10**6, use_dictionary=False, compression="none"
    )
    assert pq.ParquetFile(path).num_row_groups == 1
    assert peak(path, shape, 0) < 250 * 1024
    path.unlink()


# ---- what a user types


def test_sources_are_found(tmp_path: Path) -> None:
    odd = tmp_path / "a*b:c.npy"  # a name that looks like a pattern and a key is still a name
    equal(open_source(str(write_npy(odd, VECTORS)))[:], VECTORS)
    equal(open_source(str(write_big_ann(tmp_path / "v.FBIN", VECTORS)))[:], VECTORS)
    (tmp_path / ".hidden_1.npy").write_bytes(b"unfinished")
    write_npy(tmp_path / "x_2.npy", VECTORS[:3])
    write_npy(tmp_path / "x_10.npy", VECTORS[3:])
    equal(open_source(f"{tmp_path}/x_*.npy")[:], VECTORS)


def test_first_rows_of_parquet_have_a_fingerprint_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    pq.write_table(pa.table({"emb": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}), path)
    whole, first = checked(open_rows(path)), pickle.loads(pickle.dumps(FirstRows(open_rows(path), 2)))
    assert whole.fingerprint() != first.fingerprint() == FirstRows(open_rows(path), 2).fingerprint()


def test_parquet_goes_on_at_each_place_that_is_read_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    pq.write_table(pa.table({"emb": [list(map(float, row)) for row in vectors]}), tmp_path / "v.parquet")
    begun = []
    decoder = parquet._Decoder
    monkeypatch.setattr(parquet, "_Decoder", lambda *arguments: begun.append(1) or decoder(*arguments))
    rows = open_rows(tmp_path / "v.parquet")
    for start in range(0, 500, 50):  # two connections that load, in turn
        for first in (start, 500 + start):
            np.testing.assert_array_equal(rows[first : first + 50], vectors[first : first + 50])
    assert len(begun) == 2
