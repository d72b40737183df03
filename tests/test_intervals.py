"""Intervals cover what they claim to cover, and disagreement is seen where there is some."""

import math
from dataclasses import replace
from math import comb

import h5py
import numpy as np
import pytest

from ann_benchmarks.results.file import iter_result_paths
from ann_benchmarks.results.measurement import COUNTS, recall_counts
from ann_benchmarks.results.runs import interval, load_runs
from ann_benchmarks.statistics.distributions import beta_quantile, incomplete_beta
from ann_benchmarks.statistics.intervals import (
    fifth_interval,
    fifth_percentile,
    independent_count,
    mean_interval,
    runs_disagree,
    share_interval,
)
from ann_benchmarks.views.contenders import evenly_missed, hidden_tail
from ann_benchmarks.website.plots import counts_of, tails_data

from .plotting_data import make_result, make_truth
from .report_data import make_run

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


# Recall by query: its percentile and counts by hand, in results, reports and what they say.


def binomial(count, chance, most):
    """Return the chance of at most this many, summed by hand."""
    return sum(comb(count, i) * chance**i * (1 - chance) ** (count - i) for i in range(most + 1))


def test_the_fifth_percentile_is_a_value_that_occurred():
    assert math.isnan(fifth_percentile(np.ones(19))) and math.isnan(fifth_interval(np.ones(19)).low)
    generator = np.random.default_rng(1)
    for queries in (20, 21, 39, 40, 41, 1000):
        recalls = generator.integers(0, 11, queries) / 10
        found = fifth_percentile(recalls)
        assert found in recalls
        assert np.mean(recalls <= found) >= 0.05 and np.mean(recalls >= found) >= 0.95


@pytest.mark.parametrize("queries", [20, 72, 100, 1000])
def test_the_interval_has_the_ranks_of_the_binomial(queries):
    ranks = np.arange(1.0, queries + 1) / queries
    at_most = np.cumsum([comb(queries, i) * 0.05**i * 0.95 ** (queries - i) for i in range(queries)])
    low, high = np.count_nonzero(at_most <= 0.025), np.argmax(1 - at_most <= 0.025) + 1
    assert fifth_interval(ranks[::-1]) == pytest.approx((low / queries, high / queries))


def test_the_interval_covers_the_percentile_of_all_queries():
    generator = np.random.default_rng(2)
    draws = generator.binomial(10, generator.beta(9, 1, (400, 200))) / 10
    true = np.quantile(generator.binomial(10, generator.beta(9, 1, 10**6)) / 10, 0.05, method="lower")
    bounds = [fifth_interval(one) for one in draws]
    assert np.mean([low <= true <= high for low, high in bounds]) >= 0.95


def test_queries_are_counted_by_recall():
    assert recall_counts(np.arange(8) / 7, 7) == [1] * 8  # of which none is a round number
    assert recall_counts(np.array([0, 0.29, 1]), 100) == [1, *[0] * 28, 1, *[0] * 70, 1]
    assert sum(recall_counts(np.arange(1001) / 1000, 1000)) == 1001
    assert recall_counts(np.array([1 / 3, 2 / 3, 1.0]), 10)[3:7] == [1, 0, 0, 1]  # fewer were due


def test_misses_that_are_spread_evenly():
    assert evenly_missed(10, 0.95) == next(m for m in range(11) if binomial(10, 0.95, m) >= 0.05) == 8
    assert evenly_missed(100, 0.95) == next(m for m in range(101) if binomial(100, 0.95, m) >= 0.05)
    assert (evenly_missed(10, 1.0), evenly_missed(10, 0.0)) == (10, 0)


def tail_of(counts, family="hnsw", **more):
    """Return a result with so many queries by recall, from none of ten on."""
    recalls = np.repeat(np.arange(11) / 10, counts)
    low, high = fifth_interval(recalls)
    run = make_run(family, recall=float(recalls.mean()), recall_p5_low=low, recall_p5_high=high, **more)
    known = {"recall-p5": fifth_percentile(recalls), "recall-worst": float(recalls.min())}
    return replace(run, metrics=run.metrics | known, attrs=run.attrs | {COUNTS: list(counts)})


EVEN = [0, 0, 0, 0, 0, 0, 1, 10, 75, 315, 599]  # of misses as by a binomial
TAILED = [20, 0, 0, 10, 10, 20, 20, 0, 0, 0, 920]


def test_a_report_says_where_the_mean_hides_a_tail():
    assert hidden_tail(tail_of(EVEN, "even")) == ""
    assert hidden_tail(tail_of(TAILED, "tailed")) == "5% of its queries find at most 5 of 10 (4 to 6)"
    filtered = tail_of(TAILED, "tailed", filter="uniform:0.5")
    assert hidden_tail(filtered) == ""  # its queries have fewer neighbours, perhaps


def test_counts_of_others_are_ignored():
    for wrong in ("x", [1], [1, -1], [0, 0], [1, True], [1, 0.5], None):
        assert counts_of(make_run(**{COUNTS: wrong})) == []


@pytest.fixture
def results(tmp_path, monkeypatch):
    """1,000 queries; one result misses in all of them alike, the other everything in the last 50."""
    monkeypatch.chdir(tmp_path)
    truth = make_truth("d")
    make_result("d", "tailed", "x", truth, 0.95, 1e-3)
    path = make_result("d", "even", "x", truth, 1.0, 1e-3)
    with h5py.File(path, "r+") as file:
        found = file["distances"][:]
        found[:500, 9] = np.inf
        file["distances"][:] = found
        file.attrs[COUNTS] = "of others"
        file.attrs["recall_p5_low"] = 7.0
    return tmp_path


def test_results_have_the_tail_of_their_own_answers(results):
    for _ in range(2):  # computed, and from the cache
        runs = {run.algorithm: run for run in load_runs(iter_result_paths("d"))}
        even, tailed = runs["even"], runs["tailed"]
        assert even.metrics["recall"] == tailed.metrics["recall"] == 0.95
        assert (even.metrics["recall-p5"], even.metrics["recall-worst"]) == (0.9, 0.9)
        assert (tailed.metrics["recall-p5"], tailed.metrics["recall-worst"]) == (0, 0)
        assert interval(even, "recall-p5") == (0.9, 0.9) and interval(tailed, "recall-p5") == (0, 1)
        assert interval(even, "recall-worst") is None
        assert counts_of(even) == [*[0] * 9, 500, 500] and counts_of(tailed) == [50, *[0] * 9, 950]
        assert tails_data([even, tailed]) == [[10, 500, 500], [10, 950, *[0] * 9, 50]]
