"""run.py --rebuild and --build-only."""

import re
from pathlib import Path

import pytest

from ann_benchmarks.commands.run import main
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.job import Scope
from ann_benchmarks.run.plan import make_plan

from .conftest import make_dataset

pytestmark = pytest.mark.thorough

# An index that outlives the run: a file, and in it how often it was built.
LASTING = """\
def __init__(self, name):
    self.path = Path(f"index-{name}")
    self.rebuild = False
def set_build_options(self, rebuild, prewarm):
    self.rebuild = rebuild
    Path("prewarm").write_text(str(prewarm))
def fit(self, X):
    self.found = self.path.exists() and not self.rebuild
    if not self.found:
        with self.path.open("a") as file:
            file.write("built ")
def set_query_arguments(self, n): pass
def query(self, q, n):
    Path("asked").touch()
    return list(range(n))
def get_additional(self):
    return {"build_time": 120.0, "index_size": 2048.0, "index_reused": self.found}
def done(self):
    with open("done", "a") as file:
        print(self.path, file=file)
"""
TWO = {"args": [["a", "b"]], "query_args": [[1, 2]]}


def builds(name):
    return Path(f"index-{name}").read_text().split().count("built")


def table(run):
    return [re.split(r"\s\s+", line) for line in run.stdout.splitlines()[-4:]]


def test_build_only_builds_and_measures_nothing(workspace):
    workspace.add_plugin("lasting", LASTING, TWO)
    run = workspace.run("--build-only")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines()[:6] == [
        "dataset tiny: 200 x 8, euclidean",
        "to build: 2 definitions",
        'lasting("a"): building',
        'lasting("a"): index built in 120.0 s, 2 MB',
        'lasting("b"): building',
        'lasting("b"): index built in 120.0 s, 2 MB',
    ]
    head, first, second, (last,) = table(run)
    assert head == ["definition", "index", "build s", "size", "total s"]
    assert [first[:4], second[:4]] == [[f'lasting("{name}")', "built", "120.0", "2 MB"] for name in "ab"]
    assert last == "2 definitions built"
    assert Path("done").read_text().split() == ["index-a", "index-b"]
    assert not Path("asked").exists() and not Path("results").exists()


def test_build_only_finds_what_is_built_whether_or_not_its_points_are_finished(workspace):
    workspace.add_plugin("lasting", LASTING, TWO)
    assert workspace.run("--max-n-algorithms", "1").returncode == 0
    run = workspace.run("--build-only", "--batch", "--runs", "3", "--parallelism", "1")
    assert run.returncode == 0
    assert 'lasting("a"): index found, built earlier in 120.0 s, 2 MB' in run.stdout
    assert 'lasting("b"): index built in 120.0 s, 2 MB' in run.stdout
    assert table(run)[-1] == ["2 definitions: 1 built, 1 found"]
    assert builds("a") == builds("b") == 1


def test_rebuild_builds_anew_and_measures_its_points_anew(workspace):
    workspace.add_plugin("lasting", LASTING, TWO)
    workspace.add_plugin("fleeting", "def query(self, q, n): return [1]")  # has no set_build_options
    assert workspace.run().stdout.count(": recall ") == 5
    assert builds("a") == builds("b") == 1
    assert workspace.run("--rebuild").stdout.count(": recall ") == 5
    assert builds("a") == builds("b") == 2
    run = workspace.run("--rebuild", "--build-only", "--algorithm", "lasting")
    assert run.stdout.endswith("2 definitions built\n")
    assert builds("a") == builds("b") == 3


def test_an_index_whose_cold_start_is_measured_is_not_prewarmed(workspace):
    workspace.add_plugin("lasting", LASTING, {"args": ["a"], "query_args": [[1]]})
    workspace.run("--rebuild")
    assert Path("prewarm").read_text() == "True"
    assert "), with cold caches" in workspace.run("--warmup", "off").stdout
    assert Path("prewarm").read_text() == "False"
    assert builds("a") == 1  # it is found as it was built
    assert workspace.results() == ["tiny/10/lasting-cold/a_1.hdf5", "tiny/10/lasting/a_1.hdf5"]


def test_a_build_that_fails_is_counted(workspace):
    workspace.add_plugin("a-plain", "def get_memory_usage(self): return None")
    workspace.add_plugin("b-bad", "def fit(self, X): raise ValueError('no luck')")
    run = workspace.run("--build-only")
    assert run.returncode == 1
    (bad,) = run.stderr.splitlines()
    assert "ValueError: no luck" in bad
    built, failed = [line.split()[1:4] for line in run.stdout.splitlines()[-3:-1]]
    assert built[::2] == ["built", "-"] and failed == ["failed", "-", "-"]
    assert run.stdout.splitlines()[-1] == "2 definitions: 1 built, 1 failed"
    assert f"a-plain(): index built in {built[1]} s\n" in run.stdout


def test_a_build_needs_no_true_neighbours(workspace):
    make_dataset(neighbours=4)
    workspace.add_plugin("plain")
    with pytest.raises(UserError, match="fewer than 10"):
        main(workspace.command()[2:])
    assert workspace.run("--build-only").returncode == 0


def test_an_index_that_two_run_groups_ask_for_is_built_once():
    def definition(arguments, queries):
        return Definition("tree", "C", "m", "t", arguments, queries, False)

    definitions = [
        definition(["x"], [[1], [2]]),
        definition(["y"], [[1]]),
        definition(["x"], []),
        definition(["x"], [[2], [3]]),
    ]
    scope = Scope(definitions, "tiny", 10)
    jobs = make_plan(scope, "", force=True).jobs
    assert [(job.definition.arguments, job.points) for job in jobs] == [
        (["x"], [[], [1], [2], [3]]),  # without arguments first, while none are set
        (["y"], [[1]]),
    ]
    assert [job.definition.arguments for job in scope.builds()] == [["x"], ["y"]]
