import os
import re
import resource
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import dataset_path, get_dataset
from ann_benchmarks.data.datasets.catalog import dataset_table
from ann_benchmarks.data.datasets.own import OwnVectors, create_own
from ann_benchmarks.distance import candidate_distances

from .programs import call_program, one_line, run_program
from .vector_files import lists, write_hdf5

pytestmark = pytest.mark.usefixtures("empty_folder")

VECTORS = np.random.default_rng(1).standard_normal((600, 8)).astype(np.float32)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 rows, so that small files have several."""
    monkeypatch.setattr("ann_benchmarks.data.vectors.rows.BLOCK_BYTES", 64 * 8 * 4)
    monkeypatch.setattr("ann_benchmarks.distance.BLOCK_BYTES", 64 * 8 * 8)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return call_program("create_dataset.py", *arguments)


def as_parquet(column: pa.Array, **others: pa.Array) -> str:
    pq.write_table(pa.table({"embedding": column, "id": pa.array(range(len(column))), **others}), "v.parquet")
    return "v.parquet"


def save_hdf5(**arrays: np.ndarray) -> str:
    return str(write_hdf5(Path("v.h5"), **arrays))


def save_npy(vectors: np.ndarray, path: str = "v.npy") -> str:
    np.save(path, vectors)
    return path


def save_parts(vectors: np.ndarray) -> str:
    """Write 12 parts, so that the order of their numbers is not that of their names."""
    for number, part in enumerate(np.array_split(vectors, 12)):
        np.save(f"part_{number}.npy", part)
    return "part_*.npy"


# ---- what is made


@pytest.mark.parametrize("kept", [0, 50])
def test_queries_are_held_out_or_stay_in_the_training_set(kept: int, small_blocks: None) -> None:
    rows = 550 + kept
    own = OwnVectors(save_npy(VECTORS), "angular", queries=50, keeps_queries=kept > 0)
    create_own("mine", own, neighbors=20)
    dataset, dimension = get_dataset("mine")
    train, test = dataset.train(), dataset.test()
    assert dimension == 8 and isinstance(train, np.memmap) and train.dtype == np.float32
    facts = {"distance": "angular", "dimension": 8, "point_type": "float", "type": "dense"}
    assert dataset.attrs == facts | ({"queries_in_train": kept} if kept else {})
    assert train.shape == (rows, 8) and test.shape == (50, 8)
    together = np.concatenate((train, test))
    np.testing.assert_array_equal(np.unique(together, axis=0), np.unique(VECTORS, axis=0))
    every = candidate_distances("angular", test, train, np.tile(np.arange(rows), (50, 1)))
    np.testing.assert_array_equal(dataset["neighbors"], np.argsort(every, axis=1, kind="stable")[:, :20])
    np.testing.assert_array_equal(dataset.true_distances(20), np.sort(every, axis=1)[:, :20])


def test_the_seed_chooses_the_queries() -> None:
    train = save_npy(VECTORS)
    chosen = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        create_own(name, OwnVectors(train, "euclidean", queries=50, seed=seed), neighbors=5)
        chosen.append(get_dataset(name)[0].test())
    np.testing.assert_array_equal(chosen[0], chosen[1])
    assert not np.array_equal(chosen[0], chosen[2])


def test_queries_of_their_own() -> None:
    queries = save_npy(VECTORS[:7].astype(np.float64), "q.npy")
    create_own("mine", OwnVectors(save_npy(VECTORS), "ip", test=queries), neighbors=600)
    dataset, _ = get_dataset("mine")
    np.testing.assert_array_equal(dataset.train(), VECTORS)
    np.testing.assert_array_equal(dataset.test(), VECTORS[:7])


# Which of a file's arrays are taken; that those of every format can be read is tested in test_vectors.
CHOSEN = {
    "npy parts": lambda vectors: save_parts(vectors),
    "hdf5 only": lambda vectors: save_hdf5(embeddings=vectors, ids=np.arange(9)),
    "hdf5 train": lambda vectors: save_hdf5(train=vectors, test=vectors[:5]),
    "hdf5 key": lambda vectors: save_hdf5(train=vectors[:5], other=vectors) + ":other",
    "parquet only": lambda vectors: as_parquet(lists(vectors)),
    "parquet key": lambda vectors: as_parquet(lists(vectors[:, :3].copy()), other=lists(vectors)) + ":other",
}


@pytest.mark.parametrize("form", CHOSEN)
def test_the_vectors_of_a_file_are_found(form: str, small_blocks: None) -> None:
    own = OwnVectors(CHOSEN[form](VECTORS), "euclidean", test=save_npy(VECTORS[:3], "q.npy"))
    create_own("mine", own, neighbors=5)
    np.testing.assert_array_equal(get_dataset("mine")[0].train(), VECTORS)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", "int64", ">f4", "bool"])
def test_numbers_become_float32(dtype: str) -> None:
    vectors = (VECTORS * 10).astype(dtype) if dtype != "bool" else VECTORS > 0
    create_own("mine", OwnVectors(save_npy(vectors), "euclidean", queries=10), neighbors=5)
    dataset, _ = get_dataset("mine")
    assert dataset.train().dtype == np.float32 and dataset.attrs["point_type"] == "float"
    together = np.concatenate((dataset.train(), dataset.test()))
    np.testing.assert_array_equal(np.unique(together, axis=0), np.unique(vectors.astype("f4"), axis=0))


@pytest.mark.parametrize("metric", ["hamming", "jaccard"])
@pytest.mark.parametrize("dtype", ["bool", "uint8"])
def test_bits_stay_bits(metric: str, dtype: str) -> None:
    create_own("mine", OwnVectors(save_npy((VECTORS > 0).astype(dtype)), metric, queries=10), neighbors=5)
    dataset, _ = get_dataset("mine")
    assert dataset.train().dtype == np.bool_ and dataset.attrs["point_type"] == "bit"


# ---- what is refused


def changed(row: int, value: float) -> np.ndarray:
    vectors = VECTORS.copy()
    vectors[row] = value
    return vectors


ROWS = [[1.0, 2.0]] * 170

WRONG = {
    "NaN": (lambda: save_npy(changed(321, np.nan)), "angular", r"v\.npy row 321 \(from 0\) has NaN"),
    "too large": (lambda: save_npy(changed(7, 1).astype("f8") * 1e39), "ip", r"which float32 cannot hold"),
    "zero": (lambda: save_npy(changed(599, 0)), "angular", r"row 599 .* is all zeros"),
    "not bits": (lambda: save_npy(changed(3, 2) > 0.5 + np.zeros(8)), "cosine", r"unknown metric 'cosine'"),
    "numbers as bits": (lambda: save_npy(VECTORS), "hamming", r"row 0 .*which bool cannot hold"),
    "folder": (lambda: ".", "ip", r"\. has no file ending in \.npy"),
    "folder of two formats": (
        lambda: save_npy(VECTORS) and save_hdf5(a=VECTORS) and ".", "ip",
        r"\. has \.h5 and \.npy files; choose with \./\*\.h5",
    ),
    "two lists": (
        lambda: as_parquet(pa.array(ROWS), b=pa.array(ROWS)), "ip", r"more than one column.*embedding, b",
    ),
    "no such column": (lambda: as_parquet(pa.array(ROWS)) + ":x", "ip", r"has no column of lists 'x'"),
    "no list": (lambda: as_parquet(pa.array([1, 2])), "ip", r"has no column of lists"),
    "two tables": (lambda: save_hdf5(a=VECTORS, b=VECTORS), "ip", r"more than one two-dimensional.*a, b"),
    "zero in float32": (lambda: save_npy(VECTORS.astype("f8") * 1e-60), "angular", r"row 0 .* all zeros"),
    "too few": (lambda: save_npy(VECTORS[:50]), "ip", r"has 50 rows, too few to hold out 50 queries"),
    "too many neighbours": (lambda: save_npy(VECTORS[:120]), "ip", r"--neighbors 100 is more than the 70"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_vectors_are_refused(wrong: str, small_blocks: None) -> None:
    make, metric, message = WRONG[wrong]
    train = make()
    with one_line(message):
        create_own("mine", OwnVectors(train, metric, queries=50))
    assert not list(Path().glob("data/*")) and not list(Path().glob("data/.*"))


def test_dimensions_must_agree() -> None:
    with pytest.raises(UserError, match=r"q\.npy has 7 dimensions but v\.npy has 8"):
        create_own("mine", OwnVectors(save_npy(VECTORS), "ip", test=save_npy(VECTORS[:, :7], "q.npy")))


@pytest.mark.parametrize("name", ["", "a/b", "..", ".mine", "-x", "a b", "é", "a" * 201])
def test_names_must_be_file_names(name: str) -> None:
    with pytest.raises(UserError, match="cannot be a file's name"):
        create_own(name, OwnVectors(save_npy(VECTORS), "ip", queries=10))


def test_names_in_use_need_force() -> None:
    train = save_npy(VECTORS)
    create_own("mine", OwnVectors(train, "ip", queries=10))
    with pytest.raises(UserError, match=r"data/mine\.hdf5 exists; choose another --name, or add --force"):
        create_own("mine", OwnVectors(train, "ip", queries=10))
    create_own("mine", OwnVectors(train, "ip", queries=20), force=True)
    assert len(get_dataset("mine")[0].test()) == 20
    with pytest.raises(UserError, match="'sift-128-euclidean' is the name of a registered dataset"):
        create_own("sift-128-euclidean", OwnVectors(train, "ip", queries=10))


# ---- the command


def test_the_command_makes_and_lists() -> None:
    save_npy(VECTORS)
    made = run("--name", "mine", "--train", "v.npy", "--queries", "30", "--distance", "angular")
    said, ready = made.stdout.splitlines()
    assert ready == "data/mine.hdf5 is ready: use --dataset mine" and made.returncode == 0
    assert re.fullmatch(r"[\d,]+ x \d+, \w+; [\d,]+ queries", said)
    made = run("--dataset", "clustered-1k-8-ip")
    assert made.stdout.endswith(
        "1,000 x 8, ip; 100 queries\ndata/clustered-1k-8-ip.hdf5 is ready: use --dataset clustered-1k-8-ip\n"
    )
    assert "is there already" in run("--dataset", "clustered-1k-8-ip").stdout
    dataset_path("broken").write_bytes(b"x")
    dataset_path("\x1b[2J").write_bytes(b"x")
    lines = {line.split()[0]: line.split()[1:] for line in dataset_table().splitlines() if line}
    assert lines["mine"][:4] == ["570", "8", "angular", "-"] and lines["mine"][-1] == "yes"
    assert lines["clustered-1k-8-ip"][:5] == ["1,000", "8", "ip", "~0.0305", "MB"]
    assert lines["sift-128-euclidean"] == ["1,000,000", "128", "euclidean", "~488", "MB"]
    assert lines["movielens1m-jaccard"] == ["-", "-", "jaccard", "-"]
    assert lines["broken"] == ["damaged", "-", "-", "-", "yes"]
    assert run("--list").stdout == dataset_table() + "\n" and "\x1b" not in dataset_table()


@pytest.mark.parametrize("train", ["v[1]?", "v[1]?/", "v[1]?/p*.npy", "v*?"])
def test_a_folder_is_its_files_in_natural_order(train: str) -> None:
    """Whatever its name is; what is hidden, unfinished, a crop or of no known format is left out."""
    folder = Path("v[1]?")
    (folder / "inner.npy").mkdir(parents=True)
    Path("v1x").mkdir()  # it would fit a pattern
    for number, name in enumerate(["p_1.npy", "p_2.npy", "p_10.npy"]):
        save_npy(VECTORS[number * 200 : number * 200 + 200], str(folder / name))
    for name in (".p_3.npy", "p_3.npy.partial-1", "p_4.npy.crop_nb_9", "README.md", "p_4.npy.tmp"):
        (folder / name).write_text("x")
    save_npy(VECTORS[:5], "q.npy")
    made = run("--name", "mine", "--train", train, "--test", "q.npy", "--distance", "ip")
    assert made.stdout.startswith("600 x 8, ip; 5 queries\n"), made.stderr
    assert np.array_equal(get_dataset("mine")[0].train(), VECTORS)
    made = run("--name", "placed", "--train", train, "--test", "q.npy", "--distance", "ip", "--in-place")
    assert made.stdout.endswith("placed is ready: use --dataset placed\n"), made.stderr


def test_a_disk_that_fills_leaves_nothing() -> None:
    save_npy(VECTORS)
    done = run_program(
        *("create_dataset.py", "--name", "mine", "--train", "v.npy", "--distance", "ip", "--queries", "9"),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # modules would be cut off, too, and kept
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)),
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith("error: cannot write data/mine.hdf5: ") and done.stderr.count("\n") == 1
    assert list(Path("data").iterdir()) == []
