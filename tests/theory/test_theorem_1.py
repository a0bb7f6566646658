"""Eqs. (12) and (13): moments of the closed form, and how its error grows with d_model.

Lemma 1: attention of fresh models beside TransformerLens, and how it depends on gamma.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from probes.lens_models import lens_model

from rb_interp.models import ModelConfig
from rb_interp.probes import uniformity
from rb_interp.tasks import AnchorTask
from rb_interp.tasks.inputs import Inputs
from rb_interp.theory.drift import population
from rb_interp.theory.theorem_1 import (
    exponent,
    first_attention,
    fresh_weights,
    gaussian_profile,
    inner_product_error,
    lemma_1,
    max_deviations,
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


SMOKE = AnchorTask.preset("smoke")


@pytest.mark.lens
@pytest.mark.parametrize(("norm", "kind"), [("none", "plain"), ("pre", "folded")])
def test_attention_is_that_of_a_transformer_lens_model(norm, kind):
    config = ModelConfig(n_layers=1, n_heads=4, d_model=16, d_head=4, d_mlp=32, norm=norm)
    weights = next(fresh_weights(config, SMOKE, [0.3], 3))
    tokens = SMOKE.dataset(0).tokens[:10]
    expected = first_attention(weights, torch.from_numpy(tokens), config).numpy()
    model = lens_model(kind, n_layers=1, d_vocab=SMOKE.d_vocab, n_ctx=SMOKE.length)
    write(model, weights)
    for head in range(4):
        reading = uniformity(model, Inputs(tokens), head=head)
        np.testing.assert_allclose(
            reading.arrays["mean_pattern"], expected[:, head].mean(0), atol=1e-5
        )


def write(model, weights: dict[str, torch.Tensor]) -> None:
    """Put embeddings, W_Q and W_K (biases 0) into a model of either generation of
    TransformerLens."""
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
                elif name.endswith(f"b_{letter}") or (
                    f".{letter.lower()}." in name and name.endswith("bias")
                ):
                    parameter.zero_()


def test_share_grows_with_gamma_and_seeds_are_fresh():
    found = max_deviations(ModelConfig(), SMOKE, (0.3, 0.5, 0.8, 0.9), 10, 16)
    within = (found <= 0.05).mean(1)
    assert sorted(within) == within.tolist()
    assert (within[0], within[2]) == (0, 1)
    # without LayerNorm the small-score limit is linear in the scores, which scale as d_model^(-4
    # gamma)
    np.testing.assert_allclose(found[3] / found[2], 64**-0.4, rtol=0.02)
    assert len(np.unique(found[0])) == 10
    table = lemma_1(ModelConfig(), SMOKE, 0.3, n_init=10, n_rows=16).set_index(
        ["quantity", "seed"]
    )["value"]
    np.testing.assert_array_equal(table["max_deviation"], found[0])
    assert table["within_0.05"].tolist() == [0.0] * 10
    again = lemma_1(ModelConfig(), SMOKE, 0.3, n_init=10, n_rows=16, seed=1)["value"]
    assert not np.intersect1d(found[0], again).size
