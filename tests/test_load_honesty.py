"""What is measured of plug-ins of known behaviour is what arithmetic says of them.

A machine with other things to do lets sleepers wake up late. Where time passes, only what no machine can
break is asserted.
"""

import math
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from ann_benchmarks.algorithms.base.module import BaseANN
from ann_benchmarks.common.errors import UserError
from ann_benchmarks.distance import candidate_distances, rounded_up
from ann_benchmarks.load.request import Load, Objective
from ann_benchmarks.load.spans import Measured, histogram
from ann_benchmarks.load.warmup import Warmup
from ann_benchmarks.measure.loaded_point import LEAST_PATIENCE, LoadedPoint
from ann_benchmarks.measure.observed import UndisturbedRuns
from ann_benchmarks.measure.timed import Subject
from ann_benchmarks.plugin import Plugin
from ann_benchmarks.results.measurement import recall_of_each
from ann_benchmarks.statistics.percentiles import PERCENTILES

from .known_services import Computed, Sleeping, Stalling, StallSeen, one_server

pytestmark = pytest.mark.thorough

SLEEP = 0.02
QUERIES = np.arange(16, dtype=np.float32)[:, np.newaxis]
COLD = Warmup("off")


def measured(algo: BaseANN, load: Load, runs: int = 1, warmup: Warmup = COLD) -> list[Measured]:
    return LoadedPoint(Subject(Plugin(algo), QUERIES, 1, len(QUERIES)), load).measure(warmup, range(runs))


def percentile(run: Measured, of: float) -> float:
    return float(np.percentile(run.times, of))


class OneSlot(BaseANN):
    """Serves one query at a time, first come, first served, each for `seconds` or as long as it says.

    The time of service is fixed as a query comes: a client that wakes up late does not keep the slot.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._free_at, self._lock = 0.0, threading.Lock()  # of time.perf_counter, for all threads

    def query(self, q: np.ndarray, n: int) -> list[int]:
        """Wait for the slot, and then for the service; `q` holds the number, and perhaps its seconds."""
        with self._lock:
            end = max(time.perf_counter(), self._free_at) + (float(q[1]) if len(q) > 1 else self.seconds)
            self._free_at = end
        time.sleep(max(end - time.perf_counter(), 0.0))
        return [int(q[0])]


# What arithmetic says


def waits_at_most(seconds: float, rate: float, service: float) -> float:
    """Share of queries that wait at most `seconds` for one slot, which serves each for `service` s.

    They come `rate` a second, at random; in steady state (M/D/1). Erlang's formula of 1909, in "The theory of
    probabilities and telephone conversations"; in float64 its alternating terms are good for 25 services.
    """
    terms = 0.0
    for k in range(int(seconds / service) + 1):
        late = rate * (k * service - seconds)
        terms += late**k / math.factorial(k) * math.exp(-late)
    return (1 - rate * service) * terms


def one_slot_rate(percentile: float, bound: float, service: float) -> float:
    """Highest rate at which that percentile of the latencies is at most `bound` s, in steady state."""
    return crossing(
        lambda rate: waits_at_most(bound - service, rate, service) < percentile / 100, 0, 1 / service
    )


def backlog_latencies(due: np.ndarray, service: float, clients: int, patience: float) -> np.ndarray:
    """Latencies in s, (n,), where one slot is never free again: the i-th answer comes after i services.

    What no client has sent `patience` s after the last was due has waited until then.
    """
    due = due - due[0]
    end = due[-1] + patience
    answered = np.arange(1, len(due) + 1) * service
    return np.where(answered - clients * service <= end, answered, end) - due


def crossing(is_beyond: Callable[[float], bool], low: float, high: float) -> float:
    """Return where a condition becomes true, which stays so from there on."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return high


# Closed loop


@pytest.mark.parametrize("clients", [1, 8])
def test_clients_that_do_not_disturb_each_other(clients: int):
    """Each of N sends at most 1 / s queries a second, of at least s each."""
    (run,) = measured(Sleeping(SLEEP), Load(clients, seconds=0.6), warmup=Warmup("queries", 8))
    qps, span = 1 / run.seconds_per_query, run.facts["active_seconds"]
    assert run.times.min() >= SLEEP
    assert qps <= clients * (1 / SLEEP + 1 / span)
    # Little's law: as many are under way as there are clients, less what they take for themselves.
    under_way = qps * run.times.mean()
    assert under_way == pytest.approx(clients * run.facts["clients_waiting_share"], rel=0.2)
    assert (run.neighbors[:, 0] == QUERIES[:, 0]).all()


def test_clients_that_wait_for_one_slot():
    """All together get 1 / s queries a second; each takes N s."""
    clients = 8
    (run,) = measured(OneSlot(SLEEP), Load(clients, seconds=2))
    # What waits in the end counts by the share of its time that is over, at most a query a client.
    qps = 1 / run.seconds_per_query
    assert qps <= 1 / SLEEP + clients / run.facts["active_seconds"]
    assert qps * run.times.mean() == pytest.approx(clients * run.facts["clients_waiting_share"], rel=0.2)
    assert run.times.min() >= SLEEP


# Open loop


def test_a_rate_above_what_can_be_served():
    """At 200 a second where 50 are served, the i-th answer comes i s after the start, the last ones never."""
    clients = 4
    load = Load(clients, seconds=0.7, rate=200)
    (run,) = measured(OneSlot(SLEEP), load)
    due, _ = load.arrivals(len(QUERIES), 200, run=0)
    expected = backlog_latencies(due, SLEEP, clients, LEAST_PATIENCE)
    sent = clients + (due[-1] - due[0] + LEAST_PATIENCE) / SLEEP
    assert len(run.times) == run.facts["queries_due"] == len(due)
    assert len(due) - run.facts["queries_unanswered"] < sent + 3
    assert 1 / run.seconds_per_query < 1.05 / SLEEP
    for of in (10, 25, 50, 75, 95):
        assert percentile(run, of) > np.percentile(expected, of) - 0.05


def test_no_query_is_answered_before_one_server_could(monkeypatch: pytest.MonkeyPatch):
    """Latencies are those that are computed for the same arrivals, and what the machine adds."""
    service, clients, count = 0.004, 4, 20_000  # more queries than a run sends
    rate = 0.7 / service
    monkeypatch.setattr(LoadedPoint, "_closed_loop_rate", lambda *_: 250.0)  # on a busy machine it is less
    drawn = -np.log1p(-(np.arange(count) + 0.5) / count)  # quantiles of an exponential distribution
    services = drawn * service / drawn.mean()
    queries = np.column_stack([np.arange(count), services]).astype(np.float32)
    load = Load(clients, seconds=1.0, rate=rate)
    plugin = Plugin(OneSlot(service))
    subject = Subject(plugin, queries, 1, count, all_repeats=UndisturbedRuns(0))
    (run,) = LoadedPoint(subject, load).measure(Warmup("queries", clients), [3], completes=False)
    lead_in = run.facts["lead_in_seconds"]
    assert lead_in > 0
    due, numbers = load.arrivals(count, rate, 3, lead_in)
    computed = (one_server(due, services[numbers]) - due)[due >= lead_in]
    assert abs(len(run.times) - len(computed)) <= 1
    # Queries that come at nearly the same time may change places, but no work is done twice as fast.
    assert run.times.mean() > 0.9 * computed.mean()


# A stall


def test_a_closed_loop_omits_a_stall():
    """It stops asking while the server stands: one query a client sees it, of however many."""
    clients, stall = 8, 1.2
    (run,) = measured(Stalling(SLEEP, 0.5, stall), Load(clients, seconds=2.4))
    assert np.count_nonzero(run.times > stall / 2) == clients
    assert run.times.max() > stall - SLEEP / 2
    edges, counts = histogram([run.times])  # where nothing is omitted of what was sent
    assert counts[edges[:-1] > stall / 2].sum() == clients


def test_an_open_loop_shows_a_stall():
    """What was due while the server stood still has waited, whether or not a client was free to ask it."""
    clients, stall, seconds, rate = 16, 0.6, 2.4, 100
    load = Load(clients, seconds=seconds, rate=rate)
    (run,) = measured(Stalling(SLEEP, 0.8, stall), load)
    seen = StallSeen(SLEEP, stall, seconds, utilisation=rate * SLEEP / clients)
    for over in (0.1, 0.2, 0.4):
        assert np.mean(run.times > over) > seen.open_share_over(over) / 2
    assert percentile(run, 99) > 0.7 * stall


# The highest rate within an objective


def rate_found(algo: BaseANN, objective: str, load: Load) -> float:
    load = Load(load.clients, seconds=load.seconds, objective=Objective.parse(objective))
    (run,) = measured(algo, load, warmup=Warmup("queries", 1))
    assert load.objective is not None
    assert load.objective.is_kept(run.times)
    return float(run.facts["rate"])


@pytest.mark.parametrize("objective", ["p50:12ms", "p95:50ms", "p99:40ms"])
def test_the_rate_found_is_the_one_that_arithmetic_gives(objective: str):
    """One slot of 10 ms, its times computed: only the search and the randomness of arrivals are left.

    It ends when what it has kept and what has failed are within 5%, and may end one step lower when a further
    run at that rate fails.
    """
    parsed = Objective.parse(objective)
    limit = one_slot_rate(PERCENTILES[parsed.percentile], parsed.seconds, 0.01)
    found = rate_found(Computed(0.01), objective, Load(1, seconds=2000))
    noise = 1.03
    assert limit / 1.05**2 / noise < found < limit * noise


def test_no_rate_is_found_where_there_is_none():
    with pytest.raises(UserError, match="p50:9ms is not kept at any rate"):
        rate_found(Computed(0.01), "p50:9ms", Load(1, seconds=100))


# Intervals


class KnownRecall(BaseANN):
    """Answers with true neighbours, the rows 0 to 9, where it is configured to, and with others, 10 to 19."""

    def __init__(self, hits: np.ndarray) -> None:
        self.answers = np.arange(10) + np.where(hits, 0, 10)  # (queries, 10)

    def query(self, q: np.ndarray, n: int) -> np.ndarray:
        return self.answers[int(q[0])]


def test_the_recall_reported_is_that_of_the_answers():
    queries = np.arange(500, dtype=np.float32)[:, np.newaxis]
    train = np.concatenate([np.arange(10), np.full(10, 10_000)]).astype(np.float32)[:, np.newaxis]
    hits = np.random.default_rng(1).random((500, 10)) < 0.95
    algo = KnownRecall(hits)
    neighbors = LoadedPoint(Subject(Plugin(algo), queries, 10, len(train)), Load(3)).answers()
    found = candidate_distances("euclidean", queries, train, neighbors)
    truth = np.sort(np.abs(queries - train[:10, 0]), axis=1)
    recalls = recall_of_each(found, rounded_up(truth[:, -1]), 10)
    assert recalls == pytest.approx(hits.mean(axis=1))
