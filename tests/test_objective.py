"""The highest rate that keeps an objective, searched for on servers whose limit is known."""

import numpy as np
import pytest

from ann_benchmarks.common.errors import UserError
from ann_benchmarks.load.request import Objective
from ann_benchmarks.load.search import CLOSE_ENOUGH, FARTHEST, highest_rate

CLOSED = 1000.0  # queries a second


class Limited:
    """Keeps the objective up to a rate; remembers which ones were tried."""

    def __init__(self, limit: float) -> None:
        self.limit, self.tried = limit, []

    def __call__(self, rate: float) -> bool:
        self.tried.append(rate)
        return rate <= self.limit


@pytest.mark.parametrize("share", [0.0021, 0.01, 0.1, 0.3, 0.499, 0.5, 0.7, 0.9, 0.999, 1.0, 1.2, 1.7])
def test_the_rate_is_found_within_5_percent(share: float):
    server = Limited(share * CLOSED)
    rate, trials = highest_rate(server, CLOSED)
    assert server.limit / 1.0501 <= rate <= server.limit
    assert rate in server.tried
    assert trials == len(server.tried) == len(set(server.tried))


def test_it_takes_few_trials():
    shares = np.random.default_rng(0).uniform(0.2, 1.05, 200)
    assert max(highest_rate(Limited(share * CLOSED), CLOSED)[1] for share in shares) <= 8
    shares = np.logspace(-4, 5, 200)
    assert max(highest_rate(Limited(share * CLOSED), CLOSED)[1] for share in shares) <= 24


@pytest.mark.parametrize("share", [1.04, 1.06, 1.5, 3.0, 10.0, 77.0, 999.0])
def test_it_goes_on_beyond_the_closed_loop_which_may_have_been_disturbed(share: float):
    server = Limited(share * CLOSED)
    rate, _ = highest_rate(server, CLOSED)
    assert server.limit / 1.0501 <= rate <= server.limit
    assert server.tried[:3] == pytest.approx([CLOSED / 2, CLOSED, CLOSED * CLOSE_ENOUGH])
    # A rate that a server cannot nearly keep costs memory for its arrivals, and time.
    assert max(server.tried) <= max(2 * server.limit, CLOSED * CLOSE_ENOUGH * 1.0001)


def test_an_objective_that_is_never_kept_has_no_rate():
    server = Limited(0)
    rate, trials = highest_rate(server, CLOSED)
    assert rate is None
    assert trials == len(server.tried) <= 10
    assert CLOSED / FARTHEST / 2 < min(server.tried) < CLOSED / FARTHEST


def test_where_every_rate_keeps_it_the_search_ends_far_beyond_the_closed_loop():
    """As with a plug-in that computes its latencies; a real one is late when clients are."""
    server = Limited(np.inf)
    rate, trials = highest_rate(server, CLOSED)
    assert rate == max(server.tried)
    assert FARTHEST * CLOSED < rate <= 2 * FARTHEST * CLOSED
    assert trials == len(server.tried) <= 17
    steps = np.diff(np.log(server.tried)) / np.log(CLOSE_ENOUGH)
    assert steps[1:5] == pytest.approx([1, 2, 4, 8])  # small first: hardly ever is it far beyond
    assert np.exp(steps[5:] * np.log(CLOSE_ENOUGH)) == pytest.approx(2)


def test_a_rate_that_was_not_kept_is_never_returned():
    rng = np.random.default_rng(1)
    for _ in range(200):
        told: dict[float, bool] = {}

        def noisy(rate: float, told: dict[float, bool] = told) -> bool:
            told[rate] = bool(rng.random() < 1 / (1 + (rate / 600) ** 8))
            return told[rate]

        rate, trials = highest_rate(noisy, CLOSED)
        assert trials == len(told)
        assert rate is None or told[rate]


@pytest.mark.parametrize(
    ("text", "percentile", "seconds"),
    [("p99:50ms", "p99", 0.05), ("p50:200us", "p50", 2e-4), ("p95:1.5s", "p95", 1.5),
     ("p99.9:2ms", "p999", 2e-3), ("p999:2ms", "p999", 2e-3)],
)  # fmt: skip
def test_an_objective_is_read(text: str, percentile: str, seconds: float):
    objective = Objective.parse(text)
    assert (objective.percentile, objective.seconds) == (percentile, pytest.approx(seconds))
    assert str(objective) == text


@pytest.mark.parametrize(
    "text", ["", "p99", "50ms", "p99:50", "p99:ms", "p99:0ms", "p99:-1ms", "p98:50ms", "p99:1e3ms",
             "p99:50 ms", "p99:50m", "p99:infs"]
)  # fmt: skip
def test_what_is_no_objective_is_an_error(text: str):
    with pytest.raises(UserError, match="is not an objective: give a percentile and a time, such as"):
        Objective.parse(text)


def test_it_is_kept_by_the_percentile_and_not_by_the_mean():
    latencies = np.array([0.001] * 98 + [0.1] * 2)
    assert Objective.parse("p95:1ms").is_kept(latencies)
    assert Objective.parse("p50:1ms").is_kept(latencies)
    assert not Objective.parse("p99:50ms").is_kept(latencies)
    assert Objective.parse("p99:100ms").is_kept(latencies)
