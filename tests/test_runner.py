import importlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import h5py
import numpy as np
import pytest

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.common import VERSION
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Built, Failure, Located, Note, PointDone
from ann_benchmarks.jobs.job import Job, Procedure
from ann_benchmarks.measure.timed import PROGRESS_SECONDS, Subject, measure
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.file import read_result
from ann_benchmarks.run.execute import WorkerPool

from .conftest import ROOT, make_dataset
from .programs import events_of

EXACT = """\
def fit(self, X):
    self.X = X
def query(self, q, n):
    return np.argsort(((self.X - q) ** 2).sum(1))[:n]
"""


@pytest.fixture
def run_plugin(workspace, monkeypatch):
    """Run a plug-in in this process; return what it reports and its first result."""
    monkeypatch.syspath_prepend(str(workspace.path))
    numbers = iter(range(100))

    def run_it(body, points=((),), batch=False, runs=1, count=5, dataset="tiny"):
        importlib.invalidate_caches()
        name = f"plugin_of_{re.sub(r'[^a-z0-9]', '_', workspace.path.name)}_{next(numbers)}"
        workspace.add_plugin(name, body)
        (workspace.path / "plugins" / name).rename(workspace.path / name)
        definition = Definition(name, "Plugin", name, "t", [], [], False)
        job = Job(definition, [list(p) for p in points], dataset, count, Procedure(runs, batch))
        events = events_of(job)
        paths = [event.path for event in events if isinstance(event, PointDone)]
        return events, read_result(paths[0])

    return run_it


def test_an_exact_search_has_full_recall_and_its_true_distances(run_plugin):
    events, result = run_plugin(EXACT)
    with h5py.File("data/tiny.hdf5") as file:
        assert result.neighbors.tolist() == file["neighbors"][:, :5].tolist()
        assert result.distances == pytest.approx(file["distances"][:, :5])
    assert [type(event) for event in events] == [Built, PointDone]
    assert events[1].recall == 1
    attrs = result.attrs
    assert {"cpu", "cores", "memory_bytes", "kernel", "python", "started_at"} <= attrs.keys()
    assert attrs["ended_at"] >= attrs["started_at"]
    assert (attrs["algo"], attrs["dataset"], attrs["count"], attrs["run_count"]) == (
        events[1].path.parent.name,
        "tiny",
        5,
        1,
    )
    assert attrs["distance"] == "euclidean" and attrs["candidates"] == 5
    assert not attrs["batch_mode"] and not attrs["expect_extra"]
    assert attrs["build_time"] >= 0 and "index_size" in attrs
    assert attrs["best_search_time"] == pytest.approx(result.times.mean())


def test_the_stored_latencies_and_answers_are_those_of_the_best_run(run_plugin):
    body = """\
    asked = 0
    def query(self, q, n):
        run, self.asked = self.asked // 20, self.asked + 1
        time.sleep((0.02, 0.001, 0.03)[run])
        return [run]
    """
    _, result = run_plugin(body, runs=3)
    assert (result.neighbors[:, 0] == 1).all()
    means = np.array(result.attrs["run_seconds"])
    assert len(means) == 3 and means.argmin() == 1
    assert result.attrs["best_search_time"] == means[1]
    assert result.attrs["recall_low"] < result.attrs["recall_high"]
    assert result.attrs["qps_low"] < (1 / means).mean() < result.attrs["qps_high"]
    assert result.times.mean() == pytest.approx(means[1], rel=1e-4)
    assert result.attrs["candidates"] == 1
    assert (result.neighbors[:, 1:] == -1).all() and np.isinf(result.distances[:, 1:]).all()


def test_of_a_prepared_query_only_the_run_is_timed(run_plugin):
    body = """\
    def query(self, q, n):
        raise AssertionError("not to be called")
    def prepare_query(self, q, n):
        time.sleep(0.03)
        self.n = n
    def run_prepared_query(self):
        time.sleep(0.001)
    def get_prepared_query_results(self):
        time.sleep(0.03)
        return range(self.n)
    """
    _, result = run_plugin(body)
    assert 0.001 <= result.attrs["best_search_time"] < 0.03
    assert (result.neighbors == np.arange(5)).all()


def test_a_batch_counts_by_its_wall_time(run_plugin):
    body = """\
    def batch_query(self, X, n):
        assert X.shape == (20, 8)
        time.sleep(0.1)
    def get_batch_results(self):
        return np.tile(np.arange(5), (20, 1))
    """
    events, result = run_plugin(body, batch=True)
    assert events[1].path.parent.name.endswith("-batch")
    assert result.attrs["batch_mode"]
    assert 0.005 <= result.attrs["best_search_time"] < 0.1
    assert result.times == pytest.approx(result.attrs["best_search_time"])
    latencies = "def get_batch_latencies(self):\n    return [0.5] * 20\n"
    _, result = run_plugin(dedent(body) + latencies, batch=True)
    assert result.attrs["best_search_time"] < 0.1
    assert (result.times == 0.5).all()


def test_a_prepared_batch_is_not_charged_for_its_preparation(run_plugin):
    body = """\
    def prepare_batch_query(self, X, n):
        time.sleep(1)
        self.res = [[i] for i in range(len(X))]
    def run_batch_query(self):
        pass
    """
    _, result = run_plugin(body, batch=True)
    assert result.attrs["best_search_time"] < 0.05
    assert result.neighbors[:, 0].tolist() == list(range(20))


def test_by_default_a_batch_is_asked_on_threads(run_plugin):
    _, result = run_plugin(EXACT, batch=True)
    with h5py.File("data/tiny.hdf5") as file:
        assert result.neighbors.tolist() == file["neighbors"][:, :5].tolist()


class Answers(BaseANN):
    def __init__(self, answers):
        self.answers = iter(answers)
        self.name = "answers"

    def query(self, q, n):
        return next(self.answers)


def measured(answers, count=3, rows=10):
    return measure(Subject(Plugin(Answers(answers)), [None] * len(answers), count, rows), False)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([7, 2, 7], "neighbour 7 twice"),
        ([10], "neighbour 10, .* 0 to 9"),
        ([-2], "neighbour -2, .* 0 to 9"),
        ([1, -1, -1], "-1 more than once"),
    ],
)
def test_an_answer_that_cannot_be_is_an_error_that_names_the_query(answer, said):
    with pytest.raises(UserError, match=f"query 1 was answered with {said}"):
        measured([[1, 2, 3], answer])


def test_minus_one_means_no_neighbour():
    assert measured([[1, 2, -1], []]).neighbors.tolist() == [[1, 2, -1], [-1, -1, -1]]


def test_an_answer_still_to_be_computed_is_refused():
    with pytest.raises(TypeError, match="len"):
        measured([iter([1, 2])])


def test_an_array_that_is_filled_again_for_each_answer_is_copied():
    class Reusing(BaseANN):
        name = "reusing"
        answer = np.zeros(2, dtype=int)

        def query(self, q, n):
            self.answer[:] = q, q + 1
            return self.answer

    assert measure(Subject(Plugin(Reusing()), [1, 5], 2, 10), False).neighbors.tolist() == [[1, 2], [5, 6]]


def test_too_many_neighbours_are_cut_with_one_warning_a_point(run_plugin):
    body = "def query(self, q, n):\n    return list(range(n + 2))"
    events, result = run_plugin(body, runs=2)
    notes = [event for event in events if isinstance(event, Note)]
    assert len(notes) == 1 and "up to 7" in notes[0].text
    assert result.neighbors.shape == (20, 5)
    assert result.attrs["candidates"] == 7


def test_a_plugin_may_change_its_vectors_without_changing_the_distances(run_plugin):
    body = EXACT.replace("self.X = X", "self.X = X.copy(); X *= 3")
    body = body.replace("return", "q = q.copy(); answer =") + "    q *= 0\n    return answer\n"
    make_dataset("packed", chunks=(10, 8), compression="gzip")
    before = Path("data/tiny.hdf5").read_bytes()
    for dataset in ("tiny", "packed"):
        _, result = run_plugin(body, dataset=dataset, runs=2)
        with h5py.File(f"data/{dataset}.hdf5") as file:
            assert result.distances == pytest.approx(file["distances"][:, :5])
    assert Path("data/tiny.hdf5").read_bytes() == before


def test_a_streaming_plugin_is_given_the_rows_where_they_lie(run_plugin):
    make_dataset("packed", chunks=(10, 8), compression="gzip")
    body = "def fit(self, X):\n    self.name = type(X).__name__ + str(X.shape)"
    assert run_plugin(body, dataset="packed")[1].attrs["name"] == "ndarray(200, 8)"
    body = "streams_training_set = True\n" + body
    assert run_plugin(body, dataset="packed")[1].attrs["name"] == "FirstRows(200, 8)"
    assert run_plugin(body)[1].attrs["name"] == "FirstRows(200, 8)"


def test_a_plugin_may_time_its_own_queries(run_plugin):
    body = """\
    asked = []
    def time_queries(self, X, n):
        self.asked.append(len(X))
        return np.full(len(X), 0.004), [list(range(n))] * len(X)
    def get_additional(self):
        return {"pieces": self.asked[-5:]}
    """
    make_dataset("longer", queries=300)
    _, result = run_plugin(body, dataset="longer")
    assert result.attrs["best_search_time"] == pytest.approx(0.004)
    assert (result.neighbors == np.arange(5)).all()
    assert len(result.times) == 300
    assert list(result.attrs["pieces"]) == [50, 75, 75, 75, 25]  # what comes before was the warm-up
    assert len(result.attrs["pieces"]) > 1


def test_what_a_plugin_knows_of_its_build_goes_before_what_was_measured(run_plugin):
    body = """\
    def get_additional(self):
        return {"build_time": 123.0, "index_size": 456.0, "settings": {"a": [1]}, "algo": "other"}
    """
    events, result = run_plugin(body)
    assert result.attrs["build_time"] == events[1].build_time == 123
    assert result.attrs["index_size"] == 456
    assert json.loads(result.attrs["settings"]) == {"a": [1]}
    assert result.attrs["algo"] != "other"


def test_an_unknown_index_size_is_left_out(run_plugin):
    assert "index_size" not in run_plugin("def get_memory_usage(self): return None")[1].attrs


def test_query_arguments_are_set_before_each_point(run_plugin):
    body = """\
    def set_query_arguments(self, a, b):
        self.name = f"{a}-{b}"
    """
    events, _ = run_plugin(body, points=((1, 2), (3, 4)))
    names = [read_result(event.path).attrs["name"] for event in events if isinstance(event, PointDone)]
    assert names == ["1-2", "3-4"]
    with pytest.raises(UserError, match="set_query_arguments"):
        run_plugin("pass", points=((1, 2),))


def test_done_is_called_after_an_error_too(run_plugin):
    body = """\
    def fit(self, X):
        raise ValueError("no")
    def done(self):
        Path("done").touch()
    """
    with pytest.raises(ValueError, match="no"):
        run_plugin(body)
    assert Path("done").exists()


@pytest.mark.parametrize("metric", ["euclidean", "angular", "ip"])
def test_the_exact_scan_finds_the_true_neighbours(workspace, metric):
    make_dataset(f"exact-{metric}", metric)
    definition = Definition(
        "bruteforce-numpy", "ExactScan", "ann_benchmarks.algorithms.bruteforce", "t", [metric], [], False
    )
    events = events_of(Job(definition, [[]], f"exact-{metric}", 10))
    with h5py.File(f"data/exact-{metric}.hdf5") as file:
        assert read_result(events[1].path).neighbors.tolist() == file["neighbors"][()].tolist()


def test_progress_is_told_now_and_then():
    class Slow(BaseANN):
        name = "slow"

        def query(self, q, n):
            time.sleep(0.05)
            return [1]

    told, began = [], time.monotonic()
    measure(Subject(Plugin(Slow()), [None] * 10, 1, 10), False, told.append)
    assert 2 <= len(told) <= 2 + (time.monotonic() - began) / PROGRESS_SECONDS and told[-1] == 10


def test_the_version_is_that_of_the_project():
    assert f'version = "{VERSION}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("body", "options", "missing"),
    [
        ("def prepare_query(self, q, n): pass", {}, "prepare_query but no run_prepared_query"),
        (
            "def prepare_batch_query(self, X, n): pass",
            {"batch": True},
            "prepare_batch_query but no run_batch",
        ),
    ],
)
def test_half_a_pair_of_methods_is_one_line(run_plugin, body, options, missing):
    with pytest.raises(UserError, match=missing):
        run_plugin(body, **options)


def test_an_exact_search_that_gives_fewer_neighbours_is_an_error(workspace):
    body = "def search_range(self, count): return None\ndef query(self, q, n): return list(range(n - 1))"
    workspace.add_plugin("a", body)
    said = "query 0 was answered with 9 neighbours, but an exact search has 10 here"
    assert said in workspace.run().stderr and not workspace.results()


# Processes that say where jobs would run are those that run them, with all the files that they may open.


KNOWN = Definition("b", "BruteForceBLAS", "ann_benchmarks.algorithms.bruteforce", "t", [], [[]], False)
UNKNOWN = Definition("x", "X", "no_such_module", "t", [], [[]], False)


def test_the_process_that_was_asked_runs_the_job_or_is_ended():
    with WorkerPool() as here:
        assert isinstance(here.locate(KNOWN), Located)
        (kept,) = here.idle
        assert isinstance(here.locate(KNOWN), Located) and here.idle == [kept]
        assert here.take(Job(KNOWN, [[]], "d", 10)) is kept and not here.idle
        here.idle.append(kept)
        process = kept.process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_process_that_could_not_say_is_not_kept():
    with WorkerPool() as here:
        assert isinstance(here.locate(UNKNOWN), Failure) and not here.idle


def test_a_worker_may_open_as_many_files_as_its_account_may():
    program = """
import resource
from ann_benchmarks.common.host import allow_files
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2000))
allow_files()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "(2000, 2000)\n"
