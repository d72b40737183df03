"""The planner's regret: by hand, by a plug-in made for it, and in PostgreSQL."""

import json
import math
import time
from types import SimpleNamespace

import numpy as np
import pytest

from ann_benchmarks.algorithms.pgvector_hnsw.module import PGVectorHNSW
from ann_benchmarks.algorithms.postgres.session.compared_plans import PlannedWay, answer_all, time_all, ways
from ann_benchmarks.algorithms.postgres.session.statement import rows_removed
from ann_benchmarks.data.datasets import prepare_filters
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.events import Note, PointDone
from ann_benchmarks.jobs.job import Execution, Job, JobRequest, Procedure
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.measure import plan_choice
from ann_benchmarks.measure.job import carry_out
from ann_benchmarks.measure.plan_choice import judge_regret
from ann_benchmarks.results.file import read_result
from ann_benchmarks.results.runs import load_runs

from .conftest import make_dataset
from .filtered_rows import OWN_WAY, QUERIES, TRAIN, K, attributes, filtered, one

pytestmark = pytest.mark.thorough

# Answers exactly, and says that it could have planned its queries in other ways.
PLANNED = (
    OWN_WAY
    + """\
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
)
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
    assert run.metrics["recall"] == 1 and math.isnan(run.metrics["regret"])


def test_regrets_by_hand():
    own, slow, quick = np.full(20, 6.0), np.full(20, 9.0), np.full(20, 2.0)
    assert judge_regret(own, [slow, quick]) == (3, 3, 3, 1)
    assert judge_regret(own, [slow]) == (1, 1, 1, None) == judge_regret(own, [])
    # Equally fast but for chance: nothing says that there is a regret.
    rng = np.random.default_rng(3)
    noisy = [rng.normal(10, 1, 50) for _ in range(5)]
    found = judge_regret(noisy[0], noisy[1:])
    assert 1 == found.low <= found.ratio <= found.high < 1.2
    # The interval is that of the ratio: 95% of such samples have the true one in theirs.
    hits = 0
    for _ in range(100):
        own, best = rng.exponential(4.0, 80), rng.exponential(2.0, 80)
        low, high = judge_regret(own, [best])[1:3]
        hits += low <= 2 <= high
    assert 86 <= hits <= 99


def test_chance_chooses_the_best_of_many_plans_and_that_is_no_regret():
    rng = np.random.default_rng(8)
    queries = rng.lognormal(0, 1.5, (100, 1, 100))
    seconds = queries * rng.lognormal(0, 0.1, (100, 9, 100))  # nine ways, equally fast
    assert sum(judge_regret(own, others).low > 1 for own, *others in seconds) <= 6


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


class SessionDouble:
    """Stands for a session whose queries take some time, or are cancelled; a query is its own answer."""

    def __init__(self, seconds: float, is_cancelled: bool = False) -> None:
        self.seconds, self.is_cancelled, self.asked = seconds, is_cancelled, 0

    def encode(self, query):
        return query

    def run(self, query):
        time.sleep(self.seconds)
        self.asked += 1
        return SimpleNamespace(ids=[query], error_field=lambda field: b"57014" if self.is_cancelled else None)

    def ids(self, result):
        return result.ids


def test_hopeless_ways_are_given_up():
    sessions = {
        "own": SessionDouble(0.002),
        "quick": SessionDouble(0.001),
        "slow": SessionDouble(0.6),
        "cancelled": SessionDouble(0.001, True),
    }
    found = own, quick, slow, cancelled = [PlannedWay(name, each) for name, each in sessions.items()]
    assert answer_all(found, range(8), lambda: False, 0.4) == 8
    time_all(found, range(8), lambda: False)
    assert [way.is_given_up for way in found] == [False, False, True, True]
    assert own.ids == quick.ids == [[number] for number in range(8)]
    assert (slow.ids, cancelled.ids) == ([[0]], []) and (slow.session.asked, cancelled.session.asked) == (
        1,
        1,
    )
    assert len(own.seconds) == len(quick.seconds) == 8 and len(slow.seconds) == 1
    assert answer_all([own], range(8), lambda: True, 1) == 1
    quick.names = ["generic: b", "generic: a", "generic: a"]
    assert quick.plan == "generic: a or generic: b"


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
