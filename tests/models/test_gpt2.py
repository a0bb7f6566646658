"""Our GPT-2 is GPT-2: with the same weights, transformers' own model gives the same logits."""

import numpy as np
import pytest
import torch
from probes.lens_models import read_weights

from rb_interp.models.build import build_model, exported
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import draw
from rb_interp.training.stacked import stacked_logits

GPT2 = ModelConfig(
    n_layers=2,
    n_heads=3,
    d_model=12,
    d_head=4,
    d_mlp=48,
    act="gelu_new",
    norm="pre",
    train_biases=True,
    tied=True,
)
D_VOCAB, N_CTX = 50, 70


def weights_of(config):
    """Drawn weights, with biases and LayerNorm moved from where they start, so that all of them
    matter."""
    rng, drawn = np.random.default_rng(0), draw(config, D_VOCAB, N_CTX, 0.4, seed=0)
    return {
        name: torch.from_numpy(w + 0.1 * rng.standard_normal(w.shape)) for name, w in drawn.items()
    }


def as_transformers(weights, config):
    """The same weights under the names of transformers, whose Conv1D holds [in, out]."""
    state = {"wte.weight": weights["embed.W_E"], "wpe.weight": weights["pos_embed.W_pos"]}
    state |= {"ln_f.weight": weights["ln_final.w"], "ln_f.bias": weights["ln_final.b"]}
    for layer in range(config.n_layers):
        ours = {
            name.removeprefix(f"blocks.{layer}."): w
            for name, w in weights.items()
            if f"blocks.{layer}." in name
        }
        heads = [ours[f"attn.W_{x}"].permute(1, 0, 2).reshape(config.d_model, -1) for x in "QKV"]
        block = {
            "attn.c_attn.weight": torch.cat(heads, 1),
            "attn.c_attn.bias": torch.cat([ours[f"attn.b_{x}"].flatten() for x in "QKV"]),
            "attn.c_proj.weight": ours["attn.W_O"].flatten(0, 1),
            "attn.c_proj.bias": ours["attn.b_O"],
            "mlp.c_fc.weight": ours["mlp.W_in"],
            "mlp.c_fc.bias": ours["mlp.b_in"],
            "mlp.c_proj.weight": ours["mlp.W_out"],
            "mlp.c_proj.bias": ours["mlp.b_out"],
        }
        block |= {
            f"ln_{i}.{long}": ours[f"ln{i}.{short}"]
            for i in (1, 2)
            for long, short in (("weight", "w"), ("bias", "b"))
        }
        state |= {f"h.{layer}.{name}": weight for name, weight in block.items()}
    return {f"transformer.{name}": weight for name, weight in state.items()} | {
        "lm_head.weight": weights["embed.W_E"]
    }


@pytest.mark.filterwarnings("ignore")
def test_transformers_gpt2_gives_the_same_logits():
    from transformers import GPT2Config, GPT2LMHeadModel

    weights = weights_of(GPT2)
    sizes = {"n_layer": 2, "n_head": 3, "n_embd": 12, "vocab_size": D_VOCAB, "n_positions": N_CTX}
    theirs = (
        GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))
        .double()
        .eval()
    )
    missing, unknown = theirs.load_state_dict(as_transformers(weights, GPT2), strict=False)
    assert not unknown
    assert not [name for name in missing if "bias" not in name or "attn.bias" not in name]
    tokens = torch.from_numpy(np.random.default_rng(1).integers(0, D_VOCAB, (3, N_CTX)))
    ours = stacked_logits(
        {name: w[None] for name, w in weights.items()}, tokens[None], GPT2, every_position=True
    )[0]
    with torch.no_grad():
        torch.testing.assert_close(theirs(tokens).logits, ours, rtol=0, atol=1e-10)


@pytest.mark.lens
def test_a_tied_model_holds_its_embedding_as_unembedding():
    class Text:
        d_vocab, length = D_VOCAB, N_CTX

    weights = read_weights(build_model(Text(), gamma=0.8, seed=0, config=GPT2, dtype=torch.float64))
    drawn = draw(GPT2, D_VOCAB, N_CTX, 0.8, seed=0)
    assert set(weights) == {*drawn, "unembed.W_U", "unembed.b_U"}
    np.testing.assert_array_equal(weights["unembed.W_U"], drawn["embed.W_E"].T)
    assert not weights["unembed.b_U"].any()
    untied = {"embed.W_E": drawn["embed.W_E"]}
    assert exported(untied, ModelConfig()) == untied
