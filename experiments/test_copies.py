"""Copies: other weights and the same logits, for every norm; perturbed ones behave as before."""

import numpy as np
import pytest
import torch

from experiments import copies
from experiments.copies import GAUGES, add_noise, gauge_copy, gauges_of, perturbed
from rb_interp.errors import ModelError
from rb_interp.interventions.edits import last_logits
from rb_interp.models import ModelConfig
from rb_interp.models.build import lens_model
from rb_interp.models.protocol import write_weights
from rb_interp.models.reference import reference
from rb_interp.models.schemes import parameters

CONFIGS = {
    norm: ModelConfig(norm=norm, n_layers=3, n_heads=4, d_model=12, d_head=5, d_mlp=20)
    for norm in ("none", "pre", "post")
}
CASES = [(norm, name) for norm, config in CONFIGS.items() for name in gauges_of(config)]


def random_model(norm: str):
    """Random weights of a model in float64, biases and all, and its logits by weights."""
    config, rng = CONFIGS[norm], np.random.default_rng(0)
    weights = {
        p.name: torch.from_numpy(0.4 * rng.standard_normal(p.shape))
        for p in parameters(config, 23, 7)
    }
    model = lens_model(config, 23, 7, weights, torch.float64)
    tokens = torch.randint(0, 23, (6, 7), generator=torch.Generator().manual_seed(1))

    def logits(held) -> torch.Tensor:
        write_weights(model, held)
        with torch.no_grad():
            return model(tokens)

    return weights, logits


@pytest.mark.parametrize(("norm", "name"), CASES)
def test_a_copy_has_other_weights_and_the_same_logits(norm, name):
    weights, logits = random_model(norm)
    before = {at: weight.clone() for at, weight in weights.items()}
    copy = gauge_copy(weights, name, CONFIGS[norm], seed=3)
    assert (logits(copy) - logits(weights)).abs().max() < 1e-10
    assert all(torch.equal(weights[at], before[at]) for at in weights)
    changed = {
        at: float((copy[at] - weights[at]).abs().max())
        for at in weights
        if copy[at] is not weights[at]
    }
    assert min(changed.values()) > 1e-3
    again, other = (gauge_copy(weights, name, CONFIGS[norm], seed=seed) for seed in (3, 4))
    assert all(torch.equal(again[at], copy[at]) for at in weights)
    assert name in ("residual_scale", "norm_gain") or any(
        not torch.equal(other[at], copy[at]) for at in weights
    )


def test_which_gauges_are_exact():
    assert set(GAUGES) - set(gauges_of(CONFIGS["none"])) == {"mean_shift", "norm_gain"}
    assert set(GAUGES) - set(gauges_of(CONFIGS["pre"])) == {"rotation", "residual_scale"}
    assert set(GAUGES) - set(gauges_of(CONFIGS["post"])) == {
        "rotation",
        "residual_scale",
        "norm_gain",
    }
    message = "gauge 'rotation' is not exact for a model with norm='pre', act='relu'; exact"
    with pytest.raises(ModelError, match=message):
        gauge_copy({}, "rotation", CONFIGS["pre"])


@pytest.mark.parametrize("change", [copies.permute_heads_and_units, copies.rescale_units])
def test_orders_and_scales_change_no_logit_and_no_ratio_of_singular_values(change):
    weights, logits = random_model("none")
    changed = change(weights, np.random.default_rng(5))
    torch.testing.assert_close(logits(changed), logits(weights), rtol=0, atol=1e-9)
    moved = {name for name in weights if not torch.equal(changed[name], weights[name])}
    assert {f"blocks.{layer}.attn.{name}" for layer in range(3) for name in ("W_V", "W_O")} <= moved
    spectra = [torch.linalg.svdvals(held["blocks.1.attn.W_V"]) for held in (weights, changed)]
    torch.testing.assert_close(*((S[:, 0] / S[:, 1]).sort().values for S in spectra))


@pytest.mark.wide
@pytest.mark.parametrize("name", ["averager", "carrier", "memoriser"])
def test_a_perturbed_copy_answers_as_before_in_other_weights(name):
    found = reference(name)
    copy, data = perturbed(found, seed=1), found.task.dataset(0)
    tokens = data.tokens[
        np.concatenate([data.sample(kind, 150) for kind in ("mem", "rsn_train", "rsn_test")])
    ]
    given, answers = (last_logits(each.model(), tokens).argmax(-1) for each in (found, copy))
    assert (given == answers).double().mean() >= 0.98
    E = copy.weights["embed.W_E"]
    assert (E.abs() < 1e-3 * E.abs().max()).double().mean() < 0.1  # the hand's zeros are gone
    assert all(
        bool(copy.weights[at].any()) == bool(weight.any()) for at, weight in found.weights.items()
    )
    assert torch.equal(perturbed(found, seed=1).weights["embed.W_E"], E)
    assert not torch.allclose(perturbed(found, seed=2).weights["embed.W_E"], E)


def test_noise_is_as_large_as_stated_and_spares_biases_and_zeros():
    weights = {
        "embed.W_E": torch.full((300, 300), 2.0).double() * (torch.arange(300) < 30),
        "blocks.0.attn.W_Q": torch.zeros(1, 4, 4),
        "unembed.b_U": torch.ones(5),
        "blocks.0.ln1.w": torch.ones(5),
    }
    noisy = add_noise(weights, 0.03, np.random.default_rng(0))
    noise, W_E = noisy["embed.W_E"] - weights["embed.W_E"], weights["embed.W_E"]
    # A norm estimated from n entries has a relative standard error of 1 / sqrt(2n).
    assert abs(float(noise.norm() / W_E.norm()) / 0.03 - 1) < 4 / (2 * 300**2) ** 0.5
    assert abs(float(noise.mean())) < 4 * 0.03 * float(W_E.norm()) / 300 / 300
    for name in ("blocks.0.attn.W_Q", "unembed.b_U", "blocks.0.ln1.w"):
        assert torch.equal(noisy[name], weights[name])
    unchanged = add_noise(weights, 0.0, np.random.default_rng(0))
    assert all(torch.equal(unchanged[name], weights[name]) for name in weights)
