"""Eq. (12): moments of P^s, centre, noise."""

from __future__ import annotations

import numpy as np
import pytest

from rb_interp.tasks import AnchorTask
from rb_interp.theory.label_distributions import population
from rb_interp.theory.theorem_1 import gaussian_profile

PAPER = AnchorTask.preset("paper")
VALUES = PAPER.tokens("reasoning_anchor")


def test_a_profile_has_the_moments_of_the_label_distribution() -> None:
    for w, P in zip(gaussian_profile(PAPER, VALUES, 600, 2.0, centre="label"), wide(PAPER), strict=True):
        density, labels = w / 2 + 1 / 600, np.arange(600)
        assert density.sum() == pytest.approx(1, abs=1e-3)  # a tail of .0004 lies below 0
        assert density @ labels == pytest.approx(P @ labels, abs=0.05)
        assert density @ labels**2 - (density @ labels) ** 2 == pytest.approx(841.5, rel=0.01)


def wide(task: AnchorTask) -> np.ndarray:
    return np.pad(population(task, "reasoning_anchor"), ((0, 0), (0, 400)))


def test_the_normal_curve_overshoots_four_uniforms_by_their_kurtosis() -> None:
    # keys as wide as anchors: 4 uniforms of excess kurtosis -1.2 / 4, which lowers the peak by an eighth of that
    task = AnchorTask(q=4, length=5, keys=(60, 69), reasoning_anchors=(11, 20), masked=(), d_vocab=200)
    values = task.tokens("reasoning_anchor")
    P, w = population(task, "reasoning_anchor"), gaussian_profile(task, values, 200, centre="label") + 1 / 200
    np.testing.assert_allclose(1 - P.max(1) / w.max(1), 0.3 / 8, rtol=0.1)


def test_the_shift_of_the_centre_is_unseen_by_inner_products_but_for_the_edge() -> None:
    task = AnchorTask(keys=(100, 103), reasoning_anchors=(40, 44), masked=(), d_vocab=250)
    values = task.tokens("reasoning_anchor")
    token, label = (gaussian_profile(task, values, 250, centre=centre) for centre in ("token", "label"))
    np.testing.assert_allclose(token @ token.T, label @ label.T, atol=1e-9)
    assert (token.argmax(1) == values).all()
    edge = gaussian_profile(PAPER, np.array([15]), 200)  # sd 29, centred at 15: a third lies below 0
    assert (edge.sum() + 1) == pytest.approx(0.70, abs=0.01)


def test_noise_has_the_size_of_the_initial_embedding() -> None:
    rng = np.random.default_rng(0)
    noise = gaussian_profile(PAPER, VALUES, 200, gamma=0.8, rng=rng) - gaussian_profile(PAPER, VALUES, 200)
    assert noise.std() == pytest.approx(200**-0.8, rel=0.1)  # 2,000 entries: 1.6 percent
    assert abs(np.corrcoef(noise[0], noise[1])[0, 1]) < 0.3
