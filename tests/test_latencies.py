"""What is stored of latencies, and how sure their percentiles are."""

import re

import numpy as np
import pytest

from ann_benchmarks.load.spans import histogram
from ann_benchmarks.results.remarks import remarks
from ann_benchmarks.statistics.intervals import FEWEST_RUNS
from ann_benchmarks.statistics.percentiles import (
    PERCENTILES,
    is_shown,
    known_percentile,
    least_queries,
    least_size,
    stored_percentiles,
)

from .known_services import one_server

pytestmark = pytest.mark.thorough


def lognormal(size: int, seed: int = 0, spread: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(np.log(0.002), spread, size)


def bounds(facts: dict, name: str) -> tuple[float, float, float]:
    return facts[f"latency_{name}_low"], facts[f"latency_{name}"], facts[f"latency_{name}_high"]


def test_percentiles_are_those_of_all_queries_of_all_runs():
    facts = stored_percentiles([np.arange(1, 501) / 1000, np.arange(501, 1002) / 1000])
    assert facts["latency_p50"] == pytest.approx(0.501)
    assert facts["latency_p95"] == pytest.approx(0.951)
    assert facts["latency_p99"] == pytest.approx(0.991)
    assert facts["latency_p999"] == pytest.approx(1.0)
    assert facts["latency_queries"] == 1001
    assert facts["run_p50"] == pytest.approx([0.2505, 0.751])
    assert facts["latency_worth"] <= 1001
    assert len(facts) == 15


@pytest.mark.parametrize("queries", [1, 20, 1000])
@pytest.mark.parametrize("runs", [2, 5, 40])
def test_an_interval_contains_its_percentile(runs: int, queries: int):
    rng = np.random.default_rng(1)
    for slow in (1, 1.5, 100):
        of_runs = [lognormal(queries, seed) * slow ** (seed == 0) for seed in range(runs)]
        of_runs[-1] = of_runs[-1][: max(queries // 2, 1)]  # a slow run of so many seconds has fewer queries
        facts = stored_percentiles([rng.permutation(run) for run in of_runs])
        every = np.concatenate(of_runs)
        for name in PERCENTILES:
            low, value, high = bounds(facts, name)
            if facts["latency_worth"] < least_size(name) or runs < FEWEST_RUNS:
                assert np.isnan(low) and np.isnan(high)
            elif name != "p999" or not np.isnan(low):
                assert every.min() <= low <= value <= high <= every.max()
        assert runs < FEWEST_RUNS or slow > 1.5 or not np.isnan(bounds(facts, "p50")[0]) or len(every) < 100


def test_the_interval_of_a_stalled_run_of_five_reaches_from_the_others_into_the_stall():
    """For 400 ms all queries of one run wait, the later they come the less."""
    runs = [lognormal(1000, seed, spread=0.3) for seed in range(5)]
    runs[2][300:400] += np.linspace(0.4, 0, 100)
    low, p99, high = bounds(stored_percentiles(runs), "p99")
    assert p99 > 0.1
    assert low < 0.01  # without the stall it is
    assert high > 0.38  # and with one in each run
    calm = bounds(stored_percentiles(runs[:2] + runs[3:]), "p99")
    assert calm[2] < 0.01


def held(draw, truth: dict[str, float], repetitions: int = 200) -> dict[str, float]:
    """Return how often intervals hold the truth."""
    found = dict.fromkeys(truth, 0)
    for _ in range(repetitions):
        facts = stored_percentiles(draw())
        for name, true in truth.items():
            low, _, high = bounds(facts, name)
            found[name] += low <= true <= high
    return {name: number / repetitions for name, number in found.items()}


@pytest.mark.parametrize("noise", [0, 0.09], ids=["alike", "9% apart"])
def test_intervals_hold_the_percentile_of_all_such_runs(noise: float):
    rng = np.random.default_rng(3)
    spread = 0.5
    quantiles = {"p50": 0.0, "p95": 1.644854, "p99": 2.326348}
    truth = {name: np.exp(np.hypot(spread, noise) * z) for name, z in quantiles.items()}
    shares = held(lambda: [rng.lognormal(noise * rng.normal(), spread, 1000) for _ in range(5)], truth)
    assert min(shares.values()) > 0.92


@pytest.mark.parametrize("runs", [2, 3])
def test_few_runs_that_are_alike_by_chance_have_no_interval_of_what_is_rare(runs: int):
    """Of two runs 30% apart, 13% had an interval of p99.9, and one of five of those missed."""
    rng = np.random.default_rng(5)
    points = [
        stored_percentiles([rng.lognormal(0.3 * rng.normal(), 0.5, 10_000 // runs) for _ in range(runs)])
        for _ in range(100)
    ]
    given = [facts for facts in points if not np.isnan(facts["latency_p999_low"])]
    assert len(given) <= (0 if runs < FEWEST_RUNS else 2)
    calm = stored_percentiles([rng.lognormal(0, 0.5, 10_000) for _ in range(5)])
    assert not np.isnan(calm["latency_p999_low"])


def in_a_queue(rng: np.random.Generator, utilisation: float, relaxations: float) -> list[np.ndarray]:
    """Latencies of five runs, in services, of one server in its steady state (M/M/1)."""
    relaxation = 1 / (1 - utilisation**0.5) ** 2
    lead_in, queries = (round(number * relaxation * utilisation) for number in (3, relaxations / 5))
    runs = []
    for _ in range(5):
        due = np.cumsum(rng.exponential(1 / utilisation, lead_in + queries))
        runs.append((one_server(due, rng.exponential(1, len(due))) - due)[lead_in:])
    return runs


@pytest.mark.parametrize("utilisation", [0.6, 0.9])
def test_intervals_hold_the_percentile_of_a_queue(utilisation: float):
    rng = np.random.default_rng(7)
    truth = {name: -np.log(beyond) / (1 - utilisation) for name, beyond in (("p50", 0.5), ("p99", 0.01))}
    shares = held(lambda: in_a_queue(rng, utilisation, 300), truth, repetitions=100)
    assert min(shares.values()) > 0.9


def test_runs_that_are_short_against_their_queue_have_no_interval():
    """A queue at 95% remembers for 1,560 services; of four times as many, a 99th percentile is not known."""
    rng = np.random.default_rng(8)
    points = [in_a_queue(rng, 0.95, 4) for _ in range(20)]
    assert all(np.isnan(stored_percentiles(runs, 4.0)["latency_p99_low"]) for runs in points)
    every = [stored_percentiles(runs) for runs in points]
    by_data_alone = [facts for facts in every if np.isnan(facts["latency_p99_low"])]
    assert len(by_data_alone) >= 17
    for facts in by_data_alone:
        assert np.isnan(facts["latency_p99_high"]) and facts["latency_worth"] < 50
        facts |= {"run_count": 5, "active_seconds": 10.0}
        (text,) = remarks(facts)
        longer = int(re.search(r" so much that p99 has no interval: give --duration (\d+), or more", text)[1])
        assert longer == np.ceil(1.1 * 10 * 50 / facts["latency_worth"])
        (text,) = remarks(facts | {"run_count": 3})
        assert re.search(r"3 runs are too few to say how long .*: give at least 5 runs or rounds$", text)
        assert not remarks(facts | {"run_count": 2})
        (text,) = remarks(facts | {"run_count": 40})
        assert text.endswith(f": give {np.ceil(1.1 * 40 * 50 / facts['latency_worth']):.0f} runs or rounds")


def test_a_percentile_takes_ten_queries_beyond_it():
    assert {name: least_queries(name) for name in PERCENTILES} == {
        "p50": 20, "p95": 200, "p99": 1000, "p999": 10_000,
    }  # fmt: skip
    facts = stored_percentiles([lognormal(300), lognormal(699)])
    assert known_percentile(facts, "p99") is None
    assert known_percentile(facts, "p95") == facts["latency_p95"]
    assert is_shown("p99", 1000)
    assert known_percentile({}, "p50") is None


def test_the_histogram_holds_every_query_in_its_bucket():
    runs = [lognormal(1000), lognormal(3000, 1)]
    edges, counts = histogram(runs)
    every = np.concatenate(runs)
    assert len(edges) == len(counts) + 1
    assert counts.sum() == 4000
    assert counts[0] and counts[-1]  # it reaches from the shortest to the longest
    assert edges[1:] / edges[:-1] == pytest.approx(1.02, rel=1e-3)
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        assert count == ((every >= low) & (every < high)).sum()


@pytest.mark.parametrize("seconds", [0.0, -1e-9, 1e-8, 20_000.0])
def test_no_query_is_lost_at_its_ends(seconds: float):
    edges, counts = histogram([np.array([seconds, 0.001])])
    assert counts.sum() == 2
    assert np.isfinite(edges).all()
