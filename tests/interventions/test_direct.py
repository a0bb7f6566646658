"""Direct effects: equal to formulas written by hand and to TransformerLens's, true of known models,
and refused where the logits are no such sum.

Written down before the first run. True: the memoriser's L1 MLP writes the answer, and the two
induction heads of the zoo's model; each reads the whole, or most, with the least p there is. False:
the same parts under answers dealt out at random read near 0 with any p, and so do parts that do
something else (the previous-token head). Untrained: every part reads near 0."""

import warnings

import numpy as np
import pytest
import torch
from induction import INDUCTION, OTHER, PREVIOUS, known, rows
from models.test_structure import model_with
from probes.lens_models import bridged, encoder, lens_model, read_weights, transformers_model
from probes.probe_cases import INPUTS

from rb_interp import interventions as iv
from rb_interp.errors import ArgumentError, ModelError
from rb_interp.interventions.metrics import logit_diff
from rb_interp.models.build import build_model
from rb_interp.models.reference import reference
from rb_interp.probes.activations import capture
from rb_interp.tasks import AnchorTask, Inputs

RNG = np.random.default_rng(0)
ROWS = Inputs(RNG.integers(0, 30, (5, 6)), np.array([3, 7, 1, 9, 7]))
CONTROL = Inputs(RNG.integers(0, 30, (5, 6)), (ROWS.labels + 4) % 30)
UNITS = ("component", "head", "neuron")
OUR_SIZES = {"d_model": 12, "d_head": 6, "d_mlp": 16, "n_heads": 2, "layer_norm_eps": 1e-2}


def ours(norm, **options):
    """A model of this package in float64, every parameter away from its default."""
    model = build_model(AnchorTask(), 0.3, norm=norm, dtype=torch.float64, **OUR_SIZES, **options)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


MODELS = {
    "none": lambda: ours("none"),
    "pre": lambda: ours("pre"),
    "post": lambda: ours("post"),
    "tied": lambda: ours("pre", tied=True),
    "folded": lambda: lens_model("folded"),
    "RMS": lambda: lens_model("rotary"),
    "grouped": lambda: lens_model("grouped"),
    "parallel": lambda: lens_model("gpt2", parallel_attn_mlp=True),
    "capped": lambda: lens_model("gpt2", output_logits_soft_cap=3),
    "Pythia, bridged": lambda: bridged(transformers_model("GPTNeoX")),
    "Qwen, bridged": lambda: bridged(transformers_model("Qwen3")),
}


def effects(model, inputs=ROWS, **options):
    matrix = iv.direct_effect(model, inputs, n_draws=0, **options)
    return dict(zip(matrix.axes["site"], matrix.patched, strict=True)), matrix


@pytest.mark.lens
@pytest.mark.parametrize("kind", MODELS)
def test_parts_and_biases_sum_to_the_metric(kind):
    """The metric is that of the model's own logits, before a cap."""
    model = MODELS[kind]()
    with torch.no_grad():
        logits = model(torch.from_numpy(ROWS.tokens))[:, -1].double().numpy()
    if kind == "capped":
        logits = 3 * np.arctanh(logits / 3)
    expected = logits[np.arange(5), ROWS.labels] - logits[:, ROWS.labels].mean(1)
    for by in UNITS:
        found, matrix = effects(model, by=by)
        assert np.abs(sum(found.values()) - expected).max() < 1e-5
        assert np.abs(matrix.clean - expected).max() < 1e-5
        assert ("cap" in matrix.notes) == (kind == "capped")


def by_hand(model, norm, site):
    """What one part adds to each label's logit, by the formula, from captured activations."""
    last = {"blocks.0.hook_resid_pre": None, "blocks.0.hook_resid_mid": None}
    names = [*last, "blocks.0.hook_resid_post", "blocks.1.hook_resid_mid"]
    names += ["blocks.1.hook_resid_post", "blocks.0.attn.hook_z", "blocks.0.mlp.hook_post"]
    names += ["blocks.0.hook_attn_out", "blocks.0.hook_mlp_out", "blocks.1.hook_attn_out"]
    names += ["blocks.1.hook_mlp_out", "hook_embed"]
    read = {name: value[:, -1] for name, value in capture(model, ROWS.tokens, names).items()}
    block = model.blocks
    parts = {
        "embed": read["hook_embed"],
        "mlp_out.0": read["blocks.0.hook_mlp_out"],
        "z.0.1": read["blocks.0.attn.hook_z"][:, 1] @ block[0].attn.W_O[1],
        "mlp_post.0.3": read["blocks.0.mlp.hook_post"][:, 3, None] * block[0].mlp.W_out[3],
    }
    sums = {
        "blocks.0.ln1": read["blocks.0.hook_resid_pre"] + read["blocks.0.hook_attn_out"],
        "blocks.0.ln2": read["blocks.0.hook_resid_mid"] + read["blocks.0.hook_mlp_out"],
        "blocks.1.ln1": read["blocks.0.hook_resid_post"] + read["blocks.1.hook_attn_out"],
        "blocks.1.ln2": read["blocks.1.hook_resid_mid"] + read["blocks.1.hook_mlp_out"],
    }
    passed = [*sums] if norm == "post" else []
    if site in ("mlp_out.0", "mlp_post.0.3"):
        passed = passed[1:]
    if norm == "pre":
        sums["ln_final"] = read["blocks.1.hook_resid_post"]
        passed = ["ln_final"]
    c, W = parts[site], read_weights(model)
    for name in passed:
        x = sums[name] - sums[name].mean(-1, keepdim=True)
        sigma = (x.square().mean(-1, keepdim=True) + 1e-2).sqrt()
        c = (c - c.mean(-1, keepdim=True)) / sigma * W[f"{name}.w"]
    return (c @ W["unembed.W_U"])[torch.arange(5), torch.from_numpy(ROWS.labels)].detach().numpy()


@pytest.mark.lens
@pytest.mark.parametrize("norm", ["none", "pre", "post"])
def test_each_effect_is_that_of_the_formula(norm):
    model = ours(norm)
    for by, sites in (("component", ["embed", "mlp_out.0"]), ("head", ["z.0.1"])):
        found, _ = effects(model, by=by, metric="logit")
        for site in sites:
            np.testing.assert_allclose(found[site], by_hand(model, norm, site), rtol=1e-8)
    found, _ = effects(model, by="neuron", metric="logit", n_neurons=32)
    expected = by_hand(model, norm, "mlp_post.0.3")
    np.testing.assert_allclose(found["mlp_post.0.3"], expected, rtol=1e-8, atol=1e-12)


def folded_for_lens():
    """A model whose weights TransformerLens has folded, and its parts' effects by TransformerLens."""
    tokens, labels = torch.from_numpy(ROWS.tokens), torch.from_numpy(ROWS.labels)
    try:
        from transformer_lens.tools.analysis import direct_logit_attribution
    except ImportError:
        model = lens_model("folded", n_layers=2)
        _, cache = model.run_with_cache(tokens)
        stack, names = cache.decompose_resid(pos_slice=-1, return_labels=True)
        heads = cache.stack_head_results(pos_slice=-1)
        wrong = torch.full_like(labels, 4)
        return (
            model,
            names,
            [cache.logit_attrs(x, labels, wrong, pos_slice=-1) for x in (stack, heads)],
        )
    model = bridged(transformers_model("GPTNeoX"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.enable_compatibility_mode()
    found = [
        direct_logit_attribution(model, tokens, labels, torch.full_like(labels, 4), unit=unit)
        for unit in ("component", "head")
    ]
    return model, found[0].labels, [one.attribution for one in found]


@pytest.mark.lens
def test_effects_in_a_folded_model_are_those_of_transformer_lens():
    model, names, expected = folded_for_lens()
    spelling = {"embed": "embed", "pos_embed": "pos_embed"}
    for layer in range(model.cfg.n_layers):
        spelling |= {f"{layer}_{part}": f"{part}.{layer}" for part in ("attn_out", "mlp_out")}
    assert {"embed", "0_attn_out", "1_mlp_out"} <= {*names}
    found, _ = effects(model, metric=logit_diff(None, 4))
    for name, values in zip(names, expected[0].detach().numpy(), strict=True):
        if name in spelling:
            np.testing.assert_allclose(found[spelling[name]], values, rtol=1e-4, atol=1e-5)
    found, _ = effects(model, metric=logit_diff(None, 4), by="head")
    heads = [(layer, head) for layer in range(model.cfg.n_layers) for head in range(4)]
    for (layer, head), values in zip(heads, expected[1].detach().numpy(), strict=False):
        np.testing.assert_allclose(found[f"z.{layer}.{head}"], values, rtol=1e-4, atol=1e-5)


def test_the_memoriser_s_last_mlp_writes_the_answer_and_one_neuron_a_row():
    """The unit of a row's key and anchors; answers dealt out at random read little."""
    true = reference("memoriser")
    model, data = true.model(torch.float64), true.task.dataset(seed=0)
    inputs = data.inputs(data.sample("rsn_train", 30))
    found, _ = effects(model, inputs)
    share = np.array([(inputs.labels == label).mean() for label in inputs.labels])
    whole = found["mlp_out.1"].max() / (1 - share).max()
    np.testing.assert_allclose(found["mlp_out.1"], whole * (1 - share), rtol=0.01)
    assert (
        max(
            np.abs(found[name]).max() for name in ("embed", "pos_embed", "attn_out.0", "attn_out.1")
        )
        < 1e-9
    )
    table = iv.direct_effect(model, inputs).to_frame().set_index("site")
    assert table.p_value["mlp_out.1"] == pytest.approx(1 / 101)
    assert table.p_value["embed"] == 1
    _, cache = model.run_with_cache(torch.from_numpy(inputs.tokens))
    active = cache["blocks.1.mlp.hook_post"][:, -1] > 0.5
    assert (active.sum(1) == 1).all()
    units = {f"mlp_post.1.{unit}" for unit in active.nonzero()[:, 1].tolist()}
    found, _ = effects(model, inputs, by="neuron", n_neurons=len(units))
    assert units == {name for name in found if name.startswith("mlp_post")}
    assert np.abs(found["other neurons"]).max() < 1e-9
    more, _ = effects(model, inputs, by="neuron", n_neurons=len(units) + 2)  # of equal effect, 0
    assert len(more) == len(found) + 2
    every, _ = effects(model, inputs, by="neuron", n_neurons=10**6)
    assert len(every) == len(found) - len(units) + 2 * model.cfg.d_mlp

    dealt = Inputs(inputs.tokens, RNG.permutation(inputs.labels), inputs.roles)
    false = iv.direct_effect(model, dealt).to_frame().set_index("site")
    assert abs(false.effect["mlp_out.1"]) < 0.3 * table.effect["mlp_out.1"]
    assert false.p_value["mlp_out.1"] > 0.05


def test_a_part_of_rounding_alone_has_a_p_of_one():
    """No bias: what is left of a sum in single precision has no direction."""
    model = lens_model("plain")
    for name, parameter in model.named_parameters():
        if ".b_" in name:
            torch.nn.init.zeros_(parameter)
    table = iv.direct_effect(model, INPUTS).to_frame().set_index("site")
    assert abs(table.effect["biases"]) < 1e-6
    assert table.p_value["biases"] == 1


def test_the_induction_heads_write_the_answer():
    name = "z.{}.{}".format
    table = iv.direct_effect(known().model, rows(), by="head").to_frame().set_index("site")
    untrained = iv.direct_effect(known().untrained, rows(), by="head").to_frame().set_index("site")
    heads = [name(*head) for head in INDUCTION]
    assert table.effect[heads].min() > 5 * abs(table.effect[[name(*PREVIOUS), name(*OTHER)]]).max()
    assert (table.low[heads] > 0).all()
    assert table.p_value[heads].max() == pytest.approx(1 / 101)
    assert untrained.effect.abs().max() < 0.05 * table.effect[heads].min()


def test_the_control_reads_other_rows_along_the_answers_of_these():
    """With the answers of the next row; p is that of the permutations, by hand."""
    model = ours("none")
    matrix = iv.direct_effect(model, ROWS, metric="logit", control=CONTROL, n_draws=30)
    out = capture(model, CONTROL.tokens, ["blocks.0.hook_mlp_out"])["blocks.0.hook_mlp_out"][:, -1]
    read = (out @ model.W_U).detach().numpy()
    cell = matrix.axes["site"].index("mlp_out.0")
    assert matrix.control[cell] == pytest.approx(read[np.arange(5), ROWS.labels].mean())
    read = (
        capture(model, ROWS.tokens, ["blocks.0.hook_mlp_out"])["blocks.0.hook_mlp_out"][:, -1]
        @ model.W_U
    )
    table = read.detach().numpy()[:, ROWS.labels]
    rng = np.random.default_rng([0, 12])
    orders = rng.permuted(np.tile(np.arange(5), (30, 1)), axis=1)
    draws = np.array([table[np.arange(5), order].mean() for order in orders])
    own = table.diagonal().mean()
    middle = (draws.sum() + own) / 31  # the effect is one more draw
    far = np.abs(draws - middle) >= np.abs(own - middle) - 1e-12
    assert matrix.p_values[cell] == pytest.approx((1 + far.sum()) / 31)
    one = iv.direct_effect(model, ROWS, metric="logit", n_draws=1)
    assert (one.p_values == 1).all()  # of two numbers each is as far from their middle


@pytest.mark.parametrize("by", UNITS)
@pytest.mark.parametrize("place", ["hook_mlp_out", "attn.hook_z", "hook_embed", "hook_attn_out"])
def test_a_stand_in_is_read_as_a_hook_point_that_computes_it(place, by):
    """Split below a module that stands behind the sum, there is no such sum."""
    model, oracle = (model_with(place, "plain", oracle=which) for which in (False, True))
    if (place, by) in (("hook_mlp_out", "neuron"), ("hook_attn_out", "head")):
        with pytest.raises(ModelError, match="no sum of what is written there"):
            effects(model, by=by)
        return
    found, expected = effects(model, by=by)[0], effects(oracle, by=by)[0]
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=1e-6)


@pytest.mark.parametrize("place", ["hook_resid_pre", "hook_resid_mid", "hook_resid_post"])
def test_a_stand_in_within_the_stream_is_refused(place):
    with pytest.raises(
        ModelError, match="the stream after L[01] .* is no sum of what is written there"
    ):
        effects(model_with(place, "plain", layer=1))


REFUSED = {
    "loss": (
        ModelError,
        "'loss', which is not linear .* 'logit_diff' and 'logit' are",
        {"metric": "loss"},
    ),
    "accuracy": (ModelError, "'accuracy', which is not linear", {"metric": "accuracy"}),
    "probability": (ModelError, "'probability', which is not linear", {"metric": "probability"}),
    "by": (ArgumentError, "by='layer'", {"by": "layer"}),
    "no neuron": (
        ArgumentError,
        "n_neurons=0; this model has 128 neurons",
        {"by": "neuron", "n_neurons": 0},
    ),
    "its own answers": (ModelError, "a control with the answers of the rows", {"control": ROWS}),
    "one answer": (ModelError, "labels of one answer", {"inputs": ROWS.take([1, 4])}),
}


@pytest.mark.lens
@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_direct_effect_is_refused_in_one_sentence(case):
    kind, message, options = REFUSED[case]
    with pytest.raises(kind, match=message):
        iv.direct_effect(lens_model("gpt2"), **{"inputs": ROWS, **options})


def test_an_encoder_and_a_norm_behind_a_sublayer_are_refused():
    with pytest.raises(ModelError, match="the stream after L0 of this HookedEncoder"):
        effects(encoder())
    with pytest.raises(ModelError, match=r"'attn_out.0' .* read by='component'"):
        effects(bridged(transformers_model("Gemma2")), by="head")


def test_a_figure_has_each_part_with_its_interval_and_its_control():
    matrix = iv.direct_effect(ours("pre"), ROWS, control=CONTROL)
    ax = matrix.plot()
    assert [text.get_text() for text in ax.get_yticklabels()] == matrix.axes["site"]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), matrix.values)
    assert "p_value" in str(matrix)


def test_a_layer_without_the_hook_is_named():
    model = lens_model("gpt2", n_layers=2)
    model.blocks[1].attn.hook_z = torch.nn.Identity()
    model.setup()
    assert "attn_out.1" in iv.direct_effect(model, ROWS, n_draws=0).axes["site"]
    with pytest.raises(ModelError, match=r"no hook for 'z.1'; read by='component'"):
        iv.direct_effect(model, ROWS, by="head", n_draws=0)
