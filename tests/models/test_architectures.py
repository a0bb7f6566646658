"""Emb-MLP and the one-layer model compute Definitions 1 and 2, the post-norm model normalises after
each addition; all can be hooked everywhere, and fit what stands around."""

from __future__ import annotations

import itertools
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
import torch
from probes.lens_models import read_weights
from torch import Tensor
from torch.nn.functional import layer_norm as torch_layer_norm

from rb_interp.interventions.edits import Edit, last_logits
from rb_interp.models.build import build_model, lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import write_weights
from rb_interp.models.schemes import parameters
from rb_interp.tasks.anchor import AnchorTask
from rb_interp.training.stacked import stacked_logits

D_VOCAB, N_CTX = 23, 5
EMB_MLP = ModelConfig(architecture="emb_mlp", n_layers=1, act="tanh", d_model=12, d_mlp=20)
ONE_LAYER = ModelConfig(
    architecture="one_layer", n_layers=1, act="tanh", d_model=D_VOCAB, d_head=7, d_mlp=20
)
CONFIGS = {"emb_mlp": EMB_MLP, "one_layer": ONE_LAYER}


def random_weights(config: ModelConfig, seed: int = 0) -> dict[str, np.ndarray]:
    """Every matrix away from 0, the frozen biases of the one-layer model at 0."""
    rng = np.random.default_rng(seed)
    shapes = parameters(config, D_VOCAB, N_CTX)
    return {p.name: 0.4 * rng.standard_normal(p.shape) * p.trained for p in shapes}


def some_tokens(rows: int = 6, length: int = N_CTX) -> Tensor:
    return torch.randint(0, D_VOCAB, (rows, length), generator=torch.Generator().manual_seed(1))


def made(config: ModelConfig, seed: int = 0) -> Any:
    return lens_model(config, D_VOCAB, N_CTX, random_weights(config, seed), torch.float64)


@pytest.fixture(params=CONFIGS)
def config(request):
    return CONFIGS[request.param]


@pytest.mark.parametrize("length", range(1, N_CTX + 1))
def test_emb_mlp_is_definition_1_and_knows_no_order(length):
    model, tokens = made(EMB_MLP), some_tokens(length=length)
    W = random_weights(EMB_MLP)
    for row, logits in zip(tokens.tolist(), model(tokens).detach().numpy(), strict=True):
        by_hand = (
            np.tanh(sum(W["embed.W_E"][token] for token in row) @ W["mlp.W_in"]) @ W["mlp.W_out"]
        )
        np.testing.assert_allclose(logits, by_hand[None], rtol=0, atol=1e-13)
    for order in itertools.islice(itertools.permutations(range(length)), 24):
        torch.testing.assert_close(model(tokens[:, list(order)]), model(tokens), rtol=0, atol=1e-13)


def test_one_layer_is_definition_2_and_knows_the_last_position():
    model, tokens = made(ONE_LAYER), some_tokens()
    W = {
        name.removeprefix("blocks.0."): weight.squeeze()
        for name, weight in random_weights(ONE_LAYER).items()
    }
    for row, logits in zip(tokens.tolist(), model(tokens)[:, -1].detach().numpy(), strict=True):
        x = W["embed.W_E"][row]
        scores = np.exp(x @ W["attn.W_K"] @ (x[-1] @ W["attn.W_Q"]) / np.sqrt(7))
        mid = scores / scores.sum() @ x @ W["attn.W_V"] @ W["attn.W_O"] + x[-1]
        by_hand = np.tanh(mid @ W["mlp.W_in"]) @ W["mlp.W_out"] + mid
        np.testing.assert_allclose(logits, by_hand, rtol=0, atol=1e-12)
    answer = model(tokens)[:, -1]
    torch.testing.assert_close(model(tokens[:, [2, 0, 3, 1, 4]])[:, -1], answer, rtol=0, atol=1e-13)
    assert (model(tokens[:, [4, 1, 2, 3, 0]])[:, -1] - answer).abs().max() > 0.1


@pytest.mark.lens
@pytest.mark.parametrize("act", ["relu", "gelu", "tanh"])
def test_one_layer_is_a_lens_model_without_positions_and_unembedding(act):
    config = replace(ONE_LAYER, act=act)
    model, weights, tokens = made(config), random_weights(config), some_tokens()
    transformer = replace(config, architecture="transformer")
    weights |= {"unembed.W_U": np.eye(D_VOCAB), "unembed.b_U": np.zeros(D_VOCAB)}
    weights |= {"pos_embed.W_pos": np.zeros((N_CTX, D_VOCAB))}
    untrained = lens_model(transformer, D_VOCAB, N_CTX, weights, torch.float64)
    (logits, cache), (theirs, their_cache) = (
        model.run_with_cache(tokens),
        untrained.run_with_cache(tokens),
    )
    torch.testing.assert_close(logits, theirs, rtol=0, atol=1e-10)
    assert set(cache) == set(model.hook_dict)
    for name in set(cache) - {"blocks.0.attn.hook_attn_scores"}:  # 4.x keeps the pattern there
        torch.testing.assert_close(cache[name], their_cache[name], rtol=0, atol=1e-10)
    torch.testing.assert_close(cache["pattern", 0], cache["attn_scores", 0].softmax(-1))
    for name in (
        "W_E",
        "W_Q",
        "W_K",
        "W_V",
        "W_O",
        "W_in",
        "W_out",
        "b_Q",
        "b_K",
        "b_V",
        "b_O",
        "b_in",
        "b_out",
    ):
        assert torch.equal(getattr(model, name), getattr(untrained, name)), name
    torch.testing.assert_close(model.OV.AB[0, 0], model.W_V[0, 0] @ model.W_O[0, 0])
    torch.testing.assert_close(model.QK.AB[0, 0], model.W_Q[0, 0] @ model.W_K[0, 0].T)


def test_both_are_what_is_trained(config):
    members = [random_weights(config, seed) for seed in range(3)]
    stacked = {
        name: torch.tensor(np.stack([member[name] for member in members])) for name in members[0]
    }
    tokens = torch.stack([some_tokens().roll(seed, 0) for seed in range(3)])
    last, every = (
        stacked_logits(stacked, tokens, config, every_position=every) for every in (False, True)
    )
    for seed in range(3):
        logits = made(config, seed)(tokens[seed])
        torch.testing.assert_close(last[seed], logits[:, -1], rtol=0, atol=1e-12)
        torch.testing.assert_close(every[seed], logits, rtol=0, atol=1e-12)


@pytest.mark.lens
def test_hooks_of_emb_mlp_hold_the_definitions_steps():
    model, tokens = made(EMB_MLP), some_tokens()
    logits, cache = model.run_with_cache(tokens)
    assert set(cache) == {"hook_embed", "hook_sum", "mlp.hook_pre", "mlp.hook_post", "hook_logits"}
    assert torch.equal(cache["hook_embed"], model.W_E[tokens])
    torch.testing.assert_close(cache["hook_sum"], cache["hook_embed"].sum(1, keepdim=True))
    torch.testing.assert_close(cache["mlp.hook_pre"], cache["hook_sum"] @ model.W_in)
    torch.testing.assert_close(cache["mlp.hook_post"], cache["mlp.hook_pre"].tanh())
    torch.testing.assert_close(logits, cache["mlp.hook_post"] @ model.W_out)
    assert torch.equal(cache["hook_logits"], logits)
    assert isinstance(model.run_with_cache(tokens, return_cache_object=False)[1], dict)


@pytest.mark.parametrize(
    "hook", ["hook_embed", "hook_sum", "mlp.hook_pre", "mlp.hook_post", "hook_logits"]
)
def test_editing_any_step_of_emb_mlp_changes_its_answer_as_it_should(hook):
    model, tokens = made(EMB_MLP), some_tokens()
    before = last_logits(model, tokens)
    assert torch.equal(
        last_logits(model, tokens, [Edit(hook, lambda x, rows: 0 * x)]), torch.zeros_like(before)
    )
    swapped = last_logits(model, tokens, [Edit(hook, lambda x, rows: x.flip(0))])
    torch.testing.assert_close(swapped, before.flip(0), rtol=0, atol=1e-13)
    assert torch.equal(last_logits(model, tokens), before)


@pytest.mark.lens
def test_editing_one_layer_reaches_the_answer():
    model, tokens = made(ONE_LAYER), some_tokens()
    cache = model.run_with_cache(tokens)[1]

    def silenced(*hooks: str) -> Tensor:
        return last_logits(
            model, tokens, [Edit(f"blocks.0.{hook}", lambda x, rows: 0 * x) for hook in hooks]
        )

    last = {name: cache[name, 0][:, -1] for name in ("resid_pre", "resid_mid", "mlp_out")}
    alone = last["resid_pre"] + (last["resid_pre"] @ model.W_in[0]).tanh() @ model.W_out[0]
    for hook in ("hook_attn_out", "attn.hook_z", "attn.hook_v", "attn.hook_pattern"):
        torch.testing.assert_close(silenced(hook), alone, rtol=0, atol=1e-13)
    for hook in ("hook_mlp_out", "mlp.hook_pre", "mlp.hook_post"):
        torch.testing.assert_close(silenced(hook), last["resid_mid"], rtol=0, atol=1e-13)
    for hook in ("hook_resid_mid", "hook_resid_post", "hook_resid_pre"):
        assert torch.equal(silenced(hook), torch.zeros_like(alone)), hook
    assert torch.equal(silenced("attn.hook_q"), silenced("attn.hook_k"))
    assert (silenced("attn.hook_q") - last_logits(model, tokens)).abs().max() > 0.01


def test_what_is_written_is_read_back_and_only_matrices_are_trained(config):
    model = made(config)
    written = random_weights(config, seed=1)
    write_weights(model, written)
    held = read_weights(model)
    assert list(held) == list(dict(model.named_parameters()))
    assert {name: tensor.numpy().tobytes() for name, tensor in held.items()} == {
        name: value.tobytes() for name, value in written.items()
    }
    trained = {name for name, tensor in model.named_parameters() if tensor.requires_grad}
    assert trained == {name for name in written if name.rsplit(".", 1)[-1].startswith("W_")}
    model(some_tokens()).square().sum().backward()
    assert all(
        (parameter.grad is not None) == parameter.requires_grad for parameter in model.parameters()
    )


TASK = AnchorTask()
POST_NORM = ModelConfig(norm="post", n_heads=2)


@pytest.fixture(scope="module")
def post_norm():
    return build_model(TASK, gamma=0.5, config=POST_NORM, dtype=torch.float64)


@pytest.fixture(scope="module")
def tokens():
    return torch.tensor(TASK.dataset(seed=0).tokens[:16]).long()


@pytest.mark.lens
def test_hooks_have_hooked_transformers_names_and_shapes(post_norm, tokens):
    untrained = build_model(TASK, gamma=0.5, config=POST_NORM, norm="pre", dtype=torch.float64)
    ours = {name: tensor.shape for name, tensor in post_norm.run_with_cache(tokens)[1].items()}
    theirs = {name: tensor.shape for name, tensor in untrained.run_with_cache(tokens)[1].items()}
    theirs = {name: shape for name, shape in theirs.items() if not name.startswith("ln_final.")}
    if version("transformer-lens") < "4":
        assert ours == theirs
    assert ours == {name: theirs[name] for name in ours}
    assert set(ours) == set(post_norm.hook_dict)


@pytest.mark.lens
def test_residual_stream_is_the_normalised_sum(post_norm, tokens):
    logits, cache = post_norm.run_with_cache(tokens)
    for i, block in enumerate(post_norm.blocks):
        for norm, before, out, after in (
            (block.ln1, "resid_pre", "attn_out", "resid_mid"),
            (block.ln2, "resid_mid", "mlp_out", "resid_post"),
        ):
            expected = torch_layer_norm(
                cache[before, i] + cache[out, i], (64,), norm.w, norm.b, 1e-5
            )
            torch.testing.assert_close(cache[after, i], expected, rtol=1e-10, atol=1e-10)
        assert cache["pattern", i].triu(1).eq(0).all()
        torch.testing.assert_close(cache["pattern", i], cache["attn_scores", i].softmax(-1))
    torch.testing.assert_close(logits, cache["resid_post", 1] @ post_norm.W_U + post_norm.b_U)
    torch.testing.assert_close(post_norm.OV.AB[1, 1], post_norm.W_V[1, 1] @ post_norm.W_O[1, 1])
    torch.testing.assert_close(post_norm.QK.AB[1, 0], post_norm.W_Q[1, 0] @ post_norm.W_K[1, 0].T)
