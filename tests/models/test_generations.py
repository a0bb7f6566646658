"""Lens models compute the textbook transformer, hold what is written to them, and disturb nothing
else."""

import numpy as np
import pytest
import torch
from probes.lens_models import read_weights
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.models.build import build_model, lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import live_parameters, write_weights
from rb_interp.models.schemes import parameters
from rb_interp.tasks.anchor import AnchorTask

pytestmark = pytest.mark.lens

D_VOCAB, N_CTX = 23, 7
SIZES = {
    "n_layers": 3,
    "n_heads": 4,
    "d_model": 12,
    "d_head": 5,
    "d_mlp": 20,
    "layer_norm_eps": 1e-2,
}
NORMS = ("none", "pre", "post")
ACTS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2,
    "tanh": lambda x: 1 - 2 / (torch.exp(2 * x) + 1),
}


def random_weights(config: ModelConfig, seed: int = 0) -> dict[str, np.ndarray]:
    """No tensor is zero or one, so that every bias and LayerNorm parameter counts."""
    rng = np.random.default_rng(seed)
    return {p.name: 0.25 * rng.standard_normal(p.shape) for p in parameters(config, D_VOCAB, N_CTX)}


def some_tokens() -> Tensor:
    return torch.randint(0, D_VOCAB, (6, N_CTX), generator=torch.Generator().manual_seed(1))


def layer_norm(x: Tensor, w: Tensor, b: Tensor, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * w + b


def textbook(config: ModelConfig, weights: dict[str, np.ndarray], tokens: Tensor) -> Tensor:
    """Logits by explicit loops over layers, heads and query positions."""
    W = {name: torch.tensor(value) for name, value in weights.items()}

    def norm(x: Tensor, name: str) -> Tensor:
        return layer_norm(x, W[name + ".w"], W[name + ".b"], config.layer_norm_eps)

    x = W["embed.W_E"][tokens] + W["pos_embed.W_pos"][: tokens.shape[1]]
    for i in range(config.n_layers):
        block = f"blocks.{i}."
        attn = {
            name: W[f"{block}attn.{name}"]
            for name in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")
        }
        into = norm(x, block + "ln1") if config.norm == "pre" else x
        out = attn["b_O"].expand_as(x).clone()
        for h in range(config.n_heads):
            q, k, v = (into @ attn[f"W_{name}"][h] + attn[f"b_{name}"][h] for name in "QKV")
            for query in range(tokens.shape[1]):
                scores = (k[:, : query + 1] * q[:, query, None]).sum(-1) / config.d_head**0.5
                weight = scores.exp() / scores.exp().sum(-1, keepdim=True)
                out[:, query] += (weight[..., None] * v[:, : query + 1]).sum(1) @ attn["W_O"][h]
        x = norm(x + out, block + "ln1") if config.norm == "post" else x + out
        into = norm(x, block + "ln2") if config.norm == "pre" else x
        hidden = ACTS[config.act](into @ W[block + "mlp.W_in"] + W[block + "mlp.b_in"])
        out = hidden @ W[block + "mlp.W_out"] + W[block + "mlp.b_out"]
        x = norm(x + out, block + "ln2") if config.norm == "post" else x + out
    x = norm(x, "ln_final") if config.norm == "pre" else x
    return x @ W["unembed.W_U"] + W["unembed.b_U"]


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("norm", NORMS)
def test_logits_are_the_textbook_ones(norm, act):
    config = ModelConfig(norm=norm, act=act, **SIZES)
    weights, tokens = random_weights(config), some_tokens()
    model = lens_model(config, D_VOCAB, N_CTX, weights, torch.float64)
    torch.testing.assert_close(
        model(tokens), textbook(config, weights, tokens), rtol=1e-10, atol=1e-10
    )
    shorter = tokens[:, :4]
    torch.testing.assert_close(
        model(shorter), textbook(config, weights, shorter), rtol=1e-10, atol=1e-10
    )
    assert model.cfg.act_fn == act


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("norm", NORMS)
def test_what_is_written_is_read_back(norm, dtype):
    config = ModelConfig(norm=norm, **SIZES)
    model = lens_model(config, D_VOCAB, N_CTX, random_weights(config), dtype)
    weights = random_weights(config, seed=1)
    write_weights(model, weights)
    assert model(some_tokens()).dtype == dtype
    held = read_weights(model)
    assert {name: tuple(tensor.shape) for name, tensor in held.items()} == {
        p.name: p.shape for p in parameters(config, D_VOCAB, N_CTX)
    }
    for name, tensor in held.items():
        assert torch.equal(tensor, torch.tensor(weights[name]).to(dtype)), name
    for name in ("W_E", "W_pos", "W_U", "b_U"):
        module = {"W_E": "embed", "W_pos": "pos_embed", "W_U": "unembed", "b_U": "unembed"}[name]
        assert torch.equal(getattr(model, name), held[f"{module}.{name}"])
    for module, names in {
        "attn": "W_Q W_K W_V W_O b_Q b_K b_V b_O",
        "mlp": "W_in W_out b_in b_out",
    }.items():
        for name in names.split():
            layers = [held[f"blocks.{i}.{module}.{name}"] for i in range(config.n_layers)]
            assert torch.equal(getattr(model, name), torch.stack(layers)), name


@pytest.mark.parametrize("norm", NORMS)
def test_silencing_a_head_by_hook_equals_zeroing_its_output_matrix(norm):
    config = ModelConfig(norm=norm, **SIZES)
    weights, tokens = random_weights(config), some_tokens()
    model = lens_model(config, D_VOCAB, N_CTX, weights, torch.float64)
    before = model(tokens)

    def silence(z, hook):
        z[:, :, 2] = 0
        return z

    hooked = model.run_with_hooks(tokens, fwd_hooks=[("blocks.1.attn.hook_z", silence)])
    with model.hooks(fwd_hooks=[("blocks.1.attn.hook_z", silence)]):
        inside = model(tokens)
    weights["blocks.1.attn.W_O"][2] = 0
    torch.testing.assert_close(hooked, textbook(config, weights, tokens), rtol=1e-10, atol=1e-10)
    assert torch.equal(inside, hooked)
    assert torch.equal(model(tokens), before)


@pytest.mark.parametrize("train_biases", [False, True])
@pytest.mark.parametrize("norm", NORMS)
def test_gradient_reaches_what_is_trained_and_nothing_else(norm, train_biases):
    config = ModelConfig(norm=norm, train_biases=train_biases, **SIZES)
    model = lens_model(config, D_VOCAB, N_CTX, random_weights(config), torch.float64)
    model(some_tokens()).square().sum().backward()
    moved = {name for name, tensor in live_parameters(model).items() if tensor.grad is not None}
    assert moved == {p.name for p in parameters(config, D_VOCAB, N_CTX) if p.trained}
    assert sum(p.numel() for p in model.parameters()) == sum(
        w.size for w in random_weights(config).values()
    )


def test_building_leaves_the_callers_random_state_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    build_model(AnchorTask(), gamma=0.8)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()


def test_wrong_weights_are_named_and_nothing_is_written():
    config = ModelConfig(**SIZES)
    weights = random_weights(config)
    model = lens_model(config, D_VOCAB, N_CTX, weights, torch.float64)
    other = random_weights(config, seed=1)
    with pytest.raises(ModelError, match=r"no weight 'embed\.W_e'; did you mean 'embed\.W_E'\?"):
        write_weights(model, other | {"embed.W_e": other["embed.W_E"]})
    with pytest.raises(ModelError, match=r"2 of 40 weights are missing: .*; write all of them"):
        write_weights(
            model, {k: v for k, v in other.items() if k not in ("embed.W_E", "blocks.2.attn.b_K")}
        )
    with pytest.raises(
        ModelError,
        match=r"'unembed\.W_U' has shape \(12, 24\); this model holds \(12, 23\)\. Use the",
    ):
        write_weights(model, other | {"unembed.W_U": np.zeros((12, 24))})
    assert all(
        np.array_equal(tensor.numpy(), weights[name])
        for name, tensor in read_weights(model).items()
    )


def test_weights_that_a_model_only_derives_are_refused():
    class Joint(torch.nn.Linear):
        def tl_parameters(self) -> dict[str, Tensor]:
            return {"embed.W_E": 2 * self.weight}

    with pytest.raises(
        ModelError, match=r"'embed\.W_E' of this Joint is derived from other weights; write those"
    ):
        write_weights(Joint(2, 2), {"embed.W_E": np.zeros((2, 2))})
