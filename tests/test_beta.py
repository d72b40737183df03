"""Quantiles of the beta distribution, where they are known otherwise."""

import pytest

from ann_benchmarks.statistics.distributions import beta_quantile, incomplete_beta


@pytest.mark.parametrize("share", [0.025, 0.5, 0.975])
def test_quantiles_that_have_a_formula(share: float):
    assert beta_quantile(share, 1, 1) == pytest.approx(share)
    assert beta_quantile(share, 3, 1) == pytest.approx(share ** (1 / 3))
    assert beta_quantile(share, 1, 50) == pytest.approx(1 - (1 - share) ** (1 / 50))


@pytest.mark.parametrize(("a", "b"), [(0.3, 40), (5, 5), (400, 40_000), (600, 60_000), (1e6, 1e6)])
@pytest.mark.parametrize("share", [0.025, 0.975])
def test_a_quantile_is_exceeded_as_often_as_it_says(share: float, a: float, b: float):
    assert incomplete_beta(beta_quantile(share, a, b), a, b) == pytest.approx(share, abs=0.005)
