"""What is asked of a workload, what is known of its table, and what is made of its times."""

import json

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.job import Procedure, Scope
from ann_benchmarks.load.request import Load
from ann_benchmarks.load.workload import Mix, Workload
from ann_benchmarks.measure.workloads.over_time import Span, Timeline, Times, rate_of
from ann_benchmarks.measure.workloads.queries import joined
from ann_benchmarks.measure.workloads.table_state import (
    DELETE,
    GONE,
    INSERT,
    UPDATE,
    ChangingTruth,
    ChosenRows,
    TableState,
)
from ann_benchmarks.results.records import Record, write_record
from ann_benchmarks.run.plan import make_plan

DEFINITION = Definition("some", "some", "Some", "none", ["euclidean"], [[1], [2], [3]], False)
WRITES = Workload("writes", 4, 30.0, load=Load(8), rate=200.0)


@pytest.mark.parametrize("text", ["insert:x", "insert:0", "upsert:5", "insert:-1,delete:2", "50,25,25"])
def test_no_mix(text):
    with pytest.raises(UserError, match="insert:50,update:25,delete:25"):
        Mix.parse(text)


def test_the_index_may_need_rows():
    inserts = Workload("inserts", 1, 10.0)
    assert (inserts.rows_loaded(1000, False), inserts.rows_loaded(1000, True)) == (0, 100)
    assert WRITES.rows_loaded(1000, True) == 800
    with pytest.raises(UserError, match="give --loaded above 0"):
        Workload("inserts", 1, 10.0, loaded=0.0).rows_loaded(1000, True)


def test_a_workload_has_one_point_and_is_measured_once(workspace):
    def scope(workload=WRITES):
        return Scope([DEFINITION], "tiny", 10, [Procedure(5, workload=workload)])

    [job] = scope().jobs()
    assert job.points == [[2]]
    path = job.path(job.points[0])
    assert path.name.endswith(".workload.json")
    assert path.parent.name == f"{DEFINITION.algorithm}-writes-c8-w4-r200-mix50-25-25"

    def left(truth="mark", workload=WRITES):
        plan = make_plan(scope(workload), truth)
        return len(plan.jobs), " ".join(plan.warnings)

    assert left() == (1, "")
    attrs = {"truth": "mark", "asked_duration": 30.0}
    how = ("tiny", 10, "algo", "name", [], [], 8, 4, 200.0, [])
    write_record(Record("writes", *how, attrs=attrs, path=path))
    assert left() == (0, "")
    assert "other vectors" in left("another")[1]
    longer = Workload("writes", 4, 60.0, load=Load(8), rate=200.0)
    assert "was measured with --duration 30" in left(workload=longer)[1]
    path.write_text("{")
    assert "cannot be read" in left()[1]


def test_the_table_is_known_whatever_order_changes_are_made_in():
    draw = np.random.default_rng(3)
    state = TableState(1000, 600)
    kinds = draw.choice(3, 300)
    planned = state.plan(np.sort(draw.random(300)), kinds, draw)
    assert len(np.unique(planned.ids)) == 300  # no two are of one row
    assert (planned.ids[kinds == INSERT] >= 1000).all() and (planned.ids[kinds != INSERT] < 600).all()
    assert (planned.rows[kinds == DELETE] == GONE).all()
    taken_rows = planned.rows[kinds != DELETE]
    assert taken_rows.tolist() == list(range(600, 600 + len(taken_rows)))
    made = planned.part(draw.permutation(250))
    state.apply(made)
    state.give_back(planned.part(np.arange(250, 300)))
    expected = {number: number for number in range(600)}
    for kind, number, row in zip(made.kinds, made.ids, made.rows, strict=True):
        if kind == DELETE:
            del expected[number]
        else:
            expected[int(number)] = int(row)
    assert {int(number): int(state.row_of[number]) for number in state.ids} == expected
    # Each row of the dataset is in the table, or unused, and that once.
    assert sorted([*state.row_of[state.ids], *state.unused]) == list(range(1000))
    assert (made.kinds == UPDATE).any()
    assert state.rows_of(np.array([[state.ids[0], -1]])).tolist() == [[state.row_of[state.ids[0]], GONE]]


@pytest.mark.parametrize("kinds", [[INSERT, UPDATE, INSERT, DELETE], [DELETE, UPDATE, DELETE, INSERT]])
def test_what_there_are_no_rows_for_is_left(kinds):
    state = TableState(4, 2)
    planned = state.plan(np.arange(4.0), np.array(kinds), np.random.default_rng(3))
    assert planned.kinds.tolist() == kinds[:2]


@pytest.mark.parametrize("metric", ["euclidean", "angular", "ip"])
def test_recall_is_that_among_the_rows_that_are_there(metric):
    draw = np.random.default_rng(5)
    train, queries = draw.normal(size=(500, 8)).astype("f4"), draw.normal(size=(20, 8)).astype("f4")
    state = TableState(500, 300)
    state.apply(state.plan(np.arange(150.0), draw.choice(3, 150), draw))
    there = state.ids
    vectors = train[state.row_of[there]].astype(float)
    products, lengths = queries.astype(float) @ vectors.T, np.linalg.norm(vectors, axis=1)
    distances = {"euclidean": lengths**2 / 2 - products, "angular": -products / lengths, "ip": -products}
    nearest = there[np.argsort(distances[metric], axis=1)[:, :10]]
    truth = ChangingTruth(metric, train, queries, 10)
    assert truth.recalls(state, nearest).tolist() == [1.0] * 20
    nearest[:, 5:] = -1
    nearest[0, 0] = there[np.argmax(distances[metric][0])]
    assert truth.recalls(state, nearest).tolist() == [0.4] + [0.5] * 19
    with pytest.raises(UserError, match="fewer than the 600 neighbours"):
        ChangingTruth(metric, train, queries, 600).distances(state)


@pytest.mark.parametrize("numbers", [[3, 4, 5, 9], [0, 40, 80], []])
def test_chosen_rows(numbers):
    train = np.arange(200.0).reshape(100, 2)
    assert ChosenRows(train, np.array(numbers, dtype=int))[:].tolist() == train[numbers].tolist()


def test_a_rate_and_its_interval():
    draw = np.random.default_rng(7)
    ends = np.sort(draw.uniform(0, 10, 1000))
    spans = [Span(10.0, Times(ends, np.full(1000, 0.002)), 100.0)] * 2
    rate = rate_of(spans, np.array([1.0, 3.0, 3.0]))
    assert (rate.count, rate.per_second, rate.late) == (2000, 100.0, 3)
    assert 90 < rate.low < 100 < rate.high < 110
    assert rate.p50 == 0.002 and rate.p999 > rate.p99 == pytest.approx(0.002)
    nothing = rate_of([Span(10.0, Times(np.empty(0), np.empty(0)), 0.0)])
    assert (nothing.count, nothing.p99, nothing.high) == (0, 0.0, 0.0)


def test_windows():
    timeline = Timeline(120.0)
    assert timeline.window == 2.0
    times = Times(np.array([0.5, 1.0, 3.9, 4.0, 4.2]), np.array([0.1, 0.3, 0.5, 0.7, 0.9]))
    timeline.add(4.0, times, None, [(0.0, 10.0), (2.5, 20.0), (4.0, 30.0)])
    timeline.tell_recall(0.9)
    timeline.add(2.0, None, times, [])
    columns = timeline.columns
    assert (columns["start"], columns["seconds"]) == ([0.0, 2.0, 4.0], [2.0, 2.0, 2.0])
    assert (columns["queries"], columns["writes"]) == ([2, 3, 0], [0, 0, 5])
    assert columns["query_p50"] == [pytest.approx(0.2), 0.7, None]
    assert columns["index_size"] == [10.0, 30.0, None]
    assert columns["recall"] == [None, 0.9, None]


def test_facts_of_several_segments():
    segments = [
        {"cpu": 1.0, "limit": False, "wait_events": json.dumps({"CPU": 1.0}), "loop": "closed", "at": "x"},
        {"cpu": 3.0, "limit": True, "wait_events": json.dumps({"CPU": 0.5, "IO:Read": 0.5}), "at": "y"},
    ]
    facts = joined(segments)
    assert (facts["cpu"], facts["limit"], facts["loop"], facts["at"]) == (2.0, True, "closed", "y")
    assert json.loads(facts["wait_events"]) == {"CPU": 0.75, "IO:Read": 0.25}
