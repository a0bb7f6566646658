"""Every tensor has the standard deviation its scheme names, and one seed means one draw."""

import math
from dataclasses import fields, replace
from typing import get_args

import numpy as np
import pytest

from rb_interp.errors import ModelError
from rb_interp.models.config import MatrixGammas, ModelConfig, Scheme
from rb_interp.models.schemes import draw, parameters

D, H, K, M, LAYERS, GAMMA = 48, 3, 10, 80, 3, 0.7
SIZES = {"d_model": D, "n_heads": H, "d_head": K, "d_mlp": M, "n_layers": LAYERS}
NORMAL, UNIFORM = (
    2.0,
    5.0,
)  # variance of an estimated std is std^2 / (2n) for normal, std^2 / (5n) for uniform entries
DEEP = math.sqrt(2 * LAYERS)

# scheme -> kind of tensor -> (std, how it varies), written out by hand
EXPECTED = {
    "fan_in": dict.fromkeys(
        ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_in", "W_U"), (D ** (-GAMMA), NORMAL)
    )
    | {"W_O": ((H * K) ** -GAMMA, NORMAL), "W_out": (M**-GAMMA, NORMAL)},
    "d_model": dict.fromkeys(
        ("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_in", "W_U"), (D ** (-GAMMA), NORMAL)
    )
    | dict.fromkeys(("W_O", "W_out"), (D ** (-GAMMA) / DEEP, NORMAL)),
    "torch_default": {
        kind: (1 / math.sqrt(3 * D), UNIFORM) for kind in ("W_Q", "W_K", "W_V", "W_in", "W_U")
    }
    | {"W_O": (1 / math.sqrt(3 * H * K), UNIFORM), "W_out": (1 / math.sqrt(3 * M), UNIFORM)}
    | dict.fromkeys(("W_E", "W_pos"), (1.0, NORMAL)),
}
FIXED = dict.fromkeys(("W_E", "W_pos"), (0.02, NORMAL))
EXPECTED["fan_in_fixed_embedding"] = EXPECTED["fan_in"] | FIXED
# Conv1D holds [in, out]: c_attn is [D, 3 H K], c_proj [H K, D], c_fc [D, M], c_proj [M, D]; lm_head
# is a Linear, [V, D]
EXPECTED["conv1d"] = (
    dict.fromkeys(("W_Q", "W_K", "W_V"), ((3 * H * K) ** -GAMMA, NORMAL))
    | {"W_in": (M**-GAMMA, NORMAL)}
    | dict.fromkeys(("W_O", "W_out", "W_U"), (D**-GAMMA, NORMAL))
    | FIXED
)


@pytest.mark.parametrize("norm", ["none", "pre", "post"])
@pytest.mark.parametrize("scheme", EXPECTED)
def test_std_of_every_tensor_is_within_four_standard_errors(scheme, norm):
    config = ModelConfig(scheme=scheme, norm=norm, **SIZES)
    weights = draw(config, d_vocab=60, n_ctx=20, gamma=GAMMA, seed=3)
    assert len(weights) == 4 + 12 * LAYERS + (0 if norm == "none" else 4 * LAYERS) + (
        2 if norm == "pre" else 0
    )
    for name, weight in weights.items():
        kind = name.rsplit(".", 1)[-1]
        if kind not in EXPECTED[scheme]:
            assert (weight == (1 if kind == "w" else 0)).all(), name
            continue
        std, spread = EXPECTED[scheme][kind]
        assert abs(weight.std() - std) < 4 * std / math.sqrt(spread * weight.size), name
        assert abs(weight.mean()) < 4 * std / math.sqrt(weight.size), name


@pytest.mark.parametrize("scheme", ["fan_in", "d_model"])
def test_gammas_share_their_draws(scheme):
    config = ModelConfig(scheme=scheme, **SIZES)
    large, small = (draw(config, 60, 20, gamma, seed=0) for gamma in (0.3, 0.8))
    for p in parameters(config, 60, 20):
        if p.d_in:
            width = p.d_in if scheme == "fan_in" else D
            np.testing.assert_allclose(large[p.name] / small[p.name], width**0.5, rtol=1e-12)


def test_tensors_and_seeds_are_drawn_apart():
    weights = [draw(ModelConfig(**SIZES), 60, 20, GAMMA, seed) for seed in (0, 1)]
    kinds = [f"blocks.{i}.attn.W_{x}" for i in range(LAYERS) for x in "QKV"]
    draws = np.stack([w[name].ravel() for w in weights for name in kinds])
    correlation = np.corrcoef(draws) - np.eye(len(draws))
    assert np.abs(correlation).max() < 4.5 / math.sqrt(draws.shape[1])


def test_a_group_of_matrices_follows_its_own_gamma():
    plain = draw(ModelConfig(**SIZES), 60, 20, GAMMA, seed=0)
    mixed = draw(
        ModelConfig(gammas=MatrixGammas(qk=0.2, unembedding=1.0), **SIZES), 60, 20, GAMMA, seed=0
    )
    rates = {"W_Q": 0.2, "W_K": 0.2, "W_U": 1.0}
    for name, weight in mixed.items():
        factor = D ** (GAMMA - rates.get(name.rsplit(".", 1)[-1], GAMMA))
        np.testing.assert_allclose(weight, factor * plain[name], rtol=1e-12)


def test_a_scheme_without_its_gamma_is_refused():
    every = MatrixGammas(0.5, 0.5, 0.5, 0.5, 0.5)
    draw(ModelConfig(gammas=every), 60, 20, gamma=None, seed=0)
    draw(ModelConfig(scheme="torch_default"), 60, 20, gamma=None, seed=0)
    with pytest.raises(
        ModelError, match=r"scheme 'd_model' needs a gamma for 'embed\.W_E'; pass gamma=0\.8"
    ):
        draw(ModelConfig(scheme="d_model"), 60, 20, gamma=None, seed=0)


def test_a_tied_model_draws_no_unembedding():
    tied, untied = (ModelConfig(norm="pre", tied=tied, **SIZES) for tied in (True, False))
    names = [{p.name for p in parameters(config, 60, 20)} for config in (tied, untied)]
    assert names[1] - names[0] == {"unembed.W_U", "unembed.b_U"}
    assert draw(tied, 60, 20, GAMMA, 0).keys() == names[0]
    with pytest.raises(
        ModelError,
        match=r"gammas.unembedding=0.5 has no effect with .* tied=True",
    ):
        ModelConfig(tied=True, gammas=MatrixGammas(unembedding=0.5))


@pytest.mark.parametrize("choice", [*get_args(Scheme), "one_layer", "emb_mlp"])
@pytest.mark.parametrize("group", [field.name for field in fields(MatrixGammas)])
def test_a_rate_of_its_own_changes_a_draw_or_is_refused(choice, group):
    model = ModelConfig(d_model=20)
    if choice in get_args(Scheme):
        model = replace(model, scheme=choice)
    else:
        model = replace(model, architecture=choice, n_layers=1)
    drawn = draw(model, 20, 5, GAMMA, 0)
    try:
        changed = replace(model, gammas=MatrixGammas(**{group: GAMMA + 1}))
    except ModelError:
        return
    other = draw(changed, 20, 5, GAMMA, 0)
    assert any((other[name] != drawn[name]).any() for name in drawn)
