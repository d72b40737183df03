"""Figures of queries by how many rows match their filters: by hand, and in results."""

import json
import math

import numpy as np
import pytest

from ann_benchmarks.data.datasets import get_dataset
from ann_benchmarks.definitions.definition import Definition
from ann_benchmarks.jobs.job import Procedure
from ann_benchmarks.load.spans import closed_loop, open_loop
from ann_benchmarks.measure.answers import deciles
from ann_benchmarks.results.metrics import OF_FILTERS
from ann_benchmarks.results.runs import load_runs

from .client_answers import made_answers
from .test_plan_choice import carried_out


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
