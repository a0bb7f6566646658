"""The AUC within strata, and what its interval promises."""

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm

from rb_interp.errors import ArgumentError
from rb_interp.statistics.groups import stratified_auc


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
    with pytest.raises(ArgumentError, match="got NaN among the numbers; leave out members without a number"):
        stratified_auc([([1, float("nan")], [2, 3])])
    assert stratified_auc([([1, -np.inf], [2, np.inf])]).value == 1


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.5])
def test_the_interval_covers_at_least_as_often_as_it_says(shift):
    """Two strata of different sizes; the AUC of two normals a shift apart is Phi(shift / sqrt 2)."""
    rng, truth, n = np.random.default_rng(1), norm.cdf(shift / np.sqrt(2)), 600
    sizes, covered = ((3, 5), (6, 2)), 0
    for _ in range(n):
        strata = [(rng.normal(0, 1, a), rng.normal(shift, 1, b)) for a, b in sizes]
        found = stratified_auc(strata)
        covered += found.low <= truth <= found.high
    assert covered / n >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / n)
