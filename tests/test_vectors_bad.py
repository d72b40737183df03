"""A damaged or mistaken file is one line that names the file, the row and what was expected."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.vectors import checked, open_rows, open_source, read_neighbors
from ann_benchmarks.data.vectors.parquet import parquet_ids

from .programs import one_line
from .vector_files import (
    FORMATS,
    VECTORS,
    lists,
    write_big_ann,
    write_hdf5,
    write_npy,
    write_parquet,
)

pytestmark = pytest.mark.usefixtures("empty_folder")


def cut(path: Path, size: int) -> Path:
    """Leave the first bytes of a file, or all but the last."""
    path.write_bytes(path.read_bytes()[:size])
    return path


def added(path: Path, data: bytes) -> Path:
    path.write_bytes(path.read_bytes() + data)
    return path


def uneven(row: int, value: object) -> Path:
    values: list[object] = [[1.0, 2.0]] * 400
    values[row] = value
    return write_parquet(Path("v.parquet"), pa.array(values, pa.list_(pa.float32())), 150)


def npy_parts(*parts: np.ndarray) -> str:
    for number, part in enumerate(parts):
        write_npy(Path(f"part_{number}.npy"), part)
    return "part_*.npy"


def npy_bytes(text: str) -> Path:
    """Write an NPY file with this header."""
    header = text.encode()
    Path("v.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(100))
    return Path("v.npy")


V = VECTORS
NPY, FBIN = Path("v.npy"), Path("v.fbin")

WRONG: dict[str, tuple[Callable[[], Path | str], str]] = {
    "npy magic": (lambda: write_big_ann(NPY, V), r"cannot read v\.npy: the magic string is not correct"),
    "npy header": (lambda: npy_bytes("{'descr': '<f4', (]"), r"cannot read v\.npy: .*is it whole"),
    "npy claims more": (
        lambda: npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (10, 5)}\n"),
        r"cannot read v\.npy: its header promises 10 rows of 5 float32, .*which end in row 5 \(from 0\)",
    ),
    "npy cut": (
        lambda: cut(write_npy(NPY, V), -1),
        r"v\.npy: .*promises 1,000 rows of 12 .* end in row 999 ",
    ),
    "npy by column": (
        lambda: write_npy(NPY, np.asfortranarray(V)),
        r"v\.npy is stored column by column; save",
    ),
    "npy of one dimension": (lambda: write_npy(NPY, V[0]), r"v\.npy has shape \(12,\)"),
    "npy of text": (lambda: write_npy(NPY, np.full((3, 3), "a")), r"v\.npy holds <U1, not numbers"),
    "npy of nothing": (lambda: write_npy(NPY, V[:, :0]), r"v\.npy has 1000 rows of 0 numbers"),
    "npy with a key": (
        lambda: f"{write_npy(NPY, V)}:a",
        r"v\.npy holds one array; give its path without ':a'",
    ),
    "fbin claims more": (
        lambda: cut(write_big_ann(FBIN, V), -48 * 3),
        r"cannot read v\.fbin: its header promises 1,000 rows of 12 float32, .* end in row 997 \(from 0\)",
    ),
    "fbin has more": (
        lambda: added(write_big_ann(FBIN, V), bytes(96)),
        r"v\.fbin: .*promises 1,000 rows .*enough for 1002 rows",
    ),
    "fbin header": (lambda: cut(write_big_ann(FBIN, V), 7), r"v\.fbin: it has 7 bytes where a header"),
    "fbin of zeros": (
        lambda: cut(added(write_big_ann(FBIN, V[:0, :0]), bytes(9)), 17),
        r"v\.fbin: .*0 rows of 0",
    ),
    "hdf5 magic": (lambda: write_npy(Path("v.hdf5"), V), r"cannot read v\.hdf5: .*"),
    "hdf5 cut": (lambda: cut(write_hdf5(Path("v.hdf5"), a=V), 9000), r"cannot read v\.hdf5: .*truncated"),
    "hdf5 text": (
        lambda: write_hdf5(Path("v.hdf5"), a=np.full((2, 2), b"a")),
        r"v\.hdf5:a holds \|S1, not numbers",
    ),
    "parquet magic": (lambda: write_npy(Path("v.parquet"), V), r"cannot read v\.parquet: .*magic"),
    "parquet cut": (lambda: cut(write_parquet(Path("v.parquet"), lists(V)), -9), r"cannot read v\.parquet: "),
    "parquet uneven": (
        lambda: uneven(307, [1.0]),
        r"v\.parquet:emb row 307 \(from 0\) has 1 numbers where row 0 has 2",
    ),
    "parquet null": (
        lambda: uneven(307, None),
        r"v\.parquet:emb row 307 \(from 0\) is null where row 0 has 2",
    ),
    "parquet null inside": (
        lambda: uneven(307, [1.0, None]),
        r"v\.parquet:emb row 307 \(from 0\) has null as number 1 .*expected",
    ),
    "parquet NaN": (
        lambda: uneven(307, [1.0, np.nan]),
        r"v\.parquet:emb row 307 \(from 0\) has NaN as number 1",
    ),
    "parquet dates": (
        lambda: write_parquet(Path("v.parquet"), pa.array([[1], [2]], pa.list_(pa.timestamp("s")))),
        "not numbers",
    ),
    "parts dimension": (
        lambda: npy_parts(V, V, V[:, :11]),
        r"part_2\.npy has rows of 11 float32 where part_0\.npy has 12 float32",
    ),
    "parts type": (
        lambda: npy_parts(V, V.astype("f2")),
        r"part_1\.npy has rows of 12 float16 where part_0\.npy has 12 float32",
    ),
    "parts empty": (lambda: npy_parts(V[:0], V[:0]), r"part_0\.npy has 0 rows"),
    "parts none": (lambda: "part_*.npy", r"no file matches part_\*\.npy"),
    "zeros": (
        lambda: write_npy(NPY, V * (np.arange(1000) != 3)[:, None]),
        r"v\.npy row 3 \(from 0\) is all zeros",
    ),
    "no file": (lambda: "none.npy", r"the file none\.npy does not exist; give"),
    "no format": (lambda: cut(write_npy(Path("v.txt"), V), 5), r"v\.txt must have a known format; give"),
}


def read_all(text: str) -> None:
    for _ in checked(open_source(text), "angular").blocks(100):
        pass


@pytest.mark.parametrize("wrong", WRONG)
def test_a_bad_file_is_one_line(wrong: str) -> None:
    make, message = WRONG[wrong]
    source = str(make())
    with one_line(message):
        read_all(source)


@pytest.mark.parametrize(("form", "row"), [("npy", 205), ("fbin", 208)])
def test_a_file_that_becomes_shorter(form: str, row: int, tmp_path: Path) -> None:
    path, _ = FORMATS[form](tmp_path)
    rows = open_rows(path)
    cut(path, 10_000)
    with pytest.raises(UserError, match=rf"row {row} \(from 0\): the file ends before it"):
        rows[:]
    path.unlink()
    rows.close()
    with pytest.raises(UserError, match="No such file"):
        rows[:]


def test_ids_that_are_null() -> None:
    path = write_parquet(Path("a.parquet"), lists(V[:3]), 300, pa.array([4, None, 5]))
    found = parquet_ids([path])
    assert found is not None
    with pytest.raises(UserError, match=r"a\.parquet:id row 1 \(from 0\) is null"):
        list(found)


# ---- ground truth


IDS = np.random.default_rng(1).integers(0, 10**6, (20, 10)).astype("<i4")
DISTANCES = np.sort(np.random.default_rng(2).random((20, 10)).astype("<f4"))


def truth(path: str, *arrays: np.ndarray, shape: tuple[int, int] = IDS.shape) -> Path:
    Path(path).write_bytes(np.array(shape, "<u4").tobytes() + b"".join(array.tobytes() for array in arrays))
    return Path(path)


def parquet_truth(ids: np.ndarray, **others: object) -> Path:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({**others, "neighbors_id": pa.array(list(ids))}), "t.parquet")
    return Path("t.parquet")


ORDER = np.random.default_rng(3).permutation(20)

TRUTH: dict[str, Callable[[], Path]] = {
    "big-ann": lambda: truth("t.bin", IDS, DISTANCES),
    "big-ann without suffix": lambda: truth("t", IDS, DISTANCES),
    "big-ann ids only": lambda: truth("t.ibin", IDS),
    "npy": lambda: write_npy(Path("t.npy"), IDS),
    "hdf5": lambda: write_hdf5(Path("t.hdf5"), neighbors=IDS, distances=DISTANCES, train=V),
    "hdf5 ids only": lambda: write_hdf5(Path("t.hdf5"), neighbors=IDS),
    "parquet": lambda: parquet_truth(IDS),
    "parquet with ids": lambda: parquet_truth(IDS[ORDER], id=ORDER),
}


@pytest.mark.parametrize("form", TRUTH)
def test_neighbours_are_read(form: str) -> None:
    ids = read_neighbors(TRUTH[form]())
    assert ids.dtype == np.int64
    np.testing.assert_array_equal(ids, IDS)


def changed(value: int) -> np.ndarray:
    ids = IDS.copy()
    ids[7, 3] = value
    return ids


WRONG_TRUTH: dict[str, tuple[Callable[[], Path], str]] = {
    "cut": (
        lambda: truth("t.bin", IDS, DISTANCES[:-1]),
        r"t\.bin: .*10 neighbours for each of 20 queries, 1,608",
    ),
    "short": (lambda: truth("t.bin", shape=(1, 0)), r"t\.bin: its header says 0 neighbours"),
    "empty": (lambda: cut(truth("t.bin"), 3), r"t\.bin: its header says 0 neighbours .*has 3 bytes"),
    "negative": (lambda: truth("t.bin", changed(-5), DISTANCES), r"t\.bin row 7 \(from 0\) has neighbour -5"),
    "floats": (lambda: write_npy(Path("t.npy"), DISTANCES), r"t\.npy holds float32 where"),
    "no neighbours": (
        lambda: write_hdf5(Path("t.h5"), train=V),
        r"t\.h5 has no two-dimensional dataset 'neighbors'",
    ),
    "twice": (lambda: parquet_truth(IDS, id=ORDER // 2), r"t\.parquet:id row \d+ .* as an earlier one"),
    "uneven": (
        lambda: parquet_truth([[1, 2], [3]]),
        r"t\.parquet:neighbors_id row 1 \(from 0\) has 1 numbers where row 0 has 2",
    ),
    "no file": (lambda: Path("none.bin"), r"the file none\.bin does not exist"),
}


@pytest.mark.parametrize("wrong", WRONG_TRUTH)
def test_bad_neighbours_are_one_line(wrong: str) -> None:
    make, message = WRONG_TRUTH[wrong]
    path = make()
    with one_line(message):
        read_neighbors(path)
