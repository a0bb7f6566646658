"""The logit lens: the model's own output at the end, formulas before it, and true of known models.

Written down before the first run. True: the memoriser writes the answer in L1's MLP: before it the
logit difference is 0, after it the rank is 0 and the probability 1. False: under answers dealt out
at random the last stream reads no better than its null. Untrained: rank near half the vocabulary,
probability 1/d_vocab, difference 0, at every stream."""

import numpy as np
import pandas as pd
import pytest
import torch
from induction import known, rows
from lens_models import bridged, encoder, lens_model, transformers_model
from probe_cases import INPUTS

from rb_interp import probes
from rb_interp.errors import ModelError
from rb_interp.models.build import build_model
from rb_interp.models.reference import reference
from rb_interp.probes.activations import capture
from rb_interp.tasks import AnchorTask, Inputs, Roles

N = len(INPUTS)
MODELS = {
    "none": lambda: lens_model("plain"),
    "pre": lambda: lens_model("gpt2"),
    "folded": lambda: lens_model("folded"),
    "RMS": lambda: lens_model("rotary"),
    "parallel": lambda: lens_model("gpt2", parallel_attn_mlp=True),
    "capped": lambda: lens_model("gpt2", output_logits_soft_cap=3),
    "post": lambda: build_model(AnchorTask(), 0.3, norm="post", d_model=16, d_head=8, d_mlp=16),
    "Gemma, bridged": lambda: bridged(transformers_model("Gemma2")),
}


def quantities(logits):
    """Rank, probability and logit difference of each row's answer, one row at a time."""
    found = {"rank": [], "probability": [], "logit_diff": []}
    for row, label in zip(logits.double(), INPUTS.labels, strict=True):
        found["rank"].append(int((row > row[label]).sum()))
        found["probability"].append(float(row.softmax(0)[label]))
        found["logit_diff"].append(float(row[label] - row[INPUTS.labels].mean()))
    return {name: np.mean(values) for name, values in found.items()}


@pytest.mark.lens
@pytest.mark.parametrize("role", [None, "key"])
@pytest.mark.parametrize("kind", MODELS)
def test_the_last_stream_reads_as_the_model_s_own_output(kind, role):
    model = MODELS[kind]()
    at = 8 if role is None else INPUTS.roles.positions["key"][:, 0]
    with torch.no_grad():
        logits = model(torch.from_numpy(INPUTS.tokens))[torch.arange(N), at]
    last = f"resid_post.{model.cfg.n_layers - 1}"
    for scale, said in (("own", "stream that is read"), ("final", "last stream")):
        reading = probes.logit_lens(model, INPUTS, role=role, scale=scale, n_null=0)
        assert said in reading.notes["scale"]
        found = reading.values
        for name, value in quantities(logits).items():
            assert found[f"{last}:{name}"] == pytest.approx(value, abs=1e-4)


def test_the_role_last_is_where_rows_end_without_their_padding():
    """Of probes that read one position of a row, at the last one if no role is named."""
    model = MODELS["pre"]()
    ends = np.full(N, 8) - np.arange(N) % 2
    rows = Inputs(INPUTS.tokens, INPUTS.labels, Roles({**INPUTS.roles.positions, "last": ends}))
    groups = np.arange(N) % 2
    calls = [
        (probes.logit_lens, {}),
        (probes.variance_explained, {}),
        (probes.cosines_by_target, {"hook": "blocks.1.hook_resid_mid"}),
        (probes.label_range, {"groups": groups, "ranges": [(0, 9), (0, 19)]}),
    ]
    for probe, options in calls:
        values = pd.Series(probe(model, rows, n_null=0, **options).values)
        at_the_end = pd.Series(probe(model, INPUTS, n_null=0, **options).values)
        assert (values - at_the_end).abs().max() > 1e-4, probe
    short, long = (rows.take(np.flatnonzero(ends == end)) for end in (7, 8))
    cut = Inputs(short.tokens[:, :8], short.labels)
    for part, whole in ((short, cut), (long, Inputs(long.tokens, long.labels))):
        found, expected = (probes.logit_lens(model, x, n_null=0).values for x in (part, whole))
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.lens
def test_an_early_stream_is_normalised_by_itself_or_by_the_last_one():
    """The hand's own division, of a model whose early stream is short."""
    model = lens_model("gpt2", n_layers=2)
    with torch.no_grad():
        model.W_E.mul_(0.01)
        if model.W_pos is not None:
            model.W_pos.mul_(0.01)
    hooks = ["blocks.0.hook_resid_pre", "blocks.1.hook_resid_post"]
    first, last = (capture(model, INPUTS.tokens, hooks)[hook][:, -1] for hook in hooks)
    for scale, x in (("own", first), ("final", last)):
        x = x - x.mean(-1, keepdim=True)
        sigma = (x.square().mean(-1, keepdim=True) + model.cfg.eps).sqrt()
        normal = (
            first - first.mean(-1, keepdim=True)
        ) / sigma * model.ln_final.w + model.ln_final.b
        expected = quantities((normal @ model.W_U + model.b_U).detach())
        found = probes.logit_lens(model, INPUTS, scale=scale, n_null=0).values
        for name, value in expected.items():
            assert found[f"resid_pre.0:{name}"] == pytest.approx(value, abs=1e-4)


def test_an_answer_that_is_nearly_impossible_has_the_p_of_its_logit():
    model = reference("memoriser").model(torch.float64)
    data = reference("memoriser").task.dataset(seed=0)
    inputs = data.inputs(data.sample("rsn_train", 60))
    with torch.no_grad():
        model.unembed.b_U[0] += 60
    reading = probes.logit_lens(model, inputs, n_null=50)
    name = "resid_post.1:probability"
    assert reading.values[name] < 1e-9
    assert reading.nulls[name].p_value(reading.values[name]) == pytest.approx(1 / 51)


def test_the_memoriser_s_answer_appears_behind_its_last_mlp():
    true = reference("memoriser")
    data, task = true.task.dataset(seed=0), true.task
    inputs = data.inputs(data.sample("rsn_train", 60))
    start = build_model(task, 0.8)
    reading = probes.logit_lens(true.model(torch.float64), inputs, untrained=start, n_null=50)
    found, untrained = reading.values, reading.untrained
    before = [name for name in found if name.startswith(("resid_pre", "resid_mid", "resid_post.0"))]
    for name in before:
        if name.endswith("logit_diff"):
            assert abs(found[name]) < 1e-9
            assert reading.nulls[name].p_value(found[name]) == 1
    assert found["resid_post.1:rank"] == 0
    assert found["resid_post.1:probability"] > 0.99
    for name in ("rank", "probability", "logit_diff"):
        p = reading.nulls[f"resid_post.1:{name}"].p_value(found[f"resid_post.1:{name}"])
        assert p == pytest.approx(1 / 51)
    for stream in ("resid_pre.0", "resid_mid.1", "resid_post.1"):
        assert 60 < untrained[f"{stream}:rank"] < 140
        assert untrained[f"{stream}:probability"] == pytest.approx(1 / task.d_vocab, rel=0.05)
        assert abs(untrained[f"{stream}:logit_diff"]) < 0.01

    labels = np.random.default_rng(0).permutation(inputs.labels)
    false = probes.logit_lens(true.model(), Inputs(inputs.tokens, labels, inputs.roles))
    assert false.values["resid_post.1:rank"] > 0
    for name in ("rank", "probability", "logit_diff"):
        name = f"resid_post.1:{name}"
        assert false.nulls[name].p_value(false.values[name]) > 0.05


def test_induction_is_read_behind_the_last_attention():
    """L1's heads write the answer; the stream that they read from does not hold it."""
    reading = probes.logit_lens(known().model, rows(), untrained=known().untrained)
    ranks = [value for name, value in reading.values.items() if name.endswith("rank")]
    assert max(ranks[-2:]) < 0.1 < 3 < min(ranks[:-2])
    assert min(value for name, value in reading.untrained.items() if name.endswith("rank")) > 3


@pytest.mark.lens
def test_a_cache_reads_as_its_model_does():
    model = lens_model("gpt2", n_layers=2)
    hooks = [
        f"blocks.{layer}.hook_resid_{kind}" for layer in (0, 1) for kind in ("pre", "mid", "post")
    ]
    cache = probes.captured(model, INPUTS.tokens, hooks)
    found, expected = probes.logit_lens(cache, INPUTS), probes.logit_lens(model, INPUTS)
    assert found.to_frame().equals(expected.to_frame())


def diverged():
    model = build_model(AnchorTask(), 0.3)
    with torch.no_grad():
        model.unembed.W_U[0, 0] = torch.nan
    return model


REFUSED = {
    "arrays": (lambda: probes.from_arrays(W_E=np.eye(30)), "logit_lens got arrays"),
    "NaN": (diverged, "whose weights are not all finite"),
    "a head of its own": (encoder, "HookedEncoder whose logits are not the unembedding"),
    "sums": (
        lambda: build_model(AnchorTask(), 0.3, architecture="emb_mlp", n_layers=1),
        "no hook 'blocks.0.hook_resid_pre'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_model_without_such_streams_is_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(ModelError, match=message):
        probes.logit_lens(make(), INPUTS)


def test_rows_without_labels_are_refused_and_one_answer_has_a_note():
    model = build_model(AnchorTask(), 0.3)
    with pytest.raises(ModelError, match="none labels"):
        probes.logit_lens(model, Inputs(INPUTS.tokens))
    reading = probes.logit_lens(model, INPUTS.take(INPUTS.labels == 2))
    assert "p is 1 and logit_diff 0 in any model" in reading.notes["resid_mid.0:rank"]
    axes = reading.plot(quantity="rank")
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert axes.get_xlabel() == "rank"
    assert names == [name for name in reading.values if name.endswith(":rank")]
