"""Delta L: one member by hand, and one that never learns."""

from __future__ import annotations

import math

import numpy as np
import pytest
from corpus_losses import ENTROPIES, LOSSES, STEPS

from rb_interp.statistics.corpus_loss import corpus_loss, delta_loss, early_index


def test_one_member_by_hand() -> None:
    """Per entropy each ratio L_s / L_p is multiplied by 4 / 5: Delta L = -.2, .6, 1 and -.2, .2, .2."""
    reading = corpus_loss(LOSSES, STEPS, ENTROPIES)
    assert dict(reading.values) == pytest.approx(
        {
            "delta_loss": 2.5 / 3, "delta_loss_test": 1 / 3,
            "delta_loss_per_entropy": 1.4 / 3, "delta_loss_per_entropy_test": 0.2 / 3,
            "delta_final": 1.5, "early_step": 50,
            "loss_prontoqa_train": 2, "loss_stories_train": 5, "loss_prontoqa_test": 4, "loss_stories_test": 6,
        }
    )  # fmt: skip
    assert dict(reading.untrained) == pytest.approx(
        {
            "delta_loss": 0, "delta_loss_test": 0,
            "delta_loss_per_entropy": -0.2, "delta_loss_per_entropy_test": -0.2,
            "delta_final": 0, "early_step": math.nan,
            **{f"loss_{name}": 8.0 for name in LOSSES},
        },
        nan_ok=True,
    )  # fmt: skip
    np.testing.assert_allclose(reading.arrays["delta_loss"], [0, 1, 1.5])
    assert reading.n == 3


def test_frequencies_alone_read_zero_per_entropy_and_not_without() -> None:
    """A model that knows each corpus's token frequencies and no more has its entropy as loss."""
    still = {name: np.full(3, 4.0 if "prontoqa" in name else 5.0) for name in LOSSES}
    values = corpus_loss(still, STEPS, ENTROPIES).values
    assert (values["delta_loss"], values["delta_loss_per_entropy"]) == pytest.approx((0.25, 0))


def test_early_is_the_first_crossing_of_the_pooled_loss_or_the_last_evaluation() -> None:
    prontoqa, stories = np.array([10.0, 6.5, 6.0, 9.0]), np.array([10.0, 10.0, 10.0, 10.0])
    assert early_index(stories, prontoqa) == 2  # (10 + 6) / 2 is 80 % of 10; PrOntoQA alone was there before
    assert early_index(stories, stories) == 3
    assert early_index(stories, np.array([10.0, math.nan, math.nan, math.nan])) == 3


def test_delta_loss_of_nothing_is_undefined() -> None:
    assert np.isnan(delta_loss(np.array([1.0]), np.array([0.0]))).all()
