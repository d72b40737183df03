"""What is stored of latencies."""

import numpy as np
import pytest

from ann_benchmarks.load.spans import histogram, percentiles
from ann_benchmarks.results.intervals import mean_interval


def lognormal(size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(np.log(0.002), 1.0, size)


def test_percentiles_are_those_of_all_queries_of_all_runs():
    facts = percentiles([np.arange(1, 501) / 1000, np.arange(501, 1002) / 1000])
    assert facts["latency_p50"] == pytest.approx(0.501)
    assert facts["latency_p95"] == pytest.approx(0.951)
    assert facts["latency_p99"] == pytest.approx(0.991)
    assert facts["latency_p999"] == pytest.approx(1.0)


def test_their_intervals_are_those_over_the_runs():
    runs = [lognormal(1000, seed) for seed in range(5)]
    facts = percentiles(runs)
    for name, percentile in (("p50", 50), ("p95", 95), ("p99", 99), ("p999", 99.9)):
        expected = mean_interval([float(np.percentile(run, percentile)) for run in runs])
        assert (facts[f"latency_{name}_low"], facts[f"latency_{name}_high"]) == pytest.approx(expected)
        assert facts[f"latency_{name}_low"] < facts[f"latency_{name}_high"]
    assert len(facts) == 12


def test_of_one_run_it_is_not_known_how_sure_they_are():
    facts = percentiles([lognormal(1000)])
    assert np.isnan(facts["latency_p50_low"])
    assert np.isnan(facts["latency_p50_high"])


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
