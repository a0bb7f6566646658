"""Intervals against hand-worked values and against their own promise: how often they cover the
truth.

The AUC within strata, and what its interval promises.
"""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from scipy import stats
from scipy.stats import mannwhitneyu, norm

from rb_interp.errors import ArgumentError
from rb_interp.statistics.intervals import (
    difference_of_paired_shares,
    interval_or_nan,
    intervals_or_nan,
    mean_of_shares,
    proportion_interval,
    stratified_auc,
    t_interval,
)


def test_t_interval_of_a_worked_example():
    # mean 3, s^2 = 2.5, t(4, .975) = 2.7764: 3 -/+ 2.7764 * sqrt(2.5 / 5)
    estimate, low, high = t_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert estimate == 3
    assert (low, high) == pytest.approx((3 - 1.96324, 3 + 1.96324), abs=1e-5)


@pytest.mark.parametrize("value", [0.1, 0.9, 1 / 3])
def test_zero_spread_is_exactly_the_value_so_that_thresholds_are_not_missed_by_an_ulp(value):
    assert t_interval([value] * 7) == (value, value, value)


def test_one_value_bounds_nothing_and_no_value_is_nan():
    assert t_interval([2.0]) == (2.0, -np.inf, np.inf)
    for values in ([], [np.nan], [np.inf, np.inf], [1.0, -np.inf]):
        assert np.isnan(t_interval(values)).all()


def test_t_interval_covers_normal_means_at_the_stated_rate():
    rng, trials = np.random.default_rng(0), 1000
    covered = 0
    for row in rng.normal(1.0, 2.0, (trials, 5)):
        _, low, high = t_interval(row)
        covered += low <= 1.0 <= high
    assert stats.binomtest(covered, trials, 0.95).pvalue > 0.001


def test_clopper_pearson_at_the_ends_and_inside():
    # All n succeed: the lower end solves p^n = .025. In general the ends put .025 in each binomial
    # tail.
    assert proportion_interval(20, 20) == pytest.approx((1.0, 0.025 ** (1 / 20), 1.0))
    assert proportion_interval(0, 20) == pytest.approx((0.0, 0.0, 1 - 0.025 ** (1 / 20)))
    estimate, low, high = proportion_interval(7, 10)
    assert estimate == 0.7
    assert stats.binom.sf(6, 10, low) == pytest.approx(0.025)
    assert stats.binom.cdf(7, 10, high) == pytest.approx(0.025)
    assert proportion_interval(0, 0)[1:] == (0.0, 1.0)


def test_clopper_pearson_covers_at_least_at_the_stated_rate_for_every_proportion():
    n = 12
    ends = np.array([proportion_interval(k, n)[1:] for k in range(n + 1)])
    for p in np.linspace(0.01, 0.99, 50):
        inside = (ends[:, 0] <= p) & (p <= ends[:, 1])
        assert stats.binom.pmf(np.arange(n + 1), n, p)[inside].sum() >= 0.95


def test_the_difference_of_paired_shares_covers_as_stated_for_all_shares():
    """Exact coverage by listing every outcome; at the ends by the score test's own formula, and
    turned round."""
    n, z = 10, 1.959963984540054**2
    found = {
        (b, c): difference_of_paired_shares(b, c, n) for b in range(n + 1) for c in range(n + 1 - b)
    }
    covers = []
    for lost, gained in (
        (0.5, 0.1),
        (0.9, 0.02),
        (0.1, 0.1),
        (0.3, 0.0),
        (0.02, 0.01),
        (0.7, 0.2),
        (0.05, 0.4),
    ):
        chance = {
            (b, c): comb(n, b)
            * comb(n - b, c)
            * lost**b
            * gained**c
            * (1 - lost - gained) ** (n - b - c)
            for b, c in found
        }
        inside = [
            chance[at] for at, ends in found.items() if ends.low <= lost - gained <= ends.high
        ]
        covers.append(sum(inside))
    assert min(covers) > 0.94
    assert np.mean(covers) < 0.98
    assert found[0, 0] == pytest.approx((0, -z / (n + z), z / (n + z)))
    for (lost, gained), (estimate, low, high) in found.items():
        assert -1 <= low <= estimate <= high <= 1
        assert high - low > 0.2
        assert found[gained, lost] == pytest.approx((-estimate, -high, -low))
    assert difference_of_paired_shares(0, 0, 0)[1:] == (-1, 1)


def test_intervals_of_many_rows_are_those_of_each():
    rng = np.random.default_rng(0)
    for n in (1, 2, 8, 20):
        values = rng.normal(size=(60, n))
        values[:5, 0], values[5:8], values[8:10] = np.nan, 1.1, np.inf
        expected = np.array([interval_or_nan(row) for row in values])
        np.testing.assert_array_equal(intervals_or_nan(values), expected)


def test_the_mean_of_two_shares_is_covered_at_both_ends_whatever_the_shares():
    rng = np.random.default_rng(0)
    for shares in ((0.95, 0.85), (0.5, 0.5), (1.0, 0.8)):
        drawn = rng.binomial((20, 12), shares, (300, 2)).tolist()
        found = [mean_of_shares([(first, 20), (second, 12)]) for first, second in drawn]
        truth = np.mean(shares)
        assert np.mean([one.low > truth for one in found]) <= 0.025 + 0.018  # 2 standard errors
        assert np.mean([one.high < truth for one in found]) <= 0.025 + 0.01


def test_the_auc_of_one_stratum_is_mann_whitney_s():
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 6, 9), rng.integers(0, 6, 14)
    wanted = mannwhitneyu(other, one).statistic / (9 * 14)
    assert stratified_auc([(one, other)]).value == pytest.approx(wanted)


def test_pairs_across_strata_do_not_count():
    apart = stratified_auc([([1, 2], [2, 1]), ([101, 102], [102, 101])])
    assert (apart.value, apart.n_pairs, apart.n_independent) == (0.5, 8, 4)
    assert stratified_auc([([1], [])])[1:] == (0.0, 1.0, 0, 0.0)
    assert stratified_auc([([1, 2], [3, 4])]).high == 1
    assert stratified_auc([([3, 4], [1, 2])]).low == 0


def test_a_member_without_a_number_is_no_member_that_loses():
    with pytest.raises(
        ArgumentError, match="got NaN among the numbers; leave out members without a number"
    ):
        stratified_auc([([1, float("nan")], [2, 3])])
    assert stratified_auc([([1, -np.inf], [2, np.inf])]).value == 1


@pytest.mark.parametrize("shift", [0.0, 2.5])
def test_the_interval_covers_at_least_as_often_as_it_says(shift):
    """Two strata of different sizes; the AUC of two normals a shift apart is Phi(shift / sqrt
    2)."""
    rng, truth, n = np.random.default_rng(1), norm.cdf(shift / np.sqrt(2)), 200
    sizes, covered = ((3, 5), (6, 2)), 0
    for _ in range(n):
        strata = [(rng.normal(0, 1, a), rng.normal(shift, 1, b)) for a, b in sizes]
        found = stratified_auc(strata)
        covered += found.low <= truth <= found.high
    assert covered / n >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / n)
