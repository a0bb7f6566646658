"""scale_init: every tensor of anybody's model has the deviation of gamma and nothing else changes;
its table."""

import copy
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from lens_models import bridged
from torch import nn

import rb_interp as rb
from rb_interp.errors import ModelError
from rb_interp.models.tensors import tensors_of

pytestmark = pytest.mark.filterwarnings("ignore")

V, D, HEADS, GROUPED, M, GAMMA = 97, 32, 4, 2, 48, 0.7
SIZES = {"vocab_size": V, "hidden_size": D, "num_hidden_layers": 2, "num_attention_heads": HEADS}
SIZES |= {"intermediate_size": M, "max_position_embeddings": 24, "pad_token_id": 0}
LLAMA = {**SIZES, "num_key_value_heads": GROUPED, "head_dim": 10}
GPT2 = {
    "vocab_size": V,
    "n_embd": D,
    "n_layer": 2,
    "n_head": HEADS,
    "n_positions": 24,
    "n_inner": M,
}
SWIGLU = {"q_proj": (D, "qk"), "k_proj": (D, "qk"), "v_proj": (D, "vo"), "o_proj": (40, "vo")}
SWIGLU |= {
    "gate_proj": (D, "mlp"),
    "up_proj": (D, "mlp"),
    "down_proj": (M, "mlp"),
    "embed_tokens": (D, "embedding"),
}
# Class of transformers -> its settings, and what follows from the architecture by hand: layer ->
# (d_in, groups)
FAMILIES: dict[str, tuple[dict, dict]] = {
    "GPT2LMHeadModel": (
        GPT2,
        {
            "wte": (D, "embedding"),
            "wpe": (D, "embedding"),
            "c_attn": (D, "qk vo"),
            "attn.c_proj": (D, "vo"),
        }
        | {"c_fc": (D, "mlp"), "mlp.c_proj": (M, "mlp"), "lm_head": (D, "embedding")},
    ),
    "LlamaForCausalLM": (LLAMA, SWIGLU | {"lm_head": (D, "unembedding")}),
    "Gemma2ForCausalLM": (LLAMA, SWIGLU | {"lm_head": (D, "embedding")}),
    "GPTNeoXForCausalLM": (
        SIZES,
        {
            "embed_in": (D, "embedding"),
            "query_key_value": (D, "qk vo"),
            "attention.dense": (D, "vo"),
        }
        | {"dense_h_to_4h": (D, "mlp"), "dense_4h_to_h": (M, "mlp"), "lm_head": (D, "unembedding")},
    ),
    "MixtralForCausalLM": (
        {**LLAMA, "num_local_experts": 3},
        {name: SWIGLU[name] for name in SWIGLU if "_proj" not in name or len(name) == 6}
        | {
            "experts.gate_up_proj": (D, "mlp"),
            "experts.down_proj": (M, "mlp"),
            "mlp.gate": (D, "other"),
        }
        | {"lm_head": (D, "unembedding")},
    ),
}


def made(family: str) -> Any:
    """A model of transformers that nothing was downloaded for; the caller's random state stays."""
    import transformers

    kind = getattr(transformers, family)
    with torch.random.fork_rng(devices=[]):
        return kind(kind.config_class(**FAMILIES[family][0], attn_implementation="eager")).eval()


def has_std(entries: torch.Tensor, std: float) -> bool:
    """Within 4.5 standard errors, for normal entries."""
    return abs(float(entries.detach().std(correction=0)) / std - 1) < 4.5 / math.sqrt(
        2 * entries.numel()
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_every_tensor_has_the_standard_deviation_of_its_gamma(family):
    per = {"qk": 1.1, "mlp": 0.4}
    model, expected, met = (
        rb.scale_init(made(family), GAMMA, per=per, seed=1),
        FAMILIES[family][1],
        set(),
    )
    table = rb.initialisation_table(model, GAMMA, per=per)
    weights = dict(model.named_parameters(remove_duplicate=False))
    assert set(table.parameter) == set(weights)
    for row in table.itertuples():
        found = [
            name for name in expected if re.search(rf"{re.escape(name)}(\.weight)?$", row.parameter)
        ]
        if not found:
            assert re.search(r"norm|ln_|bias", row.parameter), row
            assert (row.group, row.d_in, row.measured_std) == ("", 0, 0), row
            continue
        (name,) = found
        d_in, groups = expected[name]
        std = d_in ** -per.get(row.group, GAMMA)
        met |= {(name, row.group)}
        assert (row.d_in, row.intended_at_init) == (d_in, pytest.approx(std, rel=1e-12)), row
        assert abs(row.z) < 4.5, row
        if row.group == groups:
            weight = weights[row.parameter]
            start = (
                1
                if "embed_tokens" in name or (row.tied_to and family == "Gemma2ForCausalLM")
                else 0
            )
            assert not weight[:start].any()  # the row of padding
            assert has_std(weight[start:], std), row
    assert met == {
        (name, group) for name, (_, groups) in expected.items() for group in groups.split()
    }


def test_values_in_a_layer_of_queries_and_keys_have_their_own_rate():
    gpt2, neox = (
        rb.scale_init(made(kind), 0.5, per={"vo": 1.5})
        for kind in ("GPT2LMHeadModel", "GPTNeoXForCausalLM")
    )
    query, key, value = gpt2.transformer.h[1].attn.c_attn.weight.split(D, dim=1)  # stored [in, out]
    assert all(has_std(part, D**-rate) for part, rate in ((query, 0.5), (key, 0.5), (value, 1.5)))
    heads = neox.gpt_neox.layers[1].attention.query_key_value.weight.view(HEADS, 3, D // HEADS, D)
    assert all(has_std(heads[:, part], D**-rate) for part, rate in ((0, 0.5), (1, 0.5), (2, 1.5)))
    attention = rb.scale_init(nn.MultiheadAttention(D, HEADS), 0.5, per={"vo": 1.5})
    assert has_std(attention.in_proj_weight[: 2 * D], D**-0.5)
    assert has_std(attention.in_proj_weight[2 * D :], D**-1.5)


@pytest.mark.lens
@pytest.mark.parametrize("family", FAMILIES)
def test_norms_start_as_the_identity_on_normalised_inputs(family):
    model = made(family)
    for name, parameter in model.named_parameters():
        if "norm" in name or "ln_" in name:
            nn.init.normal_(parameter, generator=torch.Generator().manual_seed(0))
    rb.scale_init(model, GAMMA)
    norms = [module for module in model.modules() if "Norm" in type(module).__name__]
    x = torch.linspace(-1, 1, D)
    x = x / x.square().mean().sqrt()  # mean 0 and mean square 1: any norm leaves it
    assert len(norms) >= 5
    for norm in norms:
        torch.testing.assert_close(norm(x[None])[0], x, rtol=1e-4, atol=1e-4)


@pytest.mark.lens
@pytest.mark.parametrize("family", ["GPT2LMHeadModel", "GPTNeoXForCausalLM", "MixtralForCausalLM"])
def test_a_bridge_computes_what_the_model_behind_it_would(family):
    """A bridge of a fused layer computes with copies of its parts: they are written too."""
    tokens = torch.arange(3, 12)[None]
    alone = rb.scale_init(made(family), 0.4, per={"vo": 0.6}, seed=5)
    logits = alone(tokens).logits
    bridge = rb.scale_init(bridged(made(family)), 0.4, per={"vo": 0.6}, seed=5)
    torch.testing.assert_close(bridge(tokens), logits, rtol=1e-4, atol=1e-4)
    told, own = (
        rb.initialisation_table(model, 0.4, per={"vo": 0.6}).set_index("parameter")
        for model in (alone, bridge)
    )
    assert set(own.index) - {"lm_head.bias"} == set(told.index)  # TransformerLens 3.9 adds it
    assert own.z.abs().max() < 4.5


@pytest.mark.lens
def test_a_bridge_is_read_where_it_computes():
    """After training the fused layer behind a bridge is old; the table tells of the parts that are
    trained."""
    bridge = rb.scale_init(bridged(made("GPTNeoXForCausalLM")), 0.5)
    with torch.no_grad():
        bridge.blocks[1].attn.v.original_component.weight.mul_(3)
    table = rb.initialisation_table(bridge, 0.5)
    moved = table[table.z.abs() > 4.5]
    assert [(row.group, "layers.1" in row.parameter) for row in moved.itertuples()] == [
        ("vo", True)
    ]


TASK = rb.AnchorTask.preset("smoke")
OWN = {
    "none": {"norm": "none"},
    "pre": {"norm": "pre", "n_heads": 2},
    "post": {"norm": "post", "train_biases": True},
    "tied": {"norm": "pre", "tied": True},
    "uniform": {"uniform_layers": (1,)},
    "d_model": {"scheme": "d_model"},
    "torch_default": {"scheme": "torch_default"},
    "conv1d": {"scheme": "conv1d"},
    "fixed": {"scheme": "fan_in_fixed_embedding", "gammas": rb.models.MatrixGammas(qk=0.2)},
    "emb_mlp": {"architecture": "emb_mlp", "n_layers": 1},
    "one_layer": {"architecture": "one_layer", "n_layers": 1, "d_model": TASK.d_vocab},
}


@pytest.mark.lens
@pytest.mark.parametrize("kind", OWN)
def test_a_model_of_this_package_gets_the_weights_that_build_model_writes(kind):
    given: Any = OWN[kind]
    per = {"qk": 0.2} if "gammas" in given else {}
    scheme = given.get("scheme", "fan_in")
    first, second = (
        rb.build_model(TASK, gamma, seed=seed, **given) for gamma, seed in ((0.3, 0), (0.8, 4))
    )
    frozen = {name for name, tensor in first.named_parameters() if not tensor.requires_grad}
    assert rb.scale_init(first, 0.8, per=per, scheme=scheme, seed=4) is first
    written = dict(second.named_parameters())
    assert {name for name, tensor in first.named_parameters() if not tensor.requires_grad} == frozen
    assert all(torch.equal(tensor, written[name]) for name, tensor in first.named_parameters())
    tied = {each.parameter.name for each in tensors_of(first) if each.tied_to}
    assert tied == ({"unembed.W_U"} if kind == "tied" else set())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_dtype_frozen_tensors_and_random_state_stay_and_gammas_share_their_draws(dtype):
    model, state = made("LlamaForCausalLM").to(dtype), torch.get_rng_state()
    model.lm_head.weight.requires_grad_(False)
    large = {
        name: weight.clone()
        for name, weight in rb.scale_init(model, 0.3, seed=7).named_parameters()
    }
    small = dict(rb.scale_init(model, 0.8, seed=7).named_parameters())
    assert torch.equal(torch.get_rng_state(), state)
    assert [name for name, weight in small.items() if not weight.requires_grad] == [
        "lm_head.weight"
    ]
    for name, d_in in (("lm_head.weight", D), ("model.layers.1.mlp.down_proj.weight", M)):
        assert small[name].dtype == dtype
        torch.testing.assert_close(
            large[name].float(), small[name].float() * d_in**0.5, rtol=2**-7, atol=1e-5
        )
    assert not torch.equal(
        rb.scale_init(model, 0.8, seed=8).lm_head.weight, large["lm_head.weight"]
    )


def test_the_table_knows_what_a_model_was_drawn_with():
    """The intended deviation stays, whatever training does; a draw takes the place of the one
    before."""
    model = rb.scale_init(made("GPT2LMHeadModel"), 0.8, per={"qk": 0.5}, seed=1)
    names = set(model.state_dict())
    given = rb.initialisation_table(model, 0.8, per={"qk": 0.5})
    assert rb.initialisation_table(model).equals(given)
    with torch.no_grad():
        model.transformer.wte.weight.mul_(3)
    later = rb.initialisation_table(model)
    assert later.intended_at_init.equals(given.intended_at_init)
    assert later.measured_std[0] == pytest.approx(3 * given.measured_std[0])
    assert later.z[0] > 4 > abs(given.z[0])
    assert rb.initialisation_table(model, 0.3).intended_at_init[0] == D**-0.3
    assert rb.initialisation_table(rb.scale_init(model, 0.4)).intended_at_init[0] == D**-0.4
    assert set(model.state_dict()) == names
    assert rb.initialisation_table(copy.deepcopy(model)).intended_at_init.isna().all()


def test_the_gamma_of_what_transformers_starts_with():
    model = made("GPT2LMHeadModel")
    table = rb.initialisation_table(model).set_index("parameter")
    assert table.fitted_gamma["transformer.wte.weight"] == pytest.approx(
        -math.log(0.02) / math.log(D), rel=0.02
    )
    assert table[["intended_at_init", "z"]].isna().all(axis=None)
    assert table.tied_to["lm_head.weight"] == "transformer.wte.weight"
    parts = table.loc["transformer.h.0.attn.c_attn.weight"]
    assert list(zip(parts["shape"], parts.group, strict=True)) == [
        ((D, 2 * D), "qk"),
        ((D, D), "vo"),
    ]


class Odd(nn.Module):
    """A linear layer beside a tensor that nothing describes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.prompt = nn.Linear(4, 4), nn.Parameter(torch.ones(2, 4))


REFUSED = {
    "1 of the tensors of this Odd are no weight or bias of a linear layer, an embedding or a norm: prompt": (
        Odd,
        {},
    ),
    "'weight' of this Linear has no data (device 'meta'); give": (
        lambda: nn.Linear(2, 2, device="meta"),
        {},
    ),
    "scheme 'd_model' needs d_model and n_layers of this model": (
        lambda: nn.Linear(2, 2),
        {"scheme": "d_model"},
    ),
    "no matrix of the group 'qk': its matrices are other": (
        lambda: nn.Linear(2, 2),
        {"per": {"qk": 1.0}},
    ),
    "no matrix of the group 'unembedding': its unembedding is the embedding": (
        lambda: made("GPT2LMHeadModel"),
        {"per": {"unembedding": 1.0}},
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_initialised_is_one_sentence_and_nothing_is_written(text):
    make, given = REFUSED[text]
    model = make()
    before = (
        [parameter.clone() for parameter in model.parameters()]
        if isinstance(model, nn.Module)
        else []
    )
    with pytest.raises(ModelError, match=re.escape(text)):
        rb.scale_init(model, **{"gamma": 0.8, **given})
    after = list(model.parameters()) if before else []
    assert all(
        one.is_meta or torch.equal(one, other) for one, other in zip(before, after, strict=True)
    )


def test_an_order_of_queries_and_values_that_is_not_known_needs_one_rate():
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv_proj = nn.Linear(D, 3 * D)

    assert has_std(
        rb.scale_init(Attention(), 0.7, per={"qk": 0.5, "vo": 0.5}).qkv_proj.weight, D**-0.5
    )
    with pytest.raises(
        ModelError,
        match="gammas qk=0.5 and vo=None differ, and 'qkv_proj.weight' holds queries, keys",
    ):
        rb.scale_init(Attention(), 0.7, per={"qk": 0.5})


@pytest.mark.parametrize("scheme", ["fan_in", "torch_default"])
def test_z_is_standard_normal_over_seeds(scheme):
    sizes = {"d_model": 16, "d_head": 8, "d_mlp": 24}
    models = (rb.build_model(TASK, 0.8, scheme=scheme, seed=seed, **sizes) for seed in range(20))
    z = np.concatenate([rb.initialisation_table(model).z.dropna() for model in models])
    assert len(z) == 20 * (3 + 6 * 2)
    assert abs(np.mean(z**2) - 1) < 4 * math.sqrt(2 / len(z))


def test_rows_by_hand():
    model = rb.build_model(rb.AnchorTask(), gamma=0.5, norm="pre", seed=1, n_heads=2)
    table = rb.initialisation_table(model).set_index("parameter")
    out, bias, scale = (
        table.loc["blocks.1.attn.W_O"],
        table.loc["blocks.0.mlp.b_in"],
        table.loc["ln_final.w"],
    )
    assert (out["shape"], out.d_in, out.intended_at_init, out.trained) == (
        (2, 32, 64),
        64,
        0.125,
        True,
    )
    assert out.measured_std == pytest.approx(
        0.125 * (1 + out.z / math.sqrt(2 * 2 * 32 * 64)), rel=1e-5
    )  # float32
    assert (bias.d_in, bias.intended_at_init, bias.measured_std, bias.trained) == (0, 0, 0, False)
    assert math.isnan(bias.z)
    assert (scale.measured_std, scale.trained, table.loc["unembed.b_U"].trained) == (0, True, True)
    assert rb.initialisation_table(
        rb.build_model(rb.AnchorTask(), 0.5, train_biases=True)
    ).trained.all()
