"""Intervals cover what they claim to cover, and disagreement is seen where there is some."""

import math

import numpy as np
import pytest

from ann_benchmarks.statistics.distributions import beta_quantile, incomplete_beta
from ann_benchmarks.statistics.intervals import (
    independent_count,
    mean_interval,
    runs_disagree,
    share_interval,
)

REPETITIONS = 2000


@pytest.mark.parametrize("recall", [0.3, 0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("together", [False, True], ids=["answers alone", "whole queries"])
def test_the_interval_of_recall_covers_it(recall: float, together: bool):
    """Where each of 10 answers is right by itself, and where a query's are all right or all wrong."""
    rng = np.random.default_rng(1)
    hits = rng.random((REPETITIONS, 1000, 1 if together else 10)) < recall
    covered = 0
    for shares in hits.mean(axis=2):
        low, high = share_interval(shares)
        covered += low <= recall <= high
    assert 0.92 < covered / REPETITIONS <= 0.999


def test_an_interval_narrows_with_queries_and_is_never_nothing():
    rng = np.random.default_rng(2)
    few, many = (np.diff(share_interval(rng.random(n)))[0] for n in (100, 10_000))
    assert many == pytest.approx(few / 10, rel=0.2)
    low, high = share_interval(np.ones(1000))
    assert (high, low) == (1.0, pytest.approx(0.9962, abs=1e-4))
    assert all(map(math.isnan, share_interval(np.array([]))))


@pytest.mark.parametrize("runs", [2, 5, 30])
def test_the_interval_of_a_mean_covers_it(runs: int):
    rng = np.random.default_rng(3)
    covered = 0
    for values in rng.normal(500, 20, size=(REPETITIONS, runs)):
        low, high = mean_interval(values.tolist())
        covered += low <= 500 <= high
    assert covered / REPETITIONS == pytest.approx(0.95, abs=0.015)


def test_runs_that_resemble_the_next_count_for_fewer():
    alike, apart = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7], [1.0, 1.7, 1.1, 1.6, 1.2, 1.5, 1.3, 1.4]
    assert independent_count(apart) == 8 and 2 <= independent_count(alike) < 3
    wide, narrow = (mean_interval(values) for values in (alike, apart))
    assert wide.low < narrow.low and mean_interval(alike, are_independent=True) == pytest.approx(narrow)
    assert independent_count(alike[:7]) == 7  # too few to tell


def test_one_run_tells_no_interval():
    assert all(map(math.isnan, mean_interval([3.0])))


def latencies(rng: np.random.Generator, factor: float) -> np.ndarray:
    """Skewed, as latencies are, in stretches that are a little slower or faster."""
    stretches = np.repeat(rng.normal(1, 0.02, 50), 20)
    return factor * 1e-3 * stretches * rng.lognormal(0, 0.3, 1000)


def test_runs_that_differ_by_noise_alone_agree():
    rng = np.random.default_rng(4)
    found = sum(runs_disagree([latencies(rng, 1) for _ in range(5)]) for _ in range(300))
    assert found <= 3


def test_a_run_that_was_disturbed_is_seen():
    rng = np.random.default_rng(5)
    runs = [latencies(rng, factor) for factor in (1, 1, 1.2, 1, 1)]
    assert runs_disagree(runs)
    assert not runs_disagree(runs[:1])
    assert not runs_disagree([run[:30] for run in runs])  # too few


def test_a_difference_that_is_sure_but_small_is_not_worth_telling():
    rng = np.random.default_rng(6)
    runs = [1e-3 * factor * rng.normal(1, 0.001, 1000) for factor in (1, 1.03)]
    assert not runs_disagree(runs)


@pytest.mark.parametrize("share", [0.025, 0.5, 0.975])
def test_quantiles_that_have_a_formula(share: float):
    assert beta_quantile(share, 1, 1) == pytest.approx(share)
    assert beta_quantile(share, 3, 1) == pytest.approx(share ** (1 / 3))
    assert beta_quantile(share, 1, 50) == pytest.approx(1 - (1 - share) ** (1 / 50))


@pytest.mark.parametrize(("a", "b"), [(0.3, 40), (5, 5), (400, 40_000), (600, 60_000), (1e6, 1e6)])
@pytest.mark.parametrize("share", [0.025, 0.975])
def test_a_quantile_is_exceeded_as_often_as_it_says(share: float, a: float, b: float):
    assert incomplete_beta(beta_quantile(share, a, b), a, b) == pytest.approx(share, abs=0.005)
