"""The planner's regret and the deciles by matches: by hand, by a plug-in made for it, and in PostgreSQL."""

import json
import math

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.compared_plans import ways
from ann_benchmarks.algorithms.postgres.filtering.plans import rows_removed
from ann_benchmarks.data.datasets import get_dataset, prepare_filters
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Note, PointDone
from ann_benchmarks.jobs.job import Execution, Job, JobRequest, Procedure
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.spans import closed_loop, open_loop
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.measure import plan_choice
from ann_benchmarks.measure.deciles import deciles
from ann_benchmarks.measure.job import carry_out
from ann_benchmarks.results.file import read_result
from ann_benchmarks.results.metrics import OF_FILTERS
from ann_benchmarks.results.regret import regret_of
from ann_benchmarks.results.runs import load_runs

from .client_answers import made_answers
from .conftest import make_dataset
from .filtered_rows import QUERIES, TRAIN, K, attributes, filtered, one

# Answers exactly, and says that it could have planned its queries in other ways.
PLANNED = """\
def set_row_attributes(self, attributes):
    self.values = attributes["uniform"].values
def fit(self, X):
    self.X = np.array(X)
def query(self, q, n):
    rows = np.flatnonzero(self.values < q.filter.predicates[0].value)
    return rows[np.argsort(((self.X[rows] - q.vector) ** 2).sum(1))[:n]]
def compare_plans(self, X, n, seconds):
    from types import SimpleNamespace
    right = [self.query(q, n).tolist() for q in X]
    way = lambda name, seconds, ids: SimpleNamespace(
        way=name, plan=f"plan of {name}", seconds=[seconds] * len(ids), ids=ids)
    return SimpleNamespace(facts={"locks": 3, "rows_removed": 8.5, "planning_time": 0.002}, answers=[
        way("own", 0.03, right), way("misses one", 0.001, [ids[1:] for ids in right]),
        way("given up", 0.001, right[:4]), way("slower", 0.04, right), way("best", 0.01, right),
        way("cannot", 0, [])])
"""
FAILING = (
    PLANNED + "def compare_plans(self, X, n, seconds):\n    raise RuntimeError('there is no\\nserver')\n"
)


def carried_out(definition: Definition, dataset: str, procedure: Procedure, point=()):
    """Measure one point in this process; return its result, and the notes."""
    filters = (procedure.filter,) if procedure.filter else ()
    if filters:
        prepare_filters(dataset, filters)
    events: list = []
    job = Job(
        definition, [list(point)], dataset, 10, procedure, Execution(filters=filters, show_progress=False)
    )
    carry_out(JobRequest(job), events.append)
    (done,) = [event for event in events if isinstance(event, PointDone)]
    return done.path, [event.text for event in events if isinstance(event, Note)]


def of_plugin(workspace, monkeypatch, name, body, procedure):
    monkeypatch.syspath_prepend(str(workspace.path))
    workspace.add_plugin(name, body)
    (workspace.path / "plugins" / name).rename(workspace.path / name)
    return carried_out(Definition(name, "Plugin", name, "t", [], [], False), "tiny", procedure)


def test_the_regret_is_beside_the_best_plan_that_is_as_good(workspace, monkeypatch):
    path, notes = of_plugin(workspace, monkeypatch, "planned", PLANNED, Procedure(2, filter="uniform:0.5"))
    assert notes == []
    (run,) = load_runs([path])
    found = {name: run.metrics[name] for name in ("regret", "locks", "removed", "planning")}
    assert found == pytest.approx({"regret": 3, "locks": 3, "removed": 8.5, "planning": 2})
    assert run.attrs["planner_best"] == "plan of best"
    assert [run.attrs[f"planner_regret_{end}"] for end in ("low", "high")] == pytest.approx([3, 3])
    plans = {plan["way"]: plan for plan in json.loads(run.attrs["planner_plans"])}
    assert [*plans] == ["own", "misses one", "given up", "slower", "best", "cannot"]
    assert plans["misses one"]["recall"] == plans["misses one"]["completeness"] == pytest.approx(0.9)
    assert (plans["given up"]["queries"], plans["given up"]["recall"]) == (4, 1)
    assert (plans["cannot"]["queries"], plans["cannot"]["seconds"]) == (0, None)
    assert plans["own"] == {
        **{"way": "own", "plan": "plan of own", "queries": 20, "seconds": pytest.approx(0.03)},
        **{"recall": 1, "completeness": 1},
    }


@pytest.mark.parametrize(
    "how", [{"batch": True}, {"load": Load(2, seconds=0.3), "warmup": Warmup("queries", 10)}]
)
def test_batches_and_clients_have_it_too(workspace, monkeypatch, how):
    name = f"planned_{len(how)}"
    path, _ = of_plugin(workspace, monkeypatch, name, PLANNED, Procedure(1, filter="uniform:0.5", **how))
    assert read_result(path).attrs["planner_regret"] == pytest.approx(3)


def test_rounds_have_it_once(workspace):
    workspace.add_plugin("planned", PLANNED)
    done = workspace.run("--algorithm", "planned", "--filter", "uniform:0.5", "--rounds", "3")
    assert done.returncode == 0, done.stderr
    (run,) = load_runs(sorted((workspace.path / "results").rglob("*.hdf5")))
    assert run.metrics["regret"] == pytest.approx(3) and run.attrs["run_count"] == 3


def test_a_failure_costs_the_figures_and_not_the_point(workspace, monkeypatch):
    path, notes = of_plugin(workspace, monkeypatch, "failing", FAILING, Procedure(1, filter="uniform:0.5"))
    assert len(notes) == 1 and "could not be compared, and have no figures: " in notes[0]
    assert "there is no" in notes[0] and "\n" not in notes[0]
    (run,) = load_runs([path])
    assert run.metrics["k-nn"] == 1 and math.isnan(run.metrics["regret"])


def test_regrets_by_hand():
    own, slow, quick = np.full(20, 6.0), np.full(20, 9.0), np.full(20, 2.0)
    assert regret_of(own, [slow, quick]) == (3, 3, 3, 1)
    assert regret_of(own, [slow]) == (1, 1, 1, None) == regret_of(own, [])
    # Equally fast but for chance: nothing says that there is a regret.
    rng = np.random.default_rng(3)
    noisy = [rng.normal(10, 1, 50) for _ in range(5)]
    found = regret_of(noisy[0], noisy[1:])
    assert 1 == found.low <= found.ratio <= found.high < 1.2
    # The interval is that of the ratio: 95% of such samples have the true one in theirs.
    hits = 0
    for _ in range(100):
        own, best = rng.exponential(4.0, 80), rng.exponential(2.0, 80)
        low, high = regret_of(own, [best])[1:3]
        hits += low <= 2 <= high
    assert 86 <= hits <= 99


def test_rows_that_steps_remove():
    plan = {
        **{"Node Type": "Limit", "Actual Loops": 1},
        "Plans": [
            {"Node Type": "Index Scan", "Actual Loops": 3, "Rows Removed by Filter": 10},
            {"Node Type": "Seq Scan", "Actual Loops": 1, "Rows Removed by Index Recheck": 4.0},
        ],
    }
    assert rows_removed(plan) == 34


def test_ways_have_names_that_can_be_repeated():
    found = dict(ways())
    assert found["custom"] == {"plan_cache_mode": "force_custom_plan"}
    for name, settings in found.items():
        for word in name.split()[1:]:
            setting, value = word.split("=")
            assert settings[setting] == value == "off"
        assert list(settings.values()).count("off") == len(name.split()) - 1


def test_deciles_by_hand():
    """20 queries: those of 1 to 10 rows once each, and ten of one tenant of 500."""
    matches = np.array([*range(1, 11), *[500] * 10])
    recalls, complete = np.linspace(0, 1, 20), np.ones(20)
    numbers = np.tile(np.arange(20), 100)
    runs = [(numbers / 1000, numbers), (np.array([9.0]), np.array([-1]))]
    found = deciles(matches, recalls, complete, runs)
    assert [group["queries"] for group in found] == [2, 2, 2, 2, 2, 10]
    assert [(group["least"], group["most"]) for group in found] == [
        *((1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (500, 500))
    ]
    assert found[0]["recall"] == pytest.approx((recalls[0] + recalls[1]) / 2)
    assert found[0]["p50"] == pytest.approx(0.0005) and found[0]["p99"] is None
    assert found[-1]["p99"] == pytest.approx(np.percentile(numbers[numbers >= 10], 99) / 1000)
    assert deciles(np.array([3, 29]), recalls[:2], complete[:2], runs) == []
    assert (
        len(deciles(np.arange(1000), np.ones(1000), np.ones(1000), [(np.ones(1000), np.arange(1000))])) == 10
    )


def test_latencies_of_clients_are_those_of_their_queries():
    """Query n takes n seconds, in whatever order clients send."""
    sent = [np.array([0.0, 3.0, 4.0]), np.array([0.5, 2.5])]
    numbers = [np.array([3, 1, 2]), np.array([2, 4])]
    clients = [
        made_answers(number, start, start + number) for start, number in zip(sent, numbers, strict=True)
    ]
    run = closed_loop(clients, {})
    assert run.times.tolist() == pytest.approx(run.numbers) and len(run.numbers) >= 4
    due = np.array([0.0, 0.5, 2.5, 3.0, 4.0, 5.0])
    clients = [
        made_answers(number, start, start + number, start)
        for start, number in zip(sent, numbers, strict=True)
    ]
    run = open_loop(clients, due, 1.0, {})
    assert run.numbers.tolist() == [3, 2, 4, 1, 2, -1]
    assert run.times[:5].tolist() == pytest.approx(run.numbers[:5])


def test_a_generic_plan_is_several_times_slower_than_the_best(plugin_server, workspace, monkeypatch):
    """A generic plan takes a third of the rows for granted, and searches the graph for 1% of them."""
    monkeypatch.setattr(plan_choice, "SECONDS", 60.0)  # other tests run meanwhile
    make_dataset("larger", rows=3000, dimension=16, queries=40)

    method = {"M": 16, "efConstruction": 64, "attribute_index": "auto"}
    definition = Definition(
        *("pgvector_hnsw_indexed", "PGVectorHNSW", "ann_benchmarks.algorithms.pgvector_hnsw", "t"),
        *(["euclidean", method], [], False),
    )
    how = (Procedure(1, filter="uniform:0.01"), [40, None, "relaxed_order"])
    path, notes = carried_out(definition, "larger", *how)
    assert not [note for note in notes if "compared" in note]
    (run,) = load_runs([path])
    plans = {plan["way"]: plan for plan in json.loads(run.attrs["planner_plans"])}
    assert plans["own"]["plan"] == "generic: Index Scan (hnsw)"
    assert plans["own"]["queries"] == 40 and "generic" not in plans  # which it is itself
    assert {plan["plan"].split(": ")[1] for plan in plans.values()} == {
        "Index Scan (hnsw)", "Sort over Seq Scan", "Sort over Index Scan (btree uniform)",
        "Sort over Bitmap Heap Scan over Bitmap Index Scan (btree uniform)",
    }  # fmt: skip
    assert len({plan["plan"] for plan in plans.values()}) == len(plans)
    assert all(plan["completeness"] == 1 for plan in plans.values())
    assert all(plan["recall"] == 1 for plan in plans.values() if "hnsw" not in plan["plan"])
    best = run.attrs["planner_best"]
    assert best and "hnsw" not in best
    # It is many times that; each query goes all ways, in random order.
    assert run.metrics["regret"] > 2
    assert run.attrs["planner_regret_low"] <= run.metrics["regret"] <= run.attrs["planner_regret_high"]
    assert run.attrs["blocks"] > 100
    assert run.metrics["locks"] == 3  # the table and its two indexes
    assert run.metrics["removed"] > 100 and 0 < run.metrics["planning"] < 100
    assert run.attrs["has_default_settings"] is False
    assert json.loads(run.attrs["plans"]) == {"generic: Index Scan (hnsw)": 1}
    assert {"index_blocks_hit_per_query", "table_blocks_hit_per_query"} <= {*run.attrs}


def test_what_settings_are_defaults(plugin_server):
    algorithm = PGVectorHNSW("euclidean", {"M": 16, "efConstruction": 64})
    algorithm.set_row_attributes(attributes(only=("uniform",)))
    (query,) = filtered(one("uniform", "<", 30), QUERIES[:1])
    asked = {
        True: [({}, [40]), ({"plan_cache_mode": "auto"}, [40, None, "off"])],
        False: [({}, [41]), ({}, [40, 40]), ({"plan_cache_mode": "force_custom_plan"}, [40])],
    }
    try:
        for expected, cases in asked.items():
            for settings, arguments in cases:
                algorithm.use_settings(settings)
                algorithm.fit(TRAIN)
                algorithm.set_query_arguments(*arguments)
                algorithm.query(query, K)
                assert algorithm.get_additional()["has_default_settings"] is expected, (settings, arguments)
        own = algorithm.compare_plans([query] * 12, K, 60.0).answers[0]  # with the last of these settings
        assert (own.way, own.plan) == ("own", "custom: Sort over Seq Scan")
    finally:
        algorithm.use_settings({})
        algorithm.done()


def test_deciles_are_stored_where_matches_differ(workspace):
    exact = Definition(
        *("exact", "ExactScan", "ann_benchmarks.algorithms.bruteforce", "t", ["euclidean"], [], False)
    )
    (run,) = load_runs([carried_out(exact, "tiny", Procedure(2, filter="tenants:100"))[0]])
    found = json.loads(run.attrs["deciles"])
    matches = get_dataset("tiny")[0].filter_set("tenants:100").matches
    assert [found[0]["least"], found[-1]["most"]] == [matches.min(), matches.max()]
    assert sum(group["queries"] for group in found) == 20
    assert {group["recall"] for group in found} == {group["completeness"] for group in found} == {1}
    for procedure in (Procedure(1, filter="uniform:0.5"), Procedure(1)):
        (run,) = load_runs([carried_out(exact, "tiny", procedure)[0]])
        ours = ("planner_plans", "has_default_settings", "locks", "planning_time", "rows_removed", "deciles")
        assert not {*ours} & {*run.attrs}
    assert all(math.isnan(run.metrics[name]) for name in OF_FILTERS)
