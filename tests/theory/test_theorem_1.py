"""Eqs. (12) and (13): moments of the closed form, and how its error grows with d_model."""

from __future__ import annotations

import numpy as np
import pytest

from rb_interp.tasks import AnchorTask
from rb_interp.theory.label_distributions import population
from rb_interp.theory.theorem_1 import (
    exponent,
    gaussian_profile,
    inner_product_error,
    stepped_embeddings,
)

PAPER = AnchorTask.preset("paper")
VALUES = PAPER.tokens("reasoning_anchor")


def test_a_profile_has_the_moments_of_the_label_distribution() -> None:
    wide = np.pad(population(PAPER, "reasoning_anchor"), ((0, 0), (0, 400)))
    for w, P in zip(gaussian_profile(PAPER, VALUES, 600, 2.0, centre="label"), wide, strict=True):
        density, labels = w / 2 + 1 / 600, np.arange(600)
        assert density.sum() == pytest.approx(1, abs=1e-3)  # a tail of .0004 lies below 0
        assert density @ labels == pytest.approx(P @ labels, abs=0.05)
        assert density @ labels**2 - (density @ labels) ** 2 == pytest.approx(841.5, rel=0.01)


def test_the_shift_of_the_centre_is_unseen_by_inner_products_but_for_the_edge() -> None:
    task = AnchorTask(keys=(100, 103), reasoning_anchors=(40, 44), masked=(), d_vocab=250)
    values = task.tokens("reasoning_anchor")
    token, label = (
        gaussian_profile(task, values, 250, centre=centre) for centre in ("token", "label")
    )
    np.testing.assert_allclose(token @ token.T, label @ label.T, atol=1e-9)
    assert (token.argmax(1) == values).all()
    edge = gaussian_profile(
        PAPER, np.array([15]), 200
    )  # sd 29, centred at 15: a third lies below 0
    assert (edge.sum() + 1) == pytest.approx(0.70, abs=0.01)


TASK = AnchorTask(
    length=3, unordered=True, balanced_keys=True, masked=(), n_sequences=2000, d_vocab=100
)
ANCHORS = TASK.tokens("reasoning_anchor")
WIDTHS = (100, 200, 400)


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_a_step_from_nothing_is_the_label_distribution(share: float) -> None:
    # an anchor stands last in half of its occurrences: r_s eta / 2 = L / 2 = 1.5, whatever the
    # share of memory rows
    task = AnchorTask(
        length=3,
        unordered=True,
        balanced_keys=True,
        masked=(),
        n_sequences=10_000,
        d_vocab=100,
        memory_share=share,
    )
    found = stepped_embeddings(task, gamma=3.0, seed=0)[ANCHORS].numpy()
    np.testing.assert_allclose(
        found, 1.5 * (population(task, "reasoning_anchor") - 1 / task.d_vocab), atol=2e-5
    )


def test_error_in_that_limit_is_that_of_the_normal_curve() -> None:
    real = 1.5 * (population(TASK, "reasoning_anchor") - 1 / TASK.d_vocab)
    for C_1, factor in ((None, 1.5), (1.0, 1.0)):
        ideal = gaussian_profile(TASK, ANCHORS, 100, factor, centre="label")
        error = np.abs(ideal @ ideal.T - real @ real.T).max()
        found = inner_product_error(TASK, 4.0, 100, C_1=C_1)
        assert found.error == pytest.approx(error, abs=1e-5)
        assert found.size == pytest.approx(np.abs(real @ real.T).mean(), abs=1e-5)


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_growth_stays_within_the_bound(gamma):
    errors = np.array(
        [[inner_product_error(TASK, gamma, d, seed).error for d in WIDTHS] for seed in range(2)]
    )
    assert exponent(WIDTHS, errors).mean() < 1 - gamma
    assert errors[0, 0] != pytest.approx(errors[1, 0], rel=1e-2)
