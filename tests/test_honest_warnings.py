"""What the reader is warned of: other servers, queries of the training set, what is left out."""

from dataclasses import replace

import h5py
import numpy as np
import pytest

from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.data.datasets.own import OwnVectors, create_own
from ann_benchmarks.reporting.chapters import report_results
from ann_benchmarks.results.file import iter_result_paths, read_result
from ann_benchmarks.results.runs import load_runs
from ann_benchmarks.results.warnings import warnings_of

from .plotting_data import make_result, make_truth
from .programs import call_program
from .report_data import make_run

pytestmark = pytest.mark.thorough

VECTORS = np.random.default_rng(3).standard_normal((300, 6)).astype(np.float32)


def warned(*runs):
    return [text for text, _ in warnings_of(runs)]


def test_two_servers_in_one_comparison_are_warned_of():
    one, other = (
        make_run(postgres_version=pg, vector_version=v) for pg, v in (("17.12", "0.8.0"), ("18.4", "0.8.5"))
    )
    [text] = warned(one, other)
    assert "(PostgreSQL 17.12 and PostgreSQL 18.4; pgvector 0.8.0 and pgvector 0.8.5)" in text
    assert not warned(one, one)
    tagged = [
        replace(run, series=run.series.replaced(version=run.attrs["vector_version"])) for run in (one, other)
    ]
    assert "pgvector" not in warned(*tagged)[0]
    [text] = warned(make_run(given_settings="{}"), make_run(given_settings='{"work_mem": "1GB"}'))
    assert "default settings and work_mem=1GB" in text


@pytest.mark.parametrize("metric", ["euclidean", "angular", "ip", "hamming"])
def test_queries_of_the_training_set_are_counted(tmp_path, monkeypatch, metric):
    monkeypatch.chdir(tmp_path)
    rows = (VECTORS > 0) if metric == "hamming" else VECTORS
    if metric == "hamming":
        rows = np.unique(np.random.default_rng(1).random((300, 40)) > 0.5, axis=0)
    np.save("train.npy", rows[:250])
    np.save("test.npy", np.concatenate([rows[250:270], rows[10:17]]))
    create_own("d", OwnVectors("train.npy", metric, "test.npy"), 10)
    with get_dataset("d")[0] as dataset:
        assert dataset.queries_in_train() == 7
    with h5py.File("data/d.hdf5", "r+") as file:
        assert file.attrs["queries_in_train"] == 7
        del file.attrs["queries_in_train"]
    with get_dataset("d")[0] as dataset:
        assert dataset.queries_in_train() == (0 if metric == "ip" else 7)
    create_own("e", OwnVectors("train.npy", metric, queries=20), 10)
    with get_dataset("e")[0] as dataset:
        assert dataset.queries_in_train() == 0 and "queries_in_train" not in dataset.attrs


def test_such_queries_are_said_when_made_and_when_measured(workspace):
    np.save("train.npy", VECTORS)
    words = ("--name", "own", "--train", "train.npy", "--test", "train.npy", "--distance", "euclidean")
    for way in ((), ("--in-place", "--force")):
        made = call_program("create_dataset.py", *words, *way)
        assert made.returncode == 0
        assert "warning: 300 of 300 queries are rows of the training set" in made.stderr
    workspace.add_plugin("quick", "def query(self, q, n): return list(range(n))")
    run = workspace.run("--dataset", "own")
    assert run.stderr.splitlines()[0].startswith("warning: 300 queries are rows of the training set")
    runs = list(load_runs(iter_result_paths()))
    assert runs[0].attrs["queries_in_train"] == 300
    assert any("300 queries are rows of the training set" in text for text in warned(*runs))


def test_distances_that_are_none_count_as_not_found_and_are_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = make_result("d", "a", "x", make_truth("d"), 1.0, 1e-3)
    with h5py.File(path, "r+") as file:
        file["distances"][0, :5] = np.nan
        file["distances"][1, 0] = -np.inf
        file["distances"][2, 0] = np.inf  # none was found, which is no fault
    assert np.isposinf(read_result(path).distances[1, 0])
    for _ in range(2):  # from the cache, too
        [run] = load_runs([path])
        assert run.metrics["recall"] == pytest.approx(1 - 7 / read_result(path).distances.size)
        assert (
            "6 of its distances are NaN or minus infinity, and count as not found" in capsys.readouterr().err
        )
        assert "6 of its distances are NaN" in warned(run)[0]


def test_a_report_says_which_results_it_leaves_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    truth = make_truth("d")
    make_result("d", "a", "kept", truth, 0.9, 1e-3)
    with h5py.File(make_result("d", "a", "old", truth, 0.9, 1e-3), "r+") as file:
        file.attrs["truth"] = "of an older dataset"
    make_result("d", "a", "cut", truth, 0.9, 1e-3).write_bytes(b"nothing")
    text = (report_results("d") / "report.md").read_text()
    assert "measured on other vectors of the same name" in text and "a/old.hdf5" in text
    assert "a/cut.hdf5" in text and "cannot be read" in text
