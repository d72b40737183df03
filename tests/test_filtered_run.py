"""Queries with filters from run.py to the results: every way to a plug-in, the checks, the figures."""

import json

import h5py
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.data.datasets import get_dataset, prepare_filters
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import PointDone
from ann_benchmarks.jobs.job import Execution, Job, Procedure
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.results.file import read_result, write_result
from ann_benchmarks.results.runs import load_runs

from .filtered_rows import OWN_WAY
from .programs import events_of

pytestmark = pytest.mark.thorough

EXACT = {
    "module": "ann_benchmarks.algorithms.bruteforce",
    "constructor": "ExactScan",
    "base_args": ["@metric"],
}
FILTERS = ("uniform:0.5", "uniform:0.02", "tenants:10", "labels:0.1")  # 4 of 200 rows, and fewer, match some

UNFILTERED = """\
def fit(self, X):
    self.X = np.array(X)
def query(self, q, n):
    return np.argsort(((self.X - q) ** 2).sum(1))[:n]
"""
PREPARED = """\
def prepare_query(self, v, n): self.asked = v, n
def run_prepared_query(self): self.found = self.query(*self.asked)
def get_prepared_query_results(self): return self.found
"""
TIMED = """\
def time_queries(self, X, n):
    return [1e-3] * len(X), [list(self.query(q, n)) for q in X]
"""
AT_ONCE = """\
def prepare_batch_query(self, X, n): self.asked = X, n
def run_batch_query(self): self.res = [self.query(q, self.asked[1]) for q in self.asked[0]]
"""
CLIENTS = """\
def open_clients(self, X, n, clients):
    from ann_benchmarks.load.clients import ThreadClients
    return ThreadClients(self.query, X, n, clients)
"""


def measured(workspace, monkeypatch, body, procedure, name="plugin_of_filters"):
    """Measure a plug-in in this process; return the attributes and answers of its point."""
    monkeypatch.syspath_prepend(str(workspace.path))
    name = f"{name}_{abs(hash((body, str(procedure), str(workspace.path))))}"
    workspace.add_plugin(name, body)
    (workspace.path / "plugins" / name).rename(workspace.path / name)
    if procedure.filter:
        prepare_filters("tiny", [procedure.filter])
    filters = (procedure.filter,) if procedure.filter else ()
    definition = Definition(name, "Plugin", name, "t", [], [], False)
    job = Job(definition, [[]], "tiny", 5, procedure, Execution(filters=filters, show_progress=False))
    return next(event for event in events_of(job) if isinstance(event, PointDone))


def clients(**more):
    return {"load": Load(2, seconds=0.5, **more), "warmup": Warmup("queries", 10)}


@pytest.mark.parametrize(
    ("more", "how"),
    [
        ("", {}),
        ("", {"warmup": Warmup("queries", 7)}),
        (PREPARED, {}),
        (TIMED, {}),
        ("", {"batch": True}),
        (AT_ONCE, {"batch": True}),
        (CLIENTS, clients()),
        ("", clients()),
        ("", {"load": Load(2, rate=400.0, seconds=0.3), "warmup": Warmup("queries", 10)}),
    ],
)
def test_every_way_to_a_plugin_has_the_filter(workspace, monkeypatch, more, how):
    procedure = Procedure(2, filter="uniform:0.02", **how)
    point = measured(workspace, monkeypatch, OWN_WAY + more, procedure)
    assert (point.recall, point.completeness) == (1, 1)
    queries = get_dataset("tiny")[0].queries(5, "uniform:0.02")
    assert (read_result(point.path).neighbors == queries.truth.neighbors).all()
    assert (queries.truth.neighbors[:, 4] == -1).all() and (queries.truth.neighbors[:, 3] >= 0).all()


GIVEN = """\
def set_query_filters(self, matches):
    self.matches = getattr(self, "matches", []) + [sorted(matches.values())]
def get_additional(self):
    return {"given": str(self.matches)}
"""


def test_a_plugin_knows_the_filters_before_fit(workspace, monkeypatch):
    point = measured(workspace, monkeypatch, OWN_WAY + GIVEN, Procedure(2, filter="uniform:0.02"))
    assert read_result(point.path).attrs["given"] == "[[4]]"  # one filter, which 4 of 200 rows pass


def test_a_build_alone_serves_all_filter_sets(workspace, monkeypatch):
    """Each set is given, and followed by a fit."""
    fits = "def fit(self, X):\n    print('fit for', self.matches[-1])\n"
    workspace.add_plugin("of_filters", GIVEN + OWN_WAY.split("def fit")[0] + fits)
    run = workspace.run("--algorithm", "of_filters", "--build-only", "--filter", "uniform:0.5,uniform:0.02")
    assert run.returncode == 0, run.stdout + run.stderr
    assert [line for line in run.stdout.splitlines() if line.startswith("fit for")] == [
        "fit for [100]",
        "fit for [4]",
    ]


@pytest.mark.parametrize(
    ("more", "how"),
    [(PREPARED, {}), (TIMED, {}), (AT_ONCE, {"batch": True}), (TIMED, clients()), (CLIENTS, clients())],
)
def test_a_filtered_query_goes_before_all_other_ways(workspace, monkeypatch, more, how):
    body = OWN_WAY.replace("def query(self, q, n):", "def filtered_query(self, q, filter, n):")
    body = body.replace("q.filter", "filter").replace("q.vector", "q")
    point = measured(workspace, monkeypatch, body + more, Procedure(2, filter="uniform:0.5", **how))
    assert (point.recall, point.completeness) == (1, 1)


def test_a_row_that_does_not_pass_is_an_error_of_the_plugin(workspace, monkeypatch):
    body = OWN_WAY.replace("self.values < q.filter", "self.values <= q.filter")
    with pytest.raises(UserError, match=r"^query \d+ was answered with row \d+, which does not pass"):
        measured(workspace, monkeypatch, body, Procedure(filter="uniform:0.02"))
    with pytest.raises(UserError, match="which does not pass"):
        measured(workspace, monkeypatch, body, Procedure(filter="uniform:0.02", **clients()))


def test_who_takes_no_filters_is_refused(workspace, monkeypatch):
    with pytest.raises(UserError, match="^Plugin takes no filters: leave --filter out"):
        measured(workspace, monkeypatch, UNFILTERED, Procedure(filter="uniform:0.5"))


def test_each_filter_is_a_series(workspace):
    workspace.add_plugin("exact", **EXACT)
    first = ("--algorithm", "exact", "--filter", ",".join(FILTERS[:2]), *FILTERS[2:])
    done = workspace.run(*first)
    assert done.returncode == 0, done.stderr
    folders = {f"exact-filter-{name.replace(':', '-')}" for name in FILTERS}
    assert {path.split("/")[2] for path in workspace.results()} == folders
    assert "filter uniform:0.02: 2.000% of the rows pass" in done.stdout
    assert done.stdout.count("completeness 1.0000") == len(FILTERS)
    for run in load_runs(sorted((workspace.path / "results").rglob("*.hdf5"))):
        exact = {name: run.metrics[name] for name in ("recall", "epsilon", "completeness", "short")}
        assert exact == pytest.approx({"recall": 1, "epsilon": 1, "completeness": 1, "short": 0})
        assert run.attrs["filter"] == run.series.filter in FILTERS and run.attrs["recall_high"] == 1
    again = workspace.run(*first)
    assert "nothing to do: 4 points finished before" in again.stdout
    more = workspace.run("--algorithm", "exact", "--filter", "uniform:2e-2", "uniform:0.25")
    assert "to do: 1 definition with 1 point" in more.stdout and more.returncode == 0
    # Without filters nothing changes: no attribute, no column, the same folder.
    assert workspace.run("--algorithm", "exact").returncode == 0
    with h5py.File(next((workspace.path / "results/tiny/10/exact").iterdir())) as file:
        assert not {"filter", "completeness", "selectivity"} & set(file.attrs)
        assert json.loads(file.attrs["series"]) == {"algorithm": "exact"}


def test_rounds_have_filters(workspace):
    workspace.add_plugin("exact", **EXACT)
    done = workspace.run("--algorithm", "exact", "--filter", "uniform:0.02,tenants:10", "--rounds", "3")
    assert done.returncode == 0, done.stderr
    runs = [*load_runs(sorted((workspace.path / "results").rglob("*.hdf5")))]
    assert [run.metrics["completeness"] for run in runs] == [1, 1] == [run.metrics["recall"] for run in runs]
    assert {run.series.filter for run in runs} == {"uniform:0.02", "tenants:10"}


def test_mistakes_with_filters_are_one_line(workspace):
    workspace.add_plugin("exact", **EXACT)
    workspace.add_plugin("plain", UNFILTERED + "def done(self): Path('built').touch()\n")
    for words, said in (
        (("--algorithm", "plain", "--filter", "uniform:0.5"), "takes no filters: leave --filter out"),
        (("--algorithm", "exact", "--filter", "uniform:7"), "uniform:7"),
        (("--algorithm", "exact", "--filter", "none-such"), "has no filters 'none-such'"),
    ):
        done = workspace.run(*words)
        assert done.returncode != 0 and said in done.stderr, (words, done.stderr)
        assert "Traceback" not in done.stderr
        assert len([line for line in done.stderr.splitlines() if "error" in line]) == 1, done.stderr
    assert not (workspace.path / "built").exists() and workspace.results() == []
    # Where it was not named, it is left out.
    done = workspace.run("--filter", "uniform:0.5")
    assert done.returncode == 0 and "algorithm 'plain' is skipped: Plugin takes no filters" in done.stderr


def test_results_are_judged_by_the_truth_under_their_filter(workspace, capsys):
    workspace.add_plugin("exact", **EXACT)
    assert workspace.run("--algorithm", "exact", "--filter", "uniform:0.5,tenants:10").returncode == 0
    assert workspace.run("--algorithm", "exact").returncode == 0
    paths = sorted((workspace.path / "results").rglob("*.hdf5"))
    assert [run.metrics["recall"] for run in load_runs(paths)] == [1, 1, 1]
    assert [run.metrics["recall"] for run in load_runs(paths)] == [1, 1, 1]  # from the cache, or not
    next((workspace.path / "data/tiny.filters").glob("tenants-10.h5")).unlink()
    capsys.readouterr()
    assert {run.series.filter for run in load_runs(paths)} == {"", "uniform:0.5"}
    said = capsys.readouterr().err
    assert said.count("run.py --dataset tiny --filter tenants:10") == 1 and len(said.splitlines()) == 1


@pytest.mark.parametrize("name", ["../../tiny", "a\0b", "none:0.1", "uniform:9", "x" * 150])
def test_a_result_that_names_no_filter_is_left_out(workspace, capsys, name):
    workspace.add_plugin("exact", **EXACT)
    assert workspace.run("--algorithm", "exact").returncode == 0
    (path,) = (workspace.path / "results").rglob("*.hdf5")
    other = path.parent.with_name("exact-filter-other") / path.name
    other.parent.mkdir()
    result = read_result(path)
    attrs = {**result.attrs, "series": json.dumps({"algorithm": "exact", "filter": name})}
    write_result(other, attrs, result.times, result.neighbors, result.distances)
    capsys.readouterr()
    assert [run.algorithm for run in load_runs([path, other])] == ["exact"]
    assert len(capsys.readouterr().err.splitlines()) == 1
