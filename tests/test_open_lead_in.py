"""The lead-in of an open loop: how long it is, and that nothing of it counts."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load import request
from ann_benchmarks.load.request import MOST_STEADY_SECONDS, Load, Objective, Queue
from ann_benchmarks.load.spans import Measured, is_growing, open_loop
from ann_benchmarks.load.warmup import Caches, Warmup
from ann_benchmarks.measure.loaded_point import LoadedPoint
from ann_benchmarks.measure.timed import Subject
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.remarks import remarks
from ann_benchmarks.statistics.percentiles import stored_percentiles

from .client_answers import made_answers
from .known_services import Computed

QUERIES = np.arange(16, dtype=np.float32)[:, np.newaxis]
WARM = Warmup("queries", 1)


def exponential(service: float, seed: int = 1) -> Computed:
    return Computed(service, partial(np.random.default_rng(seed).exponential, service))


def measured(algo: Computed, load: Load, runs: int, warmup: Warmup = WARM) -> list[Measured]:
    return LoadedPoint(Subject(Plugin(algo), QUERIES, 1, len(QUERIES)), load).measure(warmup, range(runs))


def test_nothing_of_the_lead_in_counts():
    """Ten queries at one a second; the first five find no row and take 0.9 s, the others 0.1 s."""
    due = np.arange(10.0)
    times = np.repeat([0.9, 0.1], 5)
    given = made_answers(np.zeros(10, int), 7 + due, 7 + due + times, 7 + due, rows=np.repeat([0, 1], 5))
    whole = open_loop([given], due, 1.0, {"clients": 1})
    run = open_loop([given], due, 1.0, {"clients": 1}, lead_in=4.5)
    assert run.times == pytest.approx(np.full(5, 0.1))
    assert run.facts["queries_due"] == run.facts["queries_counted"] == run.facts["queries_asked"] == 5
    assert run.facts["service_p99"] == pytest.approx(0.1)
    assert run.facts["candidates"] == 1.0
    assert (whole.facts["candidates"], whole.facts["answers_shortened"]) == (0.5, 5)
    assert run.facts["answers_shortened"] == 0
    assert run.facts["lead_in_seconds"] == 4.5
    assert run.facts["active_seconds"] == pytest.approx(9.1 - 4.5)
    # The answer that came at 4.9 s is of this time, too: what a server answers is not less for the queue.
    assert run.seconds_per_query == pytest.approx(4.6 / 6)
    assert whole.facts["queries_due"] == 10


def test_what_was_due_in_the_lead_in_and_never_sent_does_not_count():
    due = np.arange(10.0)
    sent = [0, 2, 5, 6, 8]
    given = made_answers(np.zeros(5, int), due[sent], due[sent] + 0.1, due[sent])
    run = open_loop([given], due, 1.0, {"clients": 1}, lead_in=4.5)
    assert run.facts["queries_unanswered"] == 2  # those of 7 and 9 s
    assert run.times == pytest.approx([0.1, 0.1, 3.0, 0.1, 1.0])


def test_a_lead_in_that_nothing_outlasts_is_an_error():
    due = np.arange(10.0)
    given = made_answers(np.zeros(3, int), due[:3], due[:3] + 0.1, due[:3])
    with pytest.raises(UserError, match="no query came after the lead-in that was answered"):
        open_loop([given], due, 1.0, {"clients": 1}, lead_in=4.5)


@pytest.mark.parametrize(
    ("rate", "capacity", "clients", "relaxation", "lead_in"),
    [
        (30, 50, 1, 0.394, 0.788),  # 60% of one server of 20 ms
        (40, 50, 1, 1.79, 3.59),
        (47.5, 50, 1, 31.2, 62.4),
        (950, 1000, 1, 1.56, 3.12),
        (100, 1000, 8, 0.0021, 0.5),
        (10, 40, 8, 0.1, 2.0),  # ten answers of each client
        (49.9, 50, 1, 87.5, 120),
        (55, 50, 1, 87.5, 120),  # what can be served is known to a few percent only
        (100, 50, 1, 87.5, 0.5),  # it grows, however long one waits
    ],
)
def test_the_lead_in_is_as_long_as_the_queue_remembers(
    rate: float, capacity: float, clients: int, relaxation: float, lead_in: float
):
    queue = Queue(rate, capacity, clients)
    assert queue.relaxation_seconds == pytest.approx(relaxation, rel=0.02)
    assert queue.lead_in_seconds == pytest.approx(lead_in, rel=0.02)


def test_arrivals_go_on_for_the_lead_in_and_then_for_the_duration():
    due, numbers = Load(1, seconds=10, rate=50).arrivals(100, 50, 0, lead_in=5)
    assert len(due) == len(numbers)
    assert due[-1] == pytest.approx(15, abs=0.3)
    usual = Load(1, rate=50).arrivals(100, 50, 0, 5, least=20)[0]
    assert usual[-1] == pytest.approx(25, abs=0.3)
    assert Load(1, rate=50).arrivals(100, 50, 0, 5, least=900)[0][-1] == pytest.approx(
        5 + MOST_STEADY_SECONDS, abs=0.3
    )
    assert Load(1, seconds=10, rate=50).arrivals(100, 50, 0, 5, least=20)[0][-1] == pytest.approx(15, abs=0.3)
    for run in range(50):  # one is due after the lead-in in any case
        assert Load(1, seconds=1, rate=0.1).arrivals(100, 0.1, run, lead_in=9)[0][-1] >= 9


@pytest.mark.parametrize(("share", "is_one"), [(0.5, False), (0.8, False), (1.2, True), (2.0, True)])
def test_a_queue_that_grows_is_one_that_is_never_short(share: float, is_one: bool):
    rng = np.random.default_rng(4)
    for _ in range(20):
        due = np.cumsum(rng.exponential(1 / share, 5000))
        services = rng.exponential(1, 5000)
        work = np.cumsum(services)
        assert is_growing(work + np.maximum.accumulate(due - (work - services)) - due) == is_one
    assert not is_growing(np.full(100, 0.02))
    assert not is_growing(np.arange(12.0))  # too few to tell


@pytest.mark.parametrize("share", [0.8, 0.95])
def test_percentiles_are_those_of_the_steady_state(share: float):
    """M/M/1: exponentially distributed with mean service / (1 - utilisation); an empty queue's are less."""
    service = 0.005
    load = Load(1, seconds=Queue(share / service, 1 / service, 1).run_seconds(5), rate=share / service)
    runs = measured(exponential(service), load, 100)
    points = [
        stored_percentiles([run.times for run in runs[place : place + 5]]) for place in range(0, 100, 5)
    ]
    for name, beyond in (("p50", 0.5), ("p99", 0.01)):
        theory = -math.log(beyond) * service / (1 - share)
        assert np.mean([point[f"latency_{name}"] for point in points]) == pytest.approx(theory, rel=0.1)
    assert all(run.facts["steady_state"] for run in runs)
    short = Load(1, seconds=2.0, rate=share / service)
    begun, empty = (
        np.mean([np.median(run.times) for run in measured(exponential(service), short, 100, warmup)])
        for warmup in (WARM, Warmup("off"))
    )
    assert begun > 1.05 * empty


def test_what_a_short_run_is_warned_of():
    (run,) = measured(exponential(0.02), Load(1, seconds=10, rate=47.5), 1)
    facts = run.facts | {"run_count": 5, "clients_all_busy_share": 0, "queries_unanswered": 0}
    facts["steady_state"] = True
    (text,) = remarks(facts)
    assert "a queue changes slowly, and short runs mostly understate its latencies: give --dur" in text
    needed = int(text.rpartition(" ")[2])
    assert needed == math.ceil(1.1 * 180 * run.facts["relaxation_seconds"] / 5)
    assert not remarks(facts | {"active_seconds": needed})
    (growing,) = remarks(facts | {"active_seconds": needed, "steady_state": False})
    assert growing.startswith("the queue was still growing: the latencies depend on the length of the run")


def test_a_rate_above_what_is_served_is_reported_as_before():
    (run,) = measured(exponential(0.02), Load(1, seconds=10, rate=100), 1)
    assert run.facts["lead_in_seconds"] == request.LEAST_LEAD_IN
    assert not run.facts["steady_state"]
    assert 1 / run.seconds_per_query == pytest.approx(50, rel=0.15)
    assert "the rate was not kept" in remarks(run.facts)[0]


def test_cold_runs_have_no_lead_in():
    (run,) = measured(exponential(0.005), Load(1, seconds=1, rate=100), 1, Warmup("off"))
    assert run.facts["lead_in_seconds"] == 0
    assert "relaxation_seconds" not in run.facts


def test_the_lead_in_of_a_search_for_a_rate_is_no_longer_than_its_runs():
    load = Load(1, seconds=3.0, objective=Objective.parse("p99:100ms"))
    (run,) = measured(exponential(0.01), load, 1)
    assert 0.5 <= run.facts["lead_in_seconds"] <= 3
    assert run.facts["rate"] < 90


def test_what_can_be_served_is_measured_once_for_all_rounds(monkeypatch: pytest.MonkeyPatch):
    subject = Subject(Plugin(exponential(0.005)), QUERIES, 1, len(QUERIES))
    load = Load(1, seconds=1, rate=100)
    asked: list[Any] = []
    real = LoadedPoint._closed_loop_rate
    monkeypatch.setattr(
        LoadedPoint, "_closed_loop_rate", lambda self, *how: asked.append(how) or real(self, *how)
    )
    rounds = [
        LoadedPoint(subject, load).measure(WARM, [number], Caches.WARM, completes=False)
        for number in range(3)
    ]
    assert len(asked) == 2
    assert len({run.facts["closed_loop_rate"] for (run,) in rounds}) == 1
