"""What probes read: a model, its activations captured beforehand, and plain arrays; a scan reads
them once."""

from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
import torch
from lens_models import Wrapped, bridged, hooks_on, lens_model, transformers_model
from transformer_lens import ActivationCache

from rb_interp import probes
from rb_interp.errors import ModelError
from rb_interp.interventions import attribution_matrix, patching_matrix, subspace_effect
from rb_interp.models.hooking import caller_hooks
from rb_interp.probes.embeddings import token_embeddings
from rb_interp.statistics.reading import Null
from rb_interp.tasks import Inputs
from rb_interp.tasks.inputs import Roles

N, LENGTH, LAYERS = 30, 9, 2
PATTERN, TOKENS = "blocks.1.attn.hook_pattern", np.random.default_rng(0).integers(0, 30, (7, 9))
KEY = np.arange(N)[:, None] % 6
INPUTS = Inputs(
    np.random.default_rng(0).integers(0, 30, (N, LENGTH)),
    np.arange(N) % 7,
    Roles(
        {"key": KEY, "anchor": KEY + np.arange(1, 3)},
        {"low": np.arange(6), "high": np.arange(9, 14)},
    ),
)
COUNTS = np.stack(
    [np.r_[np.full(15, 40), np.zeros(15, int)], np.r_[np.zeros(15, int), np.full(15, 50)]]
)
PLACE = {"layer": 1, "head": 2}
CASES = {
    "uniformity": PLACE,
    "attention": {**PLACE, "query": "anchor", "to": ["key", "anchor"]},
    "attention_by_role": PLACE,
    "attention_to_key": PLACE,
    "value_alignment": PLACE,
    "variance_explained": PLACE,
    "cosines_by_target": {"hook": "blocks.1.hook_resid_mid", "role": "key"},
    "geometry": PLACE,
    "label_range": {"groups": np.arange(N) % 2, "ranges": [(0, 9), (0, 19)]},
    "lattice": {"tokens": "low"},
    "weight_rank": {"layer": 1},
    "weight_spectra": {"layer": 1},
    "condensation": {"layer": 1, "matrices": ("W_Q", "W_in")},
    "embedding_rank": {"counts": COUNTS},
    "token_similarity": {"counts": COUNTS},
    "next_token": {"counts": COUNTS},
}
BY_LAYER = ("pattern", "z", "resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out")


def arrays_of(model) -> dict:
    """Everything under its short name, as numpy arrays, from plain run_with_cache and weights."""
    with torch.no_grad():
        logits, cache = model.run_with_cache(torch.from_numpy(INPUTS.tokens))
        found = {
            name: np.stack([cache[name, layer].numpy() for layer in range(LAYERS)])
            for name in BY_LAYER
        }
        weights = ("W_E", "W_Q", "W_K", "W_V", "W_O", "W_in", "W_out")
        found |= {name: getattr(model, name).detach().numpy() for name in weights}
    read = [token_embeddings(model, np.arange(30), LENGTH, layer, 0) for layer in range(LAYERS)]
    return {**found, "logits": logits.numpy(), "token_inputs": np.stack(read)}


@pytest.fixture(scope="module")
def both():
    model, untrained = (lens_model("gpt2", seed, n_layers=LAYERS) for seed in (0, 1))
    sources = [probes.from_arrays(**arrays_of(one)) for one in (model, untrained)]
    return (model, untrained), sources


@pytest.mark.parametrize("name", CASES)
def test_every_probe_reads_arrays_as_it_reads_the_model(name, both):
    (model, untrained), (source, before) = both
    probe, options = getattr(probes, name), {"n_null": 5, **CASES[name]}
    expected = probe(model, INPUTS, untrained=untrained, **options)
    found = probe(source, INPUTS, untrained=before, **options)
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame(), rtol=1e-9, atol=1e-12)
    assert found.notes == expected.notes
    for key, array in expected.arrays.items():
        np.testing.assert_allclose(found.arrays[key], array, rtol=1e-6, atol=1e-9)


def test_all_probes_are_among_the_cases_or_read_text():
    named = [
        name
        for name in probes.__all__
        if "n_null" in getattr(getattr(probes, name), "__annotations__", {})
    ]
    assert set(named) == {*CASES, "chain_accuracy"}


def test_a_scan_adjusts_p_over_its_heads_for_each_quantity(both, monkeypatch):
    """By hand: the i-th smallest of n becomes the least of n p_j / j over j >= i; NaN does not
    count."""
    given = iter([0.01, 0.04, np.nan, 0.03])
    monkeypatch.setattr(Null, "_p_value", lambda null, value: next(given))
    found = probes.scan(probes.uniformity, both[0][0], INPUTS, layers=[0], n_null=5)
    assert found.columns.get_loc("p_adjusted") == found.columns.get_loc("p_value") + 1
    np.testing.assert_allclose(found.p_adjusted[found.quantity == "tv"], [0.03, 0.04, np.nan, 0.04])
    assert found.p_adjusted[found.quantity != "tv"].isna().all()  # without a null


@pytest.mark.lens
def test_full_names_layers_in_a_mapping_tensors_and_a_cache_of_one_s_own_do_as_well(both):
    (model, _), _ = both
    arrays = arrays_of(model)
    expected = probes.uniformity(model, INPUTS, layer=1).values
    pattern = torch.from_numpy(arrays["pattern"][1])
    for given in (
        {"blocks.1.attn.hook_pattern": pattern},
        {("pattern", 1): pattern},
        {"pattern": {1: pattern}},
        dict(model.run_with_cache(torch.from_numpy(INPUTS.tokens))[1].cache_dict),
    ):
        assert probes.uniformity(probes.from_arrays(given), INPUTS, layer=1).values == expected


def test_an_embedding_alone_is_a_model_without_attention():
    W_E = np.random.default_rng(0).standard_normal((30, 8))
    found = probes.geometry(probes.from_arrays(W_E=W_E), INPUTS, n_null=0)
    low = W_E[:6] / np.linalg.norm(W_E[:6], axis=1, keepdims=True)
    assert found.values["cos_low"] == pytest.approx((low @ low.T)[np.triu_indices(6, 1)].mean())


def test_residuals_alone_do_where_no_head_is_read(both):
    (model, _), _ = both
    arrays = arrays_of(model)
    source = probes.from_arrays(
        {name: arrays[name] for name in ("resid_pre", "attn_out", "mlp_out", "resid_post")}
    )
    parts = {"first token": INPUTS.tokens[:, 0] % 2}
    found, expected = (
        probes.variance_explained(one, INPUTS, groupings=parts, n_null=0) for one in (source, model)
    )
    assert found.values == pytest.approx(dict(expected.values), abs=1e-6)
    with pytest.raises(ModelError, match="no 'blocks.0.attn.hook_pattern'"):
        probes.uniformity(source, INPUTS)


@pytest.mark.parametrize(
    ("leave_out", "name", "message"),
    [
        (
            "pattern",
            "uniformity",
            r"no 'blocks.1.attn.hook_pattern' \[row, head, query, key\]; add it to from_arrays",
        ),
        (
            "token_inputs",
            "value_alignment",
            r"no 'blocks.1.token_inputs' \[d_vocab, d_model\]; add it",
        ),
    ],
)
def test_what_is_missing_is_named(leave_out, name, message, both):
    arrays = {key: value for key, value in arrays_of(both[0][0]).items() if key != leave_out}
    with pytest.raises(ModelError, match=message):
        getattr(probes, name)(probes.from_arrays(arrays), INPUTS, **CASES[name])


def test_what_does_not_fit_is_refused(both):
    source = both[1][0]
    with pytest.raises(
        ModelError, match="rows that sum to 4 to 4; expected attention after its softmax"
    ):
        probes.from_arrays(pattern=np.ones((1, 2, 3, 4, 4)))
    with pytest.raises(ModelError, match=r"of shape \[30, 4, 9, 9\] and the rows are \[3, 9\]"):
        probes.uniformity(source, INPUTS.take(np.arange(3)))


def passes(model, work):
    """How often a model runs through its first block while something is done."""
    seen, block = [], model.blocks[0]
    forward = block.forward
    block.forward = lambda *args, **options: (
        seen.append(1) or forward(*args, **options)
    )  # a note would name a hook
    found = work()
    del block.forward
    return len(seen), found


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].keys() >= PLACE.keys()])
def test_a_scan_takes_one_pass_and_gives_the_numbers_of_single_calls(name, both):
    """Of the model, of the untrained one too, and of a cache; heads and layers in any order."""
    (model, untrained), probe = both[0], getattr(probes, name)
    options = {
        "n_null": 5,
        **{key: value for key, value in CASES[name].items() if key not in PLACE},
    }
    count, found = passes(
        model, lambda: probes.scan(probe, model, INPUTS, untrained=untrained, **options)
    )
    assert count <= 1
    single = [
        probe(model, INPUTS, layer=layer, head=2, untrained=untrained, **options)
        .to_frame()
        .assign(layer=layer, head=2)  # a reading of the embedding has none of its own
        for layer in range(2)
    ]
    assert len(found) == 8 * len(single[0])
    of_heads = found[found["head"] == 2].drop(columns="p_adjusted").reset_index(drop=True)
    pd.testing.assert_frame_equal(of_heads, pd.concat(single, ignore_index=True), check_exact=True)
    backwards = probes.scan(
        probe, model, INPUTS, layers=[1, 0], heads=[2], untrained=untrained, **options
    )
    backwards = backwards.drop(columns="p_adjusted")
    pd.testing.assert_frame_equal(
        backwards, pd.concat(single[::-1], ignore_index=True), check_exact=True
    )
    with torch.no_grad():
        cache = model.run_with_cache(torch.from_numpy(INPUTS.tokens))[1]
    again = passes(model, lambda: probes.scan(probe, cache, INPUTS, untrained=untrained, **options))
    assert again[0] == (
        name in ("value_alignment", "geometry")
    )  # they see tokens through LayerNorm, one row a token
    pd.testing.assert_frame_equal(again[1], found, check_exact=True)


def test_a_scan_without_room_takes_more_passes_and_gives_the_same(monkeypatch):
    from rb_interp.probes import _scan

    model = lens_model("gpt2")
    once = probes.scan(probes.uniformity, model, INPUTS, n_null=5)
    monkeypatch.setattr(_scan, "CAPTURE_BYTES", 1)
    count, found = passes(model, lambda: probes.scan(probes.uniformity, model, INPUTS, n_null=5))
    assert count == 4
    assert found.equals(once)


@pytest.fixture(scope="module")
def model():
    return lens_model("gpt2")


@pytest.mark.lens
def test_equals_the_models_own_cache_in_any_batches(model):
    names = [PATTERN, "blocks.3.hook_resid_post"]
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.from_numpy(TOKENS))
    for batch in (None, 1, 3):
        found = probes.capture(model, TOKENS, names, batch=batch)
        assert list(found) == names
        for name in names:
            torch.testing.assert_close(found[name], cache[name], rtol=1e-3, atol=1e-5)
    last = probes.capture(
        model, torch.from_numpy(TOKENS), [PATTERN], batch=2, select=lambda a: a[:, 0, -1]
    )[PATTERN]
    torch.testing.assert_close(last, cache[PATTERN][:, 0, -1], rtol=1e-3, atol=1e-5)
    assert not last.requires_grad


@pytest.mark.lens
def test_model_is_given_back_as_it_was(model):
    """Own hooks stay and act, ours are gone, also after an error; training mode and random state
    are untouched."""
    model.train()
    model.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    state, parts, wrapper = torch.random.get_rng_state(), [*model.modules()], torch.nn.Module()
    for name in ("forward", "run_with_cache", "blocks", "cfg", "hook_dict", "parameters"):
        wrapper.__dict__[name] = getattr(model, name)  # a model that its wrapper does not list

    def zero(activation, hook):
        assert not any(module.training for module in parts)
        return torch.zeros_like(activation)

    with model.hooks(fwd_hooks=[(PATTERN, zero)]):
        before = hooks_on(model)
        for source in (model, wrapper):
            assert probes.capture(source, TOKENS, [PATTERN])[PATTERN].abs().max() == 0
        assert hooks_on(model) == before
        wrapper.run_with_cache, parts[:] = hooks_on, model.blocks.modules()
        probes.capture(wrapper, TOKENS, [PATTERN])
    with pytest.raises(ZeroDivisionError):
        probes.capture(model, TOKENS, [PATTERN], select=lambda a: a / (1 // 0))
    assert hooks_on(model) == []
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.lens
def test_hooks_that_the_caller_left_are_named(model):
    """On the model or on the untrained one, for a probe of attention and one of weights; a cache
    was made before."""
    other, cache = lens_model("gpt2", seed=1), probes.captured(model, INPUTS.tokens)
    assert not {"hooks"} & probes.uniformity(model, INPUTS, untrained=other, n_null=0).notes.keys()
    told = "carries hooks of yours, which act in every pass: blocks.1.hook_mlp_out"
    cure = "Take them off by model.reset_hooks("
    for one, name in ((other, "the untrained model"), (model, "the model")):
        with one.hooks(fwd_hooks=[("blocks.1.hook_mlp_out", lambda value, hook: value)]):
            for probe in (probes.uniformity, probes.weight_rank):
                assert (
                    probe(model, INPUTS, untrained=other, n_null=0).notes["hooks"]
                    == f"{name} {told}. {cure})."
                )
            assert "hooks" not in probes.uniformity(cache, INPUTS, n_null=0).notes
    model.hook_dict["blocks.1.hook_mlp_out"].add_perma_hook(lambda value, hook: value)
    handle = model.blocks[0].register_forward_hook(lambda *_: None)
    cure = f"{cure}including_permanent=True) and the handle's remove()."
    assert caller_hooks(model) == {"hooks": f"the model {told}, blocks.0. {cure}"}
    model.reset_hooks(including_permanent=True)
    assert "by the handle's remove()" in caller_hooks(Wrapped(model))["hooks"]
    handle.remove()
    bridge = bridged(transformers_model("GPTNeoX"))
    bridge(torch.from_numpy(TOKENS))  # a bridge sets hooks of its own in its first pass
    assert caller_hooks(model) == caller_hooks(bridge) == {}


def state_of(model) -> list:
    """What a call may not change: modes, gradients, flags, hooks of every module and of what a
    bridge stands for."""
    modules = [*model.modules(), *getattr(model, "original_model", model).modules()]
    hooks = [(module._forward_hooks.copy(), module._forward_pre_hooks.copy()) for module in modules]
    flags = [
        getattr(model.cfg, f"use_{flag}", None)
        for flag in ("attn_result", "attn_in", "split_qkv_input")
    ]
    weights = [
        (weight.requires_grad, weight.grad, weight.detach().clone().tolist())
        for weight in model.parameters()
    ]
    return [[module.training for module in modules], weights, flags, hooks, hooks_on(model)]


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["plain", "wrapped", "bridged"])
def test_a_model_in_mixed_modes_is_given_back_as_it_was(kind):
    """After a probe, a scan and interventions, and after an error in the middle of a pass of each
    of them."""
    model = bridged(transformers_model("GPTNeoX")) if kind == "bridged" else lens_model("gpt2")
    model = Wrapped(model) if kind == "wrapped" else model
    other = Inputs(np.roll(INPUTS.tokens, 1, 0), np.roll(INPUTS.labels, 1), INPUTS.roles)
    with suppress(NotImplementedError):  # some bridges have no such flag
        model.set_use_attn_result(True)
    model(torch.from_numpy(TOKENS))  # a bridge sets hooks of its own in its first pass
    for part in (model, getattr(model, "original_model", model)):
        for number, module in enumerate(part.modules()):
            module.training = bool(number % 3)
    for number, weight in enumerate(model.parameters()):
        weight.requires_grad_(bool(number % 2))
    before = state_of(model)
    calls = {
        "probe": lambda: probes.uniformity(model, INPUTS, layer=1),
        "probe of weights": lambda: probes.value_alignment(model, INPUTS, layer=1),
        "scan": lambda: probes.scan(probes.uniformity, model, INPUTS, layers=[1], n_null=2),
        "patching": lambda: patching_matrix(model, INPUTS, other, layers=[1], roles=["key"]),
        "gradients": lambda: attribution_matrix(model, INPUTS, other, layers=[1], roles=["key"]),
        "edited weights": lambda: subspace_effect(model, INPUTS, np.eye(16)[:, :2], n_draws=1),
    }
    for name, call in calls.items():
        if (name, kind) != ("edited weights", "bridged"):  # a bridge derives its W_V
            call()
        assert state_of(model) == before, name
        handle = model.blocks[0].hook_resid_post.register_forward_hook(lambda *_: 1 / 0)
        disturbed = state_of(model)
        with pytest.raises((ZeroDivisionError, ModelError)):
            call()
        assert state_of(model) == disturbed, name
        handle.remove()


@pytest.mark.parametrize(("heads", "length"), [(4, 4), (9, 4)])
def test_positions_of_a_cache_are_compared_on_their_own_axis(heads, length):
    """Rows as long as there are heads: their number is among the sizes of a cache of longer
    rows."""
    pattern = np.full((1, 6, heads, 9, 9), 1 / 9)
    with pytest.raises(ModelError, match="the cache holds 'blocks.0.attn.hook_pattern' of shape"):
        probes.uniformity(
            probes.from_arrays(pattern=pattern), Inputs(np.zeros((6, length), int)), n_null=0
        )


@pytest.mark.parametrize("short", ["pattern", "z", "v"])
def test_heads_of_a_cache_are_compared_with_those_of_its_model(short):
    """The model has 4 heads of queries, which may share keys and values: a cache of another model
    has other numbers."""
    model, name = lens_model("gpt2"), f"blocks.0.attn.hook_{short}"
    for heads, fits in ((4, True), (2, short == "v"), (3, False), (8, False)):
        shape = (7, heads, 9, 9) if short == "pattern" else (7, 9, heads, 4)
        cache = ActivationCache({name: torch.ones(shape)}, model)
        if fits:
            assert probes.capture(cache, TOKENS, [name])[name].shape == shape
        else:
            with pytest.raises(
                ModelError, match=f"the cache holds '{name}' of {heads} heads, and its model has 4"
            ):
                probes.capture(cache, TOKENS, [name])


EVEN = np.tile(np.tri(9) / np.arange(1, 10)[:, None], (7, 4, 1, 1))
"""Patterns of four heads that attend evenly."""


@pytest.mark.parametrize(
    "other",
    [
        {"z": [np.ones((7, 9, 2, 3))]},
        {"W_O": [np.ones((2, 3, 5))]},
        {"pattern": [EVEN, EVEN[:, :2]]},
    ],
)
def test_arrays_of_models_with_other_numbers_of_heads_are_refused(other):
    """Whichever comes first, in one layer or in another; values that heads share are fewer, and
    fit."""
    for given in ({"pattern": [EVEN]} | other, other | {"W_Q": [np.ones((4, 5, 3))]}):
        with pytest.raises(ModelError, match="from_arrays got 4 heads, and other numbers in"):
            probes.from_arrays(given)
    source = probes.from_arrays(v=[np.ones((7, 9, 2, 3))], W_V=[np.ones((2, 5, 3))], pattern=[EVEN])
    assert probes.uniformity(source, Inputs(TOKENS), head=3, n_null=0).values[
        "tv"
    ] == pytest.approx(0)


def test_attention_of_no_layer_is_refused_and_says_why():
    """As a model of transformers gives it unless its attention is computed in plain steps."""
    with pytest.raises(
        ModelError, match="from_arrays got pattern of no layer; .* attn_implementation='eager'"
    ):
        probes.from_arrays(pattern=())


def test_a_wrapper_that_lists_no_weights_is_read():
    model = lens_model("gpt2")
    expected = probes.uniformity(model, INPUTS, layer=1).values
    hidden = Wrapped(model)
    hidden.parameters = lambda: iter(())
    assert probes.uniformity(hidden, INPUTS, layer=1).values == expected
