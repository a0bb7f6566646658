"""Delta L: one member by hand, and the table."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from rb_interp.statistics.corpus_loss import corpus_loss, early_index
from rb_interp.studies.language.measure import corpus_loss_table

CORPUS_LOSSES = {
    "prontoqa_train": np.array([8.0, 4.0, 2.0]),
    "stories_train": np.array([8.0, 8.0, 5.0]),  # Delta L = 0, 1, 1.5
    "prontoqa_test": np.array([8.0, 5.0, 4.0]),
    "stories_test": np.array([8.0, 7.5, 6.0]),  # 0, .5, .5
}
CORPUS_STEPS, ENTROPIES = np.array([0, 50, 100]), (4.0, 5.0)


def test_delta_loss_of_one_member_by_hand() -> None:
    """Per entropy each ratio L_s / L_p is multiplied by 4 / 5: Delta L = -.2, .6, 1 and -.2, .2,
    .2."""
    reading = corpus_loss(CORPUS_LOSSES, CORPUS_STEPS, ENTROPIES)
    assert dict(reading.values) == pytest.approx(
        {
            "delta_loss": 2.5 / 3,
            "delta_loss_test": 1 / 3,
            "delta_loss_per_entropy": 1.4 / 3,
            "delta_loss_per_entropy_test": 0.2 / 3,
            "delta_final": 1.5,
            "early_step": 50,
            "loss_prontoqa_train": 2,
            "loss_stories_train": 5,
            "loss_prontoqa_test": 4,
            "loss_stories_test": 6,
        }
    )
    assert dict(reading.untrained) == pytest.approx(
        {
            "delta_loss": 0,
            "delta_loss_test": 0,
            "delta_loss_per_entropy": -0.2,
            "delta_loss_per_entropy_test": -0.2,
            "delta_final": 0,
            "early_step": math.nan,
            **{f"loss_{name}": 8.0 for name in CORPUS_LOSSES},
        },
        nan_ok=True,
    )
    np.testing.assert_allclose(reading.arrays["delta_loss"], [0, 1, 1.5])
    assert reading.n == 3


def test_frequencies_alone_read_zero_per_entropy_and_not_without() -> None:
    """A model that knows each corpus's token frequencies and no more has its entropy as loss."""
    still = {name: np.full(3, 4.0 if "prontoqa" in name else 5.0) for name in CORPUS_LOSSES}
    values = corpus_loss(still, CORPUS_STEPS, ENTROPIES).values
    assert (values["delta_loss"], values["delta_loss_per_entropy"]) == pytest.approx((0.25, 0))


def test_early_is_the_first_crossing_of_the_pooled_loss_or_the_last_evaluation() -> None:
    prontoqa, stories = np.array([10.0, 6.5, 6.0, 9.0]), np.array([10.0, 10.0, 10.0, 10.0])
    assert (
        early_index(stories, prontoqa) == 2
    )  # (10 + 6) / 2 is 80 % of 10; PrOntoQA alone was there before
    assert early_index(stories, stories) == 3
    assert early_index(stories, np.array([10.0, math.nan, math.nan, math.nan])) == 3


def corpus_curves(gamma: float = 0.8, seed: int = 0) -> pd.DataFrame:
    place = {"gamma": gamma, "seed": seed, "step": CORPUS_STEPS, "accuracy": 0.0}
    return pd.concat(
        [pd.DataFrame({**place, "set": name, "loss": loss}) for name, loss in CORPUS_LOSSES.items()]
    )


def test_corpus_table_holds_every_member_beside_curves_that_never_move() -> None:
    table = corpus_loss_table(
        pd.concat([corpus_curves(0.8, 1).sample(frac=1, random_state=0), corpus_curves(0.3, 0)]),
        {0: ENTROPIES},
    )
    assert table[
        ["gamma", "seed", "stage", "step", "set", "probe"]
    ].drop_duplicates().values.tolist() == [
        [0.3, 0, "final", 100, "", "corpus_loss"],
        [0.8, 1, "final", 100, "", "corpus_loss"],
    ]
    found = table.set_index(["seed", "quantity"])
    assert (
        found.loc[(1, "delta_loss"), "value"]
        == found.loc[(0, "delta_loss"), "value"]
        == pytest.approx(2.5 / 3)
    )
    assert found.loc[(0, "delta_loss_per_entropy"), "untrained"] == pytest.approx(-0.2)
    assert math.isnan(
        found.loc[(1, "delta_loss_per_entropy"), "value"]
    )  # no entropy of seed 1 was given
