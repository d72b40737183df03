import math
from pathlib import Path

import numpy as np
import pytest
import scipy  # its parts are imported where they are used

from ann_benchmarks.comparing.matching import compare
from ann_benchmarks.comparing.measurements import MeasuredPoint
from ann_benchmarks.comparing.verdicts import Criteria, warnings
from ann_benchmarks.statistics.differences import (
    ALIKE,
    LOWER,
    NOISY,
    UNJUDGED,
    Difference,
    Estimate,
    adjust,
    difference,
    difference_of_pairs,
    paired_difference,
)
from ann_benchmarks.statistics.distributions import student_quantile, student_two_sided

RNG = np.random.default_rng(1)


def figures(*values, spread=math.nan, runs=1):
    return [Estimate(value, spread, runs) for value in values]


@pytest.mark.parametrize("freedom", [0.7, 1, 1.3, 4, 8.5, 30, 1e5])
def test_students_distribution(freedom):
    for t in (0, 0.001, 0.5, 1, 2, 4.3, 12.7, 60, 1e6):
        assert student_two_sided(t, freedom) == pytest.approx(2 * scipy.stats.t.sf(t, freedom), abs=1e-8)
    for share in (0.55, 0.8, 0.975, 0.9999):
        assert student_quantile(share, freedom) == pytest.approx(scipy.stats.t.ppf(share, freedom), rel=1e-5)


def test_repetitions_are_judged_by_welchs_test():
    a, b = (100.0, 110.0, 96.0, 103.0), (80.0, 99.0, 91.0)
    found = difference(figures(*a), figures(*b))
    expected = scipy.stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-9)
    assert found.interval(0.05) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-6)
    assert (found.by, found.is_sure) == ("repetitions", True)


def test_pairs_are_judged_by_their_ratios():
    a, b = (100.0, 50.0, 200.0), (90.0, 46.0, 177.0)
    expected = scipy.stats.ttest_rel(np.log(b), np.log(a))
    found = paired_difference(figures(*a), figures(*b))
    assert found.p == pytest.approx(expected.pvalue, abs=1e-9) and found.p < 0.02
    assert difference(figures(*a), figures(*b)).p > 0.5
    assert not paired_difference(figures(1.0), figures(2.0)).is_judged


def test_one_measurement_is_judged_by_the_repetitions_of_the_other_side():
    before = np.array([100.0, 104.0, 97.0, 101.0, 99.0])
    found = difference(figures(*before), figures(90.0))
    error = np.log(before).std(ddof=1) * math.sqrt(1 + 1 / 5)  # of a prediction
    expected = 2 * scipy.stats.t.sf(abs(math.log(90) - np.log(before).mean()) / error, 4)
    assert found.p == pytest.approx(expected, abs=1e-9)


def test_single_measurements_are_never_sure_and_need_runs():
    found = difference(figures(100.0, spread=0.0001, runs=5), figures(50.0, spread=0.0001, runs=5))
    assert found.verdict(0.05, 0.05) and found.p < 0.05 and not found.is_sure
    unknown = difference(figures(100.0), figures(70.0))
    assert adjust([unknown])[0].verdict(0.05, 0.05) == UNJUDGED
    assert all(map(math.isnan, (unknown.p, unknown.visible(0.05), *unknown.interval(0.05))))


def test_the_best_of_runs_is_compared_with_the_best_of_others():
    theirs, ours = {"best_search_time": 0.008, "run_count": 3}, {"run_seconds": [0.01, 0.009, 0.008]}
    a, b = (MeasuredPoint(Path("drawn/10/a/x.hdf5"), ("x",), 0, theirs | more) for more in ({}, ours))
    found = compare([a], [b])
    assert found.metrics["qps"].mean.ratio == 1
    assert any("the best run of each side is compared" in text for text in warnings(found, Criteria()))
    assert compare([b], [b]).metrics["qps"].mean.a == pytest.approx((100 + 1e3 / 9 + 125) / 3)


def test_runs_that_agree_do_not_make_a_measurement_exact():
    found = difference(figures(100.0, spread=1e-12, runs=5), figures(99.0, spread=1e-12, runs=5))
    assert found.p > 0.05


def test_figures_without_noise_differ_if_they_are_not_equal():
    same, other = (difference(figures(8.0, 8.0), figures(b, b)) for b in (8.0, 9.0))
    assert (same.p, other.p) == (1.0, 0.0)
    assert adjust([same])[0].verdict(0.05, 0.05) == ALIKE


def test_points_are_judged_together_as_holm_says():
    differences = [Difference(1, math.exp(t), (3, 3), 1.0, 1e9, "repetitions") for t in (2.0, 2.6, -3.0, 0.1)]
    p = sorted(2 * scipy.stats.norm.sf(t) for t in (2.0, 2.6, 3.0, 0.1))
    expected = np.maximum.accumulate(np.array(p) * (4, 3, 2, 1))
    found = sorted(d.adjusted for d in adjust(differences))
    assert found == pytest.approx(expected.tolist(), rel=1e-5)


@pytest.mark.parametrize("repetitions", [3, 5, 10])
def test_the_error_rate_is_kept_and_the_visible_difference_is_seen(repetitions):
    noise = 0.04
    of_a, of_b = np.exp(RNG.normal(5, noise, (2, 1000, repetitions)))
    same = [difference(figures(*a), figures(*b)) for a, b in zip(of_a, of_b, strict=True)]
    assert 0.03 < np.mean([d.p <= 0.05 for d in same]) < 0.065

    # `visible` is what would be seen with this noise, were it known to be this.
    seen = Difference(
        1, 1, (repetitions,) * 2, noise * math.sqrt(2 / repetitions), 2 * repetitions - 2, ""
    ).visible(0.05)
    slower = [difference(figures(*a), figures(*b / (1 + seen))) for a, b in zip(of_a, of_b, strict=True)]
    assert 0.65 < np.mean([d.p <= 0.05 for d in slower]) < 0.9


def test_noise_is_not_said_to_be_equality():
    calm = adjust([difference(figures(100, 100.2, 99.9), figures(100.1, 99.8, 100))])[0]
    noisy = adjust([difference(figures(100, 140, 80), figures(90, 150, 99))])[0]
    slow = adjust([difference(figures(100, 100.2, 99.9), figures(90, 90.2, 89.8))])[0]
    assert [d.verdict(0.05, 0.05) for d in (calm, noisy, slow)] == [ALIKE, NOISY, LOWER]


def test_an_interval_of_what_two_rounds_are_worth_has_an_end():
    """Differences that hardly change count for two, and the quantile of one degree of freedom is huge."""
    found = difference_of_pairs([0.0] * 20, [0.3 * (place > 9) for place in range(20)], "rounds")
    low, high = found.interval(1e-6)
    assert 0 <= low < found.ratio < high < math.inf
