"""What ann-benchmarks' scripts and code use here: variables, limits, answers, columns, imported names."""

import numpy as np
import pytest

from ann_benchmarks.algorithms.bruteforce.module import BruteForceBLAS
from ann_benchmarks.datasets import get_dataset
from ann_benchmarks.distance import candidate_distances, jaccard
from ann_benchmarks.installing import images, local
from ann_benchmarks.installing.main import main as install
from ann_benchmarks.plotting.metrics import candidates, epsilon, index_size, knn, queries_per_second, rel
from ann_benchmarks.results.measurement import Measurement
from ann_benchmarks.results.metrics import compute_all
from ann_benchmarks.results.truth import Truth

from .conftest import make_dataset


@pytest.mark.parametrize(
    ("library", "arguments", "built"),
    [
        ("vchord", (), "vchord"),
        ("vchord", ("--algorithm", "pgvector_hnsw"), "pgvector_hnsw"),
        ("", (), None),
        (None, (), None),
    ],
)
def test_the_variable_library_names_the_image(monkeypatch, capsys, library, arguments, built):
    if library is None:
        monkeypatch.delenv("LIBRARY", raising=False)
    else:
        monkeypatch.setenv("LIBRARY", library)
    requested = []
    monkeypatch.setattr(images, "build_images", lambda args: requested.append(args.algorithm) or 0)
    assert install(arguments) == 0
    assert requested == [built]
    assert ("LIBRARY" in capsys.readouterr().out) == (bool(library) and not arguments)


def test_the_variable_library_is_of_images(monkeypatch):
    monkeypatch.setenv("LIBRARY", "vchord")
    requested = []
    monkeypatch.setattr(local, "install_local", lambda algorithm, *_: requested.append(algorithm))
    assert install(["--local"]) == 0
    assert requested == [None]


def test_a_folder_that_was_not_copied_is_named(workspace):
    workspace.add_plugin("quick", "def query(self, q, n): return list(range(n))")
    alone = workspace.add_plugin("family-hnsw")
    (alone / "module.py").write_text("from ..family.module import Plugin\n")
    run = workspace.run("--algorithm", "family-hnsw")
    assert run.returncode == 1
    (line,) = run.stderr.splitlines()
    assert "the plug-in folder 'family-hnsw' imports 'plugins.family'" in line
    assert line.endswith("copy the folder 'family' next to it, too")
    both = workspace.run()  # the others run
    assert both.returncode == 0 and "warning: algorithm 'family-hnsw' is skipped" in both.stderr
    assert workspace.results() == ["tiny/10/quick/.hdf5"]


def test_get_dataset_has_the_name_that_their_code_imports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_dataset("small", rows=30, queries=5, neighbours=4)
    dataset, dimension = get_dataset("small")
    with dataset:
        assert dimension == 8 and dataset["train"][3].shape == (8,) and len(dataset["test"][:2]) == 2


def test_similarity_of_sets():
    assert jaccard([1, 2, 3, 4], [1, 2]) == pytest.approx(0.5)
    assert jaccard([1, 2], []) == jaccard([], []) == 0


class Cache(dict):
    """What keeps metrics: a group of HDF5, as far as they use it."""

    def __init__(self) -> None:
        super().__init__()
        self.attrs: dict[str, float] = {}

    def create_group(self, name):
        self[name] = Cache()
        return self[name]


def test_their_functions_of_metrics_say_what_ours_do():
    random = np.random.default_rng(1)
    true = np.sort(random.random((20, 10)), axis=1)
    found = np.sort(true + random.choice([0, 0.002, 0.05], true.shape), axis=1)
    attrs = {"count": 10, "best_search_time": 0.01, "index_size": 7, "candidates": 9, "build_time": 3}
    ours = compute_all(Measurement(Truth(true), found, np.ones(20), attrs))
    cache = Cache()
    assert knn(true, found, 10, cache).attrs["mean"] == pytest.approx(ours["k-nn"])
    assert knn(true, found * 9, 10, cache) is cache["knn"]  # what is there is not computed again
    assert knn(true, found, 10, cache)["recalls"].mean() == pytest.approx(10 * ours["k-nn"])
    assert epsilon(true, found, 10, cache).attrs["mean"] == pytest.approx(ours["epsilon"])
    assert epsilon(true, found, 10, cache, 0.1).attrs["mean"] == pytest.approx(ours["largeepsilon"])
    assert set(cache) == {"knn", "eps0.01", "eps0.1"}
    assert rel(true, found, cache) == cache.attrs["rel"] == pytest.approx(ours["rel"])
    for name, function in (
        ("qps", queries_per_second),
        ("indexsize", index_size),
        ("candidates", candidates),
    ):
        assert function(true, attrs) == ours[name]


def test_found_distances_may_be_fewer_than_requested():
    assert knn([[0.1, 0.25]], [[]], 2, Cache()).attrs["mean"] == 0
    assert knn([[0.1, 0.25]] * 2, [[0.2], [0.2, 0.3]], 2, Cache()).attrs["mean"] == 0.5
    assert rel([[0.1, 0.2]], [], Cache()) == np.inf


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("metric", ["angular", "euclidean"])
def test_brute_force_has_distances(metric, precision):
    train, queries = np.random.default_rng(1).normal(size=(2, 50, 6)).astype(precision)
    check_brute_force(BruteForceBLAS(metric, precision), metric, train, queries)
    assert BruteForceBLAS(metric).precision == np.float32


def test_brute_force_takes_bools_and_sets():
    random = np.random.default_rng(1)
    bits, others = random.random((2, 50, 24)) < 0.5
    check_brute_force(BruteForceBLAS("hamming", bits.dtype), "hamming", bits, others)
    sets, more = ([random.choice(40, 9, replace=False) for _ in range(50)] for _ in range(2))
    sets[7] = np.array([99])  # shares nothing with any query
    check_brute_force(BruteForceBLAS("jaccard"), "jaccard", sets, more)
    scan = BruteForceBLAS("jaccard")
    scan.fit(sets)
    assert 7 not in scan.query(more[0], 50)


@pytest.mark.parametrize("arguments", [("ip",), ("hamming",), ("hamming", np.float32)])
def test_brute_force_refuses_what_theirs_refuses(arguments):
    with pytest.raises(NotImplementedError):
        BruteForceBLAS(*arguments)


def check_brute_force(scan, metric, train, queries):
    rows = np.tile(np.arange(len(train)), (len(queries), 1))
    expected = np.sort(candidate_distances(metric, queries, train, rows), axis=1)[:, :10]
    scan.fit(train)
    for query, distances in zip(queries, expected, strict=True):
        found = scan.query_with_distances(query, 10)
        assert [distance for _, distance in found] == pytest.approx(distances, abs=1e-6)
        assert [row for row, _ in found] == scan.query(query, 10)
