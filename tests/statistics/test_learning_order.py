"""Learning order: one member by hand, the two caps, and the table.

Delta L: one member by hand, and the table.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from rb_interp.errors import RunError
from rb_interp.statistics.learning_order import (
    corpus_loss,
    early_index,
    learning_order,
    learning_order_table,
)
from rb_interp.studies.language.measure import corpus_loss_table

LN = math.log(16)
LOSSES = {
    "mem": LN * np.array([1.2, 1.0, 0.8, 0.6]),  # f = 1, 1, .8, .6 and A = .85
    "rsn_train": LN * np.array([1.1, 0.5, 0.3, 0.2]),  # f = 1, .5, .3, .2 and A = .5
    "rsn_test": LN * np.array([1.0, 0.9, 0.9, 2.0]),  # f = 1, .9, .9, 1 and A = .95
}
ACCURACIES = {
    "mem": [0.0, 0.1, 0.2, 0.3],
    "rsn_train": [0.1, 0.5, 0.8, 0.9],
    "rsn_test": [0.05, 0.2, 0.3, 0.4],
}
STEPS = np.array([0, 25, 50, 60])


def curves(
    gamma: float, seed: int, sets: tuple[str, ...] = ("mem", "rsn_train", "rsn_test")
) -> pd.DataFrame:
    columns = {"gamma": gamma, "seed": seed, "step": STEPS}
    return pd.concat(
        [
            pd.DataFrame({**columns, "set": s, "loss": LOSSES[s], "accuracy": ACCURACIES[s]})
            for s in sets
        ]
    )


def test_one_member_by_hand() -> None:
    accuracies = {name: np.array(curve) for name, curve in ACCURACIES.items()}
    reading = learning_order(LOSSES, accuracies, STEPS, 16, {"mem": 2.0, "rsn_train": 2.5})
    assert dict(reading.values) == pytest.approx(
        {
            "bias": 0.35 / 1.35,
            "bias_test": -0.1 / 1.8,
            "abs_bias": 0.35 / 1.35,
            "acc_mem": 0.3,
            "acc_rsn_train": 0.9,
            "acc_rsn_test": 0.4,
            "acc_gap": 0.5,
            "margin_mem": 2.0 - 0.6 * LN,
            "margin_rsn_train": 2.5 - 0.2 * LN,
            "half_step": 25,
            "area_mem": 0.85,
            "area_rsn_train": 0.5,
            "area_rsn_test": 0.95,
        }
    )
    assert dict(reading.untrained) == pytest.approx(
        {
            "bias": 0.0,
            "bias_test": 0.0,
            "abs_bias": 0.0,
            "acc_mem": 0.0,
            "acc_rsn_train": 0.1,
            "acc_rsn_test": 0.05,
            "acc_gap": 0.05,
            "margin_mem": 2.0 - 1.2 * LN,
            "margin_rsn_train": 2.5 - 1.1 * LN,
            "half_step": math.nan,
            "area_mem": 1.0,
            "area_rsn_train": 1.0,
            "area_rsn_test": 1.0,
        },
        nan_ok=True,
    )


def test_table_has_one_block_per_member_whatever_the_order_of_rows() -> None:
    every = pd.concat([curves(0.8, 1), curves(0.3, 1, ("rsn_train",)), curves(0.8, 0)]).sample(
        frac=1, random_state=0
    )
    entropies = {(1, "mem"): 2.0, (1, "rsn_train"): 2.5, (0, "mem"): 3.0}
    table = learning_order_table(every, 16, entropies)
    columns = "gamma seed stage step set probe layer head quantity value untrained null null_mean null_sd p_value n"
    assert list(table.columns) == columns.split()
    assert table.groupby(["gamma", "seed"]).ngroups == 3
    assert (table["step"] == 60).all()
    assert set(table["stage"]) == {"final"}
    assert set(table["set"]) == {""}
    value = table.set_index(["gamma", "seed", "quantity"])["value"]
    assert value[0.8, 1, "bias"] == value[0.8, 0, "bias"] == pytest.approx(0.35 / 1.35)
    assert value[0.8, 1, "margin_mem"] == pytest.approx(value[0.8, 0, "margin_mem"] - 1)
    assert value[0.3, 1, "half_step"] == 25  # without a memory set the rest is still read
    assert math.isnan(value[0.3, 1, "bias"])
    assert math.isnan(value[0.8, 0, "margin_rsn_train"])


def test_tables_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(RunError, match=r"gamma=0.8, seed=1 has an evaluation twice"):
        learning_order_table(pd.concat([curves(0.8, 1)] * 2), 16, {})


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
        {0: ENTROPIES, 1: (math.nan, math.nan)},
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
    assert math.isnan(found.loc[(1, "delta_loss_per_entropy"), "value"])
