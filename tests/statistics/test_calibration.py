"""ROC, its area and the best threshold, against hand-worked values and against counting every pair."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import trapezoid

from rb_interp.statistics.calibration import area_under_curve, best_threshold, roc

POSITIVE, NEGATIVE = np.array([4.0, 3.0, 3.0, 1.0]), np.array([3.0, 2.0, 1.0, 0.0])


def test_a_curve_worked_by_hand():
    # Thresholds 4, 3, 2, 1, 0; at 3: three of four positives (4, 3, 3) and one of four negatives (3).
    curve = roc(POSITIVE, NEGATIVE)
    assert curve.threshold.tolist() == [np.inf, 4, 3, 2, 1, 0]
    assert curve.true_positive.tolist() == [0, 0.25, 0.75, 0.75, 1, 1]
    assert curve.false_positive.tolist() == [0, 0, 0.25, 0.5, 0.75, 1]


def test_an_area_worked_by_hand():
    # Pairs won: 4 beats all (4); 3 beats 2, 1, 0 and ties 3 (3.5), twice; 1 beats 0 and ties 1 (1.5): 12.5 of 16.
    assert area_under_curve(POSITIVE, NEGATIVE) == 12.5 / 16


@pytest.mark.parametrize("seed", range(5))
def test_the_area_counts_pairs_and_is_the_integral_of_the_curve(seed):
    rng = np.random.default_rng(seed)
    positive, negative = rng.integers(0, 8, 37).astype(float) + 1, rng.integers(0, 8, 23).astype(float)
    positive[:3], negative[:5] = -np.inf, -np.inf
    gaps = positive[:, None] > negative[None, :]
    ties = positive[:, None] == negative[None, :]
    area = area_under_curve(positive, negative)
    assert area == pytest.approx((gaps + ties / 2).mean(), abs=1e-12)
    curve = roc(positive, negative)
    assert area == pytest.approx(trapezoid(curve.true_positive, curve.false_positive), abs=1e-12)
    for t, tpr, fpr in zip(curve.threshold, curve.true_positive, curve.false_positive, strict=True):
        assert (tpr, fpr) == pytest.approx(((positive >= t).mean(), (negative >= t).mean()))


def test_the_area_depends_on_the_order_alone_and_changing_sides_reverses_it():
    rng = np.random.default_rng(0)
    positive, negative = rng.normal(0.5, 1, 50), rng.normal(0, 1, 60)
    area = area_under_curve(positive, negative)
    assert area_under_curve(np.exp(positive), np.exp(negative)) == area
    assert area_under_curve(-positive, -negative) == pytest.approx(1 - area)


def test_the_best_threshold_has_the_largest_difference_of_rates():
    # J at 4, 3, 2, 1, 0: .25, .5, .25, .25, 0. Between 3 and the next score below, 2.
    assert best_threshold(POSITIVE, NEGATIVE) == 2.5
    assert best_threshold(np.array([0.4, 0.5]), np.array([-0.2, -0.6])) == pytest.approx(0.1)
    assert best_threshold(np.array([0.4, 0.5]), np.array([-np.inf])) == 0.4
    assert best_threshold(np.array([np.inf]), np.array([0.3])) == 0.3
    rng = np.random.default_rng(1)
    positive, negative = rng.normal(1, 1, 40), rng.normal(0, 1, 40)
    chosen = best_threshold(positive, negative)
    best = max((positive >= t).mean() - (negative >= t).mean() for t in np.concatenate([positive, negative]))
    assert (positive >= chosen).mean() - (negative >= chosen).mean() == pytest.approx(best)


def test_an_empty_group_has_no_rate():
    some, none = np.array([1.0, 2.0]), np.array([])
    assert np.isnan(area_under_curve(some, none))
    assert np.isnan(best_threshold(none, some))
    curve = roc(some, none)
    assert curve.true_positive.tolist() == [0, 0.5, 1]
    assert np.isnan(curve.false_positive[1:]).all()
