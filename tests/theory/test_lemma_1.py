"""Lemma 1: fresh attention equals a TransformerLens model's, and its deviation shrinks as gamma grows."""

import numpy as np
import pytest
import torch
from probes.lens_models import lens_model

from rb_interp.models import ModelConfig
from rb_interp.models.schemes import draw
from rb_interp.probes import uniformity
from rb_interp.tasks import AnchorTask
from rb_interp.tasks.inputs import Inputs
from rb_interp.theory.lemma_1 import FIRST_SEED, first_attention, fresh_weights, lemma_1, lemma_1_table

TASK = AnchorTask.preset("smoke")


def test_weights_are_those_of_the_scheme():
    config = ModelConfig(n_heads=2, norm="pre")
    full, needed = draw(config, TASK.d_vocab, TASK.length, 0.5, 7), next(fresh_weights(config, TASK, [0.5], 7))
    assert len(needed) == 4
    for name, weight in needed.items():
        np.testing.assert_array_equal(weight.numpy(), full[name])


@pytest.mark.lens
@pytest.mark.parametrize(("norm", "kind"), [("none", "plain"), ("pre", "folded")])
def test_attention_is_that_of_a_transformer_lens_model(norm, kind):
    config = ModelConfig(n_layers=1, n_heads=4, d_model=16, d_head=4, d_mlp=32, norm=norm)
    weights = next(fresh_weights(config, TASK, [0.3], 3))
    tokens = TASK.dataset(0).tokens[:10]
    expected = first_attention(weights, torch.from_numpy(tokens), config).numpy()
    model = lens_model(kind, n_layers=1, d_vocab=TASK.d_vocab, n_ctx=TASK.length)
    write(model, weights)
    for head in range(4):
        reading = uniformity(model, Inputs(tokens), head=head)
        np.testing.assert_allclose(reading.arrays["mean_pattern"], expected[:, head].mean(0), atol=1e-5)


def write(model, weights: dict[str, torch.Tensor]) -> None:
    """Put embeddings, W_Q and W_K (biases 0) into a model of either generation of TransformerLens."""
    with torch.no_grad():
        model.W_E.copy_(weights["embed.W_E"])
        model.W_pos.copy_(weights["pos_embed.W_pos"])
        for name, parameter in model.named_parameters():
            for letter in "QK":
                value = weights[f"blocks.0.attn.W_{letter}"]
                if name.endswith(f"attn.W_{letter}"):
                    parameter.copy_(value)
                elif f".{letter.lower()}." in name and name.endswith("weight"):
                    parameter.copy_(value.transpose(1, 2).reshape(parameter.shape))
                elif name.endswith(f"b_{letter}") or (f".{letter.lower()}." in name and name.endswith("bias")):
                    parameter.zero_()


def test_share_grows_with_gamma_and_seeds_are_fresh():
    found = [lemma_1(ModelConfig(), TASK, gamma, n_init=20, n_rows=16) for gamma in (0.3, 0.5, 0.8)]
    assert [result.share for result in found] == sorted(result.share for result in found)
    assert (found[0].share, found[2].share) == (0, 1)
    # without LayerNorm the small-score limit is linear in the scores, which scale as d_model^(-4 gamma)
    tiny = [lemma_1(ModelConfig(), TASK, gamma, n_init=5).max_deviation for gamma in (0.8, 0.9)]
    np.testing.assert_allclose(tiny[1] / tiny[0], 64**-0.4, rtol=0.02)
    assert len(np.unique(found[0].max_deviation)) == 20
    again = lemma_1(ModelConfig(), TASK, 0.3, n_init=20, n_rows=16, seed=1)
    assert not np.intersect1d(found[0].max_deviation, again.max_deviation).size
    assert FIRST_SEED > 100_000


def test_table_and_counts():
    rows = lemma_1(ModelConfig(), TASK, 0.3, n_init=2).to_frame().to_dict("records")
    assert [(row["quantity"], row["seed"], row["value"]) for row in rows[:2]] == [
        ("within_0.05", 0, 0.0),
        ("within_0.05", 1, 0.0),
    ]
    assert {row["quantity"] for row in rows} == {"within_0.05", "max_deviation"}


def test_the_table_counts_what_single_readings_say():
    table = lemma_1_table(ModelConfig(), TASK, [0.3, 0.45, 0.6], [16, 32], n_init=20).set_index(["gamma", "d_model"])
    assert 0 < table.n_within.sum() < 120
    for (gamma, d_model), row in table.iterrows():
        found = lemma_1(ModelConfig(d_model=d_model), TASK, gamma, n_init=20)
        assert (row.share, row.n_within) == (found.share, found.within.sum())
        assert row.low <= row.share <= row.high
