"""Blends of two circuits: exact sums of logits, and probes that change their mind where the table says."""

import numpy as np
import pandas as pd
import pytest
import torch

from rb_interp.interventions.hooking import last_logits
from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import draw
from rb_interp.studies.anchor import error_rates
from rb_interp.studies.anchor.blends import QUANTITIES, SHARES, blend, blend_means
from rb_interp.studies.anchor.figures.blends import draw_blends
from rb_interp.tasks import AnchorTask

TASK = AnchorTask.preset("smoke")


@pytest.mark.lens
def test_a_blend_adds_the_scaled_logits_of_both():
    config = ModelConfig(d_model=12, d_head=6, d_mlp=20)
    rng = np.random.default_rng(0)
    parts = [draw(config, TASK.d_vocab, TASK.length, 0.3, seed) for seed in (0, 1)]
    for weights in parts:
        weights["unembed.b_U"] = rng.standard_normal(TASK.d_vocab)
    models = [{name: torch.from_numpy(w) for name, w in weights.items()} for weights in parts]
    tokens = TASK.dataset(0).tokens[:30]
    alone = [last_logits(lens_model(config, TASK.d_vocab, TASK.length, w, torch.float64), tokens) for w in models]
    both = ModelConfig(d_model=24, d_head=6, d_mlp=40, n_heads=2)
    model = lens_model(both, TASK.d_vocab, TASK.length, blend(*models, (0.3, 1.7)), torch.float64)
    torch.testing.assert_close(last_logits(model, tokens), 0.3 * alone[0] + 1.7 * alone[1], rtol=0, atol=1e-10)


def test_a_probe_says_yes_where_all_its_quantities_do_and_means_are_over_pairs():
    rows = [
        {"number": number, "share": 0.5, "probe": "M8", "of": "average-then-key", "quantity": quantity,
         "value": value, "threshold": 0.8, "met": value >= 0.8}
        for number, values in ((0, (0.9, 0.9)), (1, (0.9, 0.5)))
        for quantity, value in zip(("key", "sum"), values, strict=True)
    ]  # fmt: skip
    means = blend_means(pd.DataFrame(rows)).set_index("quantity")
    assert (means.loc["sum", "mean"], means.loc["key", "mean"]) == (pytest.approx(0.7), pytest.approx(0.9))
    assert means["met"].tolist() == [0.5, 0.5]
    assert means["n"].tolist() == [2, 2]


def test_the_shipped_blends_are_whole_and_drawn():
    table = error_rates.blends()
    shipped = set(table["quantity"])
    assert {quantity.words for quantity in QUANTITIES[:7]} <= shipped <= {quantity.words for quantity in QUANTITIES}
    assert len(table) == table["number"].nunique() * len(SHARES) * len(shipped)
    assert (table["met"] == (table["value"] >= table["threshold"])).all()
    left, right = draw_blends(blend_means(table)).axes
    first = table.loc[table["quantity"] == QUANTITIES[3].words].groupby("share")["value"].mean()
    np.testing.assert_allclose(left.lines[3].get_ydata(), first)
    assert [text.get_text() for text in right.get_yticklabels()] == [*dict.fromkeys(table["probe"])]


def test_every_quantity_is_drawn():
    rows = [
        {"number": 0, "share": share, "probe": quantity.probe, "of": quantity.of, "quantity": quantity.words,
         "value": share, "threshold": quantity.threshold, "met": share >= quantity.threshold}
        for quantity in QUANTITIES for share in SHARES
    ]  # fmt: skip
    left, right = draw_blends(blend_means(pd.DataFrame(rows))).axes
    labels = [f"{quantity.probe}: {quantity.words}" for quantity in QUANTITIES]
    assert left.get_legend_handles_labels()[1] == labels
    assert [text.get_text() for text in right.get_yticklabels()] == [
        "M7",
        "M8",
        "M9",
        "carried",
        "M7r",
        "M8r",
        "by cause",
    ]
