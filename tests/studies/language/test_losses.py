"""The table of Delta L: every member, sets without curves, and tables that cannot be read."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from corpus_losses import ENTROPIES, LOSSES, STEPS

from rb_interp.errors import RunError
from rb_interp.studies.language.measure import corpus_loss_table


def curves(gamma: float = 0.8, seed: int = 0) -> pd.DataFrame:
    place = {"gamma": gamma, "seed": seed, "step": STEPS, "accuracy": 0.0}
    return pd.concat([pd.DataFrame({**place, "set": name, "loss": loss}) for name, loss in LOSSES.items()])


def test_table_holds_every_member_beside_curves_that_never_move() -> None:
    table = corpus_loss_table(
        pd.concat([curves(0.8, 1).sample(frac=1, random_state=0), curves(0.3, 0)]), {0: ENTROPIES}
    )
    assert table[["gamma", "seed", "stage", "step", "set", "probe"]].drop_duplicates().values.tolist() == [
        [0.3, 0, "final", 100, "", "corpus_loss"],
        [0.8, 1, "final", 100, "", "corpus_loss"],
    ]
    found = table.set_index(["seed", "quantity"])
    assert found.loc[(1, "delta_loss"), "value"] == found.loc[(0, "delta_loss"), "value"] == pytest.approx(2.5 / 3)
    assert found.loc[(0, "delta_loss_per_entropy"), "untrained"] == pytest.approx(-0.2)
    assert math.isnan(found.loc[(1, "delta_loss_per_entropy"), "value"])  # no entropy of seed 1 was given


def test_sets_without_curves_are_nan() -> None:
    table = corpus_loss_table(curves()[lambda rows: rows["set"].str.endswith("train")], {0: ENTROPIES})
    found = table.set_index("quantity")["value"]
    assert found["delta_loss"] == pytest.approx(2.5 / 3)
    for name in ("delta_loss_test", "delta_loss_per_entropy_test", "loss_stories_test"):
        assert math.isnan(found[name])


def test_tables_that_cannot_be_read_are_named() -> None:
    partial = curves()[lambda rows: (rows["set"] != "stories_test") | (rows["step"] > 0)]
    with pytest.raises(
        RunError, match="has 2 evaluations of 'stories_test' and 3 steps; evaluate every set at the same"
    ):
        corpus_loss_table(partial, {})
